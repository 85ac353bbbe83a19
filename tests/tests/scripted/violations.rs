//! What a peer does wrong once the connection is open: it is told the right code, everything that is pending ends, and
//! a fault that is one channel's alone ends that channel alone.

use std::time::Duration;

use amqp_client::codec::basic::Properties;
use amqp_client::codec::{
    Limits, MethodFields, RawFrame, ReplyCode, ShortStr, basic, channel, connection, frame, queue,
    short,
};
use amqp_client::error::{CloseCause, Initiator, Violation};
use amqp_client::{
    ConfirmOptions, ConnectOptions, Consume, Message, Outcome, QueueDeclare, UnknownReason,
};
use amqp_tests::peer::Greeting;
use futures_util::StreamExt;

use super::support::{
    confirm_channel, confirming, connected_with, no_task_left, plain_channel, settle, timed,
};

/// Channels: 1 is open, in confirm mode, with a publish outstanding; 2 is open; 3 is being opened; 30 never was.
const CONFIRMING: u16 = 1;
const PLAIN: u16 = 2;
const NEVER: u16 = 30;

fn raw(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let frame = RawFrame {
        kind,
        channel,
        payload,
    };
    frame.encode(&mut bytes).unwrap();
    bytes
}

fn method(channel: u16, method: impl MethodFields) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::encode_method(channel, &method, &mut bytes).unwrap();
    bytes
}

fn deliver(channel: u16) -> Vec<u8> {
    let deliver = basic::Deliver {
        consumer_tag: short!("nobody"),
        delivery_tag: 1,
        ..Default::default()
    };
    method(channel, deliver)
}

/// A content header as bytes: class, weight, body size, property flags and what follows them.
fn header(channel: u16, class: u16, weight: u16, size: u64, rest: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.extend_from_slice(&class.to_be_bytes());
    payload.extend_from_slice(&weight.to_be_bytes());
    payload.extend_from_slice(&size.to_be_bytes());
    payload.extend_from_slice(rest);
    raw(frame::HEADER, channel, &payload)
}

fn body(channel: u16, bytes: &[u8]) -> Vec<u8> {
    raw(frame::BODY, channel, bytes)
}

