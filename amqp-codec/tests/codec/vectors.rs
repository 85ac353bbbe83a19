//! Frames written by hand from the specification's grammar, octet by octet.

use amqp_codec::basic::Properties;
use amqp_codec::{
    ContentHeader, DecodeErrorKind, EncodeError, Frame, Limits, Method, MethodId, ProtocolHeader,
    RawFrame, ReplyCode, Table, Value, basic, channel, confirm, connection, exchange, frame, queue,
    short, table, tx,
};

/// The parts as one piece.
fn wire(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Decodes to exactly this frame and back to exactly these bytes.
fn check(bytes: &[u8], expected: Frame<'_>) {
    let limits = Limits::default();
    let (raw, len) = RawFrame::parse(bytes, &limits)
        .unwrap()
        .expect("the frame is complete");
    assert_eq!(len, bytes.len());
    assert_eq!(raw.decode(&limits).unwrap(), expected);
    let mut encoded = Vec::new();
    expected.encode(&mut encoded).unwrap();
    assert_eq!(encoded, bytes);
    assert_eq!(expected.encoded_len(), bytes.len());
}

fn check_method<'a>(channel: u16, bytes: &[u8], method: impl Into<Method<'a>>) {
    check(
        bytes,
        Frame::Method {
            channel,
            method: method.into(),
        },
    );
}

#[test]
fn protocol_header() {
    assert_eq!(
        ProtocolHeader::AMQP_0_9_1.to_bytes(),
        *b"AMQP\x00\x00\x09\x01"
    );
    assert_eq!(
        ProtocolHeader::parse(b"AMQP\x00\x00\x09\x01"),
        Some(ProtocolHeader::AMQP_0_9_1)
    );
    let sasl_1_0 = ProtocolHeader {
        id: 3,
        major: 1,
        minor: 0,
        revision: 0,
    };
    assert_eq!(
        ProtocolHeader::parse(b"AMQP\x03\x01\x00\x00 and more"),
        Some(sasl_1_0)
    );
    assert_eq!(ProtocolHeader::parse(b"AMQP\x03\x01\x00"), None);
    assert_eq!(ProtocolHeader::parse(b"HTTP/1.1"), None);
    assert!(ProtocolHeader::is_prefix(b""));
    assert!(ProtocolHeader::is_prefix(b"AM"));
    assert!(ProtocolHeader::is_prefix(b"AMQP\x01\x01\x00\x09"));
    assert!(!ProtocolHeader::is_prefix(b"AMX"));
    assert!(!ProtocolHeader::is_prefix(b"\x01\x00\x00"));
    let mut buf = Vec::new();
    sasl_1_0.encode(&mut buf);
    assert_eq!(buf, b"AMQP\x03\x01\x00\x00");
}

#[test]
fn connection_start() {
    let bytes = wire(&[
        b"\x01\x00\x00\x00\x00\x00\x5b",   // method, channel 0, 91 bytes
        b"\x00\x0a\x00\x0a",               // connection.start
        b"\x00\x09",                       // version 0-9
        b"\x00\x00\x00\x36",               // properties: 54 bytes
        b"\x07product",                    // 8
        b"S\x00\x00\x00\x08RabbitMQ",      // 13
        b"\x0ccapabilities",               // 13
        b"F\x00\x00\x00\x0f",              // 5
        b"\x0cbasic.nack12t\x01",          // 15
        b"\x00\x00\x00\x0ePLAIN AMQPLAIN", // 18
        b"\x00\x00\x00\x05en_US",          // 9
        b"\xce",
    ]);
    let start = connection::Start {
        version_major: 0,
        version_minor: 9,
        server_properties: table! {
            "product" => "RabbitMQ",
            "capabilities" => table! { "basic.nack12" => true },
        },
        mechanisms: "PLAIN AMQPLAIN".into(),
        locales: "en_US".into(),
    };
    check_method(0, &bytes, start);
}

#[test]
fn connection_start_ok() {
    let bytes = wire(&[
        b"\x01\x00\x00\x00\x00\x00\x20",
        b"\x00\x0a\x00\x0b",
        b"\x00\x00\x00\x00", // no client properties
        b"\x05PLAIN",
        b"\x00\x00\x00\x08\0user\0pw",
        b"\x05en_US",
        b"\xce",
    ]);
    check_method(
        0,
        &bytes,
        connection::StartOk {
            client_properties: Table::EMPTY,
            mechanism: short!("PLAIN"),
            response: b"\0user\0pw".into(),
            locale: short!("en_US"),
        },
    );
}

