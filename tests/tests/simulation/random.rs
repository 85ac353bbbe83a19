//! Choices, all of them from one seed.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// A source of choices. Each part of a simulation has its own, so that one does not shift the choices of another.
pub(crate) struct Random(SmallRng);

impl Random {
    /// The choices of one part, by its name and number.
    pub(crate) fn of(seed: u64, part: &str, number: u64) -> Self {
        let mut mixed = seed ^ 0x51ED_270B_7F4A_7C15;
        for byte in part.bytes().map(u64::from).chain([number]) {
            mixed = (mixed ^ byte)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(29);
        }
        Random(SmallRng::seed_from_u64(mixed))
    }

    /// A source for somebody else.
    pub(crate) fn fork(&mut self) -> Self {
        Random(SmallRng::seed_from_u64(self.0.random()))
    }

    /// From `least` to `most`, both included.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0.random_range(least..=most)
    }

    /// An index of something that has so many.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.0.random_range(0..len)
    }

    /// Whether something happens that does so many times in a thousand.
    pub(crate) fn chance(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.0.random_range(0..1000) < per_mille
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// Up to so many milliseconds.
    pub(crate) fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.between(0, most))
    }
}
