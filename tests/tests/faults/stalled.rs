//! Consumers that do not read: a hundred thousand messages of 1 KiB behind them on a node, a million of 16 bytes behind
//! one at a scripted peer. A node takes a minute to fill with a million: `AMQP_FAULTS_MESSAGES=1000000` asks for it.
//!
//! Memory is counted by process, so the client is in one of its own: this program again, with the one test that does
//! something only then.

use std::process::Stdio;
use std::time::{Duration, Instant};

use amqp_client::codec::basic::Properties;
use amqp_client::codec::{ReplyCode, Table, basic, channel, connection, content, frame, short};
use amqp_client::error::{CloseCause, Initiator};
use amqp_client::{Channel, ConnectOptions, Connection, Consume, Consumer, Overflow, QueueDeclare};
use amqp_tests::broker::Vhost;
use amqp_tests::peer::Greeting;
use amqp_tests::{Broker, Peer, Version};
use futures_util::StreamExt as _;
use tokio::net::TcpStream;

use crate::support::{channel as open_channel, name, raw, soon, until};

on_each_broker!(on_a_node);

/// How many messages there are for another consumer on a node.
const OTHERS: u32 = 20_000;
/// How many bytes are behind the one that does not read, in as many messages as [`many`] says.
const BYTES: usize = 100 << 20;
const FILLED_AT_ONCE: usize = 100_000;
/// How many are behind one at a peer; every tenth is followed by one for another consumer.
const MILLION: u64 = 1_000_000;
/// Tell this program that it is the child, and where the node or the peer is.
const NODE: &str = "AMQP_FAULTS_STALLED_NODE";
const PEER: &str = "AMQP_FAULTS_STALLED_PEER";

fn many() -> u32 {
    match std::env::var("AMQP_FAULTS_MESSAGES") {
        Ok(count) => count.parse().expect("AMQP_FAULTS_MESSAGES is a number"),
        Err(_) => 100_000,
    }
}

/// The client of this test, in a process of its own.
async fn client(test: &str, variable: &str, uri: &str) {
    let output = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(variable, uri)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    // It has run: not the wrong name, not the wrong variable.
    assert!(text.contains("all of it was right"), "{text}");
    println!("{text}");
}

async fn on_a_node(node: &Broker) {
    let vhost = node.vhost("stalled").await;
    let mut declaring = raw(node.address(), &vhost).await;
    for (queue, count, size) in [
        ("many", many(), BYTES / many() as usize),
        ("other", OTHERS, 16),
    ] {
        declaring.declare(1, queue, Table::default()).await;
        for begun in (0..count).step_by(FILLED_AT_ONCE) {
            let end = count.min(begun + FILLED_AT_ONCE as u32);
            fill(node, &vhost, queue, end - begun, size).await;
            until("all are in the queue", async || {
                declaring.message_count(1, queue).await == end
            })
            .await;
        }
    }
    client("stalled::child_on_a_node", NODE, &vhost.uri).await;
    // Nothing was lost of what nobody acked.
    until("all are back", async || {
        declaring.message_count(1, "many").await == many()
    })
    .await;
}

/// Has the node put messages into a classic queue, without a client.
async fn fill(node: &Broker, vhost: &Vhost, queue: &str, count: u32, size: usize) {
    let deliver = match node.version() {
        Version::V3_10 => {
            "{ok, M} = rabbit_basic:message(X, R, C), \
             D = rabbit_basic:delivery(false, false, M, undefined), \
             F = fun() -> rabbit_queue_type:deliver([Q], D, stateless) end"
        }
        Version::V4_0 | Version::V4_3 => {
            "{ok, M} = mc_amqpl:message(X, R, C), \
             F = fun() -> rabbit_queue_type:deliver([Q], M, #{}, stateless) end"
        }
    };
    let vhost = &vhost.name;
    node.eval(&format!(
        "{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<\"{vhost}\">>, queue, <<\"{queue}\">>)), \
         X = rabbit_misc:r(<<\"{vhost}\">>, exchange, <<>>), R = <<\"{queue}\">>, \
         C = rabbit_basic:build_content(list_to_tuple(['P_basic' | lists:duplicate(14, undefined)]), \
                                        binary:copy(<<\"x\">>, {size})), \
         {deliver}, [F() || _ <- lists:seq(1, {count})], ok"
    ))
    .await;
}

/// How much memory this process has had in use at most since [`forget_peak`], in KiB.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse().unwrap()
}

/// Has the system count anew; how much is in use now, in KiB.
fn forget_peak() -> usize {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    peak()
}

async fn connect(uri: &str, heartbeat: u16) -> Connection {
    let options = ConnectOptions::try_from(uri).unwrap().heartbeat(heartbeat);
    let connection = soon("a connection", Connection::open(options))
        .await
        .unwrap();
    assert_eq!(connection.negotiated().unwrap().heartbeat, heartbeat);
    connection
}

