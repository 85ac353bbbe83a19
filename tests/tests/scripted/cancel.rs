//! Every future of the API can be dropped at any poll: the next call gets its own reply, no frame is half written, and
//! what the abandoned call brought is undone where it would stay behind.
//!
//! "No frame is half written" is what the broker at the other end checks all the time.

use std::time::Duration;

use amqp_client::codec::{Method, MethodId, ReplyCode, Table, short};
use amqp_client::error::{Error, UsageError};
use amqp_client::{
    Channel, ConfirmChannel, ConfirmOptions, ConnectOptions, Connection, Consume, ExchangeDeclare,
    Methods, Outcome, QueueDeclare, QueueDelete,
};
use amqp_tests::peer::{Greeting, Peer};
use futures_util::StreamExt;

use super::broker::{AutoBroker, Record, Rules, Verdict};
use super::support::{DropAt, at_every_drop, connected, drop_at, mandatory, no_task_left, settle};

/// A broker that takes its time, and a connection to it.
async fn slow_broker(rules: Rules) -> (AutoBroker, Connection) {
    let (peer, connection) = connected().await;
    let rules = Rules {
        delay: Duration::from_millis(5),
        ..rules
    };
    (AutoBroker::start(peer, rules), connection)
}

/// A call on the channel gets the reply that was meant for it.
async fn next_call_works(channel: &Methods) {
    let declare = QueueDeclare::new(short!("after-77"));
    let info = channel.queue_declare(declare).await.unwrap();
    assert_eq!(info.name, "after-77");
    assert_eq!((info.message_count, info.consumer_count), (77, 78));
}

/// Ends it all, and checks that nothing is left.
async fn finish(broker: AutoBroker, connection: Connection) -> Record {
    connection.close().await.unwrap();
    drop(connection);
    let record = broker.ended().await;
    no_task_left().await;
    record
}

/// Drops a call on an open channel at every poll, and checks that the channel works afterwards.
async fn call<T>(
    make: impl AsyncFn(&Channel) -> T,
    check: impl Fn(&Record, Option<T>),
    rules: impl Fn() -> Rules,
) {
    at_every_drop(async |at| {
        let (broker, connection) = slow_broker(rules()).await;
        let channel = connection.open_channel().await.unwrap();
        let output = drop_at(make(&channel), at).await;
        let ready = output.is_some();
        next_call_works(&channel).await;
        // Whatever is undone has been undone by then.
        channel.close().await.unwrap();
        assert_eq!(connection.open_channels(), 0);
        let record = finish(broker, connection).await;
        check(&record, output);
        ready
    })
    .await;
}

async fn plain_call<T>(make: impl AsyncFn(&Channel) -> Result<T, Error>) {
    let check = |_: &Record, output: Option<Result<T, Error>>| {
        if let Some(Err(error)) = output {
            panic!("{error}");
        }
    };
    call(make, check, Rules::default).await;
}

#[tokio::test(start_paused = true)]
async fn synchronous_methods() {
    plain_call(async |c| {
        c.exchange_declare(ExchangeDeclare::new(short!("e"), short!("topic")))
            .await
    })
    .await;
    plain_call(async |c| c.exchange_delete("e", false).await).await;
    plain_call(async |c| c.exchange_bind("a", "b", "k", Table::default()).await).await;
    plain_call(async |c| c.exchange_unbind("a", "b", "k", Table::default()).await).await;
    plain_call(async |c| c.queue_declare(QueueDeclare::new(short!("q-1"))).await).await;
    plain_call(async |c| c.queue_bind("q", "e", "k", Table::default()).await).await;
    plain_call(async |c| c.queue_unbind("q", "e", "k", Table::default()).await).await;
    plain_call(async |c| c.queue_purge("q-1").await).await;
    plain_call(async |c| c.queue_delete(QueueDelete::new(short!("q-1"))).await).await;
    plain_call(async |c| c.qos(10, false).await).await;
    plain_call(async |c| c.recover().await).await;
}

