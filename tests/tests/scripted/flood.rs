//! Peers that send far too much: what is kept of it is bounded, and the rest of the connection goes on.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use amqp_client::codec::basic::Properties;
use amqp_client::codec::{MethodId, ReplyCode, basic, channel, connection, content, frame, short};
use amqp_client::error::CloseCause;
use amqp_client::{
    ConfirmOptions, ConnectOptions, Connection, Consume, Consumer, Event, Limits, Message, Missed,
    Outcome, Overflow, QueueDeclare,
};
use amqp_tests::peer::{Greeting, Peer};
use amqp_tests::wire::Event as Seen;
use futures_util::StreamExt;
use futures_util::future::poll_immediate;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use super::support::{
    MemoryPeer, PIPE, confirm_channel, connected, connected_with, on_a_thread, plain_channel,
    settle,
};

/// A small pipe, so that what is not read stays with the client.
const NARROW: usize = 4096;

/// The bytes of a message to a consumer.
fn delivery(on: u16, consumer_tag: &str, delivery_tag: u64, body: &[u8]) -> Vec<u8> {
    let deliver = basic::Deliver {
        consumer_tag: consumer_tag.try_into().unwrap(),
        delivery_tag,
        ..Default::default()
    };
    let mut bytes = Vec::new();
    content::encode(on, &deliver, &Properties::EMPTY, body, 131_072, &mut bytes).unwrap();
    bytes
}

/// Sends this again and again for as long as it is taken; how many bytes that were.
async fn flood(peer: &mut MemoryPeer, limit: usize, mut next: impl FnMut(u64) -> Vec<u8>) -> usize {
    let mut sent = 0;
    let mut number = 0;
    while sent < limit {
        number += 1;
        let bytes = next(number);
        let len = bytes.len();
        let sending = peer.send_bytes(bytes);
        if tokio::time::timeout(Duration::from_secs(5), sending)
            .await
            .is_err()
        {
            // Half of it may be in the pipe: nothing sensible can be sent any more.
            break;
        }
        sent += len;
    }
    sent
}

/// Whatever makes us owe an answer: the peer does not read the answers, so it is not read from.
#[tokio::test(start_paused = true)]
async fn peer_that_makes_us_answer_without_reading_is_not_read_from() {
    let flow = |on| {
        let mut bytes = Vec::new();
        frame::encode_method(
            on,
            &channel::Flow {
                active: true,
                ..Default::default()
            },
            &mut bytes,
        )
        .unwrap();
        bytes
    };
    let cancel = |on| {
        let mut bytes = Vec::new();
        let cancel = basic::Cancel {
            consumer_tag: short!("nobody"),
            ..Default::default()
        };
        frame::encode_method(on, &cancel, &mut bytes).unwrap();
        bytes
    };
    type Flood = Box<dyn Fn(u16, u64) -> Vec<u8>>;
    let floods: [Flood; 3] = [
        Box::new(|on, tag| delivery(on, "nobody", tag, b"")),
        Box::new(move |on, _| flow(on)),
        Box::new(move |on, _| cancel(on)),
    ];
    for next in floods {
        let bound = 64 * 1024;
        let (server, client) = tokio::io::duplex(NARROW);
        let taken = Arc::new(AtomicUsize::new(0));
        let mut peer = Peer::new(Patient {
            inner: server,
            waiting: Vec::new(),
            taken: taken.clone(),
        });
        let options = ConnectOptions::new().limits(Limits {
            owed_bytes: 2 * bound,
            ..Limits::default()
        });
        let (connection, _) = tokio::join!(
            Connection::open_over(client, options),
            peer.handshake(Greeting::default())
        );
        let connection = connection.unwrap();
        let (channel, on) = tokio::join!(connection.open_channel(), peer.open_channel());
        let channel = channel.unwrap();
        let mut sent = 0;
        for number in 1..=50_000 {
            let bytes = next(on, number);
            sent += bytes.len();
            peer.send_bytes(bytes).await;
            if number % 100 == 0 {
                settle().await;
            }
        }
        let taken = taken.load(Ordering::Relaxed);
        // Answers are no larger than what they answer, or twice that.
        assert!(
            taken < 10 * bound && taken < sent / 2,
            "{taken} of {sent} bytes were taken"
        );
        assert!(connection.is_open());
        // As soon as it reads, it is heard again; nothing was lost.
        let declaring = channel.queue_declare(QueueDeclare::new(short!("q")));
        let server = async {
            peer.set_deadline(Duration::from_secs(60));
            let mut answers = 0;
            // The declare is somewhere among them.
            while answers < 50_001 {
                let Seen::Frame(frame) = peer.next().await else {
                    panic!("a frame")
                };
                answers += 1;
                if frame
                    .method()
                    .is_some_and(|method| method.id() == MethodId::QUEUE_DECLARE)
                {
                    peer.send(on, amqp_client::codec::queue::DeclareOk::default())
                        .await;
                }
            }
        };
        let (declared, ()) = tokio::join!(declaring, server);
        declared.unwrap();
    }
}

