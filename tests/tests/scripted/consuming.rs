//! Consumers and their acks: who ends a consumer is told, and no tag is used where or when it does not belong.

use std::time::Duration;

use amqp_client::codec::basic::Properties;
use amqp_client::codec::{ReplyCode, basic, channel, short};
use amqp_client::error::{ErrorKind, UsageError};
use amqp_client::proto::Settle;
use amqp_client::{Channel, Connection, Consume, Consumer, Event};
use futures_util::StreamExt;
use futures_util::future::poll_immediate;

use super::support::{MemoryPeer, connected, no_task_left, plain_channel, settle};

async fn consuming(
    peer: &mut MemoryPeer,
    connection: &Connection,
    consume: Consume,
) -> (Channel, u16, Consumer) {
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

#[tokio::test(start_paused = true)]
async fn consumer_that_the_server_cancels() {
    for no_wait in [true, false] {
        let (mut peer, connection) = connected().await;
        let mut events = connection.events();
        let (channel, on, mut consumer) =
            consuming(&mut peer, &connection, Consume::new(short!("q"))).await;
        peer.send_deliver(on, "c", 1, &Properties::EMPTY, b"before")
            .await;
        peer.send(
            on,
            basic::Cancel {
                consumer_tag: short!("c"),
                no_wait,
                ..Default::default()
            },
        )
        .await;
        let delivery = consumer.next().await.unwrap().unwrap();
        assert!(!consumer.is_cancelled_by_server());
        assert!(consumer.next().await.is_none());
        assert!(consumer.is_cancelled_by_server());
        let Some(Event::ConsumerCancelled { consumer_tag, .. }) = events.next().await else {
            panic!("it is an event, too")
        };
        assert_eq!(consumer_tag, "c");
        if !no_wait {
            peer.expect::<basic::CancelOk>(on).await;
        }
        // What was delivered is acked as usual, and the channel lives on.
        delivery.ack().unwrap();
        peer.expect::<basic::Ack>(on).await;
        // RabbitMQ 4.3 delivers a message that was acked too late to the cancelled tag: nobody is there, so back.
        peer.send_deliver(on, "c", 2, &Properties::EMPTY, b"after")
            .await;
        let nack: basic::Nack = peer.expect(on).await;
        assert_eq!((nack.delivery_tag, nack.requeue), (2, true));
        drop(consumer);
        // It is cancelled already.
        peer.expect_silence(Duration::from_secs(1)).await;
        assert!(channel.closed().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn cancel_hands_out_what_had_come() {
    let (mut peer, connection) = connected().await;
    let (_channel, on, mut consumer) =
        consuming(&mut peer, &connection, Consume::new(short!("q"))).await;
    let server = async {
        peer.expect::<basic::Cancel>(on).await;
        for tag in 1..=3 {
            peer.send_deliver(on, "c", tag, &Properties::EMPTY, b"x")
                .await;
        }
        peer.send(
            on,
            basic::CancelOk {
                consumer_tag: short!("c"),
            },
        )
        .await;
    };
    let (cancelled, ()) = tokio::join!(consumer.cancel(), server);
    cancelled.unwrap();
    let all: Vec<_> = consumer.by_ref().collect().await;
    assert_eq!(all.len(), 3);
    assert!(
        all.iter()
            .all(|delivery| delivery.as_ref().unwrap().ack().is_ok())
    );
    assert!(!consumer.is_cancelled_by_server());
}

/// Dropping gives back what nobody has seen, and leaves alone what was handed out.
#[tokio::test(start_paused = true)]
async fn dropped_consumer() {
    let (mut peer, connection) = connected().await;
    let (channel, on, mut consumer) =
        consuming(&mut peer, &connection, Consume::new(short!("q"))).await;
    for tag in 1..=3 {
        peer.send_deliver(on, "c", tag, &Properties::EMPTY, b"x")
            .await;
    }
    let first = consumer.next().await.unwrap().unwrap();
    drop(consumer);
    let server = async {
        let mut given_back = Vec::new();
        let mut cancelled = false;
        // One more was under way.
        peer.send_deliver(on, "c", 4, &Properties::EMPTY, b"x")
            .await;
        while given_back.len() < 3 || !cancelled {
            let method = peer.expect_where(on, "a nack or a cancel", |_| true).await;
            match method {
                amqp_client::codec::Method::BasicNack(nack) => {
                    assert!(nack.requeue && !nack.multiple);
                    given_back.push(nack.delivery_tag);
                }
                amqp_client::codec::Method::BasicCancel(_) => {
                    cancelled = true;
                    peer.send(
                        on,
                        basic::CancelOk {
                            consumer_tag: short!("c"),
                        },
                    )
                    .await;
                }
                method => panic!("{method:?}"),
            }
        }
        given_back.sort_unstable();
        assert_eq!(given_back, [2, 3, 4]);
    };
    server.await;
    first.ack().unwrap();
    let ack: basic::Ack = peer.expect(on).await;
    assert_eq!(ack.delivery_tag, 1);
    drop(channel);
}

/// Refused here, typed, with nothing sent: the connection lives on.
#[tokio::test(start_paused = true)]
async fn tags_that_do_not_belong() {
    let (mut peer, connection) = connected().await;
    let (channel, on, mut consumer) =
        consuming(&mut peer, &connection, Consume::new(short!("q"))).await;
    let (other, other_on) = plain_channel(&mut peer, &connection).await;
    for tag in 1..=4 {
        peer.send_deliver(on, "c", tag, &Properties::EMPTY, b"x")
            .await;
    }
    let mut deliveries = Vec::new();
    for _ in 1..=4 {
        deliveries.push(consumer.next().await.unwrap().unwrap());
    }
    // Twice.
    deliveries[0].ack().unwrap();
    assert_eq!(deliveries[0].ack(), Err(UsageError::UnknownDeliveryTag(1)));
    assert_eq!(
        deliveries[0].nack(true),
        Err(UsageError::UnknownDeliveryTag(1))
    );
    // Through another channel.
    let tag = deliveries[1].tag();
    assert_eq!(
        other.settle(tag, false, Settle::Ack),
        Err(UsageError::ForeignDeliveryTag)
    );
    // Covered by multiple.
    deliveries[2].acker().ack_multiple().unwrap();
    assert_eq!(
        deliveries[1].reject(false),
        Err(UsageError::UnknownDeliveryTag(2))
    );
    let tags = [
        peer.expect::<basic::Ack>(on).await,
        peer.expect::<basic::Ack>(on).await,
    ];
    assert_eq!(
        tags.map(|ack| (ack.delivery_tag, ack.multiple)),
        [(1, false), (3, true)]
    );
    // After the channel was closed, and its number is another's.
    peer.close_channel(on, ReplyCode::PRECONDITION_FAILED, "timeout")
        .await;
    settle().await;
    assert!(matches!(
        deliveries[3].ack(),
        Err(UsageError::ChannelClosed(_))
    ));
    peer.expect::<channel::CloseOk>(on).await;
    let (next, again) = plain_channel(&mut peer, &connection).await;
    assert_eq!(again, on);
    assert!(matches!(
        deliveries[3].ack(),
        Err(UsageError::ChannelClosed(_))
    ));
    let tag = deliveries[3].tag();
    assert_eq!(
        next.settle(tag, false, Settle::Ack),
        Err(UsageError::ForeignDeliveryTag)
    );
    // And of another connection.
    let (mut peer_2, connection_2) = connected().await;
    let (foreign, _) = plain_channel(&mut peer_2, &connection_2).await;
    assert_eq!(
        foreign.settle(tag, false, Settle::Ack),
        Err(UsageError::ForeignDeliveryTag)
    );
    for (peer, on) in [(&mut peer, other_on), (&mut peer_2, 1)] {
        peer.expect_silence(Duration::from_secs(1)).await;
        assert_ne!(on, 0);
    }
    assert!(connection.is_open() && connection_2.is_open());
    drop(channel);
}

/// A delivery that needs no ack cannot be acked.
#[tokio::test(start_paused = true)]
async fn deliveries_without_acks() {
    let (mut peer, connection) = connected().await;
    let consume = Consume::new(short!("q")).no_ack();
    let (_channel, on, mut consumer) = consuming(&mut peer, &connection, consume).await;
    peer.send_deliver(on, "c", 1, &Properties::EMPTY, b"x")
        .await;
    let delivery = consumer.next().await.unwrap().unwrap();
    assert_eq!(delivery.ack(), Err(UsageError::UnknownDeliveryTag(1)));
    peer.send_deliver(on, "c", 2, &Properties::EMPTY, b"x")
        .await;
    settle().await;
    // Nothing is given back either.
    drop(consumer);
    peer.reply::<basic::Cancel>(
        on,
        basic::CancelOk {
            consumer_tag: short!("c"),
        },
    )
    .await;
    peer.expect_silence(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn consumer_whose_channel_or_connection_ends() {
    for connection_goes in [true, false] {
        let (mut peer, connection) = connected().await;
        let (channel, on, mut consumer) =
            consuming(&mut peer, &connection, Consume::new(short!("q"))).await;
        peer.send_deliver(on, "c", 1, &Properties::EMPTY, b"before")
            .await;
        match connection_goes {
            true => {
                peer.close_connection(ReplyCode::CONNECTION_FORCED, "shutdown")
                    .await
            }
            false => {
                peer.close_channel(on, ReplyCode::CONNECTION_FORCED, "shutdown")
                    .await
            }
        }
        settle().await;
        // What had come is handed out first; it is too late to ack it.
        let delivery = consumer.next().await.unwrap().unwrap();
        assert!(delivery.ack().is_err());
        let error = consumer.next().await.unwrap().unwrap_err();
        assert_eq!(error.0.code, ReplyCode::CONNECTION_FORCED);
        assert!(consumer.next().await.is_none());
        assert!(consumer.next().await.is_none());
        let consume = Consume::new(short!("q"));
        let error = channel.consume(consume).await.err().unwrap();
        assert!(matches!(
            error.kind(),
            ErrorKind::ChannelClosed | ErrorKind::ConnectionClosed
        ));
        drop((peer, connection, channel, consumer, delivery));
        no_task_left().await;
    }
}

/// Several consumers on a channel get their own messages, also those that came with the answer.
#[tokio::test(start_paused = true)]
async fn each_consumer_gets_its_own() {
    let (mut peer, connection) = connected().await;
    let (channel, on) = plain_channel(&mut peer, &connection).await;
    let start = async {
        tokio::join!(
            channel.consume(Consume::new(short!("a")).tag(short!("a"))),
            channel.consume(Consume::new(short!("b")).tag(short!("b"))),
        )
    };
    let server = async {
        for tag in ["a", "b"] {
            let consume: basic::Consume = peer.expect(on).await;
            assert_eq!(consume.consumer_tag, tag);
            peer.send(
                on,
                basic::ConsumeOk {
                    consumer_tag: consume.consumer_tag,
                },
            )
            .await;
        }
        for number in 1..=10 {
            let tag = if number % 3 == 0 { "a" } else { "b" };
            peer.send_deliver(on, tag, number, &Properties::EMPTY, tag.as_bytes())
                .await;
        }
    };
    let ((a, b), ()) = tokio::join!(start, server);
    let (mut a, mut b) = (a.unwrap(), b.unwrap());
    for number in 1..=10_u64 {
        let consumer = if number % 3 == 0 { &mut a } else { &mut b };
        let tag = consumer.tag().clone();
        let delivery = consumer.next().await.unwrap().unwrap();
        assert_eq!(
            (delivery.tag().number(), delivery.body()),
            (number, tag.as_bytes())
        );
    }
    assert!(poll_immediate(a.next()).await.is_none());
    assert!(poll_immediate(b.next()).await.is_none());
}

/// A consumer that has ended, by the server or by its own cancel, is cancelled once more: that must not take away, in
/// silence, the messages of its successor of the same tag.
#[tokio::test(start_paused = true)]
async fn a_late_cancel_leaves_the_successor_of_the_same_tag_alone() {
    let (mut peer, connection) = connected().await;
    let consume = || Consume::new(short!("q")).tag(short!("c"));
    let (channel, on, mut first) = consuming(&mut peer, &connection, consume()).await;
    let cancel = basic::Cancel {
        consumer_tag: short!("c"),
        no_wait: true,
        ..Default::default()
    };
    peer.send(on, cancel).await;
    assert!(first.next().await.is_none() && first.is_cancelled_by_server());
    let answer = async {
        let ok = basic::ConsumeOk {
            consumer_tag: short!("c"),
        };
        peer.reply::<basic::Consume>(on, ok).await;
    };
    let (second, ()) = tokio::join!(channel.consume(consume()), answer);
    let mut second = second.unwrap();
    let server = async {
        let ok = basic::CancelOk {
            consumer_tag: short!("c"),
        };
        let cancel = tokio::time::timeout(Duration::from_secs(5), peer.expect::<basic::Cancel>(on));
        if cancel.await.is_ok() {
            peer.send(on, ok).await;
        }
        peer.send_deliver(on, "c", 1, &Default::default(), b"x")
            .await;
    };
    let (cancelled, ()) = tokio::join!(first.cancel(), server);
    cancelled.unwrap();
    let next = tokio::time::timeout(Duration::from_secs(60), second.next()).await;
    assert!(next.is_ok(), "the second neither gets messages nor ends");
}
