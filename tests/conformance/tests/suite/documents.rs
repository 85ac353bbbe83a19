//! What the repository says of the checks is what they are.

use std::path::Path;

use amqp_conformance::{checks, report};

fn file(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn docs_conformance() {
    let document = report::document(&checks::all()).expect("the built-in profiles are right");
    assert!(
        file("docs/conformance.md") == document,
        "run `cargo run -p amqp-conformance -- document -o docs/conformance.md`"
    );
}

/// The table is made of the checks and the profiles; that each broker keeps to its profile is what `brokers` tests.
#[test]
fn table_in_the_readme() {
    let table = report::summary(&checks::all()).expect("the built-in profiles are right");
    assert!(
        file("README.md").contains(&table),
        "the README must have this table:\n\n{table}"
    );
}

/// A name is `GROUP/what-holds` in lower case, and nobody else's; all that people read of a check is there.
#[test]
fn every_check_is_complete() {
    let checks = checks::all();
    for (at, check) in checks.iter().enumerate() {
        let name = check.name;
        let allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-./".contains(&byte);
        assert!(
            name.bytes().all(allowed) && name.matches('/').count() == 1,
            "{name}"
        );
        assert!(
            !checks[..at].iter().any(|it| it.name == name),
            "{name} twice"
        );
        let parts = [check.rule, check.sends, check.expects];
        assert!(parts.iter().all(|it| !it.is_empty()), "{name}: {parts:?}");
        assert!(
            !check.source.to_string().ends_with(", "),
            "{name} has no source"
        );
    }
}

#[test]
fn there_are_at_least_200_checks() {
    assert!(checks::all().len() >= 200);
}
