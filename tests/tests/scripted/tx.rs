//! Transactions: what the answer to a commit says, and what it means that there is none.

use std::time::Duration;

use amqp_client::codec::basic::Properties;
use amqp_client::codec::{MethodId, ReplyCode, basic, channel, short, tx};
use amqp_client::error::{CommitError, ErrorKind, UsageError};
use amqp_client::{Connection, Consume, QueueDeclare, TxChannel};
use futures_util::future::poll_immediate;

use super::support::{
    MemoryPeer, connected, mandatory, no_task_left, plain_channel, settle, timed,
};

async fn transacting() -> (MemoryPeer, Connection, TxChannel, u16) {
    let (mut peer, connection) = connected().await;
    let client = async {
        connection
            .open_channel()
            .await
            .unwrap()
            .tx_select()
            .await
            .unwrap()
    };
    let (channel, on) = tokio::join!(client, peer.open_tx_channel());
    (peer, connection, channel, on)
}

async fn close(peer: &mut MemoryPeer, on: u16, code: ReplyCode, method: MethodId) {
    let close = channel::Close {
        reply_code: code,
        reply_text: short!("as it is"),
        class_id: method.class,
        method_id: method.method,
    };
    peer.send(on, close).await;
}

#[tokio::test(start_paused = true)]
async fn commit_brings_its_returns() {
    let (mut peer, _connection, mut channel, on) = transacting().await;
    for round in 0..3 {
        channel
            .publish("e", "lost", mandatory(format!("{round}")))
            .await
            .unwrap();
        channel
            .publish("e", "k", mandatory("routed"))
            .await
            .unwrap();
        let lost = peer.expect_publish().await;
        peer.expect_publish().await;
        let server = async {
            peer.expect::<tx::Commit>(on).await;
            peer.send_return(&lost, ReplyCode::NO_ROUTE, "NO_ROUTE")
                .await;
            peer.send(on, tx::CommitOk {}).await;
        };
        let (committed, ()) = tokio::join!(channel.commit(), server);
        let returned = committed.unwrap().returned;
        assert_eq!(returned.len(), 1);
        assert_eq!(
            returned[0].publication.message.body(),
            round.to_string().as_bytes()
        );
        assert_eq!(returned[0].code, ReplyCode::NO_ROUTE);
    }
    // A rollback brings those that had come before it.
    channel
        .publish("e", "lost", mandatory("undone"))
        .await
        .unwrap();
    let lost = peer.expect_publish().await;
    peer.send_return(&lost, ReplyCode::NO_ROUTE, "NO_ROUTE")
        .await;
    let (undone, _) = tokio::join!(
        channel.rollback(),
        peer.reply::<tx::Rollback>(on, tx::RollbackOk {})
    );
    assert_eq!(undone.unwrap().len(), 1);
    let (committed, _) = tokio::join!(
        channel.commit(),
        peer.reply::<tx::Commit>(on, tx::CommitOk {})
    );
    assert!(committed.unwrap().returned.is_empty());
}

/// 406 at the commit itself: refused. At something before it: it never came to the commit.
#[tokio::test(start_paused = true)]
async fn commit_that_is_refused_and_one_that_was_never_reached() {
    for (method, code) in [
        (MethodId::TX_COMMIT, ReplyCode::PRECONDITION_FAILED),
        (MethodId::BASIC_PUBLISH, ReplyCode::NOT_FOUND),
        (
            MethodId {
                class: 0,
                method: 0,
            },
            ReplyCode::INTERNAL_ERROR,
        ),
    ] {
        let (mut peer, connection, mut channel, on) = transacting().await;
        channel.publish("e", "k", mandatory("x")).await.unwrap();
        let server = async {
            peer.expect_publish().await;
            peer.expect::<tx::Commit>(on).await;
            close(&mut peer, on, code, method).await;
        };
        let (committed, ()) = tokio::join!(channel.commit(), server);
        match (method, committed.unwrap_err()) {
            (MethodId::TX_COMMIT, CommitError::Refused(closed)) => assert_eq!(closed.code, code),
            (
                MethodId::BASIC_PUBLISH,
                CommitError::NotCommitted(UsageError::ChannelClosed(closed)),
            ) => assert_eq!(closed.code, code),
            (_, CommitError::Unknown(reason)) => assert!(reason.contains("as it is"), "{reason}"),
            (method, error) => panic!("{method}: {error:?}"),
        }
        // The channel is over; a transaction is not silently begun anew.
        assert!(channel.publish("e", "k", mandatory("y")).await.is_err());
        assert!(matches!(
            channel.commit().await,
            Err(CommitError::NotCommitted(_))
        ));
        assert!(connection.is_open());
    }
}

