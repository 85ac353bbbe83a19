//! Many calls at once: every caller gets its own reply, whoever gives up meanwhile.

use std::sync::Arc;
use std::time::Duration;

use amqp_client::codec::{MethodId, ShortStr, Table, short};
use amqp_client::{Channel, Consume, QueueDeclare, QueueDelete};
use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::broker::{AutoBroker, Rules};
use super::support::{DropAt, connected, drop_at, no_task_left};

fn name(prefix: &str, number: u32) -> ShortStr<'static> {
    ShortStr::try_from(format!("{prefix}-{number}")).unwrap()
}

/// One call, by its number, and whether it got the reply that was meant for it.
async fn one_call(channel: &Channel, number: u32) {
    match number % 8 {
        0 => {
            let declare = QueueDeclare::new(name("declare", number));
            let info = channel.queue_declare(declare).await.unwrap();
            assert_eq!(info.name, name("declare", number));
            assert_eq!(info.message_count, number);
        }
        1 => {
            let delete = QueueDelete::new(name("delete", number));
            assert_eq!(channel.queue_delete(delete).await.unwrap(), number);
        }
        2 => {
            let purged = channel.queue_purge(name("purge", number)).await.unwrap();
            assert_eq!(purged, number);
        }
        3 => {
            let (queue, arguments) = (name("bind", number), Table::default());
            channel
                .queue_bind(queue, "e", "k", arguments)
                .await
                .unwrap();
        }
        4 => {
            let got = channel
                .get(name("get", number), false)
                .await
                .unwrap()
                .unwrap();
            assert_eq!(got.message_count, number);
            assert_eq!(got.delivery.body(), name("get", number).as_bytes());
            got.delivery.ack().unwrap();
        }
        5 => {
            let consumer = channel.consume(Consume::new(name("consume", number))).await;
            assert_eq!(*consumer.unwrap().tag(), name("consume", number));
        }
        6 => channel
            .exchange_delete(name("e", number), false)
            .await
            .unwrap(),
        _ => channel.qos(10, false).await.unwrap(),
    }
}

/// Makes 200 calls, of which some are dropped at some point, on the channels in turn.
async fn calls(channels: usize, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let (peer, connection) = connected().await;
    let rules = Rules {
        delay: Duration::from_millis(2),
        deliver: 1,
        ..Rules::default()
    };
    let broker = AutoBroker::start(peer, rules);
    let mut open = Vec::new();
    for _ in 0..channels {
        open.push(Arc::new(connection.open_channel().await.unwrap()));
    }
    let tasks: Vec<_> = (0..200)
        .map(|number| {
            let channel = open[number as usize % channels].clone();
            let at = match random.random_range(0..4) {
                0 => DropAt::Polled(random.random_range(0..3)),
                1 => DropAt::Woken(random.random_range(0..3)),
                // Never.
                _ => DropAt::Polled(usize::MAX),
            };
            let start = Duration::from_millis(random.random_range(0..100));
            tokio::spawn(async move {
                tokio::time::sleep(start).await;
                let done = drop_at(one_call(&channel, number), at).await.is_some();
                assert!(done || at != DropAt::Polled(usize::MAX));
                done
            })
        })
        .collect();
    let done = join_all(tasks).await;
    let done = done
        .into_iter()
        .filter(|done| *done.as_ref().unwrap())
        .count();
    assert!(
        (90..200).contains(&done),
        "{done} of 200 were to be answered"
    );
    for channel in &open {
        // And the one after all of them.
        one_call(channel, 1000).await;
        channel.close().await.unwrap();
    }
    drop(open);
    connection.close().await.unwrap();
    drop(connection);
    let record = broker.ended().await;
    // What nobody waited for any more was undone, and what was got was settled.
    assert_eq!(
        record.count(MethodId::BASIC_CONSUME),
        record.count(MethodId::BASIC_CANCEL)
    );
    let settled = record.count(MethodId::BASIC_ACK) + record.count(MethodId::BASIC_NACK);
    let delivered = record.count(MethodId::BASIC_GET) + record.count(MethodId::BASIC_CONSUME);
    assert_eq!(settled, delivered);
    no_task_left().await;
}

#[tokio::test(start_paused = true)]
async fn two_hundred_calls_over_one_channel() {
    for seed in 0..20 {
        calls(1, seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_hundred_calls_over_many_channels() {
    for seed in 0..20 {
        calls(17, seed).await;
    }
}

/// On several threads, where futures are dropped at any moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_calls_in_parallel() {
    for seed in 0..2 {
        calls(1, seed).await;
    }
    calls(17, 5).await;
}

/// A number of a channel is used anew, and its new user gets nothing of what was for the old one.
#[tokio::test(start_paused = true)]
async fn replies_do_not_outlive_their_channel() {
    let (peer, connection) = connected().await;
    let rules = Rules {
        delay: Duration::from_millis(2),
        ..Rules::default()
    };
    let broker = AutoBroker::start(peer, rules);
    for round in 0..20 {
        let channel = connection.open_channel().await.unwrap();
        let declare = channel.queue_declare(QueueDeclare::new(name("old", round)));
        assert!(drop_at(declare, DropAt::Polled(1)).await.is_none());
        drop(channel);
        let next = connection.open_channel().await.unwrap();
        let info = next
            .queue_declare(QueueDeclare::new(short!("new-7")))
            .await
            .unwrap();
        assert_eq!(
            (info.name.as_bytes(), info.message_count),
            (&b"new-7"[..], 7)
        );
        next.close().await.unwrap();
    }
    assert_eq!(connection.open_channels(), 0);
    connection.close().await.unwrap();
    drop(connection);
    broker.ended().await;
    no_task_left().await;
}
