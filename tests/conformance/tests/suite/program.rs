//! The command line: exit statuses, lists, files.

use std::path::Path;
use std::process::Output;

use amqp_conformance::report::Report;
use amqp_conformance::{Verdict, checks};
use amqp_tests::{Broker, Version};
use tokio::process::Command;

async fn program(arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_amqp-conformance"));
    let output: Output = command
        .args(arguments)
        .output()
        .await
        .expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().expect("it ends by itself"), text)
}

#[tokio::test]
async fn wrong_arguments() {
    for (arguments, complaint) in [
        (
            &["--url", "amqps://localhost"][..],
            "amqps is not spoken here",
        ),
        (&["--url", "http://localhost"], "the scheme is http"),
        (&["--url", "amqp://localhost/a/b"], "one segment"),
        (
            &["--profile", "rabbitmq-1.0"],
            "rabbitmq-3.10, rabbitmq-4.0, rabbitmq-4.3",
        ),
        (&["--filter", "no.such/check"], "no check has such a name"),
        (&["--timeout-factor", "0"], "a number from"),
        (&["--no-such-argument"], "unexpected argument"),
    ] {
        let (status, text) = program(arguments).await;
        assert_eq!(status, 2, "{arguments:?}: {text}");
        assert!(text.contains(complaint), "{arguments:?}: {text}");
    }
}

#[tokio::test]
async fn a_profile_with_a_name_that_is_no_check() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("profile.toml");
    let profile =
        "broker = \"B\"\n[[deviation]]\ncheck = \"a/b\"\ninstead = \"silence\"\nreason = \"r\"\n";
    std::fs::write(&path, profile).expect("a file");
    let (status, text) = program(&["--profile", text_of(&path)]).await;
    assert_eq!(status, 2, "{text}");
    assert!(text.contains("a/b, which is no check"), "{text}");
}

#[tokio::test]
async fn no_broker() {
    let (status, text) = program(&["--url", "amqp://127.0.0.1:1"]).await;
    assert_eq!(status, 3, "{text}");
    assert!(
        text.contains("guest@127.0.0.1:1 / cannot be checked: no connection"),
        "{text}"
    );
}

#[tokio::test]
async fn lists_what_is_asked_for() {
    let (status, text) =
        program(&["--list", "--filter", "basic.get/*", "--exclude", "*/empty"]).await;
    assert_eq!(status, 0, "{text}");
    let listed: Vec<&str> = text.lines().filter_map(|it| it.split(' ').next()).collect();
    let expected: Vec<&str> = checks::all()
        .iter()
        .map(|check| check.name)
        .filter(|name| name.starts_with("basic.get/") && !name.ends_with("/empty"))
        .collect();
    assert!(!expected.is_empty());
    assert_eq!(listed, expected);
}

/// Without a profile a known deviation is a failure, with the rule and the transcript.
#[tokio::test]
async fn files_and_failures() {
    let uri = Broker::shared(Version::V4_0).await.uri();
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name);
    let (json, junit, transcripts) = (file("a.json"), file("a.xml"), file("transcripts"));
    let (status, text) = program(&[
        "--url",
        &uri,
        "--strict",
        "--filter",
        "basic.publish/*",
        "--json",
        text_of(&json),
        "--junit",
        text_of(&junit),
        "--transcripts",
        text_of(&transcripts),
    ])
    .await;
    assert_eq!(status, 1, "{text}");
    let immediate = "basic.publish/immediate-without-consumer-returned";
    assert!(
        text.contains(&format!("unimplemented: {immediate}")),
        "{text}"
    );
    assert!(text.contains("basic.publish.immediate rule 01"), "{text}");
    assert!(
        text.contains("< [0] connection.close reply_code: ReplyCode(540"),
        "{text}"
    );

    let report: Report = serde_json::from_slice(&read(&json)).expect("a report");
    let result = report.results.iter().find(|it| it.check == immediate);
    let result = result.expect("the check is in the report");
    assert_eq!(result.verdict, Verdict::Unimplemented);
    assert_eq!(result.found.as_deref(), Some("connection.close 540"));
    assert!(!text.contains("guest:guest") && !report.target.contains("guest:"));

    let xml = String::from_utf8(read(&junit)).expect("XML is text");
    assert!(
        xml.contains(&format!("<testcase name=\"{immediate}\"")),
        "{xml}"
    );
    assert!(xml.contains("<failure "), "{xml}");
    let transcript = read(&transcripts.join(format!("{immediate}.txt")));
    assert!(String::from_utf8_lossy(&transcript).contains("> [1] basic.publish "));

    let matrix = file("matrix.html");
    let (status, text) = program(&[
        "matrix",
        text_of(&json),
        text_of(&json),
        "-o",
        text_of(&matrix),
    ])
    .await;
    assert_eq!(status, 0, "{text}");
    let html = String::from_utf8(read(&matrix)).expect("HTML is text");
    for column in 0..2 {
        assert!(
            html.contains(&format!("href=\"#{column}/{immediate}\"")),
            "{html}"
        );
        assert!(
            html.contains(&format!("<section id=\"{column}/{immediate}\">")),
            "{html}"
        );
    }
}

fn text_of(path: &Path) -> &str {
    path.to_str().expect("a path of letters")
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("the file was written")
}
