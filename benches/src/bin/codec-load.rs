//! Decodes or encodes with one codec, and prints what it cost.

#![expect(clippy::print_stdout, reason = "its output is its answer")]

use std::alloc::System;

use amqp_benches::codec::{self, Coder, Work};
use amqp_benches::load::{Failure, Snapshot};
use clap::Parser;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Codes frames.
#[derive(Parser)]
struct Options {
    /// Who does it.
    #[arg(long, value_enum)]
    coder: Coder,
    /// What is done.
    #[arg(long, value_enum)]
    work: Work,
    /// Frames; rounded up to whole passes over a thousand of them, or three thousand of a stream.
    #[arg(long)]
    count: u64,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let frames = codec::frames_a_pass(options.work);
    let mut job = options.coder.prepare(options.work);
    let mut pass = || match job.pass() {
        good if good == frames => Ok(frames as u64),
        good => Err(format!("{good} of {frames} frames were as they should be")),
    };
    pass()?;
    let start = Snapshot::take();
    let mut done = 0;
    while done < options.count {
        done += pass()?;
    }
    println!("{}", start.report(done).to_line());
    Ok(())
}
