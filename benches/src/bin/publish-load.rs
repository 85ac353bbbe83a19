//! Publishes with one client, awaits every outcome, and prints what it cost: the process that `cost` measures.

#![expect(clippy::print_stdout, reason = "its output is its answer")]

use std::alloc::System;
use std::net::SocketAddr;

use amqp_benches::load::{Client, Failure};
use amqp_benches::workload::Workload;
use clap::Parser;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Publishes confirmed messages and checks that each is acked.
#[derive(Parser)]
struct Options {
    /// The client that publishes.
    #[arg(long, value_enum)]
    client: Client,
    /// Where the broker listens, as 127.0.0.1:5672.
    #[arg(long)]
    address: SocketAddr,
    /// Messages.
    #[arg(long, default_value_t = 1_000_000)]
    count: u64,
    /// Messages before those, which are not in what is printed.
    #[arg(long, default_value_t = 10_000)]
    warm_up: u64,
    /// Octets of a body.
    #[arg(long, default_value_t = 16)]
    size: usize,
    /// Most messages in flight.
    #[arg(long, default_value_t = 1_000)]
    window: usize,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let workload = Workload::new(options.count, options.warm_up, options.size, options.window);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(options.client.publish(options.address, &workload))?;
    println!("{}", report.to_line());
    Ok(())
}
