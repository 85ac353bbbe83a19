//! Frames that the codec and amq-protocol do not agree about: one for each difference that the target explains.

use amqp_codec::{RawFrame, Table, basic, frame, queue, short};

use super::streams::nested;

/// The inputs of the target: a first byte for the type of the frame, 4 for one as it is, and the rest.
pub(super) fn all() -> Result<Vec<(&'static str, Vec<u8>)>, amqp_codec::EncodeError> {
    let qos = basic::Qos {
        prefetch_size: 1,
        ..Default::default()
    };
    let mut prefetch_size = vec![4];
    frame::encode_method(1, &qos, &mut prefetch_size)?;

    let mut repeated_key = vec![4];
    let declare = queue::Declare {
        arguments: Table::from([(short!("a"), 1), (short!("a"), 2)]),
        ..Default::default()
    };
    frame::encode_method(1, &declare, &mut repeated_key)?;

    let mut heartbeat_on_a_channel = vec![4];
    let heartbeat = RawFrame {
        kind: frame::HEARTBEAT,
        channel: 1,
        payload: &[],
    };
    heartbeat.encode(&mut heartbeat_on_a_channel)?;

    // queue.declare with one argument of the empty name.
    let declare = |value: &[u8]| {
        let len = (1 + value.len() as u32).to_be_bytes();
        [b"\0\0\x32\0\x0a\0\0\0\0", &len[..], b"\0", value].concat()
    };
    // The class, the weight and no body, and the flags.
    let header = |weight: u8, rest: &[u8]| [&[1, 0, 60, 0, weight], &[0; 8][..], rest].concat();
    Ok(vec![
        ("prefetch size", prefetch_size),
        ("repeated key", repeated_key),
        ("heartbeat on a channel", heartbeat_on_a_channel),
        ("limits", declare(&nested(65))),
        ("heartbeat with a payload", b"\x03payload".to_vec()),
        ("weight", header(1, b"\0\0")),
        ("undefined property flags", header(0, b"\0\x02")),
        ("field type U", declare(b"U\0\x01")),
        ("short string that is no text", header(0, b"\x80\0\x01\xff")),
        (
            "headers that are no table",
            header(0, b"\x20\0\0\0\0\x01\xff"),
        ),
        // access.request-ok with a ticket
        ("class access", b"\0\0\x1e\0\x0b\0\0".to_vec()),
    ])
}
