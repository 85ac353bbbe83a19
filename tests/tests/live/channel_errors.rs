//! A channel error among pipelined publishes: what the broker did not answer is unknown, and nothing else is concerned.

use std::collections::HashSet;
use std::process::Stdio;

use amqp_client::codec::{MethodId, ReplyCode};
use amqp_client::error::{Closed, Initiator, NotSent, UsageError};
use amqp_client::{Connection, Message, Outcome, UnknownReason};
use amqp_tests::Broker;
use bytes::Bytes;
use futures_util::future::join_all;

use crate::support::{
    channel, confirm_channel, connect, declare, drain, name, raw, soon, tally, until, word,
};

on_each_broker!(
    among_pipelined_publishes,
    five_thousand_in_a_row_leak_nothing
);

#[track_caller]
fn is_404(closed: &Closed) {
    assert_eq!(closed.initiator, Initiator::Server);
    assert_eq!(closed.code, ReplyCode::NOT_FOUND);
    assert_eq!(closed.method, Some(MethodId::BASIC_PUBLISH));
    let text = closed.text.to_string_lossy();
    assert!(text.contains("no exchange 'missing' in vhost"), "{text}");
}

async fn among_pipelined_publishes(broker: &'static Broker) {
    let vhost = broker.vhost("errors").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    declare(&connection, "other").await;
    let other = confirm_channel(&connection).await;
    for round in 0..20 {
        let erring = confirm_channel(&connection).await;
        let mut confirms = Vec::new();
        let mut others = Vec::new();
        for number in 0..100 {
            let body = format!("{round}-{number}");
            let exchange = if number == 40 { "missing" } else { "" };
            let confirm = erring
                .try_publish(exchange, "q", Message::new(body.clone()))
                .unwrap();
            confirms.push((body.clone(), confirm));
            let confirm = other.try_publish("", "other", Message::new(body));
            others.push(confirm.unwrap());
        }
        let mut acked = HashSet::new();
        for (number, (body, confirm)) in confirms.into_iter().enumerate() {
            match soon("an outcome", confirm).await {
                Outcome::Acked => {
                    assert!(number < 40, "{body} is acked, and comes after the error");
                    acked.insert(Bytes::from(body));
                }
                Outcome::Unknown {
                    publication,
                    reason: UnknownReason::ChannelClosed(closed),
                } => {
                    is_404(&closed);
                    assert_eq!(publication.message.body(), &body);
                    assert_eq!(publication.routing_key, "q");
                }
                outcome => panic!("{body}: {outcome:?}"),
            }
        }
        // The channel says the same, and takes nothing more.
        is_404(&erring.closed().unwrap());
        let refused = erring.publish("", "q", Message::new("late")).await;
        match refused.unwrap_err().reason {
            NotSent::Usage(UsageError::ChannelClosed(closed)) => is_404(&closed),
            reason => panic!("{reason:?}"),
        }

        // The rest of the connection is not concerned.
        let outcomes = join_all(others).await;
        assert!(
            outcomes.iter().all(Outcome::is_acked),
            "{:?}",
            tally(outcomes.iter().map(word))
        );

        // The number is used again, for another channel.
        until("the number is free", async || {
            connection.open_channels() == 1
        })
        .await;
        let reused = confirm_channel(&connection).await;
        assert_eq!(reused.id().number, erring.id().number);
        let confirm = reused.publish("", "q", Message::new(format!("{round}-reused")));
        let outcome = soon("an ack", confirm.await.unwrap()).await;
        assert_eq!(outcome, Outcome::Acked);
        acked.insert(Bytes::from(format!("{round}-reused")));
        reused.close().await.unwrap();

        // What is acked is in the queue; what came after the error is not.
        let mut raw = raw(broker.address(), &vhost).await;
        let bodies = drain(&mut raw, "q").await;
        let queued: HashSet<_> = bodies.iter().cloned().collect();
        assert_eq!(queued.len(), bodies.len());
        assert!(acked.is_subset(&queued));
        let before = |body: &Bytes| {
            (0..40).any(|number| body == &format!("{round}-{number}")) || acked.contains(body)
        };
        assert!(queued.iter().all(before), "{queued:?}");
    }
    let mut raw = raw(broker.address(), &vhost).await;
    assert_eq!(raw.message_count(1, "other").await, 2_000);
    connection.close().await.unwrap();
}

/// Tells this test that it is the child in which the memory is measured, and where the broker is.
const CHILD: &str = "AMQP_LIVE_CHANNEL_ERRORS_URI";

/// In a process of its own, as memory is counted by process and other tests run in this one.
async fn five_thousand_in_a_row_leak_nothing(broker: &'static Broker) {
    let vhost = broker.vhost("errors").await;
    let output = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "channel_errors::child_with_the_errors",
            "--nocapture",
        ])
        .env(CHILD, &vhost.uri)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    // It has run: not the wrong name, not the wrong variable.
    assert!(text.contains("5000 channel errors"), "{text}");
}

#[tokio::test]
async fn child_with_the_errors() {
    // Started by the test above; by itself it has nothing to do.
    if let Ok(uri) = std::env::var(CHILD) {
        soon_errors(&uri).await;
    }
}

async fn soon_errors(uri: &str) {
    const WORKERS: usize = 5;
    let connection = connect(uri).await;
    let base = channel(&connection).await;
    let mut at_first = 0;
    for done in (0..=5_000).step_by(500) {
        match done {
            // Until then buffers grow to their size.
            1_000 => at_first = resident(),
            _ => println!("after {done}: {} KiB", resident() / 1024),
        }
        if done < 5_000 {
            let workers = (0..WORKERS).map(|_| errors(&connection, 500 / WORKERS));
            join_all(workers).await;
            until("the numbers are free", async || {
                connection.open_channels() == 1
            })
            .await;
        }
    }
    let grown = resident().saturating_sub(at_first);
    println!(
        "5000 channel errors; {} KiB more than after 1000",
        grown / 1024
    );
    // A hundred bytes an error would be 400 KiB.
    assert!(grown < 384 * 1024, "{grown} bytes more");
    // The same few numbers did for all of them.
    let next = channel(&connection).await;
    assert!(
        usize::from(next.id().number) <= 1 + WORKERS,
        "{:?}",
        next.id()
    );
    base.recover().await.unwrap();
    connection.close().await.unwrap();
}

async fn errors(connection: &Connection, count: usize) {
    for _ in 0..count {
        let channel = confirm_channel(connection).await;
        let publish = |exchange: &str| channel.try_publish(name(exchange), "k", Message::new("m"));
        let before = publish("").unwrap();
        let confirms = [publish("missing").unwrap(), publish("").unwrap()];
        for confirm in confirms {
            let outcome = soon("an outcome", confirm).await;
            assert_eq!(word(&outcome), "unknown, channel closed");
        }
        let outcome = soon("an outcome", before).await;
        assert!(["acked", "unknown, channel closed"].contains(&word(&outcome)));
    }
}

/// How much memory this process has in use, in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages = statm.split_whitespace().nth(1).unwrap();
    pages.parse::<usize>().unwrap() * 4096
}