/// Each fault of the connection's: what it is, its bytes, and the code it is answered with.
fn faults() -> Vec<(&'static str, Vec<u8>, ReplyCode)> {
    let mut bad_end = raw(frame::METHOD, PLAIN, &[0, 60, 0, 11]);
    *bad_end.last_mut().unwrap() = 0;
    let mut huge = vec![frame::BODY, 0, 2];
    huge.extend_from_slice(&u32::MAX.to_be_bytes());
    let large = body(PLAIN, &vec![0; 131_072 - 7]);
    let join = |parts: &[Vec<u8>]| parts.concat();
    let flags = [0, 0];
    vec![
        ("a frame without its end", bad_end, ReplyCode::FRAME_ERROR),
        (
            "a frame of an unknown type",
            raw(4, PLAIN, &[]),
            ReplyCode::FRAME_ERROR,
        ),
        ("a frame of 4 GiB", huge, ReplyCode::FRAME_ERROR),
        (
            "a body frame above frame_max",
            large,
            ReplyCode::FRAME_ERROR,
        ),
        (
            "a heartbeat with a payload",
            raw(frame::HEARTBEAT, 0, &[1]),
            ReplyCode::FRAME_ERROR,
        ),
        (
            "a heartbeat on a channel",
            raw(frame::HEARTBEAT, 1, &[]),
            ReplyCode::UNEXPECTED_FRAME,
        ),
        (
            "a protocol header",
            b"AMQP\0\0\x09\x01".to_vec(),
            ReplyCode::FRAME_ERROR,
        ),
        (
            "a method of no class",
            raw(frame::METHOD, PLAIN, &[0, 99, 0, 1]),
            ReplyCode::COMMAND_INVALID,
        ),
        (
            "an unknown method",
            raw(frame::METHOD, PLAIN, &[0, 60, 0, 99]),
            ReplyCode::COMMAND_INVALID,
        ),
        (
            "half a method id",
            raw(frame::METHOD, PLAIN, &[0, 60]),
            ReplyCode::SYNTAX_ERROR,
        ),
        (
            "a method without its fields",
            raw(frame::METHOD, PLAIN, &[0, 60, 0, 80, 0]),
            ReplyCode::SYNTAX_ERROR,
        ),
        (
            "a method with bytes behind it",
            raw(frame::METHOD, PLAIN, &[0, 60, 0, 11, 1]),
            ReplyCode::SYNTAX_ERROR,
        ),
        (
            "a header without its method",
            header(PLAIN, 60, 0, 1, &flags),
            ReplyCode::UNEXPECTED_FRAME,
        ),
        (
            "a body without its header",
            body(PLAIN, b"x"),
            ReplyCode::UNEXPECTED_FRAME,
        ),
        (
            "a body instead of a header",
            join(&[deliver(PLAIN), body(PLAIN, b"x")]),
            ReplyCode::UNEXPECTED_FRAME,
        ),
        (
            "a method instead of a header",
            join(&[deliver(PLAIN), method(PLAIN, basic::QosOk {})]),
            ReplyCode::UNEXPECTED_FRAME,
        ),
        (
            "a method in the midst of a body",
            join(&[
                deliver(PLAIN),
                header(PLAIN, 60, 0, 10, &flags),
                body(PLAIN, b"x"),
                method(PLAIN, basic::QosOk {}),
            ]),
            ReplyCode::UNEXPECTED_FRAME,
        ),
        (
            "a second header",
            join(&[
                deliver(PLAIN),
                header(PLAIN, 60, 0, 10, &flags),
                header(PLAIN, 60, 0, 10, &flags),
            ]),
            ReplyCode::UNEXPECTED_FRAME,
        ),
        (
            "a header of another class",
            join(&[deliver(PLAIN), header(PLAIN, 50, 0, 1, &flags)]),
            ReplyCode::UNEXPECTED_FRAME,
        ),
        (
            "a header with a weight",
            join(&[deliver(PLAIN), header(PLAIN, 60, 1, 1, &flags)]),
            ReplyCode::UNEXPECTED_FRAME,
        ),
        (
            "a body longer than announced",
            join(&[
                deliver(PLAIN),
                header(PLAIN, 60, 0, 3, &flags),
                body(PLAIN, b"four"),
            ]),
            ReplyCode::FRAME_ERROR,
        ),
        (
            "properties that are cut off",
            join(&[deliver(PLAIN), header(PLAIN, 60, 0, 1, &[0x80, 0, 200])]),
            ReplyCode::SYNTAX_ERROR,
        ),
        (
            "property flags that go on",
            join(&[deliver(PLAIN), header(PLAIN, 60, 0, 1, &[0, 1, 0, 0])]),
            ReplyCode::SYNTAX_ERROR,
        ),
        (
            "a method on a channel that never was",
            deliver(NEVER),
            ReplyCode::CHANNEL_ERROR,
        ),
        (
            "a body on a channel that never was",
            body(NEVER, b"x"),
            ReplyCode::CHANNEL_ERROR,
        ),
        (
            "a close of a channel that never was",
            method(NEVER, channel::Close::default()),
            ReplyCode::CHANNEL_ERROR,
        ),
        (
            "a close-ok to no close",
            method(PLAIN, channel::CloseOk {}),
            ReplyCode::COMMAND_INVALID,
        ),
        (
            "a connection.close-ok to no close",
            method(0, connection::CloseOk {}),
            ReplyCode::COMMAND_INVALID,
        ),
        (
            "a second start",
            method(0, connection::Start::default()),
            ReplyCode::COMMAND_INVALID,
        ),
        (
            "a second tune",
            method(0, connection::Tune::default()),
            ReplyCode::COMMAND_INVALID,
        ),
        (
            "a connection's method on a channel",
            method(PLAIN, connection::CloseOk {}),
            ReplyCode::COMMAND_INVALID,
        ),
        (
            "a channel's method on channel 0",
            method(0, basic::QosOk {}),
            ReplyCode::COMMAND_INVALID,
        ),
        (
            "a method that only clients send",
            method(PLAIN, queue::Declare::default()),
            ReplyCode::COMMAND_INVALID,
        ),
        (
            "a publish",
            method(PLAIN, basic::Publish::default()),
            ReplyCode::COMMAND_INVALID,
        ),
        (
            "a reply that nobody asked for",
            method(CONFIRMING, basic::QosOk {}),
            ReplyCode::COMMAND_INVALID,
        ),
        (
            "a reply to something else",
            method(PLAIN, basic::QosOk {}),
            ReplyCode::COMMAND_INVALID,
        ),
        (
            "a message that nobody asked for",
            method(PLAIN, basic::GetOk::default()),
            ReplyCode::COMMAND_INVALID,
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn faults_of_the_connection() {
    for (what, bytes, code) in faults() {
        let (mut peer, connection, confirming, on) = confirming().await;
        let (plain, plain_on) = plain_channel(&mut peer, &connection).await;
        assert_eq!((on, plain_on), (CONFIRMING, PLAIN));
        let confirm = confirming
            .publish("", "q", Message::new("x"))
            .await
            .unwrap();
        peer.expect_publish().await;
        let mut returns = confirming.returns();
        let mut events = connection.events();
        // A declare is pending on the plain channel.
        let pending = async {
            tokio::join!(
                confirm,
                plain.queue_declare(QueueDeclare::new(short!("q"))),
                confirming.wait_for_confirms(Duration::from_secs(60)),
                returns.next(),
                connection.open_channel(),
            )
        };
        let server = async {
            peer.expect::<queue::Declare>(PLAIN).await;
            peer.expect_any::<channel::Open>().await;
            peer.send_bytes(bytes).await;
            let close: connection::Close = peer.expect(0).await;
            // What is said after that is of no interest.
            peer.send(NEVER, basic::QosOk {}).await;
            peer.send(0, connection::CloseOk {}).await;
            peer.expect_end().await;
            close
        };
        let ((pending, took), close) = tokio::join!(timed(pending), server);
        assert_eq!(close.reply_code, code, "{what}: {}", close.reply_text);
        assert!(!close.reply_text.is_empty(), "{what}");
        assert!(took < Duration::from_secs(1), "{what}: {took:?}");
        let (outcome, declared, counts, returned, opened) = pending;
        let Outcome::Unknown {
            reason: UnknownReason::ConnectionClosed { closed, written },
            ..
        } = outcome
        else {
            panic!("{what}: {outcome:?}")
        };
        assert!(written, "{what}");
        assert_eq!(
            (closed.initiator, closed.code),
            (Initiator::Library, code),
            "{what}"
        );
        assert!(
            matches!(closed.cause, Some(CloseCause::Violation(_))),
            "{what}"
        );
        for error in [declared.unwrap_err(), opened.unwrap_err()] {
            assert_eq!(error.closed().unwrap().code, code, "{what}");
        }
        assert_eq!(counts.unwrap().unknown, 1, "{what}");
        assert!(returned.is_none(), "{what}");
        let ended = connection.closed().await;
        assert_eq!(
            (ended.initiator, ended.code),
            (Initiator::Library, code),
            "{what}"
        );
        while events.next().await.is_some() {}
        drop((peer, confirming, plain, returns, connection));
        no_task_left().await;
    }
}

/// After a fault the peer goes on as if nothing had happened, and never answers the close.
#[tokio::test(start_paused = true)]
async fn peer_that_does_not_care_about_our_close() {
    let (mut peer, connection, channel, on) = confirming().await;
    let confirm = channel.publish("", "q", Message::new("x")).await.unwrap();
    peer.expect_publish().await;
    peer.send_bytes(body(on, b"x")).await;
    // Nobody waits for the close to be answered.
    let (outcome, took) = timed(confirm).await;
    assert!(matches!(outcome, Outcome::Unknown { .. }));
    assert!(took < Duration::from_secs(1));
    for _ in 0..100 {
        peer.send_ack(on, 1, false).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let (closed, took) = timed(connection.closed()).await;
    assert_eq!(closed.code, ReplyCode::UNEXPECTED_FRAME);
    assert!(took <= Duration::from_secs(31), "{took:?}");
    drop((peer, connection, channel));
    no_task_left().await;
}

// ----- faults of one channel -----

#[tokio::test(start_paused = true)]
async fn confirm_that_cannot_be_ends_its_channel_alone() {
    let bogus: [(u64, bool, bool); 6] = [
        (3, false, true),
        (3, true, true),
        (u64::MAX, true, true),
        (0, false, true),
        (3, false, false),
        (u64::MAX, false, false),
    ];
    for (tag, multiple, ack) in bogus {
        let (mut peer, connection, channel, on) = confirming().await;
        let (other, other_on) =
            confirm_channel(&mut peer, &connection, ConfirmOptions::default()).await;
        let kept = other.publish("", "q", Message::new("kept")).await.unwrap();
        let confirms = [
            channel.publish("", "q", Message::new("1")).await.unwrap(),
            channel.publish("", "q", Message::new("2")).await.unwrap(),
        ];
        for _ in 0..3 {
            peer.expect_publish().await;
        }
        match ack {
            true => peer.send_ack(on, tag, multiple).await,
            false => peer.send_nack(on, tag, multiple).await,
        }
        let close = peer.accept_channel_close(on).await;
        assert_eq!(close.reply_code, ReplyCode::PRECONDITION_FAILED);
        for confirm in confirms {
            let Outcome::Unknown {
                reason: UnknownReason::ChannelClosed(closed),
                ..
            } = confirm.await
            else {
                panic!("nobody confirmed it")
            };
            assert_eq!(closed.initiator, Initiator::Library);
            let violation = Violation::UnknownConfirm { tag, last: 2 };
            assert_eq!(closed.cause, Some(CloseCause::Violation(violation)));
        }
        // The other one does not notice.
        peer.send_ack(other_on, 1, false).await;
        assert_eq!(kept.await, Outcome::Acked);
        assert!(connection.is_open());
        let (_next, again) = plain_channel(&mut peer, &connection).await;
        assert_eq!(again, on);
    }
}

#[tokio::test(start_paused = true)]
async fn confirm_on_a_channel_without_confirms() {
    let (mut peer, connection) =
        connected_with(4096, Greeting::default(), ConnectOptions::new()).await;
    let (channel, on) = plain_channel(&mut peer, &connection).await;
    channel.publish("", "q", Message::new("x")).await.unwrap();
    peer.expect_publish().await;
    peer.send_ack(on, 1, false).await;
    let close = peer.accept_channel_close(on).await;
    assert_eq!(close.reply_code, ReplyCode::PRECONDITION_FAILED);
    let error = channel
        .publish("", "q", Message::new("y"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("confirm"), "{error}");
    assert!(connection.is_open());
}

/// Delivery tags only grow: one that comes twice would be acked for the wrong message.
#[tokio::test(start_paused = true)]
async fn delivery_tag_that_does_not_grow_ends_its_channel_alone() {
    for second in [1, 0] {
        let (mut peer, connection) =
            connected_with(4096, Greeting::default(), ConnectOptions::new()).await;
        let (channel, on) = plain_channel(&mut peer, &connection).await;
        let ok = basic::ConsumeOk {
            consumer_tag: short!("c"),
        };
        let answer = async {
            peer.reply::<basic::Consume>(on, ok).await;
        };
        let (consumer, ()) = tokio::join!(channel.consume(Consume::new(short!("q"))), answer);
        let mut consumer = consumer.unwrap();
        peer.send_deliver(on, "c", 1, &Properties::EMPTY, b"x")
            .await;
        peer.send_deliver(on, "c", second, &Properties::EMPTY, b"y")
            .await;
        let close = peer.accept_channel_close(on).await;
        assert_eq!(close.reply_code, ReplyCode::PRECONDITION_FAILED);
        assert_eq!(consumer.next().await.unwrap().unwrap().body(), b"x");
        let error = consumer.next().await.unwrap().unwrap_err();
        let violation = Violation::DeliveryTag(second);
        assert_eq!(error.0.cause, Some(CloseCause::Violation(violation)));
        assert!(consumer.next().await.is_none());
        assert!(connection.is_open());
    }
}

// ----- what is no fault -----

#[tokio::test(start_paused = true)]
async fn headers_and_methods_above_frame_max_are_taken() {
    let greeting = Greeting {
        tune: connection::Tune {
            frame_max: 4096,
            ..Greeting::default().tune
        },
        ..Default::default()
    };
    let (mut peer, connection) = connected_with(1 << 20, greeting, ConnectOptions::new()).await;
    let (channel, _) = plain_channel(&mut peer, &connection).await;
    let large = amqp_client::codec::Table::from_iter([(short!("h"), "x".repeat(60_000))]);
    let properties = Properties {
        headers: Some(large.into()),
        ..Properties::EMPTY
    };
    let method = basic::Return {
        reply_code: ReplyCode::NO_ROUTE,
        ..Default::default()
    };
    // As RabbitMQ, the peer does not hold its own headers to what was agreed on.
    peer.set_frame_max(1 << 20);
    peer.send_content(1, method, &properties, b"body").await;
    let returned = channel.returns().next().await.unwrap().unwrap();
    assert_eq!(returned.publication.message.body(), "body".as_bytes());
    let headers = returned
        .publication
        .message
        .properties()
        .headers
        .clone()
        .unwrap();
    assert_eq!(
        headers
            .decode(&Limits::default())
            .unwrap()
            .get_str("h")
            .unwrap()
            .len(),
        60_000
    );
    assert!(connection.is_open());
}

/// A zero-length body frame in the midst of a body, and text that is no UTF-8 anywhere.
#[tokio::test(start_paused = true)]
async fn odd_but_legal_frames_are_taken() {
    let (mut peer, connection) =
        connected_with(1 << 16, Greeting::default(), ConnectOptions::new()).await;
    let (channel, on) = plain_channel(&mut peer, &connection).await;
    let strange = |bytes: &'static [u8]| ShortStr::try_from(bytes).unwrap();
    let returned = basic::Return {
        reply_code: ReplyCode::NO_ROUTE,
        reply_text: strange(b"\xff\xfe\n"),
        exchange: strange(b"\xc3"),
        routing_key: strange(b"\0\x80"),
    };
    let mut bytes = method(on, returned);
    bytes.extend(header(on, 60, 0, 4, &[0x80, 0, 1, 0xff]));
    for part in [&b"ab"[..], b"", b"c", b"", b"d"] {
        bytes.extend(body(on, part));
    }
    bytes.extend(method(
        0,
        connection::Blocked {
            reason: strange(b"\xf0\x9f"),
        },
    ));
    peer.send_bytes(bytes).await;
    let returned = channel.returns().next().await.unwrap().unwrap();
    assert_eq!(returned.publication.message.body(), "abcd".as_bytes());
    assert_eq!(returned.publication.routing_key.as_bytes(), b"\0\x80");
    assert_eq!(returned.text.as_bytes(), b"\xff\xfe\n");
    settle().await;
    assert_eq!(connection.blocked().unwrap().as_bytes(), b"\xf0\x9f");
    assert!(connection.is_open());
}

/// A message larger than we take, announced by its header: refused before its first byte came.
#[tokio::test(start_paused = true)]
async fn message_beyond_the_limits_is_refused_at_its_header() {
    let limits = amqp_client::Limits {
        message_bytes: 1000,
        ..Default::default()
    };
    let options = ConnectOptions::new().limits(limits);
    let (mut peer, connection) = connected_with(4096, Greeting::default(), options).await;
    let (channel, on) = plain_channel(&mut peer, &connection).await;
    let mut bytes = deliver(on);
    bytes.extend(header(on, 60, 0, 1001, &[0, 0]));
    peer.send_bytes(bytes).await;
    let close = peer.accept_channel_close(on).await;
    assert_eq!(close.reply_code, ReplyCode::CONTENT_TOO_LARGE);
    // Which is nobody else's concern.
    assert!(connection.is_open() && channel.closed().is_some());
}
