//! Closes that cross, closes that are never answered, and closes by the server in the midst of everything.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use amqp_client::codec::basic::Properties;
use amqp_client::codec::{MethodId, ReplyCode, basic, channel, connection, queue, short};
use amqp_client::error::{CloseCause, ErrorKind, Initiator};
use amqp_client::{
    ConfirmOptions, ConnectOptions, Connection, Consume, Message, Outcome, QueueDeclare,
    UnknownReason,
};
use amqp_tests::peer::{Greeting, Peer};
use futures_util::StreamExt;
use futures_util::future::{join_all, poll_immediate};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::time::Instant;

use super::broker::{AutoBroker, Rules};
use super::support::{
    MemoryPeer, confirm_channel, confirming, confirming_with, connected, connected_with,
    no_task_left, plain_channel, poll_once, settle, timed,
};

const HALF_A_MINUTE: Duration = Duration::from_secs(30);

// ----- channels -----

/// The server's close arrives while ours is under way: it is answered, once, before the number is used anew.
#[tokio::test(start_paused = true)]
async fn channel_closes_that_cross() {
    for server_repeats in [false, true] {
        let (mut peer, connection) = connected().await;
        let (channel, on) = plain_channel(&mut peer, &connection).await;
        let server = async {
            peer.expect::<channel::Close>(on).await;
            peer.close_channel(on, ReplyCode::NOT_FOUND, "no exchange")
                .await;
            if server_repeats {
                peer.close_channel(on, ReplyCode::NOT_FOUND, "no exchange")
                    .await;
            }
            peer.expect::<channel::CloseOk>(on).await;
            peer.send(on, channel::CloseOk {}).await;
            peer.expect_silence(Duration::from_secs(1)).await;
        };
        let (closed, ()) = tokio::join!(channel.close(), server);
        closed.unwrap();
        assert_eq!(connection.open_channels(), 0);
        let (_next, again) = plain_channel(&mut peer, &connection).await;
        assert_eq!(again, on);
    }
}

/// RabbitMQ 3.10 repeats a close until it is answered; one answer is all it wants.
#[tokio::test(start_paused = true)]
async fn repeated_close_of_the_server_is_answered_once() {
    let (mut peer, connection) = connected().await;
    let (channel, on) = plain_channel(&mut peer, &connection).await;
    for _ in 0..3 {
        peer.close_channel(on, ReplyCode::PRECONDITION_FAILED, "timeout")
            .await;
    }
    peer.expect::<channel::CloseOk>(on).await;
    peer.expect_silence(Duration::from_secs(1)).await;
    assert!(channel.closed().is_some() && connection.is_open());
    let (_next, again) = plain_channel(&mut peer, &connection).await;
    assert_eq!(again, on);
}

#[tokio::test(start_paused = true)]
async fn channel_close_that_is_never_answered() {
    let (mut peer, connection) = connected().await;
    let (channel, on) = plain_channel(&mut peer, &connection).await;
    let (result, took) = timed(channel.close()).await;
    let error = result.unwrap_err();
    assert_eq!((error.kind(), took), (ErrorKind::Timeout, HALF_A_MINUTE));
    assert!(error.to_string().contains("channel.close"), "{error}");
    peer.expect::<channel::Close>(on).await;
    // Its number is not used while it may still be open on the other side.
    let (next, other) = plain_channel(&mut peer, &connection).await;
    assert_ne!(other, on);
    // The answer comes after all.
    peer.send(on, channel::CloseOk {}).await;
    settle().await;
    assert_eq!(connection.open_channels(), 1);
    drop((next, channel));
}

