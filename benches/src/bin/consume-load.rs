//! Consumes what a null broker delivers, with amqp-client, and prints what it cost.

#![expect(clippy::print_stdout, reason = "its output is its answer")]

use std::alloc::System;
use std::net::SocketAddr;

use amqp_benches::load::{Consumption, Failure};
use clap::Parser;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Consumes and acks messages.
#[derive(Parser)]
struct Options {
    /// Where the null broker listens, as 127.0.0.1:5672.
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
    /// The prefetch count.
    #[arg(long, default_value_t = 1_000)]
    window: u16,
    /// Deliveries per ack.
    #[arg(long, default_value_t = 100)]
    ack_every: u64,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let what = Consumption {
        count: options.count,
        warm_up: options.warm_up,
        size: options.size,
        window: options.window,
        ack_every: options.ack_every,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(what.run(options.address))?;
    println!("{}", report.to_line());
    Ok(())
}
