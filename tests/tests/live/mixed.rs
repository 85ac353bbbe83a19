//! Four tasks publish 40,000 messages on one channel: routed, unroutable and mandatory, unroutable and not, rejected by
//! a full queue, in random order. Every outcome must be the right one for its message, and the queues must hold what
//! was acked.
//!
//! What is checked could be right by luck, or the check blind: so the bytes of the broker are recorded, and the same
//! check is run over what the usual rule, "a return belongs to the next ack", makes of them. It finds faults.

mod recording;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use amqp_client::codec::{ReplyCode, table};
use amqp_client::{
    Confirm, ConfirmChannel, ConfirmOptions, ExchangeDeclare, Followed, Match, Message, Outcome,
};
use amqp_tests::Broker;
use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::support::{
    channel, confirm_channel_with, connect_through, declare, declare_full, drain, name, raw, soon,
    tally, word,
};
use recording::{Rule, Said};

on_each_broker!(in two threads: forty_thousand);

const TASKS: u32 = 4;
const EACH: u32 = 10_000;
/// How many a task lets wait for their outcome.
const WINDOW: usize = 400;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Routed,
    Unroutable { mandatory: bool },
    Rejected,
}

/// A publish, by its number on the channel.
struct Sent {
    kind: Kind,
    routing_key: &'static str,
    message: Message,
}

impl Sent {
    fn random(rng: &mut StdRng, task: u32, number: u32) -> Self {
        let (kind, routing_key) = match rng.random_range(0..8) {
            0 | 1 => (Kind::Routed, "one"),
            2 => (Kind::Routed, "two"),
            3 => (Kind::Unroutable { mandatory: false }, "nowhere"),
            4 | 5 => (Kind::Unroutable { mandatory: true }, "nowhere"),
            6 => (Kind::Unroutable { mandatory: true }, "nowhere-else"),
            _ => (Kind::Rejected, "full"),
        };
        let padding = match rng.random_range(0..2_000) {
            0 => 200_000,
            _ => rng.random_range(0..300),
        };
        let body = format!("{task}-{number}-{}", " ".repeat(padding));
        let mut message = Message::new(body);
        if rng.random() {
            // Sorted by 4.x on the way back.
            message = message
                .headers(table! { "zone" => "eu", "attempt" => i32::from(rng.random::<u8>()) })
                .message_id(format!("{task}-{number}"))
                .content_type("text/plain");
        }
        // Where it can be routed it changes nothing.
        if kind == (Kind::Unroutable { mandatory: true })
            || (kind != Kind::Unroutable { mandatory: false } && rng.random())
        {
            message = message.mandatory();
        }
        Sent {
            kind,
            routing_key,
            message,
        }
    }

    /// What is wrong with what was said of this publish.
    fn fault(&self, said: &Said) -> Option<String> {
        let right = match (self.kind, said) {
            (Kind::Routed | Kind::Unroutable { mandatory: false }, Said::Acked) => true,
            (Kind::Rejected, Said::Nacked) => true,
            (Kind::Unroutable { mandatory: true }, Said::Returned(body)) => {
                body == self.message.body()
            }
            _ => false,
        };
        (!right).then(|| {
            let body = self.message.body();
            let body = String::from_utf8_lossy(&body[..body.len().min(12)]);
            format!("{:?} {body}: {said}", self.kind)
        })
    }
}

/// The faults of all that was said.
fn faults(sent: &HashMap<u64, Sent>, said: &HashMap<u64, Said>) -> Vec<String> {
    let mut faults: Vec<_> = sent
        .iter()
        .filter_map(|(sequence, sent)| match said.get(sequence) {
            Some(said) => sent.fault(said),
            None => Some(format!("{sequence}: nothing was said")),
        })
        .collect();
    let unknown = said.keys().filter(|sequence| !sent.contains_key(sequence));
    faults.extend(unknown.map(|sequence| format!("{sequence}: never published")));
    faults
}

