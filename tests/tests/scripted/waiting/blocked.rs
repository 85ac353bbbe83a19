//! Brokers that take no publishes for a while: connection.blocked and channel.flow.

use std::time::Duration;

use amqp_client::codec::{connection, short};
use amqp_client::error::{CloseCause, ErrorKind, NotSent};
use amqp_client::{ConfirmOptions, Message, Outcome, UnknownReason};

use crate::support::{
    confirm_channel, confirming, confirming_with, connected, mandatory, no_task_left, timed,
};

use super::{block, given_back, publish};

#[tokio::test(start_paused = true)]
async fn publishes_wait_while_the_broker_blocks_and_go_on_when_it_does_not() {
    let (mut peer, connection, channel, on) = confirming().await;
    block(&mut peer).await;
    assert_eq!(connection.blocked(), Some(short!("low on memory")));
    let waiting = tokio::spawn({
        let channel = channel.clone();
        async move { (publish(&channel, "1").await, publish(&channel, "2").await) }
    });
    peer.expect_silence(Duration::from_secs(20)).await;
    // What is no publish goes on.
    let declare = channel.queue_declare(amqp_client::QueueDeclare::new(short!("q")));
    let (declared, _) = tokio::join!(declare, peer.accept_queue(on));
    assert_eq!(declared.unwrap().name, "q");
    peer.send(0, connection::Unblocked {}).await;
    for body in ["1", "2"] {
        assert_eq!(peer.expect_publish().await.body, body);
    }
    assert_eq!(connection.blocked(), None);
    peer.send_ack(on, 2, true).await;
    let (first, second) = waiting.await.unwrap();
    assert_eq!(first.unwrap().await, Outcome::Acked);
    assert_eq!(second.unwrap().await, Outcome::Acked);
}

#[tokio::test(start_paused = true)]
async fn message_comes_back_when_the_broker_blocks_for_too_long() {
    let wait = Duration::from_secs(3);
    let options = ConfirmOptions::default().wait(wait);
    let (mut peer, _connection, channel, _) = confirming_with(options).await;
    block(&mut peer).await;
    let refused = channel.try_publish("e", "k", mandatory("0"));
    assert_eq!(given_back(refused), (NotSent::Blocked, "0".to_owned()));
    let tried = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        channel.try_publish("e", "k", mandatory("3"))
    };
    let (first, second, third) = tokio::join!(
        timed(publish(&channel, "1")),
        timed(publish(&channel, "2")),
        tried
    );
    for ((result, took), body) in [(first, "1"), (second, "2")] {
        assert_eq!(given_back(result), (NotSent::Blocked, body.to_owned()));
        assert_eq!(took, wait);
    }
    // Though somebody waits, that is not why.
    assert_eq!(given_back(third), (NotSent::Blocked, "3".to_owned()));
    peer.expect_silence(Duration::from_secs(1)).await;
}

/// Plain publishes wait too, as long as is documented.
#[tokio::test(start_paused = true)]
async fn plain_message_comes_back_when_the_broker_blocks_for_too_long() {
    let (mut peer, connection) = connected().await;
    let (channel, _) = crate::support::plain_channel(&mut peer, &connection).await;
    block(&mut peer).await;
    let (result, took) = timed(channel.publish("e", "k", Message::new("x"))).await;
    let error = result.unwrap_err();
    assert_eq!(
        (error.reason, took),
        (NotSent::Blocked, Duration::from_secs(30))
    );
    assert_eq!(error.publication.message.body(), "x".as_bytes());
}

/// The server reads nothing while it blocks: every call of ours ends at its deadline all the same.
#[tokio::test(start_paused = true)]
async fn every_call_ends_while_the_broker_blocks_and_answers_nothing() {
    let (mut peer, connection, channel, _) = confirming().await;
    let confirm = publish(&channel, "sent before").await.unwrap();
    peer.expect_publish().await;
    block(&mut peer).await;
    let half_a_minute = Duration::from_secs(30);
    let qos = async { channel.qos(1, false).await };
    let (rpc, took) = timed(qos).await;
    assert_eq!(
        (rpc.unwrap_err().kind(), took),
        (ErrorKind::Timeout, half_a_minute)
    );
    let Outcome::Unknown { reason, .. } = confirm.await else {
        panic!("nobody confirmed it")
    };
    assert_eq!(reason, UnknownReason::TimedOut);
    let (closed, took) = timed(connection.close()).await;
    let closed = closed.unwrap_err();
    assert_eq!(
        closed.closed().unwrap().cause,
        Some(CloseCause::CloseTimeout)
    );
    assert!(took <= half_a_minute + Duration::from_secs(1), "{took:?}");
    drop((connection, channel));
    no_task_left().await;
}

/// channel.flow: the server asks for a pause on one channel.
#[tokio::test(start_paused = true)]
async fn publishes_wait_while_the_server_stops_the_flow() {
    let (mut peer, connection, channel, on) = confirming().await;
    let (other, other_on) =
        confirm_channel(&mut peer, &connection, ConfirmOptions::default()).await;
    let flow = |active| amqp_client::codec::channel::Flow {
        active,
        ..Default::default()
    };
    peer.send(on, flow(false)).await;
    let ok: amqp_client::codec::channel::FlowOk = peer.expect(on).await;
    assert!(!ok.active);
    assert_eq!(
        given_back(channel.try_publish("e", "k", mandatory("0"))).0,
        NotSent::Full
    );
    let waiting = tokio::spawn({
        let channel = channel.clone();
        async move { publish(&channel, "1").await.unwrap().await }
    });
    // Others are not concerned.
    let kept = publish(&other, "other").await.unwrap();
    assert_eq!(peer.expect_publish().await.channel, other_on);
    peer.send_ack(other_on, 1, false).await;
    assert_eq!(kept.await, Outcome::Acked);
    peer.expect_silence(Duration::from_secs(10)).await;
    peer.send(on, flow(true)).await;
    let ok: amqp_client::codec::channel::FlowOk = peer.expect(on).await;
    assert!(ok.active);
    assert_eq!(peer.expect_publish().await.body, "1");
    peer.send_ack(on, 1, false).await;
    assert_eq!(waiting.await.unwrap(), Outcome::Acked);
}