async fn consume(channel: &Channel, consume: Consume) -> Consumer {
    soon("consume-ok", channel.consume(consume)).await.unwrap()
}

/// How long a consumer takes for some thousand messages.
async fn time_of(consumer: &mut Consumer) -> Duration {
    let began = Instant::now();
    for number in 1..=OTHERS / 4 {
        let delivery = soon("a delivery", consumer.next()).await.unwrap().unwrap();
        if number % 100 == 0 {
            delivery.acker().ack_multiple().unwrap();
        }
    }
    began.elapsed()
}

#[tokio::test]
async fn child_on_a_node() {
    // Started by the test above; by itself it has nothing to do.
    let Ok(uri) = std::env::var(NODE) else { return };
    let began = Instant::now();
    let connection = connect(&uri, 1).await;
    let other = open_channel(&connection).await;
    other.qos(500, false).await.unwrap();
    let mut others = consume(&other, Consume::new(short!("other"))).await;
    let alone = time_of(&mut others).await;

    // With a prefetch limit the messages stay with the node.
    let limited = open_channel(&connection).await;
    limited.qos(1000, false).await.unwrap();
    let before = forget_peak();
    let stalled = consume(&limited, Consume::new(short!("many"))).await;
    let passive = || QueueDeclare::new(short!("many")).passive();
    until("the limit is used up", async || {
        limited
            .queue_declare(passive())
            .await
            .unwrap()
            .message_count
            == many() - 1000
    })
    .await;
    let beside = time_of(&mut others).await;
    let grown = peak() - before;
    println!("alone {alone:?}, beside a stalled one with prefetch {beside:?}, {grown} KiB more");
    assert!(grown < 6 * 1024, "{grown} KiB");
    assert!(beside < 3 * alone + Duration::from_millis(500));
    drop(stalled);
    limited.close().await.unwrap();

    // Without one they come here, until it is too much. The others go on meanwhile.
    let budget = 8 << 20;
    let unlimited = open_channel(&connection).await;
    let mut events = connection.events();
    let before = forget_peak();
    let eager = Consume::new(short!("many")).budget(budget, Overflow::CloseChannel);
    let stalled = consume(&unlimited, eager).await;
    let flooded = time_of(&mut others).await;
    let event = soon("the end of the channel", events.next()).await;
    let grown = peak() - before;
    println!("beside a flood {flooded:?}, {grown} KiB more");
    assert!(grown < 3 * 8 * 1024, "{grown} KiB");
    let Some(amqp_client::Event::ChannelClosed { channel, closed }) = event else {
        panic!("{event:?}");
    };
    assert_eq!(channel, unlimited.id());
    assert_eq!(closed.initiator, Initiator::Library);
    assert_eq!(closed.code, ReplyCode::RESOURCE_ERROR);
    assert_eq!(closed.cause, Some(CloseCause::ConsumerOverflow { budget }));
    let got: Vec<_> = soon("what had come", stalled.collect()).await;
    let (error, deliveries) = got.split_last().unwrap();
    assert_eq!(error.as_ref().unwrap_err().0, closed);
    assert!(
        deliveries.len() < many() as usize / 2,
        "{}",
        deliveries.len()
    );
    drop(got);
    let after = time_of(&mut others).await;
    println!("afterwards {after:?}");
    assert!(after < 3 * alone + Duration::from_millis(500));

    // Heartbeats were kept all the time.
    tokio::time::sleep(Duration::from_millis(3_300).saturating_sub(began.elapsed())).await;
    assert!(connection.is_open() && other.closed().is_none());
    connection.close().await.unwrap();
    tokio::join!(stall(&uri, 0), stall(&uri, 1));
    println!("all of it was right");
}

/// The other policy: the connection is not read from until the consumer is.
async fn stall(uri: &str, heartbeat: u16) {
    let connection = connect(uri, heartbeat).await;
    let (channel, other) = (
        open_channel(&connection).await,
        open_channel(&connection).await,
    );
    let before = forget_peak();
    let eager = Consume::new(short!("many")).budget(1 << 20, Overflow::StallConnection);
    let mut stalled = consume(&channel, eager).await;
    let began = Instant::now();
    if heartbeat > 0 {
        // Whoever does not read does not hear the node either.
        let closed = soon("the end", connection.closed()).await;
        let cause = &closed.cause;
        assert!(
            matches!(cause, Some(CloseCause::HeartbeatTimeout(_))),
            "{closed:?}"
        );
        assert!(began.elapsed() >= Duration::from_secs(2));
        return;
    }
    // Full: a call on another channel is not answered any more.
    let call = tokio::spawn(async move {
        loop {
            let declare = QueueDeclare::new(short!("other")).passive();
            let answer =
                tokio::time::timeout(Duration::from_millis(500), other.queue_declare(declare));
            if answer.await.is_err() {
                return other;
            }
        }
    });
    let other = soon("the connection stalls", call).await.unwrap();
    assert!(connection.is_open() && channel.closed().is_none());
    let grown = peak() - before;
    println!("stalled, {grown} KiB more");
    assert!(grown < 8 * 1024, "{grown} KiB");
    // Read, it goes on.
    let declare = QueueDeclare::new(short!("other")).passive();
    let mut call = std::pin::pin!(other.queue_declare(declare));
    let mut tag = 0;
    let answer = loop {
        tokio::select! {
            answer = &mut call => break answer,
            delivery = stalled.next() => {
                let delivery = delivery.unwrap().unwrap();
                assert_eq!(delivery.tag().number(), tag + 1);
                tag += 1;
            }
        }
    };
    answer.unwrap();
    println!("{tag} read before the answer");
    assert!(tag > 1000, "{tag}");
    drop(stalled);
    connection.close().await.unwrap();
}

