//! The codec without std, and what it depends on.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

fn cargo(arguments: &[&str]) -> Output {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    Command::new(cargo)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .output()
        .unwrap()
}

fn build_check(more: &[&str]) -> Output {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-std-check");
    let target = target.to_str().unwrap();
    let mut arguments = vec![
        "build",
        "--locked",
        "--manifest-path",
        "no-std-check/Cargo.toml",
    ];
    arguments.extend(["--target-dir", target]);
    arguments.extend(more);
    cargo(&arguments)
}

#[test]
fn builds_without_std() {
    let output = build_check(&[]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // The check is worth something: with std it does not build, and for that reason.
    let output = build_check(&["--features", "std"]);
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{messages}");
    assert!(messages.contains("panic_impl"), "{messages}");
}

#[test]
fn depends_on_little() {
    let allowed = BTreeSet::from([
        "amqp-codec",
        "bytes",
        "nom",
        "memchr",
        "thiserror",
        // Runs in the compiler alone, with what it needs.
        "thiserror-impl",
        "proc-macro2",
        "quote",
        "syn",
        "unicode-ident",
    ]);
    let output = cargo(&[
        "tree",
        "--offline",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}",
        "--no-dedupe",
    ]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let tree = String::from_utf8(output.stdout).unwrap();
    let found: BTreeSet<_> = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(found, allowed);
}
