//! Runs the example `decode` on recordings made here.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use amqp_codec::basic::{self, Properties};
use amqp_codec::{
    Frame, ProtocolHeader, RawFrame, Table, Value, connection, content, frame, queue, short, table,
};

/// What the example says about a recording that it reads from its standard input.
fn decode(recording: &[u8], arguments: &[&str]) -> Output {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // The directory that this test was built in, wherever that is.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let mut child = Command::new(cargo)
        .args([
            "run",
            "--quiet",
            "--offline",
            "--package",
            "amqp-codec",
            "--example",
            "decode",
        ])
        .arg("--target-dir")
        .arg(target)
        .arg("--")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(recording);
    child.wait_with_output().unwrap()
}

/// Output and error of a run that fails, with its exit code checked.
fn failure(recording: &[u8], arguments: &[&str]) -> (String, String) {
    let output = decode(recording, arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// What a client sends that publishes one message.
fn recording() -> Vec<u8> {
    let mut wire = Vec::new();
    ProtocolHeader::AMQP_0_9_1.encode(&mut wire);
    let tune_ok = connection::TuneOk {
        channel_max: 2047,
        frame_max: 131_072,
        heartbeat: 60,
    };
    frame::encode_method(0, &tune_ok, &mut wire).unwrap();
    let declare = queue::Declare {
        queue: short!("q, {with} \"all\""),
        durable: true,
        arguments: table! { "x-max-length" => 10, "x-overflow" => "reject-publish" },
        ..Default::default()
    };
    frame::encode_method(1, &declare, &mut wire).unwrap();
    let publish = basic::Publish {
        exchange: short!("orders"),
        routing_key: short!("a"),
        mandatory: true,
        ..Default::default()
    };
    let headers = Table::from([
        (short!("n"), Value::I32(1)),
        (short!("t"), Value::Table(table! { "on" => true })),
    ]);
    let properties = Properties {
        content_type: Some(short!("text/plain")),
        headers: Some(headers.into()),
        delivery_mode: Some(2),
        ..Properties::EMPTY
    };
    let body = [b"line\n\xff".as_slice(), &[b'x'; 40]].concat();
    content::encode(1, &publish, &properties, &body, 4096, &mut wire).unwrap();
    frame::encode_heartbeat(&mut wire).unwrap();
    wire
}

#[test]
fn prints_a_line_a_frame() {
    let output = decode(&recording(), &["--reencode"]);
    assert!(output.status.success(), "{output:?}");
    let expected = r#"offset 0  protocol header AMQP 0-9-1
offset 8  channel 0  connection.tune-ok channel_max=2047 frame_max=131072 heartbeat=60
offset 28  channel 1  queue.declare queue="q, {with} \"all\"" durable=true arguments={"x-max-length": I32(10), "x-overflow": "reject-publish"}
offset 111  channel 1  basic.publish exchange="orders" routing_key="a" mandatory=true
offset 135  channel 1  header class_id=60 body_size=46 content_type="text/plain" headers={"n": I32(1), "t": {"on": true}} delivery_mode=2
offset 192  channel 1  body 46 bytes "line\n\xffxxxxxxxxxxxxxxxxxxxxxxxxxx"…
offset 246  channel 0  heartbeat
re-encoded 6 frames: the same 254 bytes
"#;
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn stops_at_the_first_violation() {
    let mut damaged = recording();
    damaged[134] = 0;
    let (lines, error) = failure(&damaged, &[]);
    assert_eq!(lines.lines().count(), 3);
    assert_eq!(
        error,
        "error: frame ends with 0x00 instead of 0xce at offset 134 (501 FRAME_ERROR)\n"
    );

    // An unknown method on top of a frame that is fine.
    let mut unknown = Vec::new();
    frame::encode_heartbeat(&mut unknown).unwrap();
    let raw = RawFrame {
        kind: frame::METHOD,
        channel: 1,
        payload: b"\0\x3c\0\x63",
    };
    raw.encode(&mut unknown).unwrap();
    let (lines, error) = failure(&unknown, &[]);
    assert_eq!(lines, "offset 0  channel 0  heartbeat\n");
    assert_eq!(
        error,
        "error: unknown method 60.99 at offset 15 (503 COMMAND_INVALID)\n"
    );

    let (_, error) = failure(&recording(), &["--frame-max", "50"]);
    assert_eq!(
        error,
        "error: frame of 54 bytes is above the limit of 50 at offset 195 (501 FRAME_ERROR)\n"
    );
}

#[test]
fn follows_contents() {
    let mut wire = Vec::new();
    Frame::Body {
        channel: 3,
        payload: b"x",
    }
    .encode(&mut wire)
    .unwrap();
    let (_, error) = failure(&wire, &[]);
    assert_eq!(
        error,
        "error: content body without a header before it at offset 0 on channel 3 \
         (505 UNEXPECTED_FRAME)\n"
    );
    let whole = recording();
    let (_, error) = failure(&whole[..192], &[]);
    assert_eq!(
        error,
        "error: the stream ends at offset 192 within a content on channel 1\n"
    );
    let (_, error) = failure(&whole[..196], &[]);
    assert_eq!(
        error,
        "error: the stream ends at offset 196 within the frame that begins at offset 192\n"
    );
}

#[test]
fn reads_files() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recording.bin");
    std::fs::write(&path, recording()).unwrap();
    let output = decode(b"", &[path.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 7);
}