#[test]
fn tune() {
    let fields = b"\x07\xff\x00\x02\x00\x00\x00\x3c"; // 2047, 131072, 60
    let tune = wire(&[
        b"\x01\x00\x00\x00\x00\x00\x0c\x00\x0a\x00\x1e",
        fields,
        b"\xce",
    ]);
    let (channel_max, frame_max, heartbeat) = (2047, 131_072, 60);
    check_method(
        0,
        &tune,
        connection::Tune {
            channel_max,
            frame_max,
            heartbeat,
        },
    );
    let tune_ok = wire(&[
        b"\x01\x00\x00\x00\x00\x00\x0c\x00\x0a\x00\x1f",
        fields,
        b"\xce",
    ]);
    check_method(
        0,
        &tune_ok,
        connection::TuneOk {
            channel_max,
            frame_max,
            heartbeat,
        },
    );
}

#[test]
fn open() {
    check_method(
        0,
        b"\x01\x00\x00\x00\x00\x00\x08\x00\x0a\x00\x28\x01/\x00\x00\xce",
        connection::Open {
            virtual_host: short!("/"),
            ..Default::default()
        },
    );
    // RabbitMQ's clients of old set the reserved bit ("insist"); the other seven bits are nobody's.
    check_method(
        0,
        b"\x01\x00\x00\x00\x00\x00\x08\x00\x0a\x00\x28\x01/\x00\x81\xce",
        connection::Open {
            virtual_host: short!("/"),
            reserved_2: true,
            undefined_bits: 0x80,
            ..Default::default()
        },
    );
    check_method(
        0,
        b"\x01\x00\x00\x00\x00\x00\x05\x00\x0a\x00\x29\x00\xce",
        connection::OpenOk::default(),
    );
    check_method(
        7,
        b"\x01\x00\x07\x00\x00\x00\x05\x00\x14\x00\x0a\x00\xce",
        channel::Open::default(),
    );
    // The reserved field of open-ok is a long string, that of open a short one.
    check_method(
        7,
        b"\x01\x00\x07\x00\x00\x00\x08\x00\x14\x00\x0b\x00\x00\x00\x00\xce",
        channel::OpenOk::default(),
    );
}

#[test]
fn close() {
    let bytes = wire(&[
        b"\x01\x00\x01\x00\x00\x00\x15\x00\x14\x00\x28",
        b"\x01\x94",          // 404
        b"\x0aNOT_FOUND\xe9", // not UTF-8
        b"\x00\x3c\x00\x28",  // basic.publish
        b"\xce",
    ]);
    let close = channel::Close {
        reply_code: ReplyCode::NOT_FOUND,
        reply_text: b"NOT_FOUND\xe9".try_into().unwrap(),
        class_id: 60,
        method_id: 40,
    };
    assert!(close.reply_text.as_str().is_err());
    assert_eq!(close.reply_text.to_string_lossy(), "NOT_FOUND\u{fffd}");
    check_method(1, &bytes, close);
    check_method(
        0,
        b"\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x33\xce",
        connection::CloseOk {},
    );
    check_method(
        0,
        b"\x01\x00\x00\x00\x00\x00\x08\x00\x0a\x00\x3c\x03low\xce",
        connection::Blocked {
            reason: short!("low"),
        },
    );
    check_method(
        0,
        b"\x01\x00\x00\x00\x00\x00\x0e\x00\x0a\x00\x46\x00\x00\x00\x03new\x02no\xce",
        connection::UpdateSecret {
            new_secret: "new".into(),
            reason: short!("no"),
        },
    );
}