/// Until close-ok comes, what the server had sent is of no interest: half a content, acks, replies.
#[tokio::test(start_paused = true)]
async fn frames_for_a_channel_that_is_closing_are_discarded() {
    let (mut peer, connection, channel, on) = confirming().await;
    let declare = channel.queue_declare(QueueDeclare::new(short!("q")));
    let server = async {
        peer.expect::<queue::Declare>(on).await;
        peer.expect::<channel::Close>(on).await;
        peer.send(on, queue::DeclareOk::default()).await;
        peer.send_ack(on, 77, true).await;
        peer.send_deliver(on, "nobody", 1, &Properties::EMPTY, b"x")
            .await;
        let deliver = basic::Deliver {
            delivery_tag: 1,
            ..Default::default()
        };
        peer.send(on, deliver).await;
        peer.send(on, basic::CancelOk::default()).await;
        peer.send(on, channel::CloseOk {}).await;
        peer.expect_silence(Duration::from_secs(1)).await;
    };
    let close = channel.close_with(ReplyCode::INTERNAL_ERROR, "enough");
    let (declared, closed, ()) = tokio::join!(declare, close, server);
    closed.unwrap();
    // Its reply came, but the channel was closed over its head.
    assert_eq!(declared.unwrap_err().kind(), ErrorKind::ChannelClosed);
    assert!(connection.is_open());
    assert_eq!(connection.open_channels(), 0);
}

#[tokio::test(start_paused = true)]
async fn code_and_text_of_a_close_are_sent() {
    let (mut peer, connection) = connected().await;
    let (channel, on) = plain_channel(&mut peer, &connection).await;
    let close = channel.close_with(ReplyCode::INTERNAL_ERROR, "had enough");
    let (closed, seen) = tokio::join!(close, peer.accept_channel_close(on));
    closed.unwrap();
    assert_eq!(
        (seen.reply_code, seen.reply_text.as_bytes()),
        (ReplyCode::INTERNAL_ERROR, &b"had enough"[..])
    );
    let close = connection.close_with(ReplyCode::CONNECTION_FORCED, "going home");
    let (closed, seen) = tokio::join!(close, peer.accept_close());
    closed.unwrap();
    assert_eq!(
        (seen.reply_code, seen.reply_text.as_bytes()),
        (ReplyCode::CONNECTION_FORCED, &b"going home"[..])
    );
    let error = channel
        .close_with(ReplyCode::INTERNAL_ERROR, "x".repeat(256))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
}

/// A close waits for the confirms of what was published before it, and takes nothing new.
#[tokio::test(start_paused = true)]
async fn channel_close_waits_for_confirms() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let confirm = channel.publish("", "q", Message::new("x")).await.unwrap();
    let mut close = Box::pin(channel.close());
    assert!(poll_once(close.as_mut()).0.is_pending());
    assert!(channel.publish("", "q", Message::new("y")).await.is_err());
    peer.expect_publish().await;
    peer.expect_silence(Duration::from_secs(5)).await;
    peer.send_ack(on, 1, false).await;
    let (closed, _) = tokio::join!(close, peer.accept_channel_close(on));
    closed.unwrap();
    assert_eq!(confirm.await, Outcome::Acked);
}

/// At once means without them.
#[tokio::test(start_paused = true)]
async fn channel_close_with_a_code_does_not_wait_for_confirms() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let confirm = channel.publish("", "q", Message::new("x")).await.unwrap();
    let close = channel.close_with(ReplyCode::REPLY_SUCCESS, "");
    let server = async {
        peer.expect_publish().await;
        // Too late: nobody listens any more.
        peer.send_ack(on, 1, false).await;
        peer.accept_channel_close(on).await
    };
    let (closed, _) = tokio::join!(close, server);
    closed.unwrap();
    let Outcome::Unknown {
        reason: UnknownReason::ChannelClosed(closed),
        ..
    } = confirm.await
    else {
        panic!("nobody confirmed it in time")
    };
    assert_eq!(closed.initiator, Initiator::Client);
}

