//! Writes `amqp-codec/src/generated`, or with `--check` tells whether it is up to date.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use amqp_spec::{BASE, RABBITMQ, emit, load};

fn main() -> ExitCode {
    let check = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [option] if option == "--check" => true,
        _ => {
            eprintln!("usage: cargo run -p amqp-spec [-- --check]");
            return ExitCode::from(2);
        }
    };
    match run(check) {
        Ok(stale) if stale.is_empty() => ExitCode::SUCCESS,
        Ok(stale) => {
            eprintln!(
                "not up to date, run `cargo run -p amqp-spec`: {}",
                stale.join(", ")
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("amqp-spec: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the files, or returns the names of those that differ.
fn run(check: bool) -> Result<Vec<String>, Box<dyn Error>> {
    let (spec, layer) = load(BASE, RABBITMQ)?;
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../amqp-codec/src/generated");
    let mut stale = Vec::new();
    for file in emit(&spec, &layer)? {
        let path = directory.join(&file.name);
        if !check {
            fs::create_dir_all(&directory)?;
            fs::write(path, file.source)?;
        } else if fs::read_to_string(path).ok().as_ref() != Some(&file.source) {
            stale.push(file.name);
        }
    }
    Ok(stale)
}