/// A stream whose writes never wait: what the pipe does not take waits here.
struct Patient {
    inner: DuplexStream,
    waiting: Vec<u8>,
    /// What the pipe took.
    taken: Arc<AtomicUsize>,
}

impl Patient {
    fn push(&mut self, cx: &mut Context<'_>) {
        while !self.waiting.is_empty() {
            let Poll::Ready(Ok(count)) = Pin::new(&mut self.inner).poll_write(cx, &self.waiting)
            else {
                return;
            };
            self.taken.fetch_add(count, Ordering::Relaxed);
            self.waiting.drain(..count);
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.push(cx);
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.waiting.extend_from_slice(bytes);
        self.push(cx);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.push(cx);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// The last 1,024 are kept, and how many are missing is told.
#[tokio::test(start_paused = true)]
async fn flood_of_returns() {
    let (mut peer, connection) = connected().await;
    let (channel, on) = plain_channel(&mut peer, &connection).await;
    let mut returns = channel.returns();
    for number in 0..5000_u32 {
        let method = basic::Return {
            reply_code: ReplyCode::NO_ROUTE,
            ..Default::default()
        };
        let body = number.to_string();
        peer.send_content(on, method, &Properties::EMPTY, body.as_bytes())
            .await;
    }
    settle().await;
    assert_eq!(
        returns.next().await.unwrap().unwrap_err(),
        Missed(5000 - 1024)
    );
    for number in 5000 - 1024..5000_u32 {
        let returned = returns.next().await.unwrap().unwrap();
        assert_eq!(
            returned.publication.message.body(),
            number.to_string().as_bytes()
        );
    }
    assert!(poll_immediate(returns.next()).await.is_none());
    // Large ones are bounded by their bytes.
    for _ in 0..100 {
        let method = basic::Return {
            reply_code: ReplyCode::NO_ROUTE,
            ..Default::default()
        };
        peer.send_content(on, method, &Properties::EMPTY, &vec![0; 1 << 20])
            .await;
    }
    settle().await;
    let Missed(missed) = returns.next().await.unwrap().unwrap_err();
    assert!((80..=90).contains(&missed), "{missed}");
}

#[tokio::test(start_paused = true)]
async fn flood_of_blocked_and_unblocked() {
    let (mut peer, connection) = connected().await;
    let mut events = connection.events();
    for _ in 0..10_000 {
        peer.send(
            0,
            connection::Blocked {
                reason: short!("again"),
            },
        )
        .await;
        peer.send(0, connection::Unblocked {}).await;
    }
    settle().await;
    assert_eq!(connection.blocked(), None);
    // The subscriber is told how much it missed, and gets the rest.
    let Some(Event::Lagged(missed)) = events.next().await else {
        panic!("it lagged")
    };
    let mut seen = 0;
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_secs(1), events.next()).await {
        assert!(matches!(event, Event::Blocked(_) | Event::Unblocked));
        seen += 1;
    }
    assert_eq!(missed + seen, 20_000);
    let (_channel, _) = plain_channel(&mut peer, &connection).await;
}

async fn consuming(
    peer: &mut MemoryPeer,
    connection: &Connection,
    consume: Consume,
) -> (amqp_client::Channel, u16, Consumer) {
    let (channel, on) = plain_channel(peer, connection).await;
    let ok = basic::ConsumeOk {
        consumer_tag: short!("c"),
    };
    let answer = async {
        peer.reply::<basic::Consume>(on, ok).await;
    };
    let (consumer, ()) = tokio::join!(channel.consume(consume), answer);
    let consumer = consumer.unwrap();
    (channel, on, consumer)
}

/// A consumer that is not read, under a flood without end: its channel is closed when its budget is used up, and the
/// others do not notice.
#[tokio::test(start_paused = true)]
async fn flood_of_deliveries_closes_the_channel_of_who_does_not_read() {
    let (mut peer, connection) = connected().await;
    let budget = 1 << 20;
    let consume = Consume::new(short!("q"))
        .no_ack()
        .budget(budget, Overflow::CloseChannel);
    let (channel, on, consumer) = consuming(&mut peer, &connection, consume).await;
    let (other, other_on) =
        confirm_channel(&mut peer, &connection, ConfirmOptions::default()).await;
    let body = vec![0; 10_000];
    let sent = flood(&mut peer, 20 * budget, |tag| delivery(on, "c", tag, &body)).await;
    // All of it was read: what came after the close was discarded.
    assert!(sent >= 20 * budget);
    let close: channel::Close = peer.expect(on).await;
    assert_eq!(close.reply_code, ReplyCode::RESOURCE_ERROR);
    peer.send(on, channel::CloseOk {}).await;
    let got: Vec<_> = consumer.collect().await;
    let (deliveries, error) = got.split_at(got.len() - 1);
    assert!(deliveries.iter().all(Result::is_ok));
    let bytes = deliveries.len() * body.len();
    assert!(bytes <= 2 * budget && bytes >= budget - 20_000, "{bytes}");
    let cause = error[0].as_ref().unwrap_err().0.cause.clone();
    assert_eq!(cause, Some(CloseCause::ConsumerOverflow { budget }));
    let confirm = other.publish("", "q", Message::new("x")).await.unwrap();
    peer.expect_publish().await;
    peer.send_ack(other_on, 1, false).await;
    assert_eq!(confirm.await, Outcome::Acked);
    drop(channel);
}

/// The other policy: the connection is not read from until the consumer is.
#[tokio::test(start_paused = true)]
async fn flood_of_deliveries_stalls_the_connection_where_that_was_asked_for() {
    let (mut peer, connection) = connected().await;
    let budget = 1 << 20;
    let consume = Consume::new(short!("q"))
        .no_ack()
        .budget(budget, Overflow::StallConnection);
    let (channel, on, mut consumer) = consuming(&mut peer, &connection, consume).await;
    let body = vec![0; 10_000];
    let mut last = 0;
    let sent = flood(&mut peer, 20 * budget, |tag| {
        last = tag;
        delivery(on, "c", tag, &body)
    })
    .await;
    assert!(sent <= 3 * budget, "{sent} bytes were taken");
    assert!(connection.is_open() && channel.closed().is_none());
    let mut tags = Vec::new();
    while let Ok(Some(delivery)) =
        tokio::time::timeout(Duration::from_secs(1), consumer.next()).await
    {
        tags.push(delivery.unwrap().tag().number());
    }
    let expected: Vec<u64> = (1..=tags.len() as u64).collect();
    assert_eq!(tags, expected);
    assert!(tags.len() as u64 >= last - 1);
}

/// A consumer that stalled the connection and is dropped, or given up before it was got, lets it go on.
#[tokio::test(start_paused = true)]
async fn stalled_connection_goes_on_when_its_consumer_is_gone() {
    for given_up in [true, false] {
        let (mut peer, connection) = connected().await;
        let (channel, on) = plain_channel(&mut peer, &connection).await;
        let consume = Consume::new(short!("q")).budget(1000, Overflow::StallConnection);
        let mut start = Box::pin(channel.consume(consume));
        assert!(poll_immediate(start.as_mut()).await.is_none());
        peer.expect::<basic::Consume>(on).await;
        peer.send(
            on,
            basic::ConsumeOk {
                consumer_tag: short!("c"),
            },
        )
        .await;
        for tag in 1..=3 {
            peer.send_deliver(on, "c", tag, &Properties::EMPTY, &[0; 600])
                .await;
        }
        settle().await;
        if given_up {
            drop(start);
        } else {
            drop(start.await.unwrap());
        }
        peer.skip_to::<basic::Cancel>(on).await;
        peer.send(
            on,
            basic::CancelOk {
                consumer_tag: short!("c"),
            },
        )
        .await;
        let declaring = channel.queue_declare(QueueDeclare::new(short!("q")));
        let server = async {
            peer.skip_to::<amqp_client::codec::queue::Declare>(on).await;
            peer.send(on, amqp_client::codec::queue::DeclareOk::default())
                .await;
        };
        let (declared, ()) = tokio::join!(declaring, server);
        declared.unwrap();
    }
}

/// Bytes that are a frame a byte at a time, and everything at once, come to the same.
#[tokio::test(start_paused = true)]
async fn frames_may_come_in_any_pieces() {
    for piece in [1, 2, 3, 7, 8, 100, 5000, 1_000_000] {
        let (mut peer, connection) = connected().await;
        let (_channel, on, mut consumer) =
            consuming(&mut peer, &connection, Consume::new(short!("q"))).await;
        let mut bytes = Vec::new();
        for tag in 1..=20 {
            bytes.extend(delivery(on, "c", tag, &vec![tag as u8; 1 << (tag / 2)]));
        }
        bytes.extend(delivery(on, "c", 21, &vec![21; 300_000]));
        let send = async {
            for piece in bytes.chunks(piece) {
                peer.send_bytes(piece.to_vec()).await;
            }
        };
        let receive = async {
            for tag in 1..=21_u64 {
                let delivery = consumer.next().await.unwrap().unwrap();
                let len = if tag == 21 { 300_000 } else { 1 << (tag / 2) };
                assert_eq!(
                    (delivery.tag().number(), delivery.body()),
                    (tag, &vec![tag as u8; len][..])
                );
                delivery.ack().unwrap();
            }
        };
        tokio::join!(send, receive);
        for _ in 1..=21 {
            peer.expect::<basic::Ack>(on).await;
        }
    }
}

/// Whose cancel is not answered yet may not be made to keep what the server likes either: neither while the cancel is
/// awaited, nor after its deadline has passed.
#[tokio::test(start_paused = true)]
async fn flood_of_deliveries_after_a_cancel_that_is_not_answered() {
    let budget = 256 * 1024;
    let limits = Limits {
        undelivered_bytes: 1 << 20,
        ..Limits::default()
    };
    for overflow in [Overflow::CloseChannel, Overflow::StallConnection] {
        let options = ConnectOptions::new().limits(limits);
        let (mut peer, connection) = connected_with(PIPE, Greeting::default(), options).await;
        let consume = Consume::new(short!("q")).no_ack().budget(budget, overflow);
        let (channel, on, mut consumer) = consuming(&mut peer, &connection, consume).await;
        let server = async {
            peer.expect::<basic::Cancel>(on).await;
            let body = [b'x'; 1000];
            flood(&mut peer, 64 << 20, |tag| delivery(on, "c", tag, &body)).await
        };
        let (cancelled, sent) = tokio::join!(consumer.cancel(), server);
        cancelled.unwrap_err();
        let mut kept = 0;
        while let Some(Some(Ok(delivery))) = poll_immediate(consumer.next()).await {
            kept += delivery.body().len();
        }
        assert!(
            kept <= budget + limits.undelivered_bytes,
            "{overflow:?}: {kept} bytes of {sent} were kept"
        );
        drop((consumer, channel));
    }
}

/// A stream that from some time on always has more to read, and knows nothing of tokio's budgets.
struct Endless {
    inner: DuplexStream,
    endless: Arc<std::sync::atomic::AtomicBool>,
}

impl AsyncRead for Endless {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.endless.load(Ordering::Relaxed) {
            // Heartbeats.
            while buf.remaining() >= 8 {
                buf.put_slice(&[8, 0, 0, 0, 0, 0, 0, 0xCE]);
            }
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl AsyncWrite for Endless {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// A peer that never stops keeps neither the connection's task nor its thread for ever, on whatever stream.
#[test]
fn a_close_ends_though_there_is_always_more_to_read() {
    on_a_thread(
        Duration::from_secs(20),
        "the close ends, and so does the task",
        async {
            let (mut peer, stream) = Peer::in_memory(64 * 1024);
            let endless = Arc::new(std::sync::atomic::AtomicBool::new(false));
            let stream = Endless {
                inner: stream,
                endless: endless.clone(),
            };
            let options = ConnectOptions::new().close_deadline(Duration::from_secs(1));
            let (connection, _) = tokio::join!(
                Connection::open_over(stream, options),
                peer.handshake(Greeting::default())
            );
            let connection = connection.unwrap();
            endless.store(true, Ordering::Relaxed);
            connection.close().await.unwrap_err();
        },
    );
}
