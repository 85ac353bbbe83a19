//! The connection cut at every frame boundary of a session, a byte before and after it, and every 37th byte, in both
//! directions: each publish has one outcome, and what is in the queue agrees with it.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use amqp_client::error::{ErrorKind, NotSent, UsageError};
use amqp_client::{ConfirmChannel, ConnectOptions, Connection, Message, Outcome, UnknownReason};
use amqp_tests::broker::Vhost;
use amqp_tests::proxy::{Ending, Faults, Flow, Plan};
use amqp_tests::{Broker, Proxy};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::support::{connect, declare, drain, no_connection_left, raw, soon, tally, until, word};

on_each_broker!(what_the_client_sends, what_the_server_sends);

const PUBLISHES: usize = 50;
/// How many sessions run at a time.
const AT_A_TIME: usize = 8;
/// What every deadline of the client is set to. None of them is to be reached: a cut is noticed at once.
const DEADLINE: Duration = Duration::from_secs(15);

/// Which direction is cut.
#[derive(Debug, Clone, Copy)]
enum Cut {
    ToServer,
    ToClient,
}

async fn what_the_client_sends(broker: &'static Broker) {
    cut_everywhere(broker, Cut::ToServer).await;
}

async fn what_the_server_sends(broker: &'static Broker) {
    cut_everywhere(broker, Cut::ToClient).await;
}

/// A session that is to be cut.
struct Session<'a> {
    broker: &'a Broker,
    vhost: &'a Vhost,
    /// Unique; all have the same length, so that all sessions have the same bytes.
    name: String,
    plan: Plan,
    /// Lets the connection's task run after each publish, rather than after all of them.
    yields: bool,
}

/// What became of a publish.
#[derive(Debug)]
enum Fate {
    /// The client said that nothing was sent.
    NotSent,
    Outcome(Outcome),
}

impl Fate {
    fn word(&self) -> &'static str {
        match self {
            Fate::NotSent => "not sent",
            Fate::Outcome(outcome) => word(outcome),
        }
    }
}

async fn cut_everywhere(broker: &'static Broker, direction: Cut) {
    let vhost = broker.vhost("cuts").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    connection.close().await.unwrap();
    drop(connection);
    no_connection_left(broker, &vhost).await;
    let tasks = Handle::current().metrics().num_alive_tasks();

    // One that is left alone, for where the frames are.
    let mut fates = Vec::new();
    let whole = Session {
        broker,
        vhost: &vhost,
        name: "whole".to_owned(),
        plan: Plan::default(),
        yields: false,
    };
    let (proxy, fates_of_whole) = whole.run().await;
    let words = tally(fates_of_whole.iter().map(|(_, fate)| fate.word()));
    assert_eq!((words["acked"], words["returned"]), (45, 5));
    fates.extend(fates_of_whole);
    let link = proxy.link(0).await;
    let offsets = match direction {
        Cut::ToServer => offsets(link.to_server()),
        Cut::ToClient => offsets(link.to_client()),
    };
    drop((proxy, link));

    let count = offsets.len();
    let sessions = offsets.into_iter().enumerate().map(|(at, offset)| {
        // Both ways, and each of them with every distance to the frame's boundary.
        let how = match at % 2 {
            0 => Ending::Close,
            _ => Ending::Reset,
        };
        let faults = Faults::default().cut_at(offset, how);
        let plan = match direction {
            Cut::ToServer => Plan {
                to_server: faults,
                ..Plan::default()
            },
            Cut::ToClient => Plan {
                to_client: faults,
                ..Plan::default()
            },
        };
        let session = Session {
            broker,
            vhost: &vhost,
            name: format!("{offset:05}"),
            plan,
            yields: at / 2 % 2 == 1,
        };
        session.run_and_come_again()
    });
    let mut sessions = futures_util::stream::iter(sessions).buffer_unordered(AT_A_TIME);
    while let Some(of_one) = sessions.next().await {
        fates.extend(of_one);
    }
    drop(sessions);

    until("no task is left", async || {
        Handle::current().metrics().num_alive_tasks() == tasks
    })
    .await;
    no_connection_left(broker, &vhost).await;
    let bodies = drain(&mut raw(broker.address(), &vhost).await, "q").await;
    let seen = check(&fates, bodies);
    println!("{count} cuts: {seen:?}");
    // All that can happen did.
    for word in [
        "acked, in the queue",
        "returned, not in the queue",
        "unknown, connection closed, in the queue",
        "unknown, connection closed, not in the queue",
        "not sent, not in the queue",
    ] {
        assert!(seen.contains_key(word), "never {word}: {seen:?}");
    }
}

/// Every frame boundary, the bytes before and after it, and every 37th byte.
fn offsets(flow: &Flow) -> BTreeSet<u64> {
    let spans = flow.frames();
    let end = spans.last().map_or(0, |span| span.range.end);
    let boundaries = spans.iter().map(|span| span.range.start).chain([end]);
    let around = boundaries.flat_map(|at| [at.saturating_sub(1), at, at + 1]);
    let offsets = around.chain((0..end).step_by(37));
    offsets.filter(|offset| *offset <= end).collect()
}

