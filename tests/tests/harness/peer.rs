//! The scripted server, with the raw client on the other side.

use std::time::Duration;

use amqp_codec::{
    DecodeErrorKind, RawFrame, ReplyCode, basic, channel, connection, frame, queue, short, table,
};
use amqp_tests::peer::{Greeting, Peer};
use amqp_tests::raw::{Login, RawClient};
use amqp_tests::wire::{Direction, Event};

/// Runs both sides at once.
async fn both<A, B>(peer: impl Future<Output = A>, client: impl Future<Output = B>) -> (A, B) {
    tokio::join!(peer, client)
}

#[tokio::test]
async fn handshake_publish_return_ack_and_close_over_tcp() {
    let listener = Peer::listen().await;
    let body = vec![7; 10_000];
    let server = async {
        let mut peer = listener.accept().await;
        let tune = connection::Tune {
            channel_max: 9,
            frame_max: 4096,
            heartbeat: 0,
        };
        let greeted = peer
            .handshake(Greeting {
                tune,
                ..Default::default()
            })
            .await;
        assert_eq!(greeted.open.virtual_host, "/");
        assert_eq!(greeted.start_ok.response.as_bytes(), b"\0guest\0guest");
        assert_eq!(greeted.tune_ok.frame_max, 4096);
        let channel = peer.open_confirm_channel().await;
        let publish = peer.expect_publish().await;
        assert_eq!(publish.channel, channel);
        assert_eq!(publish.method.routing_key, "key");
        assert_eq!(publish.body, body);
        peer.send_return(&publish, ReplyCode::NO_ROUTE, "NO_ROUTE")
            .await;
        peer.send_ack(channel, 1, false).await;
        let declare = peer.accept_queue(channel).await;
        assert!(declare.queue.is_empty());
        let close = peer.accept_close().await;
        assert_eq!(close.reply_code.0, 200);
        // 10,000 bytes at 4,088 a frame.
        let bodies = peer.transcript().frames().filter(|(direction, frame)| {
            *direction == Direction::Received && frame.kind == frame::BODY
        });
        assert_eq!(bodies.count(), 3);
    };
    let client = async {
        let mut client = RawClient::open(listener.address(), "/").await;
        client.open_confirm_channel(3).await;
        client.publish(3, "exchange", "key", &body).await;
        let returned = client.expect_content::<basic::Return>(3).await;
        assert_eq!(
            (returned.method.reply_code, &returned.body[..]),
            (ReplyCode::NO_ROUTE, &body[..])
        );
        assert_eq!(returned.method.exchange, "exchange");
        client.expect::<basic::Ack>(3).await;
        let declared: queue::DeclareOk = client.call(3, queue::Declare::default()).await;
        assert_eq!(declared.queue, "amq.gen-scripted");
        client.close().await;
    };
    both(server, client).await;
}

