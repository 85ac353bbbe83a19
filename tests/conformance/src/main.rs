//! `amqp-conformance --url amqp://...`: see [`amqp_conformance::cli::Arguments`].

use std::process::ExitCode;

use amqp_conformance::cli::{self, Arguments};
use clap::Parser as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cli::main(Arguments::parse(), None, &mut std::io::stdout()).await
}
