//! The checked-in source of the method types, and the fuzzers' dictionary, are what the data gives.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use amqp_spec::{BASE, RABBITMQ, dictionary, emit, load};

fn generated() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../amqp-codec/src/generated")
}

#[test]
fn regenerated_source_equals_the_checked_in_source() -> Result<(), Box<dyn Error>> {
    let (spec, layer) = load(BASE, RABBITMQ)?;
    for file in emit(&spec, &layer)? {
        let checked_in = fs::read_to_string(generated().join(&file.name))
            .map_err(|error| format!("{}: {error}; run `cargo run -p amqp-spec`", file.name))?;
        let difference = checked_in
            .lines()
            .zip(file.source.lines())
            .position(|(a, b)| a != b);
        assert!(
            checked_in == file.source,
            "{} is not what the data gives, first at line {}; run `cargo run -p amqp-spec`",
            file.name,
            difference
                .unwrap_or_else(|| checked_in.lines().count().min(file.source.lines().count()))
                + 1,
        );
    }
    Ok(())
}

#[test]
fn nothing_else_lies_among_the_generated_files() -> Result<(), Box<dyn Error>> {
    let (spec, layer) = load(BASE, RABBITMQ)?;
    let emitted: BTreeSet<_> = emit(&spec, &layer)?
        .into_iter()
        .map(|file| file.name)
        .collect();
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(generated())? {
        found.insert(entry?.file_name().to_string_lossy().into_owned());
    }
    assert_eq!(found, emitted);
    Ok(())
}

#[test]
fn the_dictionary_is_what_the_data_gives() -> Result<(), Box<dyn Error>> {
    let (spec, layer) = load(BASE, RABBITMQ)?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/dictionaries/amqp.dict");
    let checked_in = fs::read_to_string(path)?;
    assert!(
        checked_in == dictionary(&spec, &layer),
        "fuzz/dictionaries/amqp.dict is not what the data gives; run `cargo run -p amqp-spec`"
    );
    // Escapes as libFuzzer reads them: the protocol header has bytes that are no text, keys stand behind their length.
    for word in [
        r#"header="AMQP\x00\x00\x09\x01""#,
        r#"basic_publish="\x00<\x00(""#,
        r#"key_x_max_length="\x0cx-max-length""#,
        r#"frame_end="\xce""#,
    ] {
        assert!(checked_in.lines().any(|line| line == word), "{word}");
    }
    Ok(())
}