async fn forty_thousand(broker: &'static Broker) {
    let seed = match std::env::var("AMQP_LIVE_SEED") {
        Ok(seed) => seed.parse().expect("AMQP_LIVE_SEED is a number"),
        Err(_) => rand::random::<u64>(),
    };
    println!("AMQP_LIVE_SEED={seed}");
    let vhost = broker.vhost("mixed").await;
    let (_proxy, link, connection) = connect_through(broker, &vhost, |options| options).await;
    let plain = channel(&connection).await;
    plain
        .exchange_declare(ExchangeDeclare::new(name("mixed"), name("direct")))
        .await
        .unwrap();
    declare(&connection, "one").await;
    declare(&connection, "two").await;
    declare_full(&connection, "full").await;
    for queue in ["one", "two", "full"] {
        let bind = plain.queue_bind(queue, "mixed", queue, table! {}).await;
        bind.unwrap();
    }

    let options = ConfirmOptions::default().max_in_flight(1_000);
    let channel = confirm_channel_with(&connection, options).await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| tokio::spawn(publish(channel.clone(), seed, task)))
        .collect();
    let (mut sent, mut said) = (HashMap::new(), HashMap::new());
    for task in tasks {
        for (sequence, publish, outcome) in task.await.unwrap() {
            assert!(sent.insert(sequence, publish).is_none(), "{sequence} twice");
            said.insert(sequence, outcome);
        }
    }
    assert_eq!(sent.len() as u32, TASKS * EACH);

    // The right outcome for each.
    let found = faults(&sent, &said);
    assert!(
        found.is_empty(),
        "{} faults: {:?}",
        found.len(),
        &found[..found.len().min(10)]
    );
    let status = channel.status();
    let words = tally(said.values().map(Said::word));
    println!("{words:?}");
    assert_eq!(status.in_flight, 0);
    assert_eq!(status.counts.settled(), u64::from(TASKS * EACH));
    assert_eq!(status.counts.returned as usize, words["returned"]);
    assert_eq!(status.counts.nacked as usize, words["nacked"]);

    // The queues hold exactly what was routed and acked.
    let mut raw = raw(broker.address(), &vhost).await;
    for queue in ["one", "two"] {
        let expected: HashSet<_> = sent
            .iter()
            .filter(|(sequence, sent)| sent.routing_key == queue && said[sequence] == Said::Acked)
            .map(|(_, sent)| sent.message.body().clone())
            .collect();
        let bodies = drain(&mut raw, queue).await;
        assert_eq!(bodies.len(), expected.len(), "{queue}");
        let queued: HashSet<_> = bodies.into_iter().collect();
        assert!(queued == expected, "{queue}");
    }
    assert_eq!(drain(&mut raw, "full").await, ["filler"]);

    // What the broker said, read without the client. Told by content it comes to the same; given to the next ack, the
    // same check finds faults.
    let frames = recording::confirms(&link.to_client().bytes(), channel.id().number);
    let by_content = frames.attribute(Rule::Content(&bodies_by_number(&sent)));
    let found = faults(&sent, &by_content);
    assert!(found.is_empty(), "{found:?}");
    let to_next_ack = frames.attribute(Rule::NextAck);
    let found = faults(&sent, &to_next_ack);
    println!(
        "{} returns, {} of them with acks of others before their own; given to the next ack: {} faults",
        frames.returns(),
        frames.overtaken(&bodies_by_number(&sent)),
        found.len()
    );
    assert!(
        !found.is_empty(),
        "the broker made it too easy: seed {seed}"
    );
    connection.close().await.unwrap();
}

fn bodies_by_number(sent: &HashMap<u64, Sent>) -> HashMap<Bytes, u64> {
    let bodies = sent
        .iter()
        .map(|(sequence, sent)| (sent.message.body().clone(), *sequence));
    bodies.collect()
}

/// One of the tasks: publishes, and settles the oldest when enough are waiting.
async fn publish(channel: ConfirmChannel, seed: u64, task: u32) -> Vec<(u64, Sent, Said)> {
    let mut rng = StdRng::seed_from_u64(seed.wrapping_add(u64::from(task)));
    let mut waiting = VecDeque::new();
    let mut settled = Vec::new();
    for number in 0..EACH {
        let sent = Sent::random(&mut rng, task, number);
        let message = sent.message.clone();
        let confirm = channel.publish("mixed", sent.routing_key, message).await;
        waiting.push_back((sent, confirm.unwrap()));
        if waiting.len() == WINDOW {
            let (sent, confirm) = waiting.pop_front().expect("it is full");
            settled.push(settle(sent, confirm).await);
        }
    }
    for (sent, confirm) in waiting {
        settled.push(settle(sent, confirm).await);
    }
    settled
}

async fn settle(sent: Sent, confirm: Confirm) -> (u64, Sent, Said) {
    let sequence = confirm.sequence_number();
    let outcome = soon("an outcome", confirm).await;
    let said = match &outcome {
        Outcome::Acked => Said::Acked,
        Outcome::Nacked(publication) => {
            assert_eq!(publication.message, sent.message);
            Said::Nacked
        }
        Outcome::Returned(returned) => {
            assert_eq!(returned.code, ReplyCode::NO_ROUTE);
            assert_eq!(returned.text, "NO_ROUTE");
            assert_eq!(
                (returned.followed, returned.matched),
                (Followed::Ack, Match::Unique)
            );
            assert_eq!(returned.publication.exchange, "mixed");
            assert_eq!(returned.publication.routing_key, sent.routing_key);
            assert_eq!(returned.publication.message, sent.message);
            Said::Returned(returned.publication.message.body().clone())
        }
        Outcome::Unknown { .. } => Said::Nothing(Arc::from(word(&outcome))),
    };
    (sequence, sent, said)
}
