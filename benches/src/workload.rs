//! What a load publishes: a thousand keys and a thousand bodies, made when the program runs, used in turn.
//!
//! One key and one body for every message would leave out what a real publisher pays for: strings of different length,
//! cold cache lines, a compiler that knows the bytes.

use std::time::Duration;

/// How many keys, and how many bodies.
pub const VARIETY: usize = 1_000;
/// How long a confirm may take.
pub const CONFIRM_TIMEOUT: Duration = Duration::from_secs(30);

/// A load of confirmed publishes.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Messages to publish.
    pub count: u64,
    /// Messages published to warm up, before anything is measured.
    pub warm_up: u64,
    /// Most messages in flight.
    pub window: usize,
    /// Routing keys of 7 to 14 octets.
    pub keys: Vec<String>,
    /// Bodies, all of the same size.
    pub bodies: Vec<Vec<u8>>,
}

impl Workload {
    /// `count` messages of `size` octets, after `warm_up` others, with at most `window` in flight.
    pub fn new(count: u64, warm_up: u64, size: usize, window: usize) -> Workload {
        // The same bytes in every run: two runs differ by their count alone.
        let mut random = SplitMix(0x5EED);
        let keys = (0..VARIETY)
            .map(|number| {
                format!(
                    "key.{number:0width$}",
                    width = 3 + (random.next() % 8) as usize
                )
            })
            .collect();
        let bodies = (0..VARIETY)
            .map(|_| (0..size).map(|_| random.next() as u8).collect())
            .collect();
        Workload {
            count,
            warm_up,
            window,
            keys,
            bodies,
        }
    }

    /// Keys and bodies of `count` messages, in turn.
    pub fn messages(&self, count: u64) -> impl Iterator<Item = (&String, &Vec<u8>)> {
        self.keys
            .iter()
            .zip(&self.bodies)
            .cycle()
            .take(count as usize)
    }
}

/// What a load did between the end of its warm-up and the last outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Messages that were published and whose outcome was seen to be `Acked`.
    pub acked: u64,
    /// Calls of the allocator, in all threads: allocations and reallocations.
    pub allocations: u64,
    /// Processor time, of all threads and of the kernel on their behalf.
    pub cpu: Duration,
    /// Time on the clock.
    pub wall: Duration,
}

impl Report {
    /// One line, which [`Report::parse`] reads.
    pub fn to_line(&self) -> String {
        format!(
            "acked={} allocations={} cpu_ns={} wall_ns={}",
            self.acked,
            self.allocations,
            self.cpu.as_nanos(),
            self.wall.as_nanos()
        )
    }

    /// Reads what [`Report::to_line`] wrote. Nothing when it is not all there.
    pub fn parse(line: &str) -> Option<Report> {
        let field = |name: &str| -> Option<u64> {
            line.split_whitespace().find_map(|word| {
                let (key, value) = word.split_once('=')?;
                (key == name).then(|| value.parse().ok())?
            })
        };
        Some(Report {
            acked: field("acked")?,
            allocations: field("allocations")?,
            cpu: Duration::from_nanos(field("cpu_ns")?),
            wall: Duration::from_nanos(field("wall_ns")?),
        })
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
