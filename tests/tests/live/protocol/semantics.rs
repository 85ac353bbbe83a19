//! Direct reply-to, and prefetch for a channel as a whole.

use std::time::Duration;

use amqp_client::codec::{MethodId, ReplyCode, short};
use amqp_client::{Consume, Consumer, Message, Outcome, UnknownReason};
use amqp_tests::{Broker, Version};

use crate::support::{
    channel, confirm_channel, connect, declare, name, poll_once, raw, soon, until,
};

on_each_broker!(direct_reply_to, prefetch_of_a_channel);

async fn next(consumer: &mut Consumer) -> amqp_client::Delivery {
    let delivery = soon("a delivery", consumer.next()).await;
    delivery.expect("the consumer goes on").unwrap()
}

async fn direct_reply_to(broker: &'static Broker) {
    let vhost = broker.vhost("facts").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "requests").await;
    let reply_to = short!("amq.rabbitmq.reply-to");
    let request = || {
        Message::new("question")
            .reply_to("amq.rabbitmq.reply-to")
            .correlation_id("7")
    };

    // Who publishes where nobody consumes is refused.
    let without = confirm_channel(&connection).await;
    let confirm = without.publish("", "requests", request()).await.unwrap();
    match soon("an outcome", confirm).await {
        Outcome::Unknown {
            reason: UnknownReason::ChannelClosed(closed),
            ..
        } => {
            assert_eq!(closed.code, ReplyCode::PRECONDITION_FAILED, "{closed}");
            assert_eq!(closed.method, Some(MethodId::BASIC_PUBLISH));
        }
        other => panic!("{other:?}"),
    }

    // Consumed without acks, on the channel that asks.
    let asking = confirm_channel(&connection).await;
    let mut replies = asking
        .consume(Consume::new(reply_to.clone()).no_ack())
        .await
        .unwrap();
    let confirm = asking.publish("", "requests", request()).await.unwrap();
    assert_eq!(soon("an ack", confirm).await, Outcome::Acked);

    let server = connect(&vhost.uri).await;
    let answering = confirm_channel(&server).await;
    let question = answering
        .get("requests", false)
        .await
        .unwrap()
        .unwrap()
        .delivery;
    let properties = question.properties();
    let back = properties.reply_to.clone().unwrap().into_owned();
    assert!(back.as_bytes().starts_with(reply_to.as_bytes()) && back.len() > reply_to.len());
    let answer = |body: &'static str| Message::new(body).correlation_id("7");
    let confirm = answering.publish("", back.clone(), answer("answer")).await;
    assert_eq!(soon("an ack", confirm.unwrap()).await, Outcome::Acked);
    question.ack().unwrap();
    let reply = next(&mut replies).await;
    assert_eq!(reply.body(), b"answer");
    assert_eq!(reply.properties().correlation_id, Some(short!("7")));

    // A mandatory one is returned although it arrives.
    let mandatory = answering.publish("", back, answer("again").mandatory());
    let outcome = soon("an outcome", mandatory.await.unwrap()).await;
    match broker.version() {
        Version::V3_10 | Version::V4_0 => {
            assert!(matches!(outcome, Outcome::Returned(_)), "{outcome:?}");
        }
        Version::V4_3 => assert_eq!(outcome, Outcome::Acked),
    }
    assert_eq!(next(&mut replies).await.body(), b"again");
    server.close().await.unwrap();
    connection.close().await.unwrap();
}

async fn prefetch_of_a_channel(broker: &'static Broker) {
    let vhost = broker.vhost("facts").await;
    let connection = connect(&vhost.uri).await;
    let mut raw = raw(broker.address(), &vhost).await;
    for queue in ["one", "two"] {
        declare(&connection, queue).await;
        for _ in 0..10 {
            raw.publish(1, "", queue, b"x").await;
        }
        until("all are in the queue", async || {
            raw.message_count(1, queue).await == 10
        })
        .await;
    }
    let consume = |queue: &str| Consume::new(name(queue));

    // Three for each of two consumers.
    let each = channel(&connection).await;
    each.qos(3, false).await.unwrap();
    let consumers = [
        each.consume(consume("one")).await.unwrap(),
        each.consume(consume("two")).await.unwrap(),
    ];
    for queue in ["one", "two"] {
        until("three are with each", async || {
            raw.message_count(1, queue).await == 7
        })
        .await;
    }
    drop(consumers);
    each.close().await.unwrap();
    for queue in ["one", "two"] {
        until("all are back", async || {
            raw.message_count(1, queue).await == 10
        })
        .await;
    }

    // Three for the two of them together, and no more until one is acked.
    let whole = channel(&connection).await;
    whole.qos(3, true).await.unwrap();
    let mut one = whole.consume(consume("one")).await.unwrap();
    let mut two = whole.consume(consume("two")).await.unwrap();
    let first = next(&mut one).await;
    for _ in 0..2 {
        let _unacked = next(&mut one).await;
    }
    assert!(first.redelivered());
    // Both consumers are known to the broker when it has answered, and neither has got more since.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let left = (
        raw.message_count(1, "one").await,
        raw.message_count(1, "two").await,
    );
    assert_eq!(left, (7, 10));
    assert!(poll_once(two.next()).await.is_pending());
    first.acker().ack().unwrap();
    until("one more", async || {
        let one = raw.message_count(1, "one").await;
        one + raw.message_count(1, "two").await == 16
    })
    .await;
    connection.close().await.unwrap();
}
