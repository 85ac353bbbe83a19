//! The events of a connection: every kind, in order, and what becomes of them when nobody reads.

use amqp_client::codec::{ReplyCode, short};
use amqp_client::error::Initiator;
use amqp_client::{Consume, Event, Events, Message, Outcome, QueueDelete};
use amqp_tests::Broker;

use crate::support::{channel, confirm_channel, connect, declare, soon};

on_each_broker!(every_kind, lagging);

async fn next(events: &mut Events) -> Event {
    let event = soon("an event", events.next()).await;
    event.expect("more events")
}

async fn every_kind(node: &Broker) {
    let vhost = node.vhost("events").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    declare(&connection, "short-lived").await;
    let plain = channel(&connection).await;
    let confirming = confirm_channel(&connection).await;
    let mut events = connection.events();
    let mut second = connection.events();

    // The server cancels a consumer.
    let consume = Consume::new(short!("short-lived")).tag(short!("mine"));
    let mut consumer = plain.consume(consume).await.unwrap();
    let delete = QueueDelete::new(short!("short-lived"));
    confirming.queue_delete(delete).await.unwrap();
    match next(&mut events).await {
        Event::ConsumerCancelled {
            channel,
            consumer_tag,
        } => {
            assert_eq!(channel, plain.id());
            assert_eq!(consumer_tag, "mine");
        }
        other => panic!("{other:?}"),
    }
    assert!(soon("the end", consumer.next()).await.is_none());

    // A message comes back outside confirm mode; with its own confirm, it is no event.
    let unroutable = || Message::new("lost").message_id("7").mandatory();
    let confirm = confirming.publish("", "none", unroutable()).await.unwrap();
    let outcome = soon("a return", confirm).await;
    assert!(matches!(outcome, Outcome::Returned(_)), "{outcome:?}");
    plain.publish("", "none", unroutable()).await.unwrap();
    match next(&mut events).await {
        Event::Returned {
            channel,
            code,
            routing_key,
            message_id,
            ..
        } => {
            assert_eq!((channel, code), (plain.id(), ReplyCode::NO_ROUTE));
            assert_eq!(routing_key, "none");
            assert_eq!(message_id.unwrap(), "7");
        }
        other => panic!("{other:?}"),
    }

    // The server closes a channel; we close one.
    let failed = plain.queue_purge("none").await.unwrap_err();
    match next(&mut events).await {
        Event::ChannelClosed { channel, closed } => {
            assert_eq!(channel, plain.id());
            assert_eq!(Some(&*closed), failed.closed());
            assert_eq!(closed.code, ReplyCode::NOT_FOUND);
        }
        other => panic!("{other:?}"),
    }
    let ours = channel(&connection).await;
    ours.close().await.unwrap();
    match next(&mut events).await {
        Event::ChannelClosed { channel, closed } => {
            assert_eq!(channel, ours.id());
            assert_eq!(closed.initiator, Initiator::Client);
        }
        other => panic!("{other:?}"),
    }

    // The node blocks the connection, and takes that back.
    node.raise_alarm().await;
    let confirm = confirming
        .publish("", "q", Message::new("x"))
        .await
        .unwrap();
    match next(&mut events).await {
        Event::Blocked(reason) => assert_eq!(connection.blocked(), Some(reason)),
        other => panic!("{other:?}"),
    }
    node.clear_alarm().await;
    assert!(matches!(next(&mut events).await, Event::Unblocked));
    assert_eq!(soon("an ack", confirm).await, Outcome::Acked);

    // An operator closes the connection: its channel's end, then its own, and then nothing.
    node.close_connections(&vhost.name, "for the events").await;
    match next(&mut events).await {
        Event::ChannelClosed { channel, .. } => assert_eq!(channel, confirming.id()),
        other => panic!("{other:?}"),
    }
    match next(&mut events).await {
        Event::Closed(closed) => {
            assert_eq!(closed.initiator, Initiator::Server);
            assert_eq!(closed.code, ReplyCode::CONNECTION_FORCED);
        }
        other => panic!("{other:?}"),
    }
    assert!(soon("the end", events.next()).await.is_none());
    // Nobody is told of what was before they asked, and each subscriber of all since.
    assert!(connection.events().next().await.is_none());
    let mut kinds = Vec::new();
    while let Some(event) = soon("an event", second.next()).await {
        let text = format!("{event:?}");
        kinds.push(text.split(['(', ' ']).next().unwrap().to_owned());
    }
    assert_eq!(
        kinds,
        [
            "ConsumerCancelled",
            "Returned",
            "ChannelClosed",
            "ChannelClosed",
            "Blocked",
            "Unblocked",
            "ChannelClosed",
            "Closed"
        ]
    );
}

/// More than is kept: it is said how many are missing, and the others come.
async fn lagging(node: &Broker) {
    let vhost = node.vhost("events").await;
    let connection = connect(&vhost.uri).await;
    let plain = channel(&connection).await;
    let mut events = connection.events();
    const SENT: usize = 300;
    const KEPT: usize = 256;
    for number in 0..SENT {
        let lost = Message::new("lost")
            .message_id(number.to_string())
            .mandatory();
        plain.publish("", "none", lost).await.unwrap();
    }
    // Its answer comes behind them all.
    plain.qos(1, false).await.unwrap();
    let Event::Lagged(missed) = next(&mut events).await else {
        panic!("nothing was missed");
    };
    assert_eq!(missed as usize, SENT - KEPT);
    for number in SENT - KEPT..SENT {
        match next(&mut events).await {
            Event::Returned { message_id, .. } => {
                assert_eq!(message_id.unwrap(), number.to_string().as_str());
            }
            other => panic!("{number}: {other:?}"),
        }
    }
    // From then on it is up to date again.
    plain.close().await.unwrap();
    assert!(matches!(
        next(&mut events).await,
        Event::ChannelClosed { .. }
    ));
    connection.close().await.unwrap();
    assert!(matches!(next(&mut events).await, Event::Closed(_)));
    assert!(events.next().await.is_none());
}