/// A refusal closes its channel alone: pending calls and publishes of it are told code, text and method.
#[tokio::test(start_paused = true)]
async fn channel_error_of_the_server() {
    let (mut peer, connection, channel, on) = confirming().await;
    let (other, other_on) =
        confirm_channel(&mut peer, &connection, ConfirmOptions::default()).await;
    let kept = other.publish("", "q", Message::new("kept")).await.unwrap();
    let mut returns = channel.returns();
    let acked = channel.publish("", "q", Message::new("1")).await.unwrap();
    let lost = channel
        .publish("missing", "q", Message::new("2"))
        .await
        .unwrap();
    let late = channel.publish("", "q", Message::new("3")).await.unwrap();
    let mut declare = Box::pin(channel.queue_declare(QueueDeclare::new(short!("q"))));
    assert!(poll_once(declare.as_mut()).0.is_pending());
    let mut behind = Box::pin(channel.queue_purge("q"));
    assert!(poll_once(behind.as_mut()).0.is_pending());
    peer.expect::<basic::Publish>(other_on).await;
    peer.send_ack(on, 1, false).await;
    let close = channel::Close {
        reply_code: ReplyCode::NOT_FOUND,
        // Cut in the middle of a character, with a line in it.
        reply_text: (&b"no exchange\n'm\xc3"[..]).try_into().unwrap(),
        class_id: MethodId::BASIC_PUBLISH.class,
        method_id: MethodId::BASIC_PUBLISH.method,
    };
    peer.send(on, close).await;
    assert_eq!(acked.await, Outcome::Acked);
    for confirm in [lost, late] {
        let Outcome::Unknown {
            publication,
            reason: UnknownReason::ChannelClosed(closed),
        } = confirm.await
        else {
            panic!("nobody confirmed it")
        };
        assert_eq!(closed.initiator, Initiator::Server);
        assert_eq!(closed.code, ReplyCode::NOT_FOUND);
        assert_eq!(closed.text.as_bytes(), b"no exchange\n'm\xc3");
        assert_eq!(closed.method, Some(MethodId::BASIC_PUBLISH));
        assert!(!publication.message.body().is_empty());
    }
    for error in [declare.await.unwrap_err(), behind.await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::ChannelClosed);
        assert_eq!(error.closed().unwrap().code, ReplyCode::NOT_FOUND);
    }
    assert!(returns.next().await.is_none());
    let counts = channel.status().counts;
    assert_eq!((counts.acked, counts.unknown), (1, 2));
    // The rest lives on.
    assert!(connection.is_open());
    peer.send_ack(other_on, 1, false).await;
    assert_eq!(kept.await, Outcome::Acked);
    // The close is answered, and closing what is closed says how it was closed.
    peer.skip_to::<channel::CloseOk>(on).await;
    let error = channel.close().await.unwrap_err();
    assert_eq!(error.closed().unwrap().code, ReplyCode::NOT_FOUND);
}

/// 5,000 errors in a row use the same number over and over, and leave nothing.
#[tokio::test(start_paused = true)]
async fn thousands_of_channel_errors_leak_nothing() {
    let (mut peer, connection) = connected().await;
    for round in 0..5000 {
        let (channel, on) = plain_channel(&mut peer, &connection).await;
        assert_eq!(on, 1);
        let failed = async {
            match round % 4 {
                0 => channel
                    .consume(Consume::new(short!("missing")))
                    .await
                    .map(drop),
                1 => channel
                    .queue_declare(QueueDeclare::new(short!("q")).passive())
                    .await
                    .map(drop),
                2 => channel.get("missing", false).await.map(drop),
                _ => channel.confirm_select().await.map(drop),
            }
        };
        let server = async {
            peer.next_on(on).await;
            peer.close_channel(on, ReplyCode::NOT_FOUND, "no").await;
            peer.expect::<channel::CloseOk>(on).await;
        };
        let (failed, ()) = tokio::join!(failed, server);
        assert_eq!(
            failed.unwrap_err().closed().unwrap().code,
            ReplyCode::NOT_FOUND
        );
        settle().await;
        assert_eq!(connection.open_channels(), 0);
    }
}

