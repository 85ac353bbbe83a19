//! The command line: exit statuses, lists, files.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use amqp_conformance::report::Report;
use amqp_conformance::{Verdict, checks};
use amqp_tests::{Broker, Version};
use tokio::io::{AsyncBufReadExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::time::timeout;

async fn program(arguments: &[&str]) -> (i32, String) {
    let (status, out, errors) = outputs(arguments).await;
    (status, out + &errors)
}

/// Exit status, standard output and standard error.
async fn outputs(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_amqp-conformance"));
    let output: Output = command
        .args(arguments)
        .output()
        .await
        .expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let status = output.status.code().expect("it ends by itself");
    (status, text(&output.stdout), text(&output.stderr))
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
        (
            &["--filter", "basic.get/*", "no.such/check"],
            "no check has such a name: no.such/check",
        ),
        (
            &["--exclude", "no.such/check"],
            "no check has such a name: no.such/check",
        ),
        (&["--timeout-factor", "0"], "a number from"),
        (&["--jobs", "0"], "a number from"),
        (
            &["--json", "/no/such/file"],
            "error: /no/such/file: No such",
        ),
        (
            &["--junit", "/no/such/file"],
            "error: /no/such/file: No such",
        ),
        (&["--transcripts", "/dev/null"], "error: /dev/null/"),
        (
            &["matrix", "/no/such/file"],
            "error: /no/such/file: No such",
        ),
        (
            &["matrix", "/dev/null"],
            "error: /dev/null: not a report that --json has written",
        ),
        (
            &["document", "-o", "/no/such/file"],
            "error: /no/such/file: No such",
        ),
        (&["--no-such-argument"], "unexpected argument"),
    ] {
        let (status, out, text) = outputs(arguments).await;
        assert_eq!(status, 2, "{arguments:?}: {text}");
        assert!(out.is_empty(), "{arguments:?}: {out}");
        assert!(!text.contains("Error"), "{arguments:?}: {text}");
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
async fn no_host() {
    let (status, text) = program(&["--url", "amqp://no-such-host.invalid"]).await;
    assert_eq!(status, 3, "{text}");
    assert!(
        text.contains("no-such-host.invalid has no address"),
        "{text}"
    );
}

#[tokio::test]
async fn what_hurts_is_marked_and_told_when_left_out() {
    let checks = checks::all();
    let hurts = checks.iter().find(|it| it.hurts).expect("some hurt");
    let (_, text) = program(&["--list", "--filter", hurts.name]).await;
    assert!(text.contains(" hurts "), "{text}");
    let (status, text) = program(&["--filter", hurts.name]).await;
    assert_eq!(status, 2, "{text}");
    assert!(text.contains("--hurt runs them"), "{text}");
    let uri = Broker::shared(Version::V4_0).await.uri();
    let (_, text) = program(&["--url", &uri, "--filter", "basic.get/*", hurts.name]).await;
    assert!(text.contains("left out: 1 checks that hurt"), "{text}");
}

/// A disk that is full after the run costs the file, not the report.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk() {
    let uri = Broker::shared(Version::V4_0).await.uri();
    let arguments = [
        "--url",
        &uri,
        "--filter",
        "basic.get/*",
        "--json",
        "/dev/full",
    ];
    let (status, out, errors) = outputs(&arguments).await;
    assert_eq!(status, 2, "{errors}");
    assert!(out.contains("do not pass"), "{out}");
    assert!(errors.contains("error: /dev/full: No space"), "{errors}");
}

/// The whole suite, one check at a time, through a port that is closed after a few connections if `closes`, and otherwise
/// hangs. Returns once the run is under way.
async fn long_run(closes: bool) -> Child {
    let broker = Broker::shared(Version::V4_0).await;
    let vhost = broker.vhost("signals").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let uri = vhost.uri.replace(&broker.address().to_string(), &address);
    assert!(uri.contains(&address), "{uri}");
    let factor = if closes { "0.5" } else { "1" };
    let child = Command::new(env!("CARGO_BIN_EXE_amqp-conformance"))
        .args(["--url", &uri, "--jobs", "1", "--timeout-factor", factor])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the program runs");
    // The first is the preflight's.
    for _ in 0..4 {
        let (mut client, _) = listener.accept().await.expect("a connection");
        let mut server = TcpStream::connect(broker.address()).await.expect("a node");
        tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await });
    }
    if !closes {
        // Nobody answers any more: the check under way is still there when a signal comes.
        let hung = listener.accept().await.expect("a connection");
        tokio::spawn(async move {
            let _open = (listener, hung);
            std::future::pending::<()>().await;
        });
    }
    child
}

async fn end_of(child: Child) -> Output {
    let output = timeout(Duration::from_secs(60), child.wait_with_output()).await;
    output.expect("it ends in time").expect("it ends")
}

async fn send(signal: &str, child: &Child) {
    let id = child.id().expect("it runs").to_string();
    let sent = Command::new("kill").args([signal, &id]).status().await;
    assert!(sent.expect("there is a kill").success());
}

#[tokio::test]
async fn a_broker_that_goes_away() {
    let child = long_run(true).await;
    let output = end_of(child).await;
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert_eq!(text.matches("the broker went away").count(), 1, "{text}");
}

#[tokio::test]
async fn ended_by_a_signal() {
    for signal in ["-INT", "-TERM"] {
        let child = long_run(false).await;
        send(signal, &child).await;
        let output = end_of(child).await;
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("for this reason: interrupted"), "{text}");
    }
}

#[tokio::test]
async fn the_second_signal_ends_at_once() {
    let mut child = long_run(false).await;
    send("-INT", &child).await;
    let mut errors = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let line = errors.next_line().await.expect("text").expect("a line");
    assert!(line.contains("once more to end at once"), "{line}");
    send("-TERM", &child).await;
    let line = errors.next_line().await.expect("text").expect("a line");
    assert!(line.contains("interrupted twice"), "{line}");
    let output = end_of(child).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
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
