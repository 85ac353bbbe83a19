//! Many calls at once against a broker: every caller gets its own reply, whoever gives up meanwhile.

use std::sync::Arc;
use std::time::Duration;

use amqp_client::codec::Table;
use amqp_client::{Channel, Connection, QueueDeclare, QueueDelete};
use amqp_tests::Broker;
use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::support::{channel, connect, name, raw, soon, until};

on_each_broker!(over_one_channel, over_many_channels);
on_each_broker!(in two threads: over_many_channels_in_parallel);

const CALLS: u32 = 200;

/// How many messages are in the queue of this number: what tells its answers from others'.
fn filled(number: u32) -> u32 {
    number * 7 % 11
}

fn queue(number: u32) -> String {
    format!("q-{number}")
}

/// One call of a number of its own, and whether the answer was the one to it.
async fn call(channel: &Channel, number: u32) {
    let queue = name(queue(number));
    match number % 5 {
        0 => {
            let info = channel.queue_declare(QueueDeclare::new(queue.clone()).durable());
            let info = info.await.unwrap();
            assert_eq!((info.name, info.message_count), (queue, filled(number)));
        }
        1 => {
            let new = format!("new-{number}");
            let info = channel
                .queue_declare(QueueDeclare::new(name(new.as_str())))
                .await;
            let info = info.unwrap();
            assert_eq!((info.name, info.message_count), (name(new), 0));
        }
        2 => {
            let deleted = channel.queue_delete(QueueDelete::new(queue)).await;
            assert_eq!(deleted.unwrap(), filled(number));
        }
        3 => {
            let key = queue.clone();
            let bound = channel.queue_bind(queue, "amq.direct", key, Table::default());
            bound.await.unwrap();
        }
        _ => {
            let purged = channel.queue_purge(queue).await.unwrap();
            assert_eq!(purged, filled(number));
        }
    }
}

async fn over_one_channel(broker: &'static Broker) {
    calls(broker, 1).await;
}

async fn over_many_channels(broker: &'static Broker) {
    calls(broker, 40).await;
}

async fn over_many_channels_in_parallel(broker: &'static Broker) {
    calls(broker, 7).await;
}

async fn calls(broker: &'static Broker, channels: usize) {
    let seed = match std::env::var("AMQP_LIVE_SEED") {
        Ok(seed) => seed.parse().expect("AMQP_LIVE_SEED is a number"),
        Err(_) => rand::random::<u64>(),
    };
    println!("AMQP_LIVE_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let vhost = broker.vhost("concurrent").await;
    let mut raw = raw(broker.address(), &vhost).await;
    for number in 0..CALLS {
        raw.declare(1, &queue(number), Table::default()).await;
        for _ in 0..filled(number) {
            raw.publish(1, "", &queue(number), b"x").await;
        }
    }
    let last = CALLS - 1;
    until("all messages are in their queues", async || {
        raw.message_count(1, &queue(last)).await == filled(last)
    })
    .await;

    let connection = connect(&vhost.uri).await;
    let mut open = Vec::new();
    for _ in 0..channels {
        open.push(Arc::new(channel(&connection).await));
    }
    let tasks: Vec<_> = (0..CALLS)
        .map(|number| {
            let channel = open[number as usize % channels].clone();
            let patience = match random.random_range(0..3) {
                0 => Duration::from_micros(random.random_range(0..80_000)),
                // Not given up.
                _ => Duration::from_secs(20),
            };
            tokio::spawn(async move {
                let call = call(&channel, number);
                let answered = tokio::time::timeout(patience, call).await.is_ok();
                assert!(answered || patience < Duration::from_secs(1));
                answered
            })
        })
        .collect();
    let mut answered = Vec::new();
    for (number, done) in soon("all calls", join_all(tasks))
        .await
        .into_iter()
        .enumerate()
    {
        if done.unwrap() {
            answered.push(number as u32);
        }
    }
    println!("{} of {CALLS} were answered", answered.len());
    assert!(answered.len() >= CALLS as usize / 2);

    // Each channel is as good as new.
    for (at, channel) in open.iter().enumerate() {
        let declare = QueueDeclare::new(name(format!("after-{at}")));
        let info = soon("an answer", channel.queue_declare(declare))
            .await
            .unwrap();
        assert_eq!(info.name, format!("after-{at}").as_str());
        assert!(channel.closed().is_none());
    }
    took_effect(&connection, &answered).await;
    connection.close().await.unwrap();
}

/// What was answered took effect.
async fn took_effect(connection: &Connection, answered: &[u32]) {
    let checking = channel(connection).await;
    for &number in answered {
        match number % 5 {
            1 => {
                let new = QueueDeclare::new(name(format!("new-{number}"))).passive();
                checking.queue_declare(new).await.unwrap();
            }
            2 => {
                let gone = QueueDelete::new(name(queue(number)));
                assert_eq!(checking.queue_delete(gone).await.unwrap(), 0);
            }
            3 => {
                let probe = amqp_client::Message::new("probe");
                checking
                    .publish("amq.direct", name(queue(number)), probe)
                    .await
                    .unwrap();
                // Counts may be from before the message; a get comes after it.
                let got = checking.get(name(queue(number)), true).await.unwrap();
                assert_eq!(got.expect("a message").message_count, filled(number));
            }
            4 => {
                let passive = QueueDeclare::new(name(queue(number))).passive();
                assert_eq!(
                    checking.queue_declare(passive).await.unwrap().message_count,
                    0
                );
            }
            _ => {}
        }
    }
}
