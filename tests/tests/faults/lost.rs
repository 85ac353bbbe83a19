//! A node that is killed, stopped or frozen, and an operator who closes the connection, while much is under way on it.

use std::time::{Duration, Instant};

use amqp_client::codec::ReplyCode;
use amqp_client::error::{CloseCause, Closed, Initiator};
use amqp_client::{Message, Outcome};
use amqp_tests::Broker;
use amqp_tests::broker::Vhost;

use crate::support::{confirm_channel, connect, no_connection_left, soon};
use crate::traffic::Traffic;

on_each_broker!(killed, stopped, frozen, closed_by_an_operator);

/// The next connection works.
async fn works(vhost: &Vhost) {
    let connection = connect(&vhost.uri).await;
    let channel = confirm_channel(&connection).await;
    let confirm = channel.publish("", "kept", Message::new("after").mandatory());
    let outcome = soon("an ack", confirm.await.unwrap()).await;
    assert_eq!(outcome, Outcome::Acked);
    connection.close().await.unwrap();
}

async fn killed(node: &Broker) {
    let vhost = node.vhost("lost").await;
    let traffic = Traffic::start(node, &vhost, 10).await;
    traffic.under_way().await;
    node.kill().await;
    let fates = traffic
        .ended(|closed| {
            closed.initiator == Initiator::Transport
                && matches!(
                    closed.cause,
                    Some(CloseCause::EndOfStream | CloseCause::Io(_))
                )
        })
        .await;
    node.start_again().await;
    fates.check(node, &vhost).await;
    works(&vhost).await;
}

fn forced(closed: &Closed, reason: &str) -> bool {
    closed.initiator == Initiator::Server
        && closed.code == ReplyCode::CONNECTION_FORCED
        && closed.method.is_none()
        && closed.text.to_string_lossy().contains(reason)
}

/// A node that goes while publishes to it are unread resets the connection, which can take its reason along.
fn reset(closed: &Closed) -> bool {
    closed.initiator == Initiator::Transport && matches!(closed.cause, Some(CloseCause::Io(_)))
}

async fn stopped(node: &Broker) {
    let vhost = node.vhost("lost").await;
    let traffic = Traffic::start(node, &vhost, 10).await;
    traffic.under_way().await;
    let (fates, ()) = tokio::join!(
        traffic.ended(|closed| forced(closed, "shutdown") || reset(closed)),
        node.stop()
    );
    node.start_again().await;
    fates.check(node, &vhost).await;
    works(&vhost).await;
}

async fn frozen(node: &Broker) {
    let vhost = node.vhost("lost").await;
    let traffic = Traffic::start(node, &vhost, 1).await;
    assert_eq!(traffic.connection.negotiated().unwrap().heartbeat, 1);
    traffic.under_way().await;
    node.pause();
    let began = Instant::now();
    let fates = traffic
        .ended(|closed| {
            closed.initiator == Initiator::Transport
                && matches!(closed.cause, Some(CloseCause::HeartbeatTimeout(_)))
        })
        .await;
    // Two intervals from the last byte on, and what the machine takes for the rest.
    let noticed = began.elapsed();
    assert!(noticed < Duration::from_millis(3_500), "{noticed:?}");
    node.resume();
    // It reads what had arrived, and only then that nobody is there any more.
    no_connection_left(node, &vhost).await;
    fates.check(node, &vhost).await;
    works(&vhost).await;
}

async fn closed_by_an_operator(node: &Broker) {
    let vhost = node.vhost("lost").await;
    let traffic = Traffic::start(node, &vhost, 10).await;
    traffic.under_way().await;
    let (fates, ()) = tokio::join!(
        traffic.ended(|closed| forced(closed, "maintenance at noon")),
        node.close_connections(&vhost.name, "maintenance at noon"),
    );
    no_connection_left(node, &vhost).await;
    fates.check(node, &vhost).await;
    works(&vhost).await;
}
