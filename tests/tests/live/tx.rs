//! Transactions: all, nothing, refused, and nobody knows.

use std::pin::pin;

use amqp_client::codec::{MethodId, ReplyCode};
use amqp_client::error::{CommitError, ErrorKind, Initiator, UsageError};
use amqp_client::{Connection, Consume, Followed, Match, Message, TxChannel};
use amqp_tests::Broker;
use amqp_tests::proxy::{Ending, Link};

use crate::support::{
    channel, connect, connect_through, declare, declare_full, drain, name, poll_once, raw, soon,
    until,
};

on_each_broker!(
    commit_shows_all_and_rollback_none,
    returns_come_with_the_commit,
    a_refused_publish_fails_the_commit,
    a_missing_exchange_fails_the_transaction,
    acks_belong_to_the_transaction,
    acks_during_a_commit,
    cut_before_commit_ok,
    cut_before_the_commit_arrived,
    given_up_commit_closes_the_channel,
    dropped_is_not_committed,
);

async fn tx_channel(connection: &Connection) -> TxChannel {
    let channel = channel(connection).await;
    soon("tx.select", channel.tx_select()).await.unwrap()
}

async fn publish(tx: &mut TxChannel, queue: &str, bodies: std::ops::Range<u32>) {
    for body in bodies {
        tx.publish("", name(queue), Message::new(body.to_string()))
            .await
            .unwrap();
    }
}

async fn commit_shows_all_and_rollback_none(broker: &'static Broker) {
    let vhost = broker.vhost("tx").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    let mut tx = tx_channel(&connection).await;
    let mut raw = raw(broker.address(), &vhost).await;

    publish(&mut tx, "q", 0..100).await;
    // The broker has them when it answers a later call, and shows none.
    let passive = amqp_client::QueueDeclare::new(name("q")).passive();
    tx.queue_declare(passive).await.unwrap();
    assert_eq!(raw.message_count(1, "q").await, 0);
    let committed = soon("commit-ok", tx.commit()).await.unwrap();
    assert!(committed.returned.is_empty());
    assert_eq!(raw.message_count(1, "q").await, 100);

    publish(&mut tx, "q", 100..200).await;
    let returned = soon("rollback-ok", tx.rollback()).await.unwrap();
    assert!(returned.is_empty());
    assert_eq!(raw.message_count(1, "q").await, 100);

    // The channel goes on, and nothing of the rolled back is in what it commits.
    publish(&mut tx, "q", 200..210).await;
    soon("commit-ok", tx.commit()).await.unwrap();
    // An empty transaction is one, too.
    soon("commit-ok", tx.commit()).await.unwrap();
    let expected: Vec<_> = (0..100)
        .chain(200..210)
        .map(|body: u32| body.to_string().into_bytes())
        .collect();
    assert_eq!(drain(&mut raw, "q").await, expected);
    connection.close().await.unwrap();
}

async fn returns_come_with_the_commit(broker: &'static Broker) {
    let vhost = broker.vhost("tx").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    let mut tx = tx_channel(&connection).await;
    let mandatory = |body: &'static str| Message::new(body).message_id(body).mandatory();
    tx.publish("", "none", mandatory("1")).await.unwrap();
    tx.publish("", "q", mandatory("2")).await.unwrap();
    tx.publish("", "none", Message::new("3")).await.unwrap();
    tx.publish("amq.direct", "none", mandatory("4"))
        .await
        .unwrap();
    let committed = soon("commit-ok", tx.commit()).await.unwrap();
    let bodies: Vec<_> = committed
        .returned
        .iter()
        .map(|returned| {
            assert_eq!(returned.code, ReplyCode::NO_ROUTE);
            assert_eq!(
                (returned.followed, returned.matched),
                (Followed::Nothing, Match::None)
            );
            returned.publication.message.body().clone()
        })
        .collect();
    assert_eq!(bodies, ["1", "4"]);
    assert_eq!(committed.returned[1].publication.exchange, "amq.direct");

    // They are of that transaction alone.
    tx.publish("", "q", mandatory("5")).await.unwrap();
    assert_eq!(tx.commit().await.unwrap().returned, []);
    tx.publish("", "none", mandatory("6")).await.unwrap();
    let rolled_back = soon("rollback-ok", tx.rollback()).await.unwrap();
    assert!(rolled_back.len() <= 1, "{rolled_back:?}");
    assert_eq!(tx.commit().await.unwrap().returned, []);
    let mut raw = raw(broker.address(), &vhost).await;
    assert_eq!(drain(&mut raw, "q").await, ["2", "5"]);
    connection.close().await.unwrap();
}

