//! What a frame costs in amqp-codec in instructions and allocations, with targets.
//!
//! `cargo bench -p amqp-benches --bench codec_cost -- --check` fails when a target is missed. Without `--bench`, which
//! `cargo bench` adds, everything runs once and short, as a test of the machinery.

#![expect(clippy::print_stdout, reason = "its output is its answer")]

use std::process::ExitCode;

use amqp_benches::codec::{Coder, Work};
use amqp_benches::load::Failure;
use amqp_benches::measure::{self, Load};
use clap::{Parser, ValueEnum};

/// Measures what a frame costs.
#[derive(Parser)]
struct Options {
    /// Fail when a target is missed.
    #[arg(long)]
    check: bool,
    /// Frames in the shorter of the two runs that are compared; whole passes, so a multiple of 3,000.
    #[arg(long, default_value_t = 30_000)]
    counted: u64,
    /// Added by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<ExitCode, Failure> {
    let mut options = Options::parse();
    if !options.bench {
        options.counted = 3_000;
    }
    measure::find_valgrind()?;
    println!("| for each frame | instructions | target | allocations | target |");
    println!("|---|---|---|---|---|");
    let mut fine = true;
    for work in Work::value_variants() {
        let load = Load {
            program: env!("CARGO_BIN_EXE_codec-load").into(),
            args: vec![
                "--coder".into(),
                Coder::AmqpCodec.name(),
                "--work".into(),
                work.name(),
            ],
        };
        let count = options.counted;
        let instructions = measure::per_message(count, |count| load.instructions(count))?;
        let allocations = load.run(count)?.allocations;
        let limit = work.max_instructions();
        fine &= allocations == 0 && limit.is_none_or(|limit| instructions <= limit);
        println!(
            "| {} | {instructions:.0} | {} | {} | 0 |",
            work.name(),
            limit.map_or(String::new(), |limit| format!("{limit:.0}")),
            allocations as f64 / count as f64,
        );
    }
    if !fine {
        println!("\nnot every target is reached");
    }
    Ok(if fine || !options.check {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