/// The server closes a channel in the midst of a large body: the rest of it is not sent, and the others' frames are
/// whole.
#[tokio::test(start_paused = true)]
async fn channel_error_in_the_midst_of_a_body() {
    let (mut peer, connection) =
        connected_with(8192, Greeting::default(), ConnectOptions::new()).await;
    let (large, on) = plain_channel(&mut peer, &connection).await;
    let (other, other_on) = plain_channel(&mut peer, &connection).await;
    large
        .publish("missing", "q", Message::new(vec![1; 900_000]))
        .await
        .unwrap();
    other.publish("", "q", Message::new("whole")).await.unwrap();
    peer.close_channel(on, ReplyCode::NOT_FOUND, "no exchange 'missing'")
        .await;
    settle().await;
    let mut left_over = 0;
    let close_ok = loop {
        let frame = match peer.next_on(on).await {
            amqp_tests::wire::Event::Frame(frame) => frame,
            event => panic!("{event}"),
        };
        match frame.method() {
            Some(method) if method.id() == MethodId::CHANNEL_CLOSE_OK => break true,
            _ => left_over += frame.payload.len(),
        }
    };
    assert!(close_ok && left_over < 900_000, "{left_over}");
    let publish = peer.expect_content::<basic::Publish>(other_on).await;
    assert_eq!(publish.body, "whole");
    peer.expect_silence(Duration::from_secs(1)).await;
    let (_next, again) = plain_channel(&mut peer, &connection).await;
    assert_eq!(again, on);
}

// ----- connections -----