/// Writes, without a transcript.
async fn write(stream: &TcpStream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        soon("room", stream.writable()).await.unwrap();
        match stream.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
}

#[tokio::test]
async fn a_million_from_a_peer() {
    let listener = Peer::listen().await;
    let uri = listener.uri();
    let running = tokio::spawn(async move {
        client("stalled::child_at_a_peer", PEER, &uri).await;
    });
    let mut peer = listener.accept().await;
    let greeting = Greeting {
        tune: connection::Tune {
            heartbeat: 1,
            ..Greeting::default().tune
        },
        ..Greeting::default()
    };
    peer.handshake(greeting).await;
    let stalled = peer.open_channel().await;
    let other = peer.open_channel().await;
    for (on, tag) in [(stalled, "stalled"), (other, "other")] {
        let ok = basic::ConsumeOk {
            consumer_tag: name(tag),
        };
        peer.reply::<basic::Consume<'static>>(on, ok).await;
    }

    let mut bytes = Vec::new();
    let deliver = |on: u16, consumer: &'static str, delivery_tag: u64, bytes: &mut Vec<u8>| {
        let deliver = basic::Deliver {
            consumer_tag: name(consumer),
            delivery_tag,
            routing_key: short!("q"),
            ..Default::default()
        };
        let body = b"0123456789abcdef";
        content::encode(on, &deliver, &Properties::EMPTY, body, 131_072, bytes).unwrap();
    };
    let began = Instant::now();
    for tag in 1..=MILLION {
        deliver(stalled, "stalled", tag, &mut bytes);
        if tag % 10 == 0 {
            deliver(other, "other", tag / 10, &mut bytes);
        }
        if tag % 1000 == 0 {
            write(peer.stream(), &bytes).await;
            bytes.clear();
        }
    }
    let flooded = began.elapsed();
    let close = peer.skip_to::<channel::Close<'static>>(stalled).await;
    assert_eq!(close.reply_code, ReplyCode::RESOURCE_ERROR);
    peer.send(stalled, channel::CloseOk {}).await;
    peer.skip_to::<connection::Close<'static>>(0).await;
    peer.send(0, connection::CloseOk {}).await;
    // All the while it has said every half second that it is there; it may be late.
    let beats = peer.transcript().frames();
    let beats = beats.filter(|(_, frame)| frame.kind == frame::HEARTBEAT);
    let beats = beats.count() as u64;
    println!("{beats} heartbeats in {flooded:?}");
    assert!(beats >= flooded.as_secs(), "{beats} in {flooded:?}");
    soon("the client's end", running).await.unwrap();
}

#[tokio::test]
async fn child_at_a_peer() {
    // Started by the test above; by itself it has nothing to do.
    let Ok(uri) = std::env::var(PEER) else { return };
    let connection = connect(&uri, 1).await;
    let (channel, other) = (
        open_channel(&connection).await,
        open_channel(&connection).await,
    );
    let before = forget_peak();
    // As large as it is unless said.
    let stalled = consume(&channel, Consume::new(short!("q"))).await;
    let mut others = consume(&other, Consume::new(short!("q")).no_ack()).await;
    let began = Instant::now();
    for tag in 1..=MILLION / 10 {
        let delivery = soon("a delivery", others.next()).await.unwrap().unwrap();
        assert_eq!(delivery.tag().number(), tag);
    }
    let (took, grown) = (began.elapsed(), peak() - before);
    println!("all of the other's in {took:?}, {grown} KiB more");
    let closed = channel.closed().expect("it is closed");
    let budget = 64 << 20;
    assert_eq!(closed.cause, Some(CloseCause::ConsumerOverflow { budget }));
    assert!(grown < 2 * 64 * 1024, "{grown} KiB");
    let got = soon("what had come", stalled.count()).await;
    println!("{got} had come");
    assert!(other.closed().is_none() && connection.is_open());
    connection.close().await.unwrap();
    println!("all of it was right");
}