#[test]
fn declare() {
    // Bits from the lowest on: passive, durable, exclusive, auto-delete, no-wait.
    let bytes = wire(&[
        b"\x01\x00\x01\x00\x00\x00\x23\x00\x32\x00\x0a",
        b"\x00\x00\x01q",
        b"\x12", // durable, no-wait
        b"\x00\x00\x00\x16\x0dx-message-ttlI\x00\x00\xea\x60\x00V\x01",
        b"\xce",
    ]);
    // The table above is cut on purpose: the last key has no tag.
    let limits = Limits::default();
    let (raw, _) = RawFrame::parse(&bytes, &limits).unwrap().unwrap();
    let error = raw.decode(&limits).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::Truncated);

    let bytes = wire(&[
        b"\x01\x00\x01\x00\x00\x00\x22\x00\x32\x00\x0a",
        b"\x00\x00\x01q",
        b"\x12",
        b"\x00\x00\x00\x15\x0dx-message-ttlI\x00\x00\xea\x60\x00V",
        b"\xce",
    ]);
    let declare = queue::Declare {
        queue: short!("q"),
        durable: true,
        no_wait: true,
        arguments: Table::from([
            (short!("x-message-ttl"), Value::I32(60_000)),
            (short!(""), Value::Void),
        ]),
        ..Default::default()
    };
    check_method(1, &bytes, declare);

    // passive, durable, auto-delete, internal, no-wait
    check_method(
        1,
        b"\x01\x00\x01\x00\x00\x00\x14\x00\x28\x00\x0a\x00\x00\x01e\x06fanout\x0a\x00\x00\x00\x00\xce",
        exchange::Declare {
            exchange: short!("e"),
            kind: short!("fanout"),
            durable: true,
            internal: true,
            ..Default::default()
        },
    );
    check_method(
        1,
        b"\x01\x00\x01\x00\x00\x00\x0e\x00\x32\x00\x0b\x01q\x00\x00\x00\x03\x00\x00\x00\x02\xce",
        queue::DeclareOk {
            queue: short!("q"),
            message_count: 3,
            consumer_count: 2,
        },
    );
}

#[test]
fn publish() {
    let bytes = wire(&[
        b"\x01\x00\x01\x00\x00\x00\x10\x00\x3c\x00\x28",
        b"\x00\x00\x06orders\x01a",
        b"\x01", // mandatory; immediate is the next bit
        b"\xce",
    ]);
    let mut publish = basic::Publish {
        exchange: short!("orders"),
        routing_key: short!("a"),
        mandatory: true,
        ..Default::default()
    };
    check_method(1, &bytes, publish.clone());
    assert_eq!(frame::method_frame_len(&publish), bytes.len());
    let mut buf = Vec::new();
    frame::encode_method(1, &publish, &mut buf).unwrap();
    assert_eq!(buf, bytes);

    publish.mandatory = false;
    publish.immediate = true;
    let mut bytes = bytes;
    bytes[22] = 0x02;
    check_method(1, &bytes, publish);
}

#[test]
fn deliver_get_return() {
    check_method(
        1,
        b"\x01\x00\x01\x00\x00\x00\x15\x00\x3c\x00\x3c\x03tag\x00\x00\x00\x01\x00\x00\x00\x02\x01\x01e\x01k\xce",
        basic::Deliver {
            consumer_tag: short!("tag"),
            delivery_tag: 0x1_0000_0002,
            redelivered: true,
            exchange: short!("e"),
            routing_key: short!("k"),
            undefined_bits: 0,
        },
    );
    check_method(
        1,
        b"\x01\x00\x01\x00\x00\x00\x12\x00\x3c\x00\x32\x01\x38\x08NO_ROUTE\x00\x01k\xce",
        basic::Return {
            reply_code: ReplyCode::NO_ROUTE,
            reply_text: short!("NO_ROUTE"),
            exchange: short!(""),
            routing_key: short!("k"),
        },
    );
    check_method(
        1,
        b"\x01\x00\x01\x00\x00\x00\x14\x00\x3c\x00\x47\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x01k\x00\x00\x00\x09\xce",
        basic::GetOk {
            delivery_tag: 5,
            routing_key: short!("k"),
            message_count: 9,
            ..Default::default()
        },
    );
    check_method(
        1,
        b"\x01\x00\x01\x00\x00\x00\x05\x00\x3c\x00\x48\x00\xce",
        basic::GetEmpty::default(),
    );
}

