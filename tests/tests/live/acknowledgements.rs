//! Getting and consuming: what comes, and what becomes of it.

use amqp_client::codec::{ReplyCode, ShortStr, short};
use amqp_client::error::{CloseCause, UsageError};
use amqp_client::{
    Channel, Connection, Consume, Consumer, Delivery, Got, Message, Outcome, QueueDelete,
};
use amqp_tests::Broker;

use crate::support::{
    channel, confirm_channel, connect, declare, name, poll_once, raw, soon, until,
};

on_each_broker!(
    get,
    a_dropped_get_gives_the_message_back,
    ack_nack_reject,
    multiple,
    consuming,
    tags_of_another_channel_are_refused_here,
    consumers_end,
    recover_delivers_again,
);

async fn publish(connection: &Connection, queue: &str, bodies: &[&'static str]) {
    let channel = confirm_channel(connection).await;
    for body in bodies {
        let confirm = channel
            .publish("", name(queue), Message::new(*body))
            .await
            .unwrap();
        assert_eq!(soon("an ack", confirm).await, Outcome::Acked);
    }
    channel.close().await.unwrap();
}

async fn got(channel: &Channel, queue: &str) -> Got {
    let got = soon("an answer", channel.get(name(queue), false)).await;
    got.unwrap().expect("a message")
}

/// What comes back to a queue from a channel that is gone comes a moment after that.
async fn got_back(channel: &Channel, queue: &str) -> Delivery {
    let mut back = None;
    until("the message is back", async || {
        back = channel.get(name(queue), false).await.unwrap();
        back.is_some()
    })
    .await;
    back.expect("just got").delivery
}

async fn next(consumer: &mut Consumer) -> Delivery {
    let next = soon("a delivery", consumer.next()).await;
    next.expect("the consumer goes on").unwrap()
}

async fn get(broker: &'static Broker) {
    let vhost = broker.vhost("acks").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    let channel = channel(&connection).await;
    assert!(channel.get("q", false).await.unwrap().is_none());

    let message = Message::new("body")
        .content_type("text/plain")
        .correlation_id("c")
        .header("n", 7)
        .priority(3)
        .timestamp(1_700_000_000)
        .kind("test");
    let confirms = confirm_channel(&connection).await;
    let confirm = confirms.publish("", "q", message.clone()).await.unwrap();
    assert_eq!(soon("an ack", confirm).await, Outcome::Acked);
    publish(&connection, "q", &["second", "third"]).await;

    let Got {
        delivery,
        message_count,
    } = got(&channel, "q").await;
    assert_eq!(message_count, 2);
    assert_eq!(delivery.body(), b"body");
    assert_eq!(delivery.properties(), *message.properties());
    assert_eq!(delivery.exchange(), "");
    assert_eq!(delivery.routing_key(), "q");
    assert!(!delivery.redelivered());
    delivery.ack().unwrap();
    // A second time it is refused here, and the channel lives on.
    assert_eq!(
        delivery.ack(),
        Err(UsageError::UnknownDeliveryTag(delivery.tag().number()))
    );

    // What was got without acks needs none.
    let second = channel.get("q", true).await.unwrap().expect("a message");
    assert_eq!(second.message_count, 1);
    assert!(second.delivery.ack().is_err());
    let third = got(&channel, "q").await.delivery;
    assert_eq!(third.tag().number(), 3);
    third.ack().unwrap();
    assert!(channel.get("q", false).await.unwrap().is_none());
    channel.close().await.unwrap();

    // And so it is for the broker, too.
    let mut raw = raw(broker.address(), &vhost).await;
    assert_eq!(raw.message_count(1, "q").await, 0);
    connection.close().await.unwrap();
}

async fn a_dropped_get_gives_the_message_back(broker: &'static Broker) {
    let vhost = broker.vhost("acks").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    publish(&connection, "q", &["one"]).await;
    let channel = channel(&connection).await;
    {
        let mut get = std::pin::pin!(channel.get("q", false));
        assert!(poll_once(get.as_mut()).await.is_pending());
    }
    // The answer of the first goes to nobody, and not to the second.
    let back = got_back(&channel, "q").await;
    assert_eq!(back.body(), b"one");
    assert!(back.redelivered());
    back.ack().unwrap();
    connection.close().await.unwrap();
}

async fn ack_nack_reject(broker: &'static Broker) {
    let vhost = broker.vhost("acks").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    publish(&connection, "q", &["one"]).await;
    let channel = channel(&connection).await;

    let first = got(&channel, "q").await.delivery;
    assert!(!first.redelivered());
    first.nack(true).unwrap();
    let again = got(&channel, "q").await.delivery;
    assert!(again.redelivered());
    assert_eq!(again.body(), b"one");
    assert_ne!(again.tag(), first.tag());
    again.reject(true).unwrap();
    let again = got(&channel, "q").await.delivery;
    assert!(again.redelivered());
    again.reject(false).unwrap();
    assert!(channel.get("q", false).await.unwrap().is_none());

    publish(&connection, "q", &["two"]).await;
    got(&channel, "q").await.delivery.nack(false).unwrap();
    assert!(channel.get("q", false).await.unwrap().is_none());

    // What was not acked is delivered anew when the channel is gone.
    publish(&connection, "q", &["three"]).await;
    let kept = got(&channel, "q").await.delivery;
    channel.close().await.unwrap();
    let other = self::channel(&connection).await;
    let third = got_back(&other, "q").await;
    assert!(third.redelivered());
    assert!(matches!(kept.ack(), Err(UsageError::ChannelClosed(_))));
    third.ack().unwrap();
    connection.close().await.unwrap();
}

async fn multiple(broker: &'static Broker) {
    let vhost = broker.vhost("acks").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    publish(&connection, "q", &["1", "2", "3", "4", "5", "6"]).await;
    let channel = channel(&connection).await;
    let mut taken = Vec::new();
    for _ in 0..6 {
        taken.push(got(&channel, "q").await.delivery);
    }
    taken[1].ack().unwrap();
    // 1 and 3; 2 was acked before.
    taken[2].acker().ack_multiple().unwrap();
    assert!(taken[0].ack().is_err());
    // 4 and 5 go back, 6 is not concerned.
    taken[4].acker().nack_multiple(true).unwrap();
    assert!(taken[3].ack().is_err());
    taken[5].ack().unwrap();

    let mut left = Vec::new();
    while let Some(got) = channel.get("q", false).await.unwrap() {
        assert!(got.delivery.redelivered());
        left.push(got.delivery);
    }
    let bodies: Vec<_> = left.iter().map(|delivery| delivery.body()).collect();
    assert_eq!(bodies, [b"4", b"5"]);
    left[1].acker().ack_multiple().unwrap();
    channel.close().await.unwrap();
    let mut raw = raw(broker.address(), &vhost).await;
    assert_eq!(raw.message_count(1, "q").await, 0);
    connection.close().await.unwrap();
}

async fn consuming(broker: &'static Broker) {
    let vhost = broker.vhost("acks").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    publish(&connection, "q", &["1", "2", "3", "4"]).await;
    let channel = channel(&connection).await;
    channel.qos(2, false).await.unwrap();
    let mut consumer = channel
        .consume(Consume::new(short!("q")).tag(short!("mine")))
        .await
        .unwrap();
    assert_eq!(consumer.tag(), &"mine");
    let first = next(&mut consumer).await;
    let second = next(&mut consumer).await;
    assert_eq!((first.body(), second.body()), (&b"1"[..], &b"2"[..]));
    // The prefetch is used up: nothing before an ack. The declare's answer would come after a delivery.
    channel.get("q", true).await.unwrap().expect("the third");
    assert!(poll_once(consumer.next()).await.is_pending());
    // An ack may come from elsewhere.
    let acker = first.acker();
    tokio::spawn(async move { acker.ack() })
        .await
        .unwrap()
        .unwrap();
    let fourth = next(&mut consumer).await;
    assert_eq!(fourth.body(), b"4");
    assert!(!fourth.redelivered());
    // Get and consume count tags together: 3 was the get's.
    assert_eq!(fourth.tag().number(), 4);
    fourth.acker().ack_multiple().unwrap();
    assert!(second.ack().is_err());

    // Cancelled, it hands out what has arrived and ends.
    publish(&connection, "q", &["5"]).await;
    until("the fifth has left the queue", async || {
        let passive = amqp_client::QueueDeclare::new(short!("q")).passive();
        channel.queue_declare(passive).await.unwrap().message_count == 0
    })
    .await;
    consumer.cancel().await.unwrap();
    let fifth = next(&mut consumer).await;
    assert_eq!(fifth.body(), b"5");
    assert!(consumer.next().await.is_none());
    assert!(!consumer.is_cancelled_by_server());
    // An ack after the cancel is fine.
    fifth.ack().unwrap();
    assert!(channel.get("q", true).await.unwrap().is_none());

    // Without acks.
    publish(&connection, "q", &["6"]).await;
    let mut consumer = channel
        .consume(Consume::new(short!("q")).no_ack())
        .await
        .unwrap();
    assert!(
        consumer.tag().as_bytes().starts_with(b"amq.ctag"),
        "{:?}",
        consumer.tag()
    );
    let sixth = next(&mut consumer).await;
    assert!(matches!(
        sixth.ack(),
        Err(UsageError::UnknownDeliveryTag(_))
    ));
    channel.close().await.unwrap();
    connection.close().await.unwrap();
}

async fn tags_of_another_channel_are_refused_here(broker: &'static Broker) {
    let vhost = broker.vhost("acks").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    publish(&connection, "q", &["one"]).await;
    let first = channel(&connection).await;
    let delivery = got(&first, "q").await.delivery;
    let second = channel(&connection).await;
    let ack = amqp_client::proto::Settle::Ack;
    assert_eq!(
        second.settle(delivery.tag(), false, ack),
        Err(UsageError::ForeignDeliveryTag)
    );
    // The same number on the wire, opened again, is another channel.
    first.close().await.unwrap();
    let reopened = channel(&connection).await;
    assert_eq!(reopened.id().number, delivery.tag().channel().number);
    let again = got_back(&reopened, "q").await;
    assert_eq!(again.tag().number(), delivery.tag().number());
    assert_eq!(
        reopened.settle(delivery.tag(), false, ack),
        Err(UsageError::ForeignDeliveryTag)
    );
    assert!(matches!(delivery.ack(), Err(UsageError::ChannelClosed(_))));
    again.ack().unwrap();
    // Both channels live on.
    assert!(second.get("q", true).await.unwrap().is_none());
    assert!(reopened.get("q", true).await.unwrap().is_none());
    connection.close().await.unwrap();
}

async fn consumers_end(broker: &'static Broker) {
    let vhost = broker.vhost("acks").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    declare(&connection, "r").await;
    let channel = channel(&connection).await;

    // The queue goes: the server cancels.
    let mut consumer = channel.consume(Consume::new(short!("q"))).await.unwrap();
    let other = self::channel(&connection).await;
    let delete = QueueDelete::new(short!("q"));
    other.queue_delete(delete).await.unwrap();
    assert!(soon("the end", consumer.next()).await.is_none());
    assert!(consumer.is_cancelled_by_server());
    assert!(channel.closed().is_none());

    // An exclusive consumer lets nobody else in.
    let mut exclusive = channel
        .consume(Consume::new(short!("r")).exclusive())
        .await
        .unwrap();
    let refused = other.consume(Consume::new(short!("r"))).await;
    let error = refused.err().expect("a refusal");
    let code = error.closed().map(|closed| closed.code);
    assert_eq!(code, Some(ReplyCode::ACCESS_REFUSED), "{error}");

    // A dropped consumer is cancelled, and what it had not handed out is back.
    publish(&connection, "r", &["one", "two"]).await;
    let one = next(&mut exclusive).await;
    drop(exclusive);
    let other = self::channel(&connection).await;
    let back = got_back(&other, "r").await;
    assert_eq!(back.body(), b"two");
    back.ack().unwrap();
    one.ack().unwrap();

    // The channel closes: the stream says how.
    let mut consumer = other.consume(Consume::new(short!("r"))).await.unwrap();
    other.queue_purge("none").await.expect_err("no such queue");
    let error = soon("the end", consumer.next()).await.unwrap().unwrap_err();
    assert_eq!(error.0.code, ReplyCode::NOT_FOUND);
    assert!(consumer.next().await.is_none());

    // The connection closes, too.
    let mut consumer = channel.consume(Consume::new(short!("r"))).await.unwrap();
    broker
        .close_connections(&vhost.name, "for the consumer")
        .await;
    let error = soon("the end", consumer.next()).await.unwrap().unwrap_err();
    match &error.0.cause {
        Some(CloseCause::Connection(closed)) => {
            assert_eq!(closed.code, ReplyCode::CONNECTION_FORCED);
        }
        other => panic!("{other:?}"),
    }
}

async fn recover_delivers_again(broker: &'static Broker) {
    let vhost = broker.vhost("acks").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    publish(&connection, "q", &["one", "two"]).await;
    let channel = channel(&connection).await;
    let mut consumer = channel.consume(Consume::new(short!("q"))).await.unwrap();
    let one = next(&mut consumer).await;
    let two = next(&mut consumer).await;
    one.ack().unwrap();
    channel.recover().await.unwrap();
    let again = next(&mut consumer).await;
    assert_eq!(again.body(), b"two");
    assert!(again.redelivered());
    // The old tag is history.
    assert!(two.ack().is_err());
    again.ack().unwrap();
    channel.close().await.unwrap();
    let key: ShortStr<'_> = short!("q");
    let mut raw = raw(broker.address(), &vhost).await;
    assert_eq!(raw.message_count(1, key.as_str().unwrap()).await, 0);
    connection.close().await.unwrap();
}