async fn a_refused_publish_fails_the_commit(broker: &'static Broker) {
    let vhost = broker.vhost("tx").await;
    let connection = connect(&vhost.uri).await;
    declare_full(&connection, "full").await;
    let mut tx = tx_channel(&connection).await;
    publish(&mut tx, "full", 0..1).await;
    let error = soon("a refusal", tx.commit()).await.unwrap_err();
    let CommitError::Refused(closed) = &error else {
        panic!("{error:?}");
    };
    assert_eq!(closed.initiator, Initiator::Server);
    assert_eq!(closed.code, ReplyCode::PRECONDITION_FAILED);
    assert_eq!(closed.method, Some(MethodId::TX_COMMIT));
    let text = closed.text.to_string_lossy();
    assert!(text.contains("partial tx completion"), "{text}");
    assert!(error.to_string().contains("refused"), "{error}");

    // The channel went with it, and says why.
    assert_eq!(tx.closed().as_ref(), Some(closed));
    let error = tx.commit().await.unwrap_err();
    assert!(
        matches!(&error, CommitError::NotCommitted(UsageError::ChannelClosed(why)) if why == closed),
        "{error:?}"
    );
    let unsent = tx.publish("", "full", Message::new("x")).await.unwrap_err();
    assert_eq!(unsent.publication.message.body(), "x");
    let mut raw = raw(broker.address(), &vhost).await;
    assert_eq!(drain(&mut raw, "full").await, ["filler"]);
    assert!(connection.is_open());
    connection.close().await.unwrap();
}

async fn a_missing_exchange_fails_the_transaction(broker: &'static Broker) {
    let vhost = broker.vhost("tx").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    for wait in [false, true] {
        let mut tx = tx_channel(&connection).await;
        publish(&mut tx, "q", 0..3).await;
        let lost = tx.publish("missing", "k", Message::new("x")).await;
        lost.unwrap();
        if wait {
            until("the channel is closed", async || tx.closed().is_some()).await;
        }
        let error = soon("a failure", tx.commit()).await.unwrap_err();
        let CommitError::NotCommitted(UsageError::ChannelClosed(closed)) = &error else {
            panic!("{error:?}");
        };
        assert_eq!(closed.code, ReplyCode::NOT_FOUND);
        assert_eq!(closed.method, Some(MethodId::BASIC_PUBLISH));
        assert!(
            error.to_string().contains("no exchange 'missing'"),
            "{error}"
        );
    }
    let mut raw = raw(broker.address(), &vhost).await;
    assert_eq!(raw.message_count(1, "q").await, 0);
    connection.close().await.unwrap();
}

async fn acks_belong_to_the_transaction(broker: &'static Broker) {
    let vhost = broker.vhost("tx").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    let mut raw = raw(broker.address(), &vhost).await;
    raw.publish(1, "", "q", b"one").await;
    raw.publish(1, "", "q", b"two").await;
    until("both are in the queue", async || {
        raw.message_count(1, "q").await == 2
    })
    .await;
    let mut tx = tx_channel(&connection).await;
    let one = tx
        .get("q", false)
        .await
        .unwrap()
        .expect("a message")
        .delivery;
    let two = tx
        .get("q", false)
        .await
        .unwrap()
        .expect("a message")
        .delivery;
    one.ack().unwrap();
    soon("rollback-ok", tx.rollback()).await.unwrap();
    // Outstanding again.
    one.ack().unwrap();
    soon("commit-ok", tx.commit()).await.unwrap();
    assert!(one.ack().is_err());
    two.ack().unwrap();
    // Not committed: it comes back with the end of the channel.
    tx.close().await.unwrap();
    until("it is back", async || raw.message_count(1, "q").await == 1).await;
    assert_eq!(drain(&mut raw, "q").await, ["two"]);
    connection.close().await.unwrap();
}

/// Whatever comes before the answer to a commit ends the connection (504): an ack from elsewhere has to wait.
async fn acks_during_a_commit(broker: &'static Broker) {
    let vhost = broker.vhost("tx").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    declare(&connection, "r").await;
    let mut raw = raw(broker.address(), &vhost).await;
    for round in 0..20 {
        raw.publish(1, "", "q", b"m").await;
        let mut tx = tx_channel(&connection).await;
        let mut consumer = tx.consume(Consume::new(name("q"))).await.unwrap();
        let delivery = soon("a delivery", consumer.next()).await.unwrap().unwrap();
        let acker = delivery.acker();
        publish(&mut tx, "r", round..round + 1).await;
        {
            let mut commit = pin!(tx.commit());
            assert!(poll_once(commit.as_mut()).await.is_pending());
            acker.ack().unwrap();
            soon("commit-ok", commit).await.unwrap();
        }
        // It is part of the next transaction.
        match round % 2 {
            0 => drop(soon("commit-ok", tx.commit()).await.unwrap()),
            _ => drop(soon("rollback-ok", tx.rollback()).await.unwrap()),
        }
        tx.close().await.unwrap();
        if round % 2 == 1 {
            until("it is back", async || raw.message_count(1, "q").await == 1).await;
            assert_eq!(drain(&mut raw, "q").await, ["m"]);
        }
        assert_eq!(raw.message_count(1, "q").await, 0);
    }
    assert_eq!(raw.message_count(1, "r").await, 20);
    assert!(connection.is_open());
    connection.close().await.unwrap();
}