#[test]
fn acknowledgements() {
    check_method(
        1,
        b"\x01\x00\x01\x00\x00\x00\x0d\x00\x3c\x00\x50\x00\x00\x00\x00\x00\x00\x00\x07\x01\xce",
        basic::Ack {
            delivery_tag: 7,
            multiple: true,
            undefined_bits: 0,
        },
    );
    // The server's nack may come with the requeue bit: multiple is bit 0 alone.
    check_method(
        1,
        b"\x01\x00\x01\x00\x00\x00\x0d\x00\x3c\x00\x78\x00\x00\x00\x00\x00\x00\x00\x07\x02\xce",
        basic::Nack {
            delivery_tag: 7,
            multiple: false,
            requeue: true,
            undefined_bits: 0,
        },
    );
    check_method(
        1,
        b"\x01\x00\x01\x00\x00\x00\x0d\x00\x3c\x00\x5a\x00\x00\x00\x00\x00\x00\x00\x07\x01\xce",
        basic::Reject {
            delivery_tag: 7,
            requeue: true,
            undefined_bits: 0,
        },
    );
    check_method(
        1,
        b"\x01\x00\x01\x00\x00\x00\x05\x00\x55\x00\x0a\x00\xce",
        confirm::Select::default(),
    );
    check_method(
        1,
        b"\x01\x00\x01\x00\x00\x00\x04\x00\x5a\x00\x14\xce",
        tx::Commit {},
    );
    check_method(
        1,
        b"\x01\x00\x01\x00\x00\x00\x0b\x00\x3c\x00\x0a\x00\x00\x00\x00\x00\x0a\x01\xce",
        basic::Qos {
            prefetch_count: 10,
            global: true,
            ..Default::default()
        },
    );
}

#[test]
fn content_header() {
    let empty = wire(&[
        b"\x02\x00\x01\x00\x00\x00\x0e",
        b"\x00\x3c\x00\x00",                 // basic, weight 0
        b"\x00\x00\x00\x00\x00\x00\x00\x00", // no body
        b"\x00\x00",                         // no property
        b"\xce",
    ]);
    let header = ContentHeader {
        class_id: 60,
        ..Default::default()
    };
    check(&empty, Frame::Header { channel: 1, header });

    let all = wire(&[
        b"\x02\x00\x01\x00\x00\x00\x3e",
        b"\x00\x3c\x00\x00",
        b"\x00\x00\x00\x00\x00\x00\x01\x00",
        b"\xff\xfc",
        b"\x01a",                            // content-type
        b"\x01b",                            // content-encoding
        b"\x00\x00\x00\x04\x01kt\x02",       // headers: a bool of 2
        b"\x02",                             // delivery-mode
        b"\x09",                             // priority
        b"\x01c",                            // correlation-id
        b"\x01d",                            // reply-to
        b"\x0560000",                        // expiration
        b"\x01e",                            // message-id
        b"\x00\x00\x00\x00\x65\x53\xf1\x00", // timestamp
        b"\x01f",                            // type
        b"\x01g",                            // user-id
        b"\x01h",                            // app-id
        b"\x07cluster",                      // cluster-id
        b"\xce",
    ]);
    let properties = Properties {
        content_type: Some(short!("a")),
        content_encoding: Some(short!("b")),
        headers: Some(amqp_codec::RawTable::from_bytes(b"\x01kt\x02")),
        delivery_mode: Some(2),
        priority: Some(9),
        correlation_id: Some(short!("c")),
        reply_to: Some(short!("d")),
        expiration: Some(short!("60000")),
        message_id: Some(short!("e")),
        timestamp: Some(1_700_000_000),
        kind: Some(short!("f")),
        user_id: Some(short!("g")),
        app_id: Some(short!("h")),
        cluster_id: Some(short!("cluster")),
    };
    let limits = Limits::default();
    assert_eq!(
        properties.headers(&limits).unwrap().unwrap().get_bool("k"),
        Some(true)
    );
    let header = ContentHeader {
        class_id: 60,
        body_size: 256,
        properties,
    };
    check(&all, Frame::Header { channel: 1, header });
}

#[test]
fn body_and_heartbeat() {
    check(
        b"\x03\xff\xff\x00\x00\x00\x02hi\xce",
        Frame::Body {
            channel: 65_535,
            payload: b"hi",
        },
    );
    check(
        b"\x03\x00\x01\x00\x00\x00\x00\xce",
        Frame::Body {
            channel: 1,
            payload: b"",
        },
    );
    check(b"\x08\x00\x00\x00\x00\x00\x00\xce", Frame::Heartbeat);
    assert_eq!(
        frame::body_frame_prefix(0x0102, 0x0304_0506),
        *b"\x03\x01\x02\x03\x04\x05\x06"
    );
    let mut buf = Vec::new();
    frame::encode_heartbeat(&mut buf).unwrap();
    assert_eq!(buf, b"\x08\x00\x00\x00\x00\x00\x00\xce");
}

