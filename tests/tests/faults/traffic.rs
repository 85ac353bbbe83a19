//! Publishing, consuming and calling until the connection ends, and whether what was said of it is true.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use amqp_client::codec::{Table, short};
use amqp_client::error::{CloseCause, Closed, ErrorKind, NotSent, UsageError};
use amqp_client::{
    ConfirmChannel, ConfirmOptions, ConnectOptions, Connection, Consume, Event, Message, Outcome,
    QueueDeclare, UnknownReason,
};
use amqp_tests::Broker;
use amqp_tests::broker::Vhost;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::support::{channel, confirm_channel_with, drain, name, raw, soon, tally, until, word};

/// What publishers fill and nobody empties, and what a consumer empties.
const QUEUES: [&str; 2] = ["kept", "consumed"];
const PUBLISHERS: u32 = 4;

/// A connection with all that can be under way on it.
pub(crate) struct Traffic {
    pub(crate) connection: Connection,
    publishers: Vec<JoinHandle<Vec<Published>>>,
    consumer: JoinHandle<Consumed>,
    caller: JoinHandle<Arc<Closed>>,
    events: JoinHandle<Vec<Event>>,
    returns: JoinHandle<()>,
    acked: Arc<AtomicUsize>,
    tasks: usize,
}

struct Published {
    body: Bytes,
    queue: &'static str,
    /// `None`: refused, nothing was sent.
    outcome: Option<Outcome>,
}

#[derive(Default)]
struct Consumed {
    received: Vec<Bytes>,
    /// Acked by us; the ack may be lost with the connection.
    acked: HashSet<Bytes>,
    end: Option<Arc<Closed>>,
}

impl Traffic {
    /// Declares durable queues, and publishes persistent messages to them until the connection ends.
    pub(crate) async fn start(node: &Broker, vhost: &Vhost, heartbeat: u16) -> Self {
        let mut declaring = raw(node.address(), vhost).await;
        for queue in QUEUES {
            declaring.declare(1, queue, Table::default()).await;
        }
        declaring.close().await;
        node.sync().await;
        let tasks = Handle::current().metrics().num_alive_tasks();
        let options = ConnectOptions::try_from(vhost.uri.as_str())
            .unwrap()
            .heartbeat(heartbeat);
        let connection = soon("a connection", Connection::open(options))
            .await
            .unwrap();

        let mut events = connection.events();
        let events = tokio::spawn(async move {
            let mut seen = Vec::new();
            while let Some(event) = events.next().await {
                seen.push(event);
            }
            seen
        });
        let acked = Arc::new(AtomicUsize::new(0));
        let mut publishers = Vec::new();
        for pair in 0..PUBLISHERS / 2 {
            let options = ConfirmOptions::default().max_in_flight(50);
            let channel = confirm_channel_with(&connection, options).await;
            for number in [2 * pair, 2 * pair + 1] {
                let publishing = publish(channel.clone(), number, acked.clone());
                publishers.push(tokio::spawn(publishing));
            }
        }
        let consumer = tokio::spawn(consume(channel(&connection).await));
        let calling = channel(&connection).await;
        let mut returns = calling.returns();
        let returns = tokio::spawn(async move {
            assert!(returns.next().await.is_none());
        });
        let caller = tokio::spawn(async move {
            loop {
                let passive = QueueDeclare::new(short!("kept")).passive();
                if let Err(error) = calling.queue_declare(passive).await {
                    assert_eq!(error.kind(), ErrorKind::ConnectionClosed, "{error}");
                    return Arc::new(error.closed().unwrap().clone());
                }
            }
        });
        Traffic {
            connection,
            publishers,
            consumer,
            caller,
            events,
            returns,
            acked,
            tasks,
        }
    }

    /// Waits until all of it is under way.
    pub(crate) async fn under_way(&self) {
        until("some hundred acks", async || {
            self.acked.load(Ordering::Relaxed) >= 400
        })
        .await;
    }

    /// Waits until the connection has ended and everybody was told so, and nothing is left of it.
    pub(crate) async fn ended(self, expected: impl Fn(&Closed) -> bool) -> Fates {
        let closed = soon("the end", self.connection.closed()).await;
        assert!(expected(&closed), "{closed:?}");
        let mut published = Vec::new();
        for publisher in self.publishers {
            published.extend(soon("all outcomes", publisher).await.unwrap());
        }
        for one in &published {
            if let Some(Outcome::Unknown {
                reason,
                publication,
            }) = &one.outcome
            {
                let UnknownReason::ConnectionClosed { closed: why, .. } = reason else {
                    panic!("{reason:?}");
                };
                assert_eq!(*why, closed);
                assert_eq!(publication.message.body(), &one.body);
            }
        }
        let consumed = soon("the consumer's end", self.consumer).await.unwrap();
        let end = consumed.end.as_ref().expect("it is told how");
        assert_eq!(end.cause, Some(CloseCause::Connection(closed.clone())));
        assert_eq!(soon("the caller's end", self.caller).await.unwrap(), closed);
        soon("the end of returns", self.returns).await.unwrap();
        let events = soon("the end of events", self.events).await.unwrap();
        let Some((Event::Closed(last), before)) = events.split_last() else {
            panic!("{events:?}");
        };
        assert_eq!(*last, closed);
        // Each channel's end was told before.
        assert_eq!(before.len(), PUBLISHERS as usize / 2 + 2, "{before:?}");
        for event in before {
            assert!(matches!(event, Event::ChannelClosed { closed: end, .. }
                if end.cause == Some(CloseCause::Connection(closed.clone()))));
        }
        let error = self.connection.close().await.unwrap_err();
        assert_eq!(error.closed(), Some(&*closed));
        let error = self.connection.open_channel().await.unwrap_err();
        assert_eq!(error.closed(), Some(&*closed));
        drop(self.connection);
        until("no task is left", async || {
            Handle::current().metrics().num_alive_tasks() <= self.tasks
        })
        .await;
        Fates {
            published,
            consumed,
        }
    }
}