/// Compares the queue with what the client said.
fn check(fates: &[(Bytes, Fate)], bodies: Vec<Bytes>) -> std::collections::BTreeMap<String, usize> {
    let mut queued: HashMap<Bytes, usize> = HashMap::new();
    for body in bodies {
        *queued.entry(body).or_default() += 1;
    }
    let mut seen = std::collections::BTreeMap::new();
    for (body, fate) in fates {
        let times = queued.remove(body).unwrap_or(0);
        let right = match fate {
            Fate::NotSent => times == 0,
            Fate::Outcome(Outcome::Acked) => times == 1,
            Fate::Outcome(Outcome::Returned(_) | Outcome::Nacked(_)) => times == 0,
            Fate::Outcome(Outcome::Unknown { reason, .. }) => match reason {
                UnknownReason::ConnectionClosed { written: false, .. } => times == 0,
                UnknownReason::ConnectionClosed { written: true, .. } => times <= 1,
                UnknownReason::TimedOut | UnknownReason::ChannelClosed(_) => false,
            },
        };
        assert!(
            right,
            "{body:?} is {times} times in the queue, and {fate:?}"
        );
        let place = if times == 0 { "not in" } else { "in" };
        *seen
            .entry(format!("{}, {place} the queue", fate.word()))
            .or_default() += 1;
    }
    assert!(queued.is_empty(), "published by nobody: {queued:?}");
    seen
}

impl Session<'_> {
    /// The session, and a connection after it.
    async fn run_and_come_again(self) -> Vec<(Bytes, Fate)> {
        let (vhost, name) = (self.vhost, self.name.clone());
        let (proxy, mut fates) = self.run().await;
        assert_eq!(fates.len(), PUBLISHES, "{name}");
        let connection = connect(&proxy.uri(&vhost.name)).await;
        let channel = crate::support::confirm_channel(&connection).await;
        let body = Bytes::from(format!("{name}-after"));
        let confirm = channel.publish("", "q", Message::new(body.clone()));
        let outcome = soon("an ack", confirm.await.unwrap()).await;
        assert_eq!(outcome, Outcome::Acked, "{name}");
        connection.close().await.unwrap();
        fates.push((body, Fate::Outcome(outcome)));
        fates
    }

    /// Connects through a proxy of its own and publishes, until the cut or the end.
    async fn run(self) -> (Proxy, Vec<(Bytes, Fate)>) {
        let proxy = Proxy::start(self.broker.address()).await;
        proxy.plan(self.plan.clone());
        let options = ConnectOptions::try_from(proxy.uri(&self.vhost.name).as_str())
            .unwrap()
            .connect_deadline(DEADLINE)
            .handshake_deadline(DEADLINE)
            .rpc_deadline(DEADLINE)
            .confirm_deadline(DEADLINE)
            .close_deadline(DEADLINE);
        let opened = timeout(DEADLINE, Connection::open(options)).await;
        let fates = match opened.expect("an answer within the deadline") {
            Ok(connection) => self.publish_on(&connection).await,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Handshake, "{error}");
                self.all_not_sent()
            }
        };
        (proxy, fates)
    }

    fn body(&self, number: usize) -> Bytes {
        format!("{}-{number:02}", self.name).into()
    }

    fn all_not_sent(&self) -> Vec<(Bytes, Fate)> {
        let numbers = 0..PUBLISHES;
        numbers
            .map(|number| (self.body(number), Fate::NotSent))
            .collect()
    }

    async fn publish_on(&self, connection: &Connection) -> Vec<(Bytes, Fate)> {
        let channel = match connection.open_channel().await {
            Ok(channel) => channel.confirm_select().await,
            Err(error) => Err(error),
        };
        let fates = match channel {
            Ok(channel) => {
                let fates = timeout(DEADLINE, self.publish(&channel)).await;
                assert_eq!(channel.status().in_flight, 0);
                fates.expect("outcomes within the deadline")
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionClosed, "{error}");
                self.all_not_sent()
            }
        };
        let ended = async {
            // Cut by now, or while it closes, or not at all.
            let _ = connection.close().await;
            connection.closed().await
        };
        timeout(DEADLINE, ended)
            .await
            .expect("an end within the deadline");
        fates
    }

    /// Publishes all, and then waits for all.
    async fn publish(&self, channel: &ConfirmChannel) -> Vec<(Bytes, Fate)> {
        let mut publishes = Vec::new();
        for number in 0..PUBLISHES {
            let body = self.body(number);
            // Some come back. To an address of the same length.
            let key = if number % 10 == 9 { "-" } else { "q" };
            let message = Message::new(body.clone()).mandatory();
            publishes.push((body, channel.publish("", key, message).await));
            if self.yields {
                tokio::task::yield_now().await;
            }
        }
        join_all(publishes.into_iter().map(async |(body, published)| {
            let fate = match published {
                Ok(confirm) => Fate::Outcome(confirm.await),
                Err(error) => {
                    assert!(
                        matches!(
                            error.reason,
                            NotSent::Usage(UsageError::ConnectionClosed(_))
                        ),
                        "{error}"
                    );
                    assert_eq!(error.publication.message.body(), &body);
                    Fate::NotSent
                }
            };
            (body, fate)
        }))
        .await
    }
}