#[tokio::test(start_paused = true)]
async fn connection_closes_that_cross() {
    for answered in [true, false] {
        let (mut peer, connection) = connected().await;
        let server = async {
            peer.expect::<connection::Close>(0).await;
            peer.close_connection(ReplyCode::CONNECTION_FORCED, "shutdown")
                .await;
            peer.expect::<connection::CloseOk>(0).await;
            if answered {
                peer.send(0, connection::CloseOk {}).await;
            }
            peer.expect_end().await;
        };
        let ((closed, took), ()) = tokio::join!(timed(connection.close()), server);
        // Both wanted it, and it is closed.
        closed.unwrap();
        assert!(took <= Duration::from_secs(1), "{took:?}");
        drop((peer, connection));
        no_task_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn connection_close_that_is_never_answered() {
    let (mut peer, connection) = connected().await;
    let (channel, _) = plain_channel(&mut peer, &connection).await;
    let (result, took) = timed(connection.close()).await;
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionClosed);
    let closed = error.closed().unwrap();
    assert_eq!(closed.cause, Some(CloseCause::CloseTimeout));
    assert_eq!(closed.initiator, Initiator::Client);
    assert!(
        took >= HALF_A_MINUTE && took <= HALF_A_MINUTE + Duration::from_secs(1),
        "{took:?}"
    );
    peer.expect::<connection::Close>(0).await;
    peer.expect_end().await;
    drop((peer, channel, connection));
    no_task_left().await;
}

/// The stream ends instead of a close-ok: that is as good as one.
#[tokio::test(start_paused = true)]
async fn connection_close_that_is_answered_by_the_end_of_the_stream() {
    let (mut peer, connection) = connected().await;
    let server = async {
        peer.expect::<connection::Close>(0).await;
        drop(peer);
    };
    let ((closed, took), ()) = tokio::join!(timed(connection.close()), server);
    closed.unwrap();
    assert!(took < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn connection_close_waits_for_confirms_half_of_its_deadline() {
    // In time.
    let (mut peer, connection, channel, on) = confirming().await;
    let confirm = channel.publish("", "q", Message::new("x")).await.unwrap();
    let server = async {
        peer.expect_publish().await;
        peer.expect_silence(Duration::from_secs(14)).await;
        peer.send_ack(on, 1, false).await;
        peer.accept_close().await
    };
    let (closed, outcome, _) = tokio::join!(connection.close(), confirm, server);
    closed.unwrap();
    assert_eq!(outcome, Outcome::Acked);

    // Not in time.
    let options = ConfirmOptions::default().timeout(None);
    let (mut peer, connection, channel, _) = confirming_with(options).await;
    let confirm = channel.publish("", "q", Message::new("x")).await.unwrap();
    let began = Instant::now();
    let server = async {
        peer.expect_publish().await;
        peer.set_deadline(HALF_A_MINUTE);
        peer.accept_close().await;
        began.elapsed()
    };
    let (closed, outcome, asked) = tokio::join!(connection.close(), confirm, server);
    closed.unwrap();
    assert_eq!(asked.as_secs_f64().round(), 15.0);
    let Outcome::Unknown {
        reason: UnknownReason::ConnectionClosed { closed, written },
        ..
    } = outcome
    else {
        panic!("{outcome:?}")
    };
    assert_eq!((closed.initiator, written), (Initiator::Client, true));
}

/// Everything that is pending is told by whom, why, and at which method.
#[tokio::test(start_paused = true)]
async fn connection_error_of_the_server() {
    let (mut peer, connection, channel, on) = confirming().await;
    let (consuming, consuming_on) = plain_channel(&mut peer, &connection).await;
    let consumer = consumer(&mut peer, &consuming, consuming_on).await;
    let (leaving, _) = plain_channel(&mut peer, &connection).await;
    let mut events = connection.events();
    let confirms = [
        channel.publish("", "q", Message::new("1")).await.unwrap(),
        channel.publish("", "q", Message::new("2")).await.unwrap(),
    ];
    peer.expect_publish().await;
    peer.expect_publish().await;
    let opening = connection.open_channel();
    let declaring = channel.queue_declare(QueueDeclare::new(short!("q")));
    let closing = leaving.close();
    let server = async {
        settle().await;
        // Acks that came before the close count.
        peer.send_ack(on, 1, false).await;
        let close = connection::Close {
            reply_code: ReplyCode::NOT_IMPLEMENTED,
            reply_text: short!("immediate=true"),
            class_id: MethodId::BASIC_PUBLISH.class,
            method_id: MethodId::BASIC_PUBLISH.method,
        };
        peer.send(0, close).await;
        peer.skip_to::<connection::CloseOk>(0).await;
        while !peer.next().await.is_end() {}
    };
    let all = async {
        tokio::join!(
            opening,
            declaring,
            closing,
            consumer.collect::<Vec<_>>(),
            join_all(confirms)
        )
    };
    let ((all, took), ()) = tokio::join!(timed(all), server);
    let (opened, declared, closed, delivered, outcomes) = all;
    assert!(took < Duration::from_secs(1), "{took:?}");
    for error in [
        opened.unwrap_err(),
        declared.unwrap_err(),
        closed.unwrap_err(),
    ] {
        let closed = error.closed().unwrap();
        assert_eq!(
            (closed.code, closed.initiator),
            (ReplyCode::NOT_IMPLEMENTED, Initiator::Server)
        );
        assert_eq!(closed.method, Some(MethodId::BASIC_PUBLISH));
        assert!(error.to_string().contains("immediate=true"), "{error}");
    }
    let ended = delivered
        .into_iter()
        .map(Result::unwrap_err)
        .collect::<Vec<_>>();
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].0.code, ReplyCode::NOT_IMPLEMENTED);
    assert_eq!(outcomes[0], Outcome::Acked);
    let Outcome::Unknown {
        reason: UnknownReason::ConnectionClosed { closed, written },
        ..
    } = &outcomes[1]
    else {
        panic!("{:?}", outcomes[1])
    };
    assert_eq!((closed.code, *written), (ReplyCode::NOT_IMPLEMENTED, true));
    while events.next().await.is_some() {}
    assert!(!connection.is_open());
}

async fn consumer(
    peer: &mut MemoryPeer,
    channel: &amqp_client::Channel,
    on: u16,
) -> amqp_client::Consumer {
    let ok = basic::ConsumeOk {
        consumer_tag: short!("c"),
    };
    let answer = async {
        peer.reply::<basic::Consume>(on, ok).await;
    };
    let (consumer, ()) = tokio::join!(channel.consume(Consume::new(short!("q"))), answer);
    consumer.unwrap()
}

/// A server that closes and is gone before it could be answered.
#[tokio::test(start_paused = true)]
async fn server_that_closes_and_hangs_up() {
    let (mut peer, connection, channel, _) = confirming().await;
    let confirm = channel.publish("", "q", Message::new("x")).await.unwrap();
    peer.expect_publish().await;
    peer.close_connection(ReplyCode::CONNECTION_FORCED, "shutdown")
        .await;
    drop(peer);
    let closed = connection.closed().await;
    assert_eq!(
        (closed.code, closed.initiator),
        (ReplyCode::CONNECTION_FORCED, Initiator::Server)
    );
    assert!(matches!(confirm.await, Outcome::Unknown { .. }));
    drop((connection, channel));
    no_task_left().await;
}

#[tokio::test(start_paused = true)]
async fn closes_of_several_handles_are_one() {
    let (peer, connection) = connected().await;
    let broker = AutoBroker::start(peer, Rules::default());
    let other = connection.clone();
    let (one, two) = tokio::join!(connection.close(), other.close());
    one.unwrap();
    two.unwrap();
    // Once more, when it is closed already.
    connection.close().await.unwrap();
    assert_eq!(broker.ended().await.count(MethodId::CONNECTION_CLOSE), 1);
    let error = connection.open_channel().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionClosed);
    assert_eq!(connection.closed().await.initiator, Initiator::Client);
}