/// The secret is on its way, whoever waits for the answer.
#[tokio::test(start_paused = true)]
async fn update_secret() {
    at_every_drop(async |at| {
        let (broker, connection) = slow_broker(Rules::default()).await;
        let ready = drop_at(connection.update_secret("new", "expired"), at).await;
        connection.update_secret("newer", "again").await.unwrap();
        let polled = at != DropAt::Polled(0) && at != DropAt::Woken(0);
        let record = finish(broker, connection).await;
        let expected = if polled { 2 } else { 1 };
        assert_eq!(record.count(MethodId::CONNECTION_UPDATE_SECRET), expected);
        ready.is_some()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn several_calls_in_flight_of_which_one_is_dropped() {
    at_every_drop(async |at| {
        let (broker, connection) = slow_broker(Rules::default()).await;
        let channel = connection.open_channel().await.unwrap();
        let declare = async |name: &'static str| {
            let declare = QueueDeclare::new(name);
            channel.queue_declare(declare).await.unwrap()
        };
        let (one, dropped, two) = tokio::join!(
            declare("one-1"),
            drop_at(declare("dropped-9"), at),
            declare("two-2")
        );
        assert_eq!((one.name.as_bytes(), one.message_count), (&b"one-1"[..], 1));
        assert_eq!((two.name.as_bytes(), two.message_count), (&b"two-2"[..], 2));
        next_call_works(&channel).await;
        drop(channel);
        finish(broker, connection).await;
        dropped.is_some_and(|info| info.name == "dropped-9")
    })
    .await;
}

/// A consumer that nobody got is cancelled, and the messages that came for it go back.
#[tokio::test(start_paused = true)]
async fn consume() {
    let rules = || Rules {
        deliver: 3,
        ..Rules::default()
    };
    let make = async |channel: &Channel| {
        let consumer = channel.consume(Consume::new(short!("q"))).await.unwrap();
        assert_eq!(consumer.tag(), "q");
        // Dropping a consumer that was got does the same as dropping the call.
        drop(consumer);
    };
    let check = |record: &Record, _: Option<()>| {
        let consumed = record.count(MethodId::BASIC_CONSUME);
        assert_eq!(record.count(MethodId::BASIC_CANCEL), consumed);
        let given_back: usize = record
            .methods
            .iter()
            .map(|(_, method)| match method {
                Method::BasicNack(nack) => {
                    assert!(nack.requeue);
                    if nack.multiple {
                        nack.delivery_tag as usize
                    } else {
                        1
                    }
                }
                _ => 0,
            })
            .sum();
        assert_eq!(given_back, consumed * 3, "{:?}", record.methods);
    };
    call(make, check, rules).await;
}

/// A message that nobody got goes back into its queue; one that needs no ack is gone.
#[tokio::test(start_paused = true)]
async fn get() {
    let got = async |channel: &Channel| {
        let got = channel.get("q-5", false).await.unwrap().unwrap();
        assert_eq!((got.delivery.body(), got.message_count), (&b"q-5"[..], 5));
        got.delivery.ack().unwrap();
    };
    let check = |record: &Record, output: Option<()>| {
        let (acks, nacks) = (
            record.count(MethodId::BASIC_ACK),
            record.count(MethodId::BASIC_NACK),
        );
        let gets = record.count(MethodId::BASIC_GET);
        assert_eq!(acks + nacks, gets);
        assert_eq!(acks == 1, output.is_some());
    };
    call(got, check, Rules::default).await;

    let got = async |channel: &Channel| channel.get("q-5", true).await.unwrap().is_some();
    let check = |record: &Record, output: Option<bool>| {
        assert_eq!(record.count(MethodId::BASIC_NACK), 0);
        assert_ne!(output, Some(false));
    };
    call(got, check, Rules::default).await;

    let empty = async |channel: &Channel| channel.get("empty", false).await.unwrap().is_none();
    let check = |record: &Record, output: Option<bool>| {
        assert_eq!(record.count(MethodId::BASIC_NACK), 0);
        assert_ne!(output, Some(false));
    };
    call(empty, check, Rules::default).await;
}

/// The cancel goes out even if nobody waits for its answer, what had come is handed out, and the stream ends.
#[tokio::test(start_paused = true)]
async fn cancel() {
    at_every_drop(async |at| {
        let (broker, connection) = slow_broker(Rules {
            deliver: 2,
            ..Rules::default()
        })
        .await;
        let channel = connection.open_channel().await.unwrap();
        let mut consumer = channel.consume(Consume::new(short!("q"))).await.unwrap();
        let ready = drop_at(consumer.cancel(), at).await.is_some();
        next_call_works(&channel).await;
        let polled = at != DropAt::Polled(0) && at != DropAt::Woken(0);
        if polled {
            let all: Vec<_> = tokio::time::timeout(
                Duration::from_secs(5),
                consumer.by_ref().collect::<Vec<_>>(),
            )
            .await
            .expect("the stream of a cancelled consumer ends");
            assert_eq!(all.len(), 2);
            for delivery in all {
                delivery.unwrap().ack().unwrap();
            }
            assert!(!consumer.is_cancelled_by_server());
        }
        drop(consumer);
        channel.close().await.unwrap();
        drop(channel);
        let record = finish(broker, connection).await;
        assert!(record.count(MethodId::BASIC_CANCEL) >= 1);
        ready
    })
    .await;
}

/// Behind another call that is not answered yet, too.
#[tokio::test(start_paused = true)]
async fn cancel_that_waits_for_its_turn() {
    let (broker, connection) = slow_broker(Rules::default()).await;
    let channel = connection.open_channel().await.unwrap();
    let mut consumer = channel.consume(Consume::new(short!("q"))).await.unwrap();
    let declare = channel.queue_declare(QueueDeclare::new(short!("q-1")));
    let dropped = drop_at(consumer.cancel(), DropAt::Polled(1));
    let (info, dropped) = tokio::join!(declare, dropped);
    assert!(info.is_ok() && dropped.is_none());
    let ended = tokio::time::timeout(Duration::from_secs(5), consumer.next()).await;
    assert!(ended.expect("it was cancelled").is_none());
    drop((consumer, channel));
    let record = finish(broker, connection).await;
    assert_eq!(record.count(MethodId::BASIC_CANCEL), 1);
}

/// A channel that nobody got is closed again, and its number is free.
#[tokio::test(start_paused = true)]
async fn open_channel() {
    at_every_drop(async |at| {
        let (broker, connection) = slow_broker(Rules::default()).await;
        let ready = drop_at(connection.open_channel(), at).await.is_some();
        let channel = connection.open_channel().await.unwrap();
        next_call_works(&channel).await;
        channel.close().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(connection.open_channels(), 0);
        let record = finish(broker, connection).await;
        assert_eq!(
            record.count(MethodId::CHANNEL_OPEN),
            record.count(MethodId::CHANNEL_CLOSE)
        );
        ready
    })
    .await;
}

/// A channel whose mode nobody knows is closed.
#[tokio::test(start_paused = true)]
async fn selects() {
    at_every_drop(async |at| {
        let (broker, connection) = slow_broker(Rules::default()).await;
        let channel = connection.open_channel().await.unwrap();
        let ready = drop_at(channel.confirm_select(), at).await.is_some();
        finish_without_channels(broker, connection).await;
        ready
    })
    .await;
    at_every_drop(async |at| {
        let (broker, connection) = slow_broker(Rules::default()).await;
        let channel = connection.open_channel().await.unwrap();
        let ready = drop_at(channel.tx_select(), at).await.is_some();
        finish_without_channels(broker, connection).await;
        ready
    })
    .await;
}

async fn finish_without_channels(broker: AutoBroker, connection: Connection) {
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(connection.open_channels(), 0);
    let next = connection.open_channel().await.unwrap();
    next_call_works(&next).await;
    drop(next);
    let record = finish(broker, connection).await;
    // The last of them goes with the connection, if it was not closed before.
    let (opened, closed) = (
        record.count(MethodId::CHANNEL_OPEN),
        record.count(MethodId::CHANNEL_CLOSE),
    );
    assert!(closed == opened || closed + 1 == opened);
}

/// Nobody knows whether the transaction went through, so its channel is closed.
#[tokio::test(start_paused = true)]
async fn commit_and_rollback() {
    for commit in [true, false] {
        at_every_drop(async |at| {
            let (broker, connection) = slow_broker(Rules::default()).await;
            let mut channel = connection
                .open_channel()
                .await
                .unwrap()
                .tx_select()
                .await
                .unwrap();
            channel.publish("", "q", mandatory("x")).await.unwrap();
            let ready = match commit {
                true => drop_at(channel.commit(), at)
                    .await
                    .map(|result| drop(result.unwrap())),
                false => drop_at(channel.rollback(), at)
                    .await
                    .map(|result| drop(result.unwrap())),
            };
            let polled = at != DropAt::Polled(0) && at != DropAt::Woken(0);
            if ready.is_some() || !polled {
                next_call_works(&channel).await;
                channel.commit().await.unwrap();
            } else {
                settle().await;
                let closed = channel.closed().expect("the channel is closed");
                assert_eq!(closed.initiator, amqp_client::error::Initiator::Client);
                assert!(channel.commit().await.is_err());
                assert!(channel.publish("", "q", mandatory("y")).await.is_err());
            }
            drop(channel);
            finish_without_channels(broker, connection).await;
            ready.is_some()
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn channel_close() {
    for with in [true, false] {
        at_every_drop(async |at| {
            let (broker, connection) = slow_broker(Rules::default()).await;
            let channel = connection.open_channel().await.unwrap();
            let ready = match with {
                true => drop_at(channel.close_with(ReplyCode::REPLY_SUCCESS, "done"), at).await,
                false => drop_at(channel.close(), at).await,
            };
            drop(channel);
            finish_without_channels(broker, connection).await;
            ready.is_some()
        })
        .await;
    }
}

/// The connection closes even if nobody waits for that.
#[tokio::test(start_paused = true)]
async fn connection_close() {
    at_every_drop(async |at| {
        let (broker, connection) = slow_broker(Rules::default()).await;
        let ready = drop_at(connection.close(), at).await.is_some();
        if at == DropAt::Polled(0) || at == DropAt::Woken(0) {
            assert!(connection.is_open());
            connection.close().await.unwrap();
        }
        assert!(!connection.is_open());
        let closed = connection.closed().await;
        assert_eq!(closed.cause, None, "{closed}");
        let record = broker.ended().await;
        assert_eq!(record.count(MethodId::CONNECTION_CLOSE), 1);
        drop(connection);
        no_task_left().await;
        ready
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn connection_open() {
    at_every_drop(async |at| {
        let (mut peer, stream) = Peer::in_memory(64 * 1024);
        let server = tokio::spawn(async move {
            // It may be given up at any time.
            let greeting = Greeting::default();
            peer.set_deadline(Duration::from_secs(60));
            use amqp_client::codec::{LongStr, connection};
            let start = connection::Start {
                version_minor: 9,
                mechanisms: LongStr::from("PLAIN"),
                ..Default::default()
            };
            loop {
                match peer.next().await {
                    amqp_tests::wire::Event::Protocol(_) => peer.send(0, start.clone()).await,
                    amqp_tests::wire::Event::Frame(frame) => match frame.method() {
                        Some(Method::ConnectionStartOk(_)) => peer.send(0, greeting.tune).await,
                        Some(Method::ConnectionOpen(_)) => {
                            peer.send(0, connection::OpenOk::default()).await;
                        }
                        Some(Method::ConnectionClose(_)) => {
                            peer.send(0, connection::CloseOk {}).await;
                        }
                        _ => {}
                    },
                    event => {
                        assert!(event.is_end(), "{event}");
                        return;
                    }
                }
            }
        });
        let open = Connection::open_over(stream, ConnectOptions::new());
        let opened = drop_at(open, at).await;
        let ready = opened.is_some();
        drop(opened);
        server.await.unwrap();
        no_task_left().await;
        ready
    })
    .await;
}

// ----- publishing -----

async fn confirm(connection: &Connection, options: ConfirmOptions) -> ConfirmChannel {
    let channel = connection.open_channel().await.unwrap();
    channel.confirm_select_with(options).await.unwrap()
}

/// A publish that waits for room has not been sent, and gives its turn to the next.
#[tokio::test(start_paused = true)]
async fn publish_that_waits_for_room() {
    at_every_drop(async |at| {
        let (broker, connection) = slow_broker(Rules::default()).await;
        let channel = confirm(&connection, ConfirmOptions::default().max_in_flight(1)).await;
        let first = channel.publish("", "q", mandatory("first")).await.unwrap();
        let waiting = drop_at(channel.publish("", "q", mandatory("waiting")), at);
        let behind = channel.publish("", "q", mandatory("behind"));
        let (waited, behind) = tokio::join!(waiting, behind);
        assert_eq!(first.await, Outcome::Acked);
        assert_eq!(behind.unwrap().await, Outcome::Acked);
        let ready = waited.is_some();
        if let Some(waited) = waited {
            assert_eq!(waited.unwrap().await, Outcome::Acked);
        }
        next_call_works(&channel).await;
        let last = if ready { 3 } else { 2 };
        let status = channel.status();
        assert_eq!((status.last, status.in_flight), (last, 0));
        drop(channel);
        let record = finish(broker, connection).await;
        let bodies: Vec<_> = record
            .publishes
            .iter()
            .map(|publish| &publish.body[..])
            .collect();
        let expected: &[&[u8]] = match ready {
            true => &[b"first", b"waiting", b"behind"],
            false => &[b"first", b"behind"],
        };
        assert_eq!(bodies, expected);
        ready
    })
    .await;
}

/// A publish with room is sent by its first poll, whole.
#[tokio::test(start_paused = true)]
async fn publish_with_room() {
    for plain in [true, false] {
        at_every_drop(async |at| {
            let (broker, connection) = slow_broker(Rules::default()).await;
            let channel = connection.open_channel().await.unwrap();
            let body = vec![b'x'; 300_000];
            let ready = if plain {
                let publish = drop_at(channel.publish("", "q", mandatory(body.clone())), at);
                let ready = publish.await.is_some();
                next_call_works(&channel).await;
                ready
            } else {
                let channel = channel.confirm_select().await.unwrap();
                let publish = drop_at(channel.publish("", "q", mandatory(body.clone())), at);
                // The confirm is dropped, too.
                let ready = publish.await.is_some();
                next_call_works(&channel).await;
                assert_eq!(channel.status().in_flight, 0);
                ready
            };
            let record = finish(broker, connection).await;
            assert_eq!(record.publishes.len(), usize::from(ready));
            assert!(record.publishes.iter().all(|publish| publish.body == body));
            ready
        })
        .await;
    }
}

/// The answer is forgotten, the accounting is not.
#[tokio::test(start_paused = true)]
async fn confirms_that_are_dropped() {
    at_every_drop(async |at| {
        let (broker, connection) = slow_broker(Rules {
            verdict: |tag| match tag {
                1 => Verdict::Nack,
                _ => Verdict::Ack,
            },
            ..Rules::default()
        })
        .await;
        let channel = confirm(&connection, ConfirmOptions::default()).await;
        let first = channel.publish("", "q", mandatory("1")).await.unwrap();
        let second = channel.publish("", "q", mandatory("2")).await.unwrap();
        let ready = drop_at(first, at).await.is_some();
        assert_eq!(second.await, Outcome::Acked);
        let status = channel.status();
        assert_eq!((status.in_flight, status.counts.nacked), (0, 1));
        drop(channel);
        finish(broker, connection).await;
        ready
    })
    .await;
}

/// The counts are told by the next call, whenever the one before was dropped.
#[tokio::test(start_paused = true)]
async fn wait_for_confirms() {
    at_every_drop(async |at| {
        let (broker, connection) = slow_broker(Rules::default()).await;
        let channel = confirm(&connection, ConfirmOptions::default()).await;
        for _ in 0..3 {
            let _forgotten = channel.publish("", "q", mandatory("x")).await.unwrap();
        }
        let minute = Duration::from_secs(60);
        let first = drop_at(channel.wait_for_confirms(minute), at).await;
        let second = channel.wait_for_confirms(minute).await.unwrap();
        let ready = first.is_some();
        let told = first.map_or(0, |counts| counts.unwrap().acked);
        assert_eq!((told + second.acked, second.unknown), (3, 0));
        drop(channel);
        finish(broker, connection).await;
        ready
    })
    .await;
}

// ----- streams -----

/// A delivery that was not taken is still there.
#[tokio::test(start_paused = true)]
async fn next_delivery() {
    at_every_drop(async |at| {
        let (broker, connection) = slow_broker(Rules {
            deliver: 2,
            ..Rules::default()
        })
        .await;
        let channel = connection.open_channel().await.unwrap();
        let mut consumer = channel.consume(Consume::new(short!("q"))).await.unwrap();
        let mut tags = Vec::new();
        let first = drop_at(consumer.next(), at).await;
        let ready = first.is_some();
        tags.extend(first.map(|delivery| delivery.unwrap().unwrap().tag().number()));
        while tags.len() < 2 {
            tags.push(consumer.next().await.unwrap().unwrap().tag().number());
        }
        assert_eq!(tags, [1, 2]);
        drop((consumer, channel));
        finish(broker, connection).await;
        ready
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn next_return() {
    at_every_drop(async |at| {
        let (broker, connection) = slow_broker(Rules {
            verdict: |_| Verdict::Return,
            ..Rules::default()
        })
        .await;
        let channel = confirm(&connection, ConfirmOptions::default()).await;
        let mut returns = channel.returns();
        // Nobody waits for this confirm, so its return is there.
        drop(channel.publish("", "q", mandatory("back")).await.unwrap());
        let first = drop_at(returns.next(), at).await;
        let ready = first.is_some();
        let returned = match first {
            Some(returned) => returned,
            None => returns.next().await,
        };
        let returned = returned.unwrap().unwrap();
        assert_eq!(returned.publication.message.body(), "back".as_bytes());
        drop((channel, returns));
        finish(broker, connection).await;
        ready
    })
    .await;
}

/// What was settled before it was dropped is settled: an abandoned future takes no acks with it.
#[tokio::test(start_paused = true)]
async fn acks_are_whole_or_not_at_all() {
    let (broker, connection) = slow_broker(Rules {
        deliver: 3,
        ..Rules::default()
    })
    .await;
    let channel = connection.open_channel().await.unwrap();
    let mut consumer = channel.consume(Consume::new(short!("q"))).await.unwrap();
    let first = consumer.next().await.unwrap().unwrap();
    let second = consumer.next().await.unwrap().unwrap();
    first.ack().unwrap();
    let _dropped = drop_at(
        channel.queue_declare(QueueDeclare::new(short!("x-1"))),
        DropAt::Polled(1),
    )
    .await;
    second.acker().nack(false).unwrap();
    assert_eq!(second.ack(), Err(UsageError::UnknownDeliveryTag(2)));
    next_call_works(&channel).await;
    drop((first, second, consumer, channel));
    let record = finish(broker, connection).await;
    assert_eq!(record.count(MethodId::BASIC_ACK), 1);
}
