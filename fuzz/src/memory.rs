//! How much memory is in use.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What has been asked for since a moment, by the whole process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    allocated: usize,
    freed: usize,
}

impl Memory {
    /// From now on.
    pub(crate) fn now() -> Self {
        let stats = ALLOCATOR.stats();
        Memory {
            allocated: stats.bytes_allocated,
            freed: stats.bytes_deallocated,
        }
    }

    /// How many bytes more are in use than at that moment.
    pub(crate) fn grown(&self) -> usize {
        let now = Memory::now();
        let (more, less) = (now.allocated - self.allocated, now.freed - self.freed);
        more.saturating_sub(less)
    }

    /// How many bytes were asked for since, those included that were given back.
    pub(crate) fn asked_for(&self) -> usize {
        Memory::now().allocated - self.allocated
    }
}
