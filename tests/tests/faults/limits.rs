//! Limits of the node's own, set low: for the handshake, for consumers, for the size of a message.

use std::time::{Duration, Instant};

use amqp_client::codec::{MethodId, ReplyCode, short};
use amqp_client::error::{CloseCause, HandshakeError, Initiator, UsageError};
use amqp_client::{ConnectOptions, Connection, Consume, Message, Outcome, UnknownReason};
use amqp_tests::proxy::{Faults, Plan};
use amqp_tests::{Broker, Proxy};

use crate::node::set;
use crate::support::{channel, confirm_channel, connect, declare, raw, soon, until};

on_each_broker!(
    handshake_that_takes_too_long,
    consumer_that_does_not_ack_in_time,
    message_that_is_too_large,
);

async fn handshake_that_takes_too_long(node: &Broker) {
    set(node, "handshake_timeout", "700").await;
    let proxy = Proxy::start(node.address()).await;
    // After the protocol header nothing of ours arrives.
    proxy.plan(Plan {
        to_server: Faults::default().hold_at(8),
        ..Plan::default()
    });
    let options = ConnectOptions::try_from(proxy.uri("%2f").as_str()).unwrap();
    let began = Instant::now();
    let error = soon("an end", Connection::open(options)).await.unwrap_err();
    // The node's patience is over, ours is not.
    assert!(began.elapsed() < Duration::from_secs(8), "{error}");
    let Some(HandshakeError::CredentialsProbablyRefused(closed)) = error.handshake() else {
        panic!("{error:?}");
    };
    assert_eq!(closed.initiator, Initiator::Transport);
    assert!(matches!(
        closed.cause,
        Some(CloseCause::EndOfStream | CloseCause::Io(_))
    ));
}

async fn consumer_that_does_not_ack_in_time(node: &Broker) {
    set(node, "consumer_timeout", "500").await;
    set(node, "channel_tick_interval", "300").await;
    let vhost = node.vhost("limits").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    let slow = channel(&connection).await;
    let other = confirm_channel(&connection).await;
    let confirm = other.publish("", "q", Message::new("x")).await.unwrap();
    assert_eq!(soon("an ack", confirm).await, Outcome::Acked);
    let mut consumer = slow.consume(Consume::new(short!("q"))).await.unwrap();
    let delivery = soon("a delivery", consumer.next()).await.unwrap().unwrap();
    let end = soon("the end", consumer.next()).await.expect("an error");
    let closed = end.unwrap_err().0;
    assert_eq!(closed.initiator, Initiator::Server);
    assert_eq!(closed.code, ReplyCode::PRECONDITION_FAILED, "{closed}");
    assert_eq!(closed.method, None);
    assert!(
        closed.text.to_string_lossy().contains("timed out"),
        "{closed}"
    );
    assert!(consumer.next().await.is_none());
    // Too late; the connection is not concerned, and the message comes again.
    assert_eq!(
        delivery.ack(),
        Err(UsageError::ChannelClosed(closed.clone()))
    );
    let mut again = None;
    until("the message is back", async || {
        again = other.get("q", false).await.unwrap();
        again.is_some()
    })
    .await;
    let again = again.unwrap().delivery;
    assert!(again.redelivered());
    again.ack().unwrap();
    other.close().await.unwrap();
    connection.close().await.unwrap();
}

async fn message_that_is_too_large(node: &Broker) {
    set(node, "max_message_size", "300000").await;
    let vhost = node.vhost("limits").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    let other = confirm_channel(&connection).await;
    let channel = confirm_channel(&connection).await;
    let of_size = |size: usize| Message::new(vec![b'x'; size]);
    let just = channel.publish("", "q", of_size(300_000)).await.unwrap();
    assert_eq!(soon("an ack", just).await, Outcome::Acked);
    let above = channel.publish("", "q", of_size(300_001)).await.unwrap();
    match soon("an outcome", above).await {
        Outcome::Unknown {
            publication,
            reason: UnknownReason::ChannelClosed(closed),
        } => {
            assert_eq!(closed.code, ReplyCode::PRECONDITION_FAILED, "{closed}");
            assert_eq!(closed.method, Some(MethodId::BASIC_PUBLISH));
            assert_eq!(publication.message.body().len(), 300_001);
        }
        other => panic!("{other:?}"),
    }
    let confirm = other.publish("", "q", of_size(1)).await.unwrap();
    assert_eq!(soon("an ack", confirm).await, Outcome::Acked);
    let mut raw = raw(node.address(), &vhost).await;
    assert_eq!(raw.message_count(1, "q").await, 2);
    connection.close().await.unwrap();
}
