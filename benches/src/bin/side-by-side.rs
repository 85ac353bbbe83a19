//! Compares amqp-client and amqp-codec with their peers; `scripts/bench` builds and starts it.

use std::process::ExitCode;

use amqp_benches::load::Failure;
use amqp_benches::side_by_side::{self, Options};
use clap::Parser;

fn main() -> Result<ExitCode, Failure> {
    let reached = side_by_side::run(&Options::parse())?;
    if reached {
        Ok(ExitCode::SUCCESS)
    } else {
        eprintln!("not every target is reached");
        Ok(ExitCode::FAILURE)
    }
}
