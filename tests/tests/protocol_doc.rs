//! docs/protocol.md names a test for each fact: that they exist, and that no fact is without one.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("the crate is in the repository")
}

fn document() -> String {
    fs::read_to_string(root().join("docs/protocol.md")).unwrap()
}

/// A test as the document names it: `suite/module::function`, `suite::function` or `compile_fail/program`.
struct Named<'a> {
    suite: &'a str,
    module: &'a str,
    function: &'a str,
}

impl<'a> Named<'a> {
    /// What is in backticks and looks like a test.
    fn parse(code: &'a str) -> Option<Self> {
        if let Some(function) = code.strip_prefix("compile_fail/") {
            return Some(Named {
                suite: "compile_fail",
                module: "",
                function,
            });
        }
        let (path, function) = code.split_once("::")?;
        let (suite, module) = path.split_once('/').unwrap_or((path, ""));
        Some(Named {
            suite,
            module,
            function,
        })
    }

    /// The file it should be in.
    fn file(&self) -> PathBuf {
        let Named {
            suite,
            module,
            function,
        } = self;
        let path = match *suite {
            "compile_fail" => format!("tests/tests/compile_fail/{function}.rs"),
            "live" | "faults" | "secure" | "scripted" | "harness" => {
                format!("tests/tests/{suite}/{module}.rs")
            }
            "proto" => format!("amqp-client/src/proto/tests/{module}.rs"),
            "negotiate" | "auth" => format!("amqp-client/src/{suite}/tests.rs"),
            "codec" => format!("amqp-codec/tests/codec/{module}.rs"),
            other => panic!("no suite is called {other}"),
        };
        let path = root().join(path);
        match path.with_extension("").join("mod.rs") {
            directory if !path.exists() && directory.exists() => directory,
            _ => path,
        }
    }

    /// Why there is no such test.
    fn missing(&self) -> Option<String> {
        let file = self.file();
        let Ok(source) = fs::read_to_string(&file) else {
            return Some(format!("no file {}", file.display()));
        };
        if self.suite == "compile_fail" || is_test(&source, self.function) {
            return None;
        }
        Some(format!("no test {} in {}", self.function, file.display()))
    }
}

/// Whether a function is a test of its own, or named in a list that makes tests of functions.
fn is_test(source: &str, function: &str) -> bool {
    let in_list = source.split("on_each_broker!(").skip(1).any(|list| {
        let list = list.split(");").next().unwrap_or_default();
        list.split(|c: char| !c.is_alphanumeric() && c != '_')
            .any(|word| word == function)
    });
    let lines: Vec<&str> = source.lines().map(str::trim_start).collect();
    let declared = lines.iter().position(|line| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        let name = line.strip_prefix("fn ");
        name.is_some_and(|rest| {
            rest.strip_prefix(function)
                .is_some_and(|rest| rest.starts_with('('))
        })
    });
    let Some(declared) = declared else {
        return false;
    };
    // Attributes and comments before it.
    let attributes = lines[..declared].iter().rev();
    let attributes = attributes.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    in_list
        || attributes
            .into_iter()
            .any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
}

fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_named_test_exists() {
    let document = document();
    let named: Vec<_> = code(&document)
        .filter(|code| *code != "suite/module::function")
        .filter_map(Named::parse)
        .collect();
    assert!(named.len() > 100, "only {} are found", named.len());
    let missing: Vec<_> = named.iter().filter_map(Named::missing).collect();
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_fact_has_a_test() {
    let document = document();
    let (facts, _) = document.split_once("\n## What the client cannot").unwrap();
    let mut numbers = BTreeSet::new();
    let mut current: Option<(u32, usize)> = None;
    let mut check = |current: Option<(u32, usize)>| {
        if let Some((number, tests)) = current {
            assert!(tests > 0, "fact {number} has no test");
            assert!(numbers.insert(number), "fact {number} is there twice");
        }
    };
    for line in facts.lines() {
        let number = line
            .split_once(". ")
            .and_then(|(number, _)| number.parse().ok());
        if let Some(number) = number {
            check(current.replace((number, 0)));
        }
        if let Some((_, tests)) = &mut current {
            *tests += code(line).filter_map(Named::parse).count();
        }
    }
    check(current);
    let expected: BTreeSet<u32> = (1..=54).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn what_is_no_test_is_told() {
    let source = "on_each_broker!(listed,\n    second\n);\nasync fn listed() {}\nasync fn second() {}\n\
                  #[tokio::test(start_paused = true)]\n/// Why.\nasync fn alone() {}\nfn helper() {}\n";
    for test in ["listed", "second", "alone"] {
        assert!(is_test(source, test), "{test}");
    }
    for other in ["helper", "list", "missing", "on_each_broker"] {
        assert!(!is_test(source, other), "{other}");
    }
    let gone = Named::parse("live/flow::no_such_test").unwrap();
    assert!(gone.missing().is_some());
    let gone = Named::parse("live/no_such_module::no_such_test").unwrap();
    assert!(gone.missing().is_some());
}