#[tokio::test(start_paused = true)]
async fn waits_take_virtual_time_in_memory() {
    let began = std::time::Instant::now();
    let (mut peer, stream) = Peer::in_memory(64 * 1024);
    let mut client = RawClient::new(stream);
    both(
        peer.handshake(Greeting::default()),
        client.handshake(Login::default()),
    )
    .await;
    let virtually = tokio::time::Instant::now();
    peer.expect_silence(Duration::from_secs(3600)).await;
    assert_eq!(virtually.elapsed().as_secs(), 3600);
    client.send_heartbeat().await;
    peer.expect_heartbeat().await;
    drop(client);
    assert_eq!(peer.expect_end().await, Event::Eof);
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn failed_expectation_says_where_what_came_and_what_went_before() {
    let (mut peer, stream) = Peer::in_memory(64 * 1024);
    let mut client = RawClient::new(stream);
    client.send(5, channel::Open::default()).await;
    client
        .send(
            5,
            basic::Qos {
                prefetch_count: 17,
                ..Default::default()
            },
        )
        .await;
    let failed = tokio::spawn(async move {
        peer.open_channel().await;
        peer.expect::<basic::Consume>(5).await
    });
    let panic = failed
        .await
        .expect_err("it expected something else")
        .into_panic();
    let message = *panic.downcast::<String>().unwrap();
    assert!(message.contains("harness/peer.rs:"), "{message}");
    assert!(
        message.contains("expected basic.consume on channel 5, got basic.qos on channel 5"),
        "{message}"
    );
    assert!(message.contains("< channel.open on channel 5"), "{message}");
    assert!(
        message.contains("> channel.open-ok on channel 5"),
        "{message}"
    );
    assert!(message.contains("prefetch_count: 17"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn wait_without_an_end_fails_at_its_deadline() {
    let (mut peer, client) = Peer::in_memory(1024);
    let failed = tokio::spawn(async move {
        peer.set_deadline(Duration::from_secs(3));
        peer.expect_publish().await;
    });
    let message = *failed
        .await
        .unwrap_err()
        .into_panic()
        .downcast::<String>()
        .unwrap();
    assert!(
        message.contains("expected basic.publish, got nothing for 3s"),
        "{message}"
    );
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn client_that_breaks_frame_max_is_found_out() {
    let (mut peer, stream) = Peer::in_memory(64 * 1024);
    let mut client = RawClient::new(stream);
    let tune = connection::Tune {
        frame_max: 5000,
        ..Greeting::default().tune
    };
    both(
        peer.handshake(Greeting {
            tune,
            ..Default::default()
        }),
        client.handshake(Login::default()),
    )
    .await;
    let payload = vec![0; 4993];
    client
        .send_frame(RawFrame {
            kind: frame::METHOD,
            channel: 1,
            payload: &payload,
        })
        .await;
    let Event::Malformed(error) = peer.next().await else {
        panic!("the frame is one byte too large")
    };
    assert_eq!(
        error.kind,
        DecodeErrorKind::FrameTooLarge {
            size: 5001,
            max: 5000
        }
    );
    // What follows cannot be told apart, the end can.
    client.send_heartbeat().await;
    drop(client);
    assert_eq!(peer.next().await, Event::Eof);
}

#[tokio::test(start_paused = true)]
async fn channels_do_not_wait_for_each_other() {
    let (mut peer, stream) = Peer::in_memory(64 * 1024);
    let mut client = RawClient::new(stream);
    let method = basic::Publish {
        routing_key: short!("a"),
        ..Default::default()
    };
    let mut wire = Vec::new();
    amqp_codec::content::encode(
        1,
        &method,
        &basic::Properties::EMPTY,
        b"one",
        4096,
        &mut wire,
    )
    .unwrap();
    // The header of channel 1 is followed by a method on channel 2.
    let (first, second) = wire.split_at(wire.len() - 11);
    client.send_bytes(first.to_vec()).await;
    client
        .send(
            2,
            queue::Declare {
                queue: short!("q"),
                arguments: table! {},
                ..Default::default()
            },
        )
        .await;
    client.send_bytes(second.to_vec()).await;
    let publish = peer.expect_publish().await;
    assert_eq!((publish.channel, &publish.body[..]), (1, &b"one"[..]));
    let (channel, declare) = peer.expect_any::<queue::Declare>().await;
    assert_eq!((channel, declare.queue.as_bytes()), (2, &b"q"[..]));
}

#[tokio::test]
async fn reset_is_not_taken_for_the_end_of_the_stream() {
    let listener = Peer::listen().await;
    let mut client = RawClient::connect(listener.address()).await;
    let peer = listener.accept().await;
    peer.reset();
    assert!(matches!(client.next().await, Event::Reset(_)));

    let mut client = RawClient::connect(listener.address()).await;
    let mut peer = listener.accept().await;
    peer.half_close().await.unwrap();
    assert_eq!(client.next().await, Event::Eof);
    client.send_heartbeat().await;
    peer.expect_heartbeat().await;
}