async fn publish(channel: ConfirmChannel, number: u32, acked: Arc<AtomicUsize>) -> Vec<Published> {
    let mut publishes = Vec::new();
    for index in 0.. {
        let queue = QUEUES[index % 2];
        let body = Bytes::from(format!("{number}-{index}"));
        let message = Message::new(body.clone()).persistent().mandatory();
        match channel.publish("", name(queue), message).await {
            Ok(confirm) => {
                let acked = acked.clone();
                let outcome = tokio::spawn(async move {
                    let outcome = confirm.await;
                    if outcome.is_acked() {
                        acked.fetch_add(1, Ordering::Relaxed);
                    }
                    outcome
                });
                publishes.push((body, queue, Some(outcome)));
            }
            Err(error) => {
                let usage = matches!(
                    error.reason,
                    NotSent::Usage(UsageError::ConnectionClosed(_))
                );
                assert!(usage, "{error}");
                assert_eq!(error.publication.message.body(), &body);
                publishes.push((body, queue, None));
                break;
            }
        }
    }
    let outcomes = publishes.into_iter().map(async |(body, queue, outcome)| {
        let outcome = match outcome {
            Some(outcome) => Some(outcome.await.unwrap()),
            None => None,
        };
        Published {
            body,
            queue,
            outcome,
        }
    });
    join_all(outcomes).await
}

/// Consumes, and acks most of it.
async fn consume(channel: amqp_client::Channel) -> Consumed {
    let mut consumed = Consumed::default();
    channel.qos(50, false).await.unwrap();
    let mut consumer = channel
        .consume(Consume::new(short!("consumed")))
        .await
        .unwrap();
    while let Some(next) = consumer.next().await {
        match next {
            Ok(delivery) => {
                let body = Bytes::copy_from_slice(delivery.body());
                consumed.received.push(body.clone());
                // Every hundredth stays with us until the end.
                if consumed.received.len() % 100 != 0 && delivery.ack().is_ok() {
                    consumed.acked.insert(body);
                }
            }
            Err(error) => consumed.end = Some(error.0),
        }
    }
    consumed
}

/// What became of everything.
pub(crate) struct Fates {
    published: Vec<Published>,
    consumed: Consumed,
}

impl Fates {
    /// Compares the queues with what was said.
    pub(crate) async fn check(&self, node: &Broker, vhost: &Vhost) {
        let mut queued: HashMap<Bytes, usize> = HashMap::new();
        let mut raw = raw(node.address(), vhost).await;
        for queue in QUEUES {
            for body in drain(&mut raw, queue).await {
                *queued.entry(body).or_default() += 1;
            }
        }
        raw.close().await;
        let received: HashSet<_> = self.consumed.received.iter().cloned().collect();
        assert_eq!(
            received.len(),
            self.consumed.received.len(),
            "delivered twice"
        );
        for published in &self.published {
            let body = &published.body;
            let times = queued.remove(body).unwrap_or(0);
            let acked_by_us = self.consumed.acked.contains(body);
            let seen = received.contains(body);
            let right = match &published.outcome {
                Some(Outcome::Acked) => times == 1 || (times == 0 && acked_by_us),
                Some(Outcome::Unknown {
                    reason: UnknownReason::ConnectionClosed { written: true, .. },
                    ..
                }) => times <= 1,
                // Not sent, or never written.
                None
                | Some(Outcome::Unknown {
                    reason: UnknownReason::ConnectionClosed { written: false, .. },
                    ..
                }) => times == 0 && !seen,
                Some(_) => false,
            };
            assert!(
                right,
                "{body:?} is {times} times in {}, received: {seen}, acked by us: {acked_by_us}, and {:?}",
                published.queue, published.outcome
            );
        }
        assert!(queued.is_empty(), "published by nobody: {queued:?}");
        let words = self
            .published
            .iter()
            .map(|published| match &published.outcome {
                Some(outcome) => word(outcome),
                None => "not sent",
            });
        println!(
            "{:?}; {} received",
            tally(words),
            self.consumed.received.len()
        );
    }
}
