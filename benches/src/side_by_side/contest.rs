//! One work done by several programs in turn.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Context;
use super::results::Row;
use super::spread::Spread;
use crate::load::Failure;
use crate::measure::{self, BrokerProcess, Load};
use crate::workload::Report;

/// The one that all others are compared with.
pub(super) const OURS: &str = "amqp-client";

/// Where the load programs are.
#[derive(Debug)]
pub struct Programs {
    directory: PathBuf,
    /// Whether rabbitmq-c is installed, and its program compiled.
    pub(super) rabbitmq_c: bool,
}

impl Programs {
    /// Those beside this one. The one by rabbitmq-c is compiled, where that can be.
    ///
    /// # Errors
    /// When this program does not know where it is.
    pub fn find() -> Result<Programs, Failure> {
        let directory = env::current_exe()?
            .parent()
            .ok_or("a program is in a directory")?
            .to_owned();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/load-rabbitmq-c.c");
        let rabbitmq_c = Command::new("cc")
            .args(["-O2", "-o"])
            .arg(directory.join("load-rabbitmq-c"))
            .arg(source)
            .arg("-lrabbitmq")
            .output()
            .is_ok_and(|output| output.status.success());
        if !rabbitmq_c {
            eprintln!("without rabbitmq-c; to have it: apt-get install librabbitmq-dev");
        }
        Ok(Programs {
            directory,
            rabbitmq_c,
        })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(super) fn null_broker(&self, ack_every: u64) -> Result<BrokerProcess, Failure> {
        BrokerProcess::start(&self.path("null-broker"), ack_every)
    }
}

/// A work, and who does it.
pub(super) struct Contest {
    pub(super) work: String,
    pub(super) entries: Vec<Entry>,
    /// Messages in the shorter of two runs of which instructions and allocations are counted; none to leave that out.
    pub(super) counted: Option<u64>,
}

/// One of those who do it.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) load: Load,
    /// Messages in each timed run.
    pub(super) count: u64,
}

impl Contest {
    /// All rounds, then what is counted.
    pub(super) fn hold(&self, context: &Context) -> Result<Vec<Row>, Failure> {
        eprintln!("  {}", self.work);
        let reports = self.rounds(context.rounds)?;
        let ours = self.entries.iter().position(|entry| is_ours(&entry.name));
        let mut rows = Vec::new();
        for (number, entry) in self.entries.iter().enumerate() {
            let times = Times::new(&reports[number], entry.count);
            let mut row = Row {
                work: self.work.clone(),
                client: entry.name.clone(),
                rate: Spread::of(times.rate.iter().copied()),
                cpu_ns: Spread::of(times.cpu.iter().copied()),
                peak_memory: Spread::of(times.peak_memory.iter().copied()),
                p50_ns: Spread::of(times.p50.iter().copied()),
                p99_ns: Spread::of(times.p99.iter().copied()),
                ..Row::default()
            };
            if let Some(ours) = ours.filter(|ours| *ours != number) {
                let ours = Times::new(&reports[ours], self.entries[ours].count);
                row.cpu_ratio = Spread::of_pairs(&times.cpu, &ours.cpu);
                row.rate_ratio = Spread::of_pairs(&ours.rate, &times.rate);
                row.p50_ratio = Spread::of_pairs(&ours.p50, &times.p50);
            }
            if let Some(count) = self.counted {
                entry.count_events(&mut row, count, context)?;
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// The reports of each entry, round by round.
    fn rounds(&self, rounds: usize) -> Result<Vec<Vec<Report>>, Failure> {
        let mut reports = vec![Vec::new(); self.entries.len()];
        for round in 0..rounds {
            for number in 0..self.entries.len() {
                // Who comes first has a different cache and clock; it is another one each time.
                let number = (number + round) % self.entries.len();
                let entry = &self.entries[number];
                reports[number].push(entry.load.run(entry.count)?);
            }
        }
        Ok(reports)
    }
}

fn is_ours(name: &str) -> bool {
    [OURS, "amqp-codec"].contains(&name)
}

impl Entry {
    fn count_events(&self, row: &mut Row, count: u64, context: &Context) -> Result<(), Failure> {
        let load = &self.load;
        row.instructions = Some(measure::per_message(count, |count| {
            load.instructions(count)
        })?);
        let system_calls = |count| load.system_calls(count, context.counter);
        // How much is read or written at once is up to the machine, and not the same twice.
        let calls = measure::per_message_between(count / 10, 8 * count, system_calls)?;
        row.system_calls = Some(calls);
        // Nothing counts those of a program in C.
        if self.name != "rabbitmq-c" {
            let allocations = |count| Ok(load.run(count)?.allocations);
            row.allocations = Some(measure::per_message(count, allocations)?);
        }
        Ok(())
    }
}

/// What each round says of a message.
struct Times {
    rate: Vec<f64>,
    cpu: Vec<f64>,
    peak_memory: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
}

impl Times {
    fn new(reports: &[Report], count: u64) -> Times {
        let count = count as f64;
        let each = |value: &dyn Fn(&Report) -> f64| reports.iter().map(value).collect();
        let latencies = || reports.iter().filter_map(|report| report.latency);
        Times {
            rate: each(&|report| count / report.wall.as_secs_f64()),
            cpu: each(&|report| report.cpu.as_nanos() as f64 / count),
            peak_memory: each(&|report| report.peak_memory as f64),
            p50: latencies().map(|latency| latency.p50_ns as f64).collect(),
            p99: latencies().map(|latency| latency.p99_ns as f64).collect(),
        }
    }
}
