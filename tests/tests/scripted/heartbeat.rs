//! Heartbeats, in virtual time: we send after half an interval of silence, and give up after two of the peer's.

use std::time::Duration;

use amqp_client::codec::{connection, frame};
use amqp_client::error::{CloseCause, Initiator};
use amqp_client::{ConfirmOptions, ConnectOptions, Connection, Message, Outcome, UnknownReason};
use amqp_tests::peer::Greeting;
use amqp_tests::wire::Event;
use tokio::time::{Instant, sleep};

use super::support::{
    MemoryPeer, PIPE, confirm_channel, connected_with, no_task_left, settle, timed,
};

const INTERVAL: Duration = Duration::from_secs(10);

fn greeting(heartbeat: u16) -> Greeting {
    Greeting {
        tune: connection::Tune {
            heartbeat,
            ..Greeting::default().tune
        },
        ..Default::default()
    }
}

async fn beating() -> (MemoryPeer, Connection) {
    connected_with(PIPE, greeting(10), ConnectOptions::new()).await
}

fn is_heartbeat(event: &Event) -> bool {
    matches!(event, Event::Frame(frame) if frame.kind == frame::HEARTBEAT && frame.channel == 0)
}

#[tokio::test(start_paused = true)]
async fn smaller_interval_wins() {
    for (server, ours, agreed) in [
        (60, Some(10), 10),
        (10, Some(60), 10),
        (0, Some(7), 7),
        (60, None, 60),
    ] {
        let options = match ours {
            Some(seconds) => ConnectOptions::new().heartbeat(seconds),
            None => ConnectOptions::new(),
        };
        let (_peer, connection) = connected_with(PIPE, greeting(server), options).await;
        assert_eq!(connection.negotiated().unwrap().heartbeat, agreed);
    }
}

#[tokio::test(start_paused = true)]
async fn we_send_after_half_an_interval_of_silence() {
    let (mut peer, connection) = beating().await;
    for _ in 0..100 {
        // The peer sends too, so that it does not count as gone.
        peer.send_heartbeat().await;
        let (event, took) = timed(peer.next()).await;
        assert!(is_heartbeat(&event), "{event}");
        assert_eq!(took.as_secs_f64().round(), 5.0);
    }
    assert!(connection.is_open());
}

/// Whatever we send counts: no heartbeats among publishes.
#[tokio::test(start_paused = true)]
async fn traffic_of_ours_takes_the_place_of_heartbeats() {
    let (mut peer, connection) = beating().await;
    let (channel, _) = super::support::plain_channel(&mut peer, &connection).await;
    for _ in 0..50 {
        sleep(Duration::from_secs(4)).await;
        channel.publish("", "q", Message::new("x")).await.unwrap();
        // `expect_publish` would skip heartbeats.
        let event = peer.next().await;
        let method = event.method().expect("a publish, no heartbeat");
        let method =
            <amqp_client::codec::basic::Publish as amqp_tests::wire::Typed>::from_method(method);
        peer.content_of(1, method.unwrap()).await;
        peer.send_heartbeat().await;
    }
}

#[tokio::test(start_paused = true)]
async fn silent_peer_is_gone_after_two_intervals() {
    let (mut peer, connection) = beating().await;
    let (channel, _) = confirm_channel(&mut peer, &connection, ConfirmOptions::default()).await;
    let confirm = channel.publish("", "q", Message::new("x")).await.unwrap();
    let declare = channel.queue_declare(amqp_client::QueueDeclare::default());
    let ((closed, took), outcome, declared) =
        tokio::join!(timed(connection.closed()), confirm, declare);
    assert!(
        took >= INTERVAL * 2 && took <= INTERVAL * 2 + Duration::from_secs(1),
        "{took:?}"
    );
    assert_eq!(closed.initiator, Initiator::Transport);
    let Some(CloseCause::HeartbeatTimeout(silence)) = closed.cause else {
        panic!("{closed}")
    };
    assert!(silence >= INTERVAL * 2);
    assert!(matches!(
        outcome,
        Outcome::Unknown {
            reason: UnknownReason::ConnectionClosed { written: true, .. },
            ..
        }
    ));
    assert!(declared.is_err());
    drop((peer, connection, channel));
    no_task_left().await;
}

/// The peer is silent though we are not, and it reads.
#[tokio::test(start_paused = true)]
async fn peer_that_only_reads_is_gone_too() {
    let (mut peer, connection) = beating().await;
    let (channel, _) = super::support::plain_channel(&mut peer, &connection).await;
    let began = Instant::now();
    let mut sent = 0;
    while channel.publish("", "q", Message::new("x")).await.is_ok() {
        sent += 1;
        peer.expect_publish().await;
        sleep(Duration::from_secs(1)).await;
    }
    assert!((19..=21).contains(&sent), "{sent}");
    assert!(began.elapsed() <= INTERVAL * 2 + Duration::from_secs(1));
}

/// Any byte is a sign of life: part of a frame, too.
#[tokio::test(start_paused = true)]
async fn part_of_a_frame_is_a_sign_of_life() {
    let (mut peer, connection) = beating().await;
    let mut bytes = Vec::new();
    let blocked = connection::Blocked {
        reason: amqp_client::codec::short!("a long reason"),
    };
    frame::encode_method(0, &blocked, &mut bytes).unwrap();
    for byte in bytes {
        sleep(INTERVAL * 2 - Duration::from_secs(1)).await;
        assert!(connection.is_open());
        peer.send_bytes(vec![byte]).await;
    }
    settle().await;
    assert!(connection.blocked().is_some());
}

/// A peer that reads nothing while bytes of ours wait: heartbeats do not pile up, and we still notice when it is gone.
#[tokio::test(start_paused = true)]
async fn heartbeats_do_not_pile_up_when_nothing_is_read() {
    let (mut peer, connection) = connected_with(2048, greeting(10), ConnectOptions::new()).await;
    let (channel, _) = super::support::plain_channel(&mut peer, &connection).await;
    channel
        .publish("", "q", Message::new(vec![0; 10_000]))
        .await
        .unwrap();
    for _ in 0..1000 {
        sleep(INTERVAL).await;
        peer.send_heartbeat().await;
    }
    assert!(connection.is_open());
    let publish = peer.expect_publish().await;
    assert_eq!(publish.body.len(), 10_000);
    let mut heartbeats = 0;
    while is_heartbeat(&peer.next_within(Duration::from_secs(1)).await) {
        heartbeats += 1;
    }
    assert!(heartbeats <= 1, "{heartbeats} heartbeats had piled up");
    let (closed, took) = timed(connection.closed()).await;
    assert!(matches!(
        closed.cause,
        Some(CloseCause::HeartbeatTimeout(_))
    ));
    assert!(took <= INTERVAL * 2 + Duration::from_secs(1));
}

/// The heartbeat watches over a close as well.
#[tokio::test(start_paused = true)]
async fn silent_peer_is_noticed_while_closing() {
    let options = ConnectOptions::new().close_deadline(Duration::from_secs(3600));
    let (_peer, connection) = connected_with(PIPE, greeting(10), options).await;
    let (result, took) = timed(connection.close()).await;
    let error = result.unwrap_err();
    let cause = &error.closed().unwrap().cause;
    assert!(
        matches!(cause, Some(CloseCause::HeartbeatTimeout(_))),
        "{error}"
    );
    assert!(took <= INTERVAL * 2 + Duration::from_secs(1), "{took:?}");
}
