//! How much memory a case takes.

use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// What the allocator has counted since the case began.
pub(crate) struct Memory {
    before: usize,
    at_most: usize,
}

impl Memory {
    pub(crate) fn begin(at_most: usize) -> Self {
        ALLOCATOR.reset_peak_usage();
        Memory {
            before: ALLOCATOR.current_usage(),
            at_most,
        }
    }

    pub(crate) fn end(self, name: &str) {
        let more = ALLOCATOR.peak_usage().saturating_sub(self.before);
        assert!(
            more <= self.at_most,
            "{name}: {more} bytes more than before"
        );
    }
}
