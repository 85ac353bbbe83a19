//! Streams made by hand, one direction each.

use amqp_codec::basic::{self, Properties};
use amqp_codec::{
    Array, ProtocolHeader, RawFrame, Table, Value, connection, content, frame, queue, short, table,
};

pub(super) type Stream = Result<Vec<u8>, Box<dyn std::error::Error>>;

pub(super) fn handshake() -> Stream {
    let mut wire = Vec::new();
    ProtocolHeader::AMQP_0_9_1.encode(&mut wire);
    let start_ok = connection::StartOk {
        client_properties: table! { "capabilities" => table! { "consumer_cancel_notify" => true } },
        mechanism: short!("PLAIN"),
        response: b"\0guest\0guest".into(),
        locale: short!("en_US"),
    };
    frame::encode_method(0, &start_ok, &mut wire)?;
    let tune_ok = connection::TuneOk {
        channel_max: 2047,
        frame_max: 4096,
        heartbeat: 60,
    };
    frame::encode_method(0, &tune_ok, &mut wire)?;
    let declare = queue::Declare {
        queue: short!("q"),
        durable: true,
        arguments: table! { "x-max-length" => 10, "x-overflow" => "reject-publish" },
        ..Default::default()
    };
    frame::encode_method(1, &declare, &mut wire)?;
    frame::encode_heartbeat(&mut wire)?;
    Ok(wire)
}

pub(super) fn server() -> Stream {
    let mut wire = Vec::new();
    let start = connection::Start {
        server_properties: table! {
            "product" => "RabbitMQ",
            "capabilities" => table! { "basic.nack" => true },
        },
        mechanisms: "PLAIN AMQPLAIN".into(),
        locales: "en_US".into(),
        ..Default::default()
    };
    frame::encode_method(0, &start, &mut wire)?;
    let ack = basic::Ack {
        delivery_tag: 5,
        multiple: true,
        ..Default::default()
    };
    frame::encode_method(1, &ack, &mut wire)?;
    let deliver = basic::Deliver {
        consumer_tag: short!("tag"),
        delivery_tag: 1,
        routing_key: short!("q"),
        ..Default::default()
    };
    content::encode(1, &deliver, &Properties::EMPTY, b"", 4096, &mut wire)?;
    content::encode(
        1,
        &deliver,
        &Properties::EMPTY,
        &[b'x'; 5000],
        4096,
        &mut wire,
    )?;
    Ok(wire)
}

pub(super) fn publish() -> Stream {
    let mut wire = Vec::new();
    let publish = basic::Publish {
        routing_key: short!("q"),
        mandatory: true,
        ..Default::default()
    };
    let every_type = Table::from([
        (short!("t"), true.into()),
        (short!("b"), Value::I8(-1)),
        (short!("B"), Value::U8(1)),
        (short!("s"), Value::I16(-1)),
        (short!("u"), Value::U16(1)),
        (short!("I"), Value::I32(-1)),
        (short!("i"), Value::U32(1)),
        (short!("l"), Value::I64(-1)),
        (short!("f"), Value::F32(0.5)),
        (short!("d"), Value::F64(0.5)),
        (short!("D"), Value::Decimal(Default::default())),
        (short!("S"), "text".into()),
        (short!("A"), Array::from([1, 2]).into()),
        (short!("T"), Value::Timestamp(1)),
        (
            short!("F"),
            table! { "a" => Array::from([table! { "b" => Value::Void }]) }.into(),
        ),
        (short!("V"), Value::Void),
        (short!("x"), Value::Bytes(b"\xff".into())),
    ]);
    let properties = Properties {
        content_type: Some(short!("a")),
        content_encoding: Some(short!("b")),
        headers: Some(every_type.into()),
        delivery_mode: Some(2),
        priority: Some(1),
        correlation_id: Some(short!("c")),
        reply_to: Some(short!("d")),
        expiration: Some(short!("60000")),
        message_id: Some(short!("e")),
        timestamp: Some(1),
        kind: Some(short!("f")),
        user_id: Some(short!("guest")),
        app_id: Some(short!("g")),
        cluster_id: Some(short!("h")),
    };
    content::encode(1, &publish, &properties, b"hello", 4096, &mut wire)?;
    Ok(wire)
}

/// Headers of arrays inside each other, deeper than any limit allows.
pub(super) fn poison() -> Stream {
    let headers = nested(500);
    let length = (headers.len() as u32 + 1).to_be_bytes();
    let header = [
        &b"\0\x3c\0\0\0\0\0\0\0\0\0\0\x20\0"[..],
        &length,
        b"\0",
        &headers,
    ]
    .concat();
    let mut wire = Vec::new();
    frame::encode_method(1, &basic::Publish::default(), &mut wire)?;
    RawFrame {
        kind: frame::HEADER,
        channel: 1,
        payload: &header,
    }
    .encode(&mut wire)?;
    Ok(wire)
}

/// So many arrays inside each other, the innermost one empty.
pub(super) fn nested(levels: u32) -> Vec<u8> {
    let mut value = Vec::new();
    for level in (0..levels).rev() {
        value.push(b'A');
        value.extend((level * 5).to_be_bytes());
    }
    value
}