/// What `bytes` fail with: kind, offset, reply code.
fn failure(bytes: &[u8]) -> (DecodeErrorKind, u64, u16) {
    let limits = Limits {
        frame_max: 4096,
        method_frame_max: 8192,
        ..Limits::default()
    };
    let error = match RawFrame::parse(bytes, &limits) {
        Err(error) => error,
        Ok(None) => panic!("more was wanted"),
        Ok(Some((raw, _))) => raw.decode(&limits).unwrap_err(),
    };
    (error.kind, error.offset, error.reply_code().0)
}

#[test]
fn violations_of_framing() {
    use DecodeErrorKind::*;
    // Each of these is known from seven bytes, before anything more comes.
    assert_eq!(
        failure(b"\x04\x00\x00\x00\x00\x00\x00"),
        (UnknownFrameType(4), 0, 501)
    );
    assert_eq!(
        failure(b"AMQP\x00\x00\x09\x01"),
        (UnknownFrameType(b'A'), 0, 501)
    );
    assert_eq!(
        failure(b"\x08\x00\x00\x00\x00\x00\x01"),
        (HeartbeatPayload, 3, 501)
    );
    let too_large = |size, max| FrameTooLarge { size, max };
    // 4088 bytes of body fit a frame_max of 4096, 4089 do not.
    assert_eq!(
        failure(b"\x03\x00\x01\x00\x00\x0f\xf9"),
        (too_large(4097, 4096), 3, 501)
    );
    assert_eq!(
        failure(b"\x02\x00\x01\x00\x00\x1f\xf9"),
        (too_large(8193, 8192), 3, 501)
    );
    assert_eq!(
        failure(b"\x01\x00\x01\xff\xff\xff\xff"),
        (too_large(0xffff_ffff + 8, 8192), 3, 501)
    );
    let limits = Limits {
        frame_max: 4096,
        method_frame_max: 0,
        ..Limits::default()
    };
    for kind in [frame::METHOD, frame::HEADER, frame::BODY] {
        let fits = [kind, 0, 1, 0, 0, 0x0f, 0xf8];
        assert_eq!(RawFrame::parse(&fits, &limits), Ok(None));
        assert_eq!(frame::needed(&fits), 4089);
    }

    assert_eq!(
        failure(b"\x03\x00\x01\x00\x00\x00\x02hi\xcf"),
        (BadFrameEnd(0xcf), 9, 501)
    );
    assert_eq!(
        failure(b"\x08\x00\x01\x00\x00\x00\x00\xce"),
        (HeartbeatChannel(1), 1, 505)
    );
    let raw = RawFrame {
        kind: 8,
        channel: 0,
        payload: b"?",
    };
    assert_eq!(raw.decode(&limits).unwrap_err().kind, HeartbeatPayload);
    let raw = RawFrame {
        kind: 9,
        channel: 0,
        payload: b"",
    };
    assert_eq!(raw.decode(&limits).unwrap_err().kind, UnknownFrameType(9));
}

