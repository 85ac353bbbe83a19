//! What a load publishes: keys and bodies, made when the program runs, used in turn.
//!
//! One key and one body for every message would leave out what a real publisher pays for: strings of different length,
//! cold cache lines, a compiler that knows the bytes.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// How many keys, and at most how many bodies.
pub const VARIETY: usize = 1_000;
/// The most octets of all bodies together, so that it is not they that fill the memory that is measured.
const BODIES_LEN: usize = 1 << 20;
/// How long a confirm may take.
pub const CONFIRM_TIMEOUT: Duration = Duration::from_secs(30);

/// A thousand messages, with routing keys of 7 to 14 octets and bodies of `size` octets.
pub fn messages(size: usize) -> Vec<(String, Bytes)> {
    // The same bytes in every run: two runs differ by their count alone.
    let mut random = SplitMix(0x5EED);
    let keys: Vec<_> = (0..VARIETY)
        .map(|number| {
            let width = 3 + (random.next() % 8) as usize;
            format!("key.{number:0width$}")
        })
        .collect();
    let bodies: Vec<Bytes> = (0..(BODIES_LEN / size.max(1)).clamp(1, VARIETY))
        .map(|_| (0..size).map(|_| random.next() as u8).collect())
        .collect();
    keys.into_iter()
        .zip(bodies.iter().cycle().cloned())
        .collect()
}

/// Things that are used in turn, without end.
#[derive(Debug, Clone)]
pub struct Turns<T> {
    items: Vec<T>,
    next: usize,
}

impl<T> Turns<T> {
    /// Of what each of `items` is made into.
    pub fn of<S>(items: Vec<S>, make: impl Fn(S) -> T) -> Turns<T> {
        Turns {
            items: items.into_iter().map(make).collect(),
            next: 0,
        }
    }

    /// The same, where it can fail.
    ///
    /// # Errors
    /// That of `make`.
    pub fn try_of<S, E>(items: Vec<S>, make: impl Fn(S) -> Result<T, E>) -> Result<Turns<T>, E> {
        let items = items.into_iter().map(make).collect::<Result<_, E>>()?;
        Ok(Turns { items, next: 0 })
    }

    /// The next ones, so many; after the last one the first.
    #[inline]
    pub fn take(&mut self, count: u64) -> impl Iterator<Item = &T> {
        let rest = self.items[self.next..].iter();
        self.next = (self.next + count as usize) % self.items.len();
        rest.chain(self.items.iter().cycle()).take(count as usize)
    }

    /// The next one; after the last one the first.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator cannot lend its items"
    )]
    pub fn next(&mut self) -> &T {
        let at = self.next;
        self.next = if at + 1 == self.items.len() {
            0
        } else {
            at + 1
        };
        &self.items[at]
    }
}

/// What a load did between the end of its warm-up and the last outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Messages that were published and whose outcome was seen to be as it should, or that were consumed.
    pub acked: u64,
    /// Calls of the allocator, in all threads: allocations and reallocations.
    pub allocations: u64,
    /// Processor time, of all threads and of the kernel on their behalf.
    #[serde(rename = "cpu_ns", with = "nanoseconds")]
    pub cpu: Duration,
    /// Time on the clock.
    #[serde(rename = "wall_ns", with = "nanoseconds")]
    pub wall: Duration,
    /// The most bytes of the process that were resident, from its start on.
    pub peak_memory: u64,
    /// How long single messages took, where that was asked for.
    pub latency: Option<Latency>,
}

/// How long single messages took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Half of them took at most this, in nanoseconds.
    pub p50_ns: u64,
    /// All but one in a hundred took at most this, in nanoseconds.
    pub p99_ns: u64,
}

impl Report {
    /// One line of JSON, which [`Report::parse`] reads.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what [`Report::to_line`] wrote. Nothing when it is not all there.
    pub fn parse(line: &str) -> Option<Report> {
        serde_json::from_str(line).ok()
    }
}

mod nanoseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        (time.as_nanos() as u64).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_nanos)
    }
}

/// Steele, Lea and Flood's generator: enough to make bytes that differ.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_report_is_read_as_it_is_written() {
        let report = Report {
            acked: 1,
            allocations: 2,
            cpu: Duration::from_nanos(3),
            wall: Duration::from_secs(4),
            peak_memory: 5,
            latency: Some(Latency {
                p50_ns: 6,
                p99_ns: 7,
            }),
        };
        assert_eq!(Report::parse(&report.to_line()), Some(report));
        assert_eq!(Report::parse("{\"acked\":1}"), None);
    }

    #[test]
    fn bodies_are_few_where_they_are_large() {
        for (size, count) in [(0, 1), (1_024, 1_000), (65_536, 16), (16 << 20, 1)] {
            let messages = messages(size);
            assert!(messages.iter().all(|(_, body)| body.len() == size));
            let bodies: BTreeSet<_> = messages.iter().map(|(_, body)| body.as_ptr()).collect();
            // Empty ones need no place of their own.
            assert_eq!(bodies.len(), count, "{size}");
        }
    }

    #[test]
    fn turns_begin_again_after_the_last() {
        let mut turns = Turns::of(vec![1, 2, 3], |number| 10 * number);
        let taken: Vec<_> = (0..5).map(|_| *turns.next()).collect();
        assert_eq!(taken, [10, 20, 30, 10, 20]);
        assert!(turns.take(5).eq(&[30, 10, 20, 30, 10]));
        assert!(turns.take(1).eq(&[20]));
        assert!(turns.take(2).eq(&[30, 10]));
    }
}
