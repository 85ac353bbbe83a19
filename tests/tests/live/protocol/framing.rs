//! Protocol headers, frame sizes and field tables, as brokers have them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use amqp_client::codec::basic::Properties;
use amqp_client::codec::{
    Array, Decimal, Limits, ProtocolHeader, RawTable, Table, Value, basic, short, table,
};
use amqp_client::error::{HandshakeError, NotSent, UsageError};
use amqp_client::{ConnectOptions, Connection, Consume, Message, Outcome};
use amqp_tests::{Broker, Version};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::support::{channel, confirm_channel, connect, declare, name, raw, soon};

on_each_broker!(
    header_of_another_protocol,
    smallest_frames,
    headers_of_every_type,
    headers_nested_without_end,
    zero_bytes_of_body_and_frames_of_one_byte,
);

/// A stream whose first eight bytes are others than the client's.
struct OtherHeader {
    stream: TcpStream,
    header: [u8; 8],
    sent: usize,
}

impl AsyncRead for OtherHeader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for OtherHeader {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.sent == this.header.len() {
            return Pin::new(&mut this.stream).poll_write(cx, buf);
        }
        let rest = &this.header[this.sent..];
        let rest = &rest[..rest.len().min(buf.len())];
        let written = Pin::new(&mut this.stream).poll_write(cx, rest);
        if let Poll::Ready(Ok(count)) = written {
            this.sent += count;
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

async fn header_of_another_protocol(broker: &'static Broker) {
    let answer = match broker.version() {
        Version::V3_10 => [0, 0, 9, 1],
        Version::V4_0 | Version::V4_3 => [3, 1, 0, 0],
    };
    for header in [*b"AMQP\x00\x00\x08\x00", *b"AMQP\x00\x02\x00\x00"] {
        let stream = TcpStream::connect(broker.address()).await.unwrap();
        let stream = OtherHeader {
            stream,
            header,
            sent: 0,
        };
        let opening = Connection::open_over(stream, ConnectOptions::new());
        let error = soon("an answer", opening).await.unwrap_err();
        let Some(HandshakeError::Protocol(ProtocolHeader {
            id,
            major,
            minor,
            revision,
        })) = error.handshake()
        else {
            panic!("{header:?}: {error:?}");
        };
        assert_eq!([*id, *major, *minor, *revision], answer, "{header:?}");
        let text = format!("AMQP {major}.{minor}.{revision}");
        assert!(error.to_string().contains(&text), "{error}");
    }
}

fn header_of_size(len: usize) -> Message {
    Message::new("head").header("big", "x".repeat(len).as_str())
}

async fn smallest_frames(broker: &'static Broker) {
    let vhost = broker.vhost("facts").await;
    let options = ConnectOptions::try_from(vhost.uri.as_str())
        .unwrap()
        .frame_max(4096);
    let small = soon("a connection", Connection::open(options))
        .await
        .unwrap();
    assert_eq!(small.negotiated().unwrap().frame_max, 4096);
    declare(&small, "q").await;
    let publisher = confirm_channel(&small).await;

    // Bodies are cut to it, and put together again.
    let body: Vec<u8> = (0..20_000_u32).map(|n| (n % 251) as u8).collect();
    let confirm = publisher.publish("", "q", Message::new(body.clone())).await;
    assert_eq!(soon("an ack", confirm.unwrap()).await, Outcome::Acked);
    // What would not fit into a frame is refused here, and costs nothing.
    let refused = publisher.publish("", "q", header_of_size(9_000)).await;
    let reason = refused.unwrap_err().reason;
    assert!(
        matches!(reason, NotSent::Usage(UsageError::Encode(_))),
        "{reason:?}"
    );

    // The broker sends headers that are larger than what was agreed on.
    let large = connect(&vhost.uri).await;
    let others = confirm_channel(&large).await;
    for size in [9_000, 60_000] {
        let confirm = others.publish("", "q", header_of_size(size)).await.unwrap();
        assert_eq!(soon("an ack", confirm).await, Outcome::Acked);
    }
    let receiver = channel(&small).await;
    let mut consumer = receiver.consume(Consume::new(short!("q"))).await.unwrap();
    let first = soon("the body", consumer.next()).await.unwrap().unwrap();
    assert!(first.body() == body);
    for size in [9_000, 60_000] {
        let delivery = soon("a header", consumer.next()).await.unwrap().unwrap();
        let properties = delivery.properties();
        let headers = properties.headers(&Limits::default()).unwrap().unwrap();
        assert_eq!(headers.get_str("big").map(str::len), Some(size));
        delivery.acker().ack_multiple().unwrap();
    }
    receiver.close().await.unwrap();
    small.close().await.unwrap();
    large.close().await.unwrap();
}

/// One value of every type that there is.
fn every_type() -> Table<'static> {
    table! {
        "bool" => true,
        "i8" => Value::I8(-8),
        "u8" => Value::U8(200),
        "i16" => Value::I16(-16_000),
        "u16" => Value::U16(60_000),
        "i32" => Value::I32(i32::MIN),
        "u32" => Value::U32(u32::MAX),
        "i64" => Value::I64(i64::MIN),
        "f32" => Value::F32(-1.5),
        "f64" => Value::F64(1e300),
        "decimal" => Value::Decimal(Decimal { scale: 2, value: 12_345 }),
        "text" => "gr\u{fc}n",
        "array" => Array::from_iter([Value::from(1), Value::from("two"), Value::Void]),
        "time" => Value::Timestamp(u64::MAX),
        "table" => table! { "z" => 1, "a" => table! { "deep" => true } },
        "void" => Value::Void,
        "bytes" => &b"\xff\x00\xfe"[..],
    }
}

async fn headers_of_every_type(broker: &'static Broker) {
    let vhost = broker.vhost("facts").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    let confirms = confirm_channel(&connection).await;
    let channel = channel(&connection).await;

    let sent = every_type();
    // What a careless peer writes: a key twice, `L` for `l`, a bool of 2, a key that is no UTF-8, in no order.
    let odd = b"\x01zI\0\0\0\x07\x01zI\0\0\0\x09\x01at\x02\x01LL\0\0\0\0\0\0\0\x05\x02\xff\xfeS\0\0\0\x01x";
    for raw in [
        RawTable::from(sent.clone()),
        RawTable::from_bytes(odd).into_owned(),
    ] {
        let properties = Properties {
            headers: Some(raw.clone()),
            ..Properties::EMPTY
        };
        let message = Message::with_properties("x", properties);
        // Out and back, routed and unroutable.
        let unroutable = message.clone().mandatory();
        let lost = confirms.publish("", "none", unroutable.clone()).await;
        match soon("a return", lost.unwrap()).await {
            Outcome::Returned(returned) => assert_eq!(returned.publication.message, unroutable),
            other => panic!("{other:?}"),
        }
        let confirm = confirms.publish("", "q", message).await.unwrap();
        assert_eq!(soon("an ack", confirm).await, Outcome::Acked);
        let got = soon("a message", channel.get("q", true)).await.unwrap();
        let delivery = got.expect("a message").delivery;
        let properties = delivery.properties();
        let limits = Limits::default();
        let headers = properties.headers(&limits).unwrap().unwrap();
        assert!(
            headers.eq_as_map(&raw.decode(&limits).unwrap()),
            "{headers:?}"
        );
        let same_bytes = headers.as_bytes() == raw.as_bytes();
        match broker.version() {
            Version::V3_10 => assert!(same_bytes, "3.10 relays bytes"),
            Version::V4_0 | Version::V4_3 => {
                assert!(!same_bytes, "4.x encodes them anew");
                let keys: Vec<_> = headers.iter().map(|(key, _)| key.into_owned()).collect();
                assert!(keys.is_sorted(), "{keys:?}");
            }
        }
        // Relayed as it came, it is the same again.
        let relayed = Message::with_properties("x", properties.clone().into_owned());
        let confirm = confirms.publish("", "q", relayed).await.unwrap();
        assert_eq!(soon("an ack", confirm).await, Outcome::Acked);
        let again = channel.get("q", true).await.unwrap().expect("a message");
        assert_eq!(again.delivery.properties(), properties);
    }
    connection.close().await.unwrap();
}

/// Arrays in arrays, as the content of a table.
fn nested(levels: usize) -> Vec<u8> {
    let mut table = b"\x01n".to_vec();
    for level in (0..levels).rev() {
        table.push(b'A');
        table.extend((level as u32 * 5).to_be_bytes());
    }
    table
}

async fn headers_nested_without_end(broker: &'static Broker) {
    let vhost = broker.vhost("facts").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    let mut raw = raw(broker.address(), &vhost).await;
    let bytes = nested(15_000);
    let properties = Properties {
        headers: Some(RawTable::from_bytes(&bytes)),
        message_id: Some(short!("poison")),
        ..Properties::EMPTY
    };
    let publish = basic::Publish {
        routing_key: name("q"),
        ..Default::default()
    };
    raw.send_content(1, publish, &properties, b"body").await;

    let channel = channel(&connection).await;
    let mut consumer = channel.consume(Consume::new(short!("q"))).await.unwrap();
    let delivery = soon("the message", consumer.next()).await.unwrap().unwrap();
    assert_eq!(delivery.body(), b"body");
    let properties = delivery.properties();
    assert_eq!(properties.message_id, Some(short!("poison")));
    assert!(properties.headers(&Limits::default()).is_err());
    assert_eq!(properties.headers.as_ref().unwrap().as_bytes(), bytes);
    // Formatting, comparing and copying it does no harm either.
    let copy = properties.clone().into_owned();
    assert_eq!(copy, properties);
    assert!(!format!("{delivery:?} {copy:?}").is_empty());
    // It is not sent on, and the one who tried is told.
    let confirms = confirm_channel(&connection).await;
    let refused = confirms
        .publish("", "q", Message::with_properties("x", copy))
        .await;
    let reason = refused.unwrap_err().reason;
    assert!(
        matches!(reason, NotSent::Usage(UsageError::InvalidHeaders(_))),
        "{reason:?}"
    );
    // It can be given back, delivered anew, and rejected; everything else goes on.
    delivery.nack(true).unwrap();
    let again = soon("it again", consumer.next()).await.unwrap().unwrap();
    assert!(again.redelivered());
    again.reject(false).unwrap();
    channel.close().await.unwrap();
    assert_eq!(raw.message_count(1, "q").await, 0);
    connection.close().await.unwrap();
}

/// A peer may cut a body as it likes; RabbitMQ takes it, and so does who consumes it.
async fn zero_bytes_of_body_and_frames_of_one_byte(broker: &'static Broker) {
    use amqp_client::codec::{ContentHeader, RawFrame, frame};

    let vhost = broker.vhost("facts").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    let mut raw = raw(broker.address(), &vhost).await;
    let publish = || basic::Publish {
        routing_key: name("q"),
        ..Default::default()
    };
    raw.publish(1, "", "q", b"").await;
    raw.send(1, publish()).await;
    let mut header = bytes::BytesMut::new();
    let content = ContentHeader {
        class_id: 60,
        body_size: 3,
        properties: Properties::EMPTY,
    };
    frame::encode_header(1, &content, &mut header).unwrap();
    raw.send_bytes(header.freeze()).await;
    for payload in [&b"a"[..], b"", b"b", b"", b"c"] {
        let frame = RawFrame {
            kind: frame::BODY,
            channel: 1,
            payload,
        };
        raw.send_frame(frame).await;
    }
    let channel = channel(&connection).await;
    let mut consumer = channel.consume(Consume::new(short!("q"))).await.unwrap();
    for body in [&b""[..], b"abc"] {
        let delivery = soon("a message", consumer.next()).await.unwrap().unwrap();
        assert_eq!(delivery.body(), body);
        delivery.ack().unwrap();
    }
    connection.close().await.unwrap();
}