#[test]
fn violations_within_methods() {
    use DecodeErrorKind::*;
    let unknown = |class, method| UnknownMethod(MethodId { class, method });
    assert_eq!(
        failure(b"\x01\x00\x01\x00\x00\x00\x04\x00\x3c\x00\x63\xce"),
        (unknown(60, 99), 7, 503)
    );
    assert_eq!(
        failure(b"\x01\x00\x01\x00\x00\x00\x04\x00\x1e\x00\x0a\xce"),
        (unknown(30, 10), 7, 503)
    );
    // Ends within the id, within a field, within a length.
    assert_eq!(
        failure(b"\x01\x00\x01\x00\x00\x00\x03\x00\x3c\x00\xce"),
        (Truncated, 9, 502)
    );
    assert_eq!(
        failure(b"\x01\x00\x01\x00\x00\x00\x00\xce"),
        (Truncated, 7, 502)
    );
    assert_eq!(
        failure(b"\x01\x00\x01\x00\x00\x00\x07\x00\x3c\x00\x15\x03ta\xce"),
        (Truncated, 12, 502)
    );
    // consume-ok with a byte more than its tag.
    assert_eq!(
        failure(b"\x01\x00\x01\x00\x00\x00\x07\x00\x3c\x00\x15\x01t\x00\xce"),
        (TrailingBytes, 13, 502)
    );
    // A field type of `U`, which RabbitMQ refuses too, at the sixth byte of the table's content.
    assert_eq!(
        failure(
            b"\x01\x00\x00\x00\x00\x00\x12\x00\x0a\x00\x0b\x00\x00\x00\x0a\x04key U\x00\x00\x01\0\xce"
        ),
        (UnknownFieldType(b'U'), 20, 502)
    );
    // A table whose last entry reaches beyond the table, though not beyond the frame.
    assert_eq!(
        failure(
            b"\x01\x00\x00\x00\x00\x00\x14\x00\x0a\x00\x0b\x00\x00\x00\x07\x01kS\0\0\0\x09\x00\x00\x00\x00\x00\xce"
        ),
        (Truncated, 22, 502)
    );
}

#[test]
fn violations_within_headers() {
    use DecodeErrorKind::*;
    let header = |class: &[u8], weight: &[u8], properties: &[u8]| {
        let payload = wire(&[class, weight, b"\0\0\0\0\0\0\0\0", properties]);
        let mut bytes = Vec::new();
        RawFrame {
            kind: 2,
            channel: 1,
            payload: &payload,
        }
        .encode(&mut bytes)
        .unwrap();
        bytes
    };
    assert_eq!(
        failure(&header(b"\0\x3c", b"\0\x01", b"\0\0")),
        (Weight(1), 9, 505)
    );
    // The continuation bit, and the bit that stands for nothing.
    assert_eq!(
        failure(&header(b"\0\x3c", b"\0\0", b"\0\x01")),
        (PropertyFlags(1), 19, 502)
    );
    assert_eq!(
        failure(&header(b"\0\x3c", b"\0\0", b"\x80\x02\0")),
        (PropertyFlags(2), 19, 502)
    );
    assert_eq!(
        failure(&header(b"\0\x3c", b"\0\0", b"\0\0!")),
        (TrailingBytes, 21, 502)
    );
    assert_eq!(
        failure(&header(b"\0\x3c", b"\0\0", b"\0")),
        (Truncated, 19, 502)
    );
    // Headers that reach beyond the frame are an error at once, whatever is in them.
    let beyond = header(b"\0\x3c", b"\0\0", b"\x20\0\0\0\0\x05\x01kV\0");
    assert_eq!(failure(&beyond), (Truncated, 25, 502));
    // Any class is a header; that it belongs to `basic` is for the assembler to see.
    let limits = Limits::default();
    let other = header(b"\0\x0a", b"\0\0", b"\0\0");
    let (raw, _) = RawFrame::parse(&other, &limits).unwrap().unwrap();
    assert!(
        matches!(raw.decode(&limits), Ok(Frame::Header { header, .. }) if header.class_id == 10)
    );
}

#[test]
fn nonsense_can_be_encoded() {
    let nonsense = RawFrame {
        kind: 0xee,
        channel: 65_535,
        payload: b"whatever",
    };
    let mut bytes = Vec::new();
    nonsense.encode(&mut bytes).unwrap();
    assert_eq!(bytes, b"\xee\xff\xff\x00\x00\x00\x08whatever\xce");
    assert_eq!(bytes.len(), nonsense.encoded_len());
}

#[test]
fn too_small_a_buffer_is_an_error() {
    let publish = basic::Publish::default();
    let size = frame::method_frame_len(&publish);
    let mut array = [0xAA; 64];
    let mut room = &mut array[..size - 1];
    assert_eq!(
        frame::encode_method(1, &publish, &mut room),
        Err(EncodeError::NoRoom {
            needed: size,
            room: size - 1
        })
    );
    assert_eq!(array, [0xAA; 64], "nothing was written");
    let mut room = &mut array[..size];
    frame::encode_method(1, &publish, &mut room).unwrap();
    assert_eq!(array[size - 1..=size], [0xCE, 0xAA]);
    let mut room = &mut array[..7];
    assert!(frame::encode_heartbeat(&mut room).is_err());
}
