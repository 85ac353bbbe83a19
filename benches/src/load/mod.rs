//! The same work done with one client or another, each in a program of its own, so that what is measured is that
//! client's alone.

pub mod amqp_client;
#[cfg(feature = "peers")]
pub mod amqprs;
pub mod floor;
#[cfg(feature = "peers")]
pub mod lapin;
mod options;
pub mod scale;
pub mod socket;

use std::error::Error;
use std::fs;
use std::time::Instant;

use clap::Parser;
use cpu_time::ProcessTime;
use hdrhistogram::Histogram;
use stats_alloc::INSTRUMENTED_SYSTEM;

pub use options::{Options, Work};

use crate::workload::{Latency, Report};

/// Whatever went wrong: a load has nobody to tell the difference.
pub type Failure = Box<dyn Error + Send + Sync>;

/// A client under load: one connection, one channel, made ready for the work that the options name.
#[expect(
    async_fn_in_trait,
    reason = "nobody asks whether these futures are Send"
)]
pub trait Client: Sized {
    /// Connects, and opens what the work takes.
    async fn connect(options: &Options) -> Result<Self, Failure>;

    /// Publishes this many messages, with at most a window in flight, and awaits and checks every outcome.
    async fn confirmed(&mut self, count: u64) -> Result<(), Failure>;

    /// Publishes this many messages, and waits until the broker has read them.
    async fn unconfirmed(&mut self, count: u64) -> Result<(), Failure>;

    /// Takes this many deliveries, checks and acks them.
    async fn consume(&mut self, count: u64) -> Result<(), Failure>;

    /// Closes the connection.
    async fn close(self) -> Result<(), Failure>;
}

/// The program of one client: reads the command line, does the work, prints the report.
///
/// # Errors
/// Those of [`run`].
#[expect(clippy::print_stdout, reason = "a program's output is its answer")]
pub fn program<C: Client>() -> Result<(), Failure> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(run::<C>(&options))?;
    println!("{}", report.to_line());
    Ok(())
}

/// Does the work. What is reported excludes connecting and the warm-up.
///
/// # Errors
/// When anything fails, or any publish has another outcome than acked.
pub async fn run<C: Client>(options: &Options) -> Result<Report, Failure> {
    let mut client = C::connect(options).await?;
    work(&mut client, options, options.warm_up).await?;
    let start = Snapshot::take();
    let latency = work(&mut client, options, options.count).await?;
    let mut report = start.report(options.count);
    report.latency = latency;
    client.close().await?;
    Ok(report)
}

async fn work<C: Client>(
    client: &mut C,
    options: &Options,
    count: u64,
) -> Result<Option<Latency>, Failure> {
    match options.work {
        Work::Confirmed => client.confirmed(count).await?,
        Work::Unconfirmed => client.unconfirmed(count).await?,
        Work::Consume => client.consume(count).await?,
        Work::InTurn => return in_turn(client, count).await.map(Some),
    }
    Ok(None)
}

async fn in_turn<C: Client>(client: &mut C, count: u64) -> Result<Latency, Failure> {
    let mut nanoseconds = Histogram::<u64>::new(3)?;
    for _ in 0..count {
        let start = Instant::now();
        client.confirmed(1).await?;
        nanoseconds.record(start.elapsed().as_nanos() as u64)?;
    }
    Ok(Latency {
        p50_ns: nanoseconds.value_at_quantile(0.5),
        p99_ns: nanoseconds.value_at_quantile(0.99),
    })
}

/// Says that a client has no such work.
fn not_done<T>(what: &str) -> Result<T, Failure> {
    Err(format!("this client does not do that: {what}").into())
}

/// What the process had used up at one moment.
#[derive(Debug)]
pub struct Snapshot {
    allocations: u64,
    cpu: ProcessTime,
    wall: Instant,
}

impl Snapshot {
    /// This moment.
    pub fn take() -> Snapshot {
        Snapshot {
            allocations: allocations(),
            cpu: ProcessTime::now(),
            wall: Instant::now(),
        }
    }

    /// What has been used up since.
    pub fn report(&self, done: u64) -> Report {
        Report {
            acked: done,
            allocations: allocations() - self.allocations,
            cpu: self.cpu.elapsed(),
            wall: self.wall.elapsed(),
            peak_memory: peak_memory().unwrap_or_default(),
            latency: None,
        }
    }
}

/// Zero, unless the program has stats_alloc for its allocator.
fn allocations() -> u64 {
    let stats = INSTRUMENTED_SYSTEM.stats();
    (stats.allocations + stats.reallocations) as u64
}

/// The most bytes that were resident so far, as Linux says.
fn peak_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}
