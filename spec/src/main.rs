//! Writes `amqp-codec/src/generated` and `fuzz/dictionaries/amqp.dict`, or with `--check` tells whether they are up to
//! date.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use amqp_spec::{BASE, RABBITMQ, dictionary, emit, load};

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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let generated = Path::new("amqp-codec/src/generated");
    let sources = emit(&spec, &layer)?;
    let mut files: Vec<(PathBuf, String)> = sources
        .into_iter()
        .map(|file| (generated.join(file.name), file.source))
        .collect();
    files.push((
        "fuzz/dictionaries/amqp.dict".into(),
        dictionary(&spec, &layer),
    ));

    let mut stale = Vec::new();
    for (name, content) in files {
        let path = root.join(&name);
        if !check {
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory)?;
            }
            fs::write(path, content)?;
        } else if fs::read_to_string(path).ok().as_ref() != Some(&content) {
            stale.push(name.display().to_string());
        }
    }
    Ok(stale)
}
