//! The comparison with peers: runs the load programs in interleaved rounds and under the tools that count, holds what
//! comes out against targets, and writes tables and plots into `results/`.
//!
//! Times are noise on a shared machine. What can be told is the ratio of the processor time of two programs that ran
//! one after the other, as the median of many such pairs, with their spread.

mod contest;
mod machine;
mod parts;
mod plot;
mod report;
mod results;
mod spread;
mod target;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

pub use contest::Programs;
pub use results::Results;

use crate::load::Failure;
use crate::measure::{self, CallCounter};

/// Compares amqp-client and amqp-codec with their peers. Fails where a target is not reached.
#[derive(Debug, Clone, Parser)]
pub struct Options {
    /// What to measure; all of it unless said.
    #[arg(value_enum)]
    pub parts: Vec<Part>,
    /// Rounds in which every program runs once.
    #[arg(long, default_value_t = 7)]
    pub rounds: usize,
    /// How many messages, in hundredths of what is usual; for a quick look, or where the clock is coarse.
    #[arg(long, default_value_t = 100)]
    pub percent: u64,
    /// Where tables and plots are written; `benches/results` unless said, or `target/bench` for a quick look.
    #[arg(long)]
    pub results: Option<PathBuf>,
}

impl Options {
    fn directory(&self) -> PathBuf {
        let usual = if self.percent < 100 || self.rounds < 7 {
            "target/bench"
        } else {
            "benches/results"
        };
        self.results.clone().unwrap_or_else(|| usual.into())
    }
}

/// A part of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Decoding and encoding.
    Codec,
    /// Publishing, with and without confirms.
    Publish,
    /// Consuming.
    Consume,
    /// One publish, one confirm, in turn.
    Latency,
    /// Resident memory.
    Memory,
    /// Confirmed publishing to a live RabbitMQ.
    Live,
    /// Confirmed publishing over TLS.
    Tls,
    /// How cost grows with what there is more of.
    Growth,
}

impl Part {
    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().into())
    }
}

/// What all parts need.
#[derive(Debug)]
struct Context {
    programs: Programs,
    counter: CallCounter,
    rounds: usize,
    percent: u64,
}

impl Context {
    /// A count of messages, scaled as asked for.
    fn count(&self, usual: u64) -> u64 {
        (usual * self.percent / 100).max(1_000)
    }
}

/// Runs the parts and writes their results. Says whether all targets are reached.
///
/// # Errors
/// When a program is missing or fails.
pub fn run(options: &Options) -> Result<bool, Failure> {
    measure::find_valgrind()?;
    let context = Context {
        programs: Programs::find()?,
        counter: CallCounter::find()?,
        rounds: options.rounds,
        percent: options.percent,
    };
    let parts = match &options.parts[..] {
        [] => Part::value_variants(),
        some => some,
    };
    let directory = options.directory();
    std::fs::create_dir_all(&directory)?;
    let mut reached = true;
    for part in parts {
        eprintln!("{}", part.name());
        let measured = parts::run(*part, &context)?;
        let results = Results::new(*part, &context, measured)?;
        reached &= results.measured.targets.iter().all(|target| target.reached);
        plot::draw(&directory, &results.measured.plots)?;
        report::write(&directory, &results)?;
    }
    report::index(&directory)?;
    eprintln!("see {}", directory.join("README.md").display());
    Ok(reached)
}