/// All channels that may be open are open, and the one too many is refused here.
#[tokio::test(start_paused = true)]
async fn one_channel_too_many() {
    let greeting = Greeting {
        tune: connection::Tune {
            channel_max: 2,
            ..Greeting::default().tune
        },
        ..Default::default()
    };
    let (mut peer, connection) = connected_with(4096, greeting, ConnectOptions::new()).await;
    let (first, on) = plain_channel(&mut peer, &connection).await;
    let (_second, _) = plain_channel(&mut peer, &connection).await;
    let refused = poll_immediate(Box::pin(connection.open_channel())).await;
    assert_eq!(refused.unwrap().unwrap_err().kind(), ErrorKind::Usage);
    drop(first);
    peer.accept_channel_close(on).await;
    settle().await;
    let (_third, again) = plain_channel(&mut peer, &connection).await;
    assert_eq!(again, on);
}

/// The stream ends before our close could be sent: that is no close that was answered.
#[tokio::test(start_paused = true)]
async fn connection_that_breaks_before_our_close_is_sent() {
    let (mut peer, connection) =
        connected_with(1024, Greeting::default(), ConnectOptions::new()).await;
    let (channel, _) = plain_channel(&mut peer, &connection).await;
    channel
        .publish("", "q", Message::new(vec![0; 900_000]))
        .await
        .unwrap();
    let mut close = Box::pin(connection.close());
    assert!(poll_once(close.as_mut()).0.is_pending());
    settle().await;
    drop(peer);
    let error = close.await.unwrap_err();
    assert_eq!(error.closed().unwrap().initiator, Initiator::Transport);
}

/// A pipe of which one direction can break: what comes is still read.
struct OneWay {
    pipe: DuplexStream,
    broken: Arc<AtomicBool>,
}

impl AsyncRead for OneWay {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_read(cx, buf)
    }
}

impl AsyncWrite for OneWay {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.broken.load(Ordering::Relaxed) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.pipe).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(cx)
    }
}

/// A server that goes tells why in its last bytes. Writing fails by then, and that is no reason not to read them,
/// however many there are.
#[tokio::test(start_paused = true)]
async fn why_is_read_when_writing_has_failed() {
    const HEARTBEAT: [u8; 8] = [8, 0, 0, 0, 0, 0, 0, 0xCE];
    let (mut peer, pipe) = Peer::in_memory(8 << 20);
    let broken = Arc::new(AtomicBool::new(false));
    let one_way = OneWay {
        pipe,
        broken: broken.clone(),
    };
    let (connection, _) = tokio::join!(
        Connection::open_over(one_way, ConnectOptions::new()),
        peer.handshake(Greeting::default())
    );
    let connection = connection.unwrap();
    settle().await;
    // All of it is there before the client gets to run, and it is more than many reads take.
    broken.store(true, Ordering::Relaxed);
    let heartbeats = HEARTBEAT.repeat((4 << 20) / HEARTBEAT.len());
    let server = async {
        peer.send_bytes(heartbeats).await;
        peer.close_connection(ReplyCode::CONNECTION_FORCED, "node down")
            .await;
    };
    let (channel, ()) = tokio::join!(connection.open_channel(), server);
    channel.unwrap_err();
    let closed = connection.closed().await;
    assert_eq!(closed.code, ReplyCode::CONNECTION_FORCED, "{closed:?}");
}