/// Waits until the proxy has passed a tx.commit on.
async fn commit_sent(link: &Link) {
    until("the commit is with the broker", async || {
        let frames = link.to_server().frames();
        frames
            .iter()
            .any(|span| span.method == Some(MethodId::TX_COMMIT))
    })
    .await;
}

async fn cut_before_commit_ok(broker: &'static Broker) {
    let vhost = broker.vhost("tx").await;
    let (_proxy, link, connection) = connect_through(broker, &vhost, |options| options).await;
    declare(&connection, "q").await;
    let mut tx = tx_channel(&connection).await;
    let mut raw = raw(broker.address(), &vhost).await;
    publish(&mut tx, "q", 0..3).await;
    link.to_client().hold();
    let cut = async {
        commit_sent(&link).await;
        // It is in effect, and the client cannot know.
        until("the transaction is in effect", async || {
            raw.message_count(1, "q").await == 3
        })
        .await;
        link.cut(Ending::Reset);
    };
    let (result, ()) = soon("an end", async { tokio::join!(tx.commit(), cut) }).await;
    let error = result.unwrap_err();
    assert!(matches!(error, CommitError::Unknown(_)), "{error:?}");
    assert!(error.to_string().contains("unknown whether"), "{error}");
    assert_eq!(connection.closed().await.initiator, Initiator::Transport);
    assert_eq!(drain(&mut raw, "q").await, ["0", "1", "2"]);
}

async fn cut_before_the_commit_arrived(broker: &'static Broker) {
    let vhost = broker.vhost("tx").await;
    let (_proxy, link, connection) = connect_through(broker, &vhost, |options| options).await;
    declare(&connection, "q").await;
    let mut tx = tx_channel(&connection).await;
    publish(&mut tx, "q", 0..3).await;
    let passive = amqp_client::QueueDeclare::new(name("q")).passive();
    tx.queue_declare(passive).await.unwrap();
    link.to_server().hold();
    let cut = async {
        tokio::task::yield_now().await;
        link.cut(Ending::Close);
    };
    let (result, ()) = soon("an end", async { tokio::join!(tx.commit(), cut) }).await;
    // Sent, for all the client knows.
    let error = result.unwrap_err();
    assert!(matches!(error, CommitError::Unknown(_)), "{error:?}");
    crate::support::no_connection_left(broker, &vhost).await;
    let mut raw = raw(broker.address(), &vhost).await;
    assert_eq!(raw.message_count(1, "q").await, 0);
}

async fn given_up_commit_closes_the_channel(broker: &'static Broker) {
    let vhost = broker.vhost("tx").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    let mut tx = tx_channel(&connection).await;
    publish(&mut tx, "q", 0..3).await;
    {
        let mut commit = pin!(tx.commit());
        assert!(poll_once(commit.as_mut()).await.is_pending());
    }
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, CommitError::NotCommitted(_)), "{error:?}");
    until("the number is free", async || {
        connection.open_channels() == 0
    })
    .await;
    let error = tx.rollback().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChannelClosed);
    // It may be in effect, all of it, or not.
    let mut raw = raw(broker.address(), &vhost).await;
    let count = raw.message_count(1, "q").await;
    assert!(count == 0 || count == 3, "{count}");
    connection.close().await.unwrap();
}

async fn dropped_is_not_committed(broker: &'static Broker) {
    let vhost = broker.vhost("tx").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    let mut tx = tx_channel(&connection).await;
    publish(&mut tx, "q", 0..3).await;
    drop(tx);
    until("the channel is closed", async || {
        connection.open_channels() == 0
    })
    .await;
    let mut tx = tx_channel(&connection).await;
    soon("commit-ok", tx.commit()).await.unwrap();
    let mut raw = raw(broker.address(), &vhost).await;
    assert_eq!(raw.message_count(1, "q").await, 0);
    connection.close().await.unwrap();
}