/// The fault was there before the commit was asked for: nothing is sent.
#[tokio::test(start_paused = true)]
async fn commit_on_a_channel_that_is_over() {
    let (mut peer, _connection, mut channel, on) = transacting().await;
    channel
        .publish("missing", "k", mandatory("x"))
        .await
        .unwrap();
    peer.expect_publish().await;
    close(&mut peer, on, ReplyCode::NOT_FOUND, MethodId::BASIC_PUBLISH).await;
    settle().await;
    let error = channel.commit().await.unwrap_err();
    let CommitError::NotCommitted(UsageError::ChannelClosed(closed)) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(closed.code, ReplyCode::NOT_FOUND);
    peer.expect::<channel::CloseOk>(on).await;
    peer.expect_silence(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn connection_that_goes_between_commit_and_its_answer_leaves_it_unknown() {
    // By the end of the stream, by a close of the server, by silence.
    for how in 0..3 {
        let (mut peer, connection, mut channel, on) = transacting().await;
        channel.publish("e", "k", mandatory("x")).await.unwrap();
        let server = async {
            peer.expect_publish().await;
            peer.expect::<tx::Commit>(on).await;
            match how {
                0 => drop(peer),
                1 => {
                    peer.close_connection(ReplyCode::CONNECTION_FORCED, "shutdown")
                        .await;
                    peer.expect::<amqp_client::codec::connection::CloseOk>(0)
                        .await;
                    peer.expect_end().await;
                }
                _ => peer.expect_silence(Duration::from_secs(29)).await,
            }
        };
        let ((committed, took), ()) = tokio::join!(timed(channel.commit()), server);
        let error = committed.unwrap_err();
        assert!(matches!(error, CommitError::Unknown(_)), "{error:?}");
        assert!(took <= Duration::from_secs(30), "{took:?}");
        // Whatever it was, the next commit does not pretend.
        assert!(channel.commit().await.is_err());
        drop((channel, connection));
        tokio::time::sleep(Duration::from_secs(60)).await;
        no_task_left().await;
    }
}

/// RabbitMQ ends the connection for anything that it gets before it has answered a commit.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_on_the_channel_while_a_commit_is_unanswered() {
    let (mut peer, connection, mut channel, on) = transacting().await;
    let ok = basic::ConsumeOk {
        consumer_tag: short!("c"),
    };
    let answer = async {
        peer.reply::<basic::Consume>(on, ok).await;
    };
    let (consumer, ()) = tokio::join!(channel.consume(Consume::new(short!("q"))), answer);
    let mut consumer = consumer.unwrap();
    for tag in 1..=3 {
        peer.send_deliver(on, "c", tag, &Properties::EMPTY, b"x")
            .await;
    }
    let mut ackers = Vec::new();
    for _ in 1..=3 {
        ackers.push(consumer.next().await.unwrap().unwrap().acker());
    }
    ackers[0].ack().unwrap();
    peer.expect::<basic::Ack>(on).await;
    let mut commit = Box::pin(channel.commit());
    assert!(poll_immediate(commit.as_mut()).await.is_none());
    peer.expect::<tx::Commit>(on).await;
    // Acked from another task meanwhile, and the consumer is dropped.
    ackers[1].ack().unwrap();
    drop(consumer);
    peer.expect_silence(Duration::from_secs(5)).await;
    peer.send(on, tx::CommitOk {}).await;
    commit.await.unwrap();
    let ack: basic::Ack = peer.expect(on).await;
    assert_eq!(ack.delivery_tag, 2);
    peer.reply::<basic::Cancel>(
        on,
        basic::CancelOk {
            consumer_tag: short!("c"),
        },
    )
    .await;
    // What was acked after the commit belongs to the next one: undone, it is outstanding again.
    let (undone, _) = tokio::join!(
        channel.rollback(),
        peer.reply::<tx::Rollback>(on, tx::RollbackOk {})
    );
    undone.unwrap();
    assert_eq!(ackers[0].ack(), Err(UsageError::UnknownDeliveryTag(1)));
    ackers[1].ack().unwrap();
    ackers[2].ack_multiple().unwrap();
    assert!(connection.is_open());
}

/// Other calls wait for the answer, too.
#[tokio::test(start_paused = true)]
async fn calls_behind_a_commit_wait_for_it() {
    let (mut peer, connection, channel, on) = transacting().await;
    let (other, other_on) = plain_channel(&mut peer, &connection).await;
    let mut channel = channel;
    let mut commit = Box::pin(channel.commit());
    assert!(poll_immediate(commit.as_mut()).await.is_none());
    peer.expect::<tx::Commit>(on).await;
    // Other channels are not concerned.
    let declare = other.queue_declare(QueueDeclare::new(short!("q")));
    let (declared, _) = tokio::join!(declare, peer.accept_queue(other_on));
    declared.unwrap();
    peer.send(on, tx::CommitOk {}).await;
    commit.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn select_that_is_refused() {
    let (mut peer, connection) = connected().await;
    let (channel, on) = plain_channel(&mut peer, &connection).await;
    let server = async {
        peer.expect::<tx::Select>(on).await;
        close(
            &mut peer,
            on,
            ReplyCode::NOT_IMPLEMENTED,
            MethodId::TX_SELECT,
        )
        .await;
    };
    let (selected, ()) = tokio::join!(channel.tx_select(), server);
    let error = selected.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChannelClosed);
    assert_eq!(error.closed().unwrap().method, Some(MethodId::TX_SELECT));
}
