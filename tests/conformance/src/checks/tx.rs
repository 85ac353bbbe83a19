//! Transactions.

use amqp_codec::basic::{self, Properties};
use amqp_codec::{ReplyCode, ShortStr, tx};

use super::steps::comes_back;
use crate::check::Source::Spec;
use crate::{Check, Connection, Context, Failure, check, ensure_eq};

pub(super) fn checks() -> Vec<Check> {
    [modes(), publishes(), acknowledgements(), ends()]
        .into_iter()
        .flatten()
        .collect()
}

/// A transactional channel 1, a plain channel 2, and a queue.
async fn transactional(cx: &Context) -> Result<(Connection, ShortStr<'static>), Failure> {
    let queue = cx.name("tx");
    let mut client = cx.open_channel().await?;
    client.open_channel(2).await?;
    client.declare_queue(2, &queue).await?;
    client.tx_select(1).await?;
    Ok((client, queue))
}

fn modes() -> Vec<Check> {
    vec![
        check("tx.select/twice-is-fine")
            .must(
                Spec("tx.select"),
                "a channel that is transactional can be made so again",
            )
            .sends("tx.select twice, tx.commit")
            .expects("select-ok twice, commit-ok")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.tx_select(1).await?;
                client.tx_select(1).await?;
                client.tx_commit(1).await
            }),
        check("tx.commit/empty")
            .must(
                Spec("tx.commit"),
                "a transaction in which nothing happened can be committed, again and again",
            )
            .sends("tx.select, tx.commit three times")
            .expects("commit-ok each time")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.tx_select(1).await?;
                for _ in 0..3 {
                    client.tx_commit(1).await?;
                }
                Ok(())
            }),
        check("tx.commit/refused-without-select")
            .must(
                Spec("tx.commit rule transacted"),
                "committing on a channel that is not transactional is a channel error: 406",
            )
            .sends("tx.commit on a plain channel")
            .expects("channel.close 406")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(1, tx::Commit::default()).await?;
                client
                    .expect_channel_error(1, ReplyCode::PRECONDITION_FAILED)
                    .await
                    .map(drop)
            }),
        check("tx.rollback/refused-without-select")
            .must(
                Spec("tx.rollback rule transacted"),
                "rolling back on a channel that is not transactional is a channel error: 406",
            )
            .sends("tx.rollback on a plain channel")
            .expects("channel.close 406")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(1, tx::Rollback::default()).await?;
                client
                    .expect_channel_error(1, ReplyCode::PRECONDITION_FAILED)
                    .await
                    .map(drop)
            }),
    ]
}

fn publishes() -> Vec<Check> {
    vec![
        check("tx.commit/publishes-appear-together")
            .must(
                Spec("tx.commit"),
                "messages published in a transaction are in their queues after the commit, in their order, and not before",
            )
            .sends("tx.select, three publishes, channel.flow, basic.get on another channel, tx.commit, basic.get again")
            .expects("nothing before the commit, the three messages in order after it")
            .run(async |cx| {
                let (mut client, queue) = transactional(cx).await?;
                for body in ["1", "2", "3"] {
                    client.publish(1, "", &queue, body).await?;
                }
                client.barrier(1).await?;
                ensure_eq("messages before", &client.drain(2, &queue).await?.len(), &0)?;
                client.tx_commit(1).await?;
                ensure_eq("bodies", &client.drain(2, &queue).await?, &["1", "2", "3"])
            }),
        check("tx.rollback/publishes-vanish")
            .must(Spec("tx.rollback"), "messages published in a transaction that is rolled back never were")
            .sends("tx.select, a publish, tx.rollback, another publish, tx.commit")
            .expects("rollback-ok; the second message alone")
            .run(async |cx| {
                let (mut client, queue) = transactional(cx).await?;
                client.publish(1, "", &queue, "rolled back").await?;
                client.tx_rollback(1).await?;
                client.publish(1, "", &queue, "committed").await?;
                client.tx_commit(1).await?;
                ensure_eq("bodies", &client.drain(2, &queue).await?, &["committed"])
            }),
        check("tx.commit/next-transaction-begins-at-once")
            .must(Spec("tx.commit"), "after a commit or a rollback a new transaction begins")
            .sends("a publish, tx.commit, another publish, channel.close")
            .expects("the first message alone")
            .run(async |cx| {
                let (mut client, queue) = transactional(cx).await?;
                client.publish(1, "", &queue, "committed").await?;
                client.tx_commit(1).await?;
                client.publish(1, "", &queue, "left").await?;
                client.close_channel(1).await?;
                ensure_eq("bodies", &client.drain(2, &queue).await?, &["committed"])
            }),
        check("tx.commit/returns-come-before-commit-ok")
            .rabbitmq(
                "Consumer Acknowledgements and Publisher Confirms",
                "messages of a transaction that no queue takes are returned at the commit, before commit-ok",
            )
            .sends("tx.select, basic.publish mandatory that no queue takes, tx.commit")
            .expects("basic.return 312, then commit-ok")
            .run(async |cx| {
                let (mut client, _) = transactional(cx).await?;
                let publish = basic::Publish {
                    routing_key: cx.name("nowhere"),
                    mandatory: true,
                    ..Default::default()
                };
                client.send_content(1, publish, &Properties::EMPTY, b"body").await?;
                client.send(1, tx::Commit::default()).await?;
                let returned = client.expect_return(1).await?;
                ensure_eq("reply code", &returned.method.reply_code, &ReplyCode::NO_ROUTE)?;
                client.expect::<tx::CommitOk>(1).await.map(drop)
            }),
        check("tx/missing-exchange-fails-at-once")
            .must(
                Spec("basic.publish.exchange rule must-exist"),
                "publishing to an exchange that does not exist is a channel error, in a transaction too",
            )
            .sends("tx.select, a publish to a queue, one to a missing exchange")
            .expects("channel.close 404; the first message is not in the queue")
            .run(async |cx| {
                let (mut client, queue) = transactional(cx).await?;
                client.publish(1, "", &queue, "lost with it").await?;
                client.publish(1, cx.name("missing"), "key", "body").await?;
                client.expect_channel_error(1, ReplyCode::NOT_FOUND).await?;
                ensure_eq("messages left", &client.drain(2, &queue).await?.len(), &0)
            }),
    ]
}

/// Gets one message on the transactional channel, not acknowledged.
async fn got(client: &mut Connection, queue: &ShortStr<'static>) -> Result<u64, Failure> {
    client.publish(2, "", queue, "message").await?;
    client.barrier(2).await?;
    let get = basic::Get {
        queue: queue.clone(),
        ..Default::default()
    };
    let got = client.get_with(1, get).await?;
    got.map(|got| got.method.delivery_tag)
        .ok_or_else(|| Failure::new("basic.get-ok", "basic.get-empty"))
}

fn acknowledgements() -> Vec<Check> {
    vec![
        check("tx.commit/acks-count-then")
            .must(Spec("tx.commit"), "acknowledgements of a transaction take effect at its commit")
            .sends("basic.get and basic.ack in a transaction, tx.commit, channel.close; a consumer on another channel")
            .expects("the message does not come back")
            .run(async |cx| {
                let (mut client, queue) = transactional(cx).await?;
                let tag = got(&mut client, &queue).await?;
                client.ack(1, tag, false).await?;
                client.tx_commit(1).await?;
                ensure_eq("messages left", &comes_back(&mut client, &queue).await?.len(), &0)
            }),
        check("tx.rollback/acks-do-not-count")
            .must(
                Spec("tx.rollback"),
                "acknowledgements of a transaction that is rolled back never were; the messages stay with their consumer",
            )
            .sends("basic.get and basic.ack in a transaction, tx.rollback, basic.get, channel.close, a consumer on another channel")
            .expects("the message is not given out again while the channel is open; it is once it is closed")
            .run(async |cx| {
                let (mut client, queue) = transactional(cx).await?;
                let tag = got(&mut client, &queue).await?;
                client.ack(1, tag, false).await?;
                client.tx_rollback(1).await?;
                ensure_eq("messages before", &client.drain(2, &queue).await?.len(), &0)?;
                ensure_eq("bodies", &comes_back(&mut client, &queue).await?, &["message"])
            }),
        check("tx.commit/ack-again-after-rollback")
            .must(Spec("tx.rollback"), "what a rollback gave back can be acknowledged in the next transaction")
            .sends("basic.get, basic.ack, tx.rollback, basic.ack of the same tag, tx.commit, channel.close")
            .expects("commit-ok; the message does not come back")
            .run(async |cx| {
                let (mut client, queue) = transactional(cx).await?;
                let tag = got(&mut client, &queue).await?;
                client.ack(1, tag, false).await?;
                client.tx_rollback(1).await?;
                client.ack(1, tag, false).await?;
                client.tx_commit(1).await?;
                ensure_eq("messages left", &comes_back(&mut client, &queue).await?.len(), &0)
            }),
    ]
}

fn ends() -> Vec<Check> {
    vec![
        check("tx/channel-close-discards")
            .must(Spec("tx.select"), "what was not committed when the channel is closed never was")
            .sends("tx.select, a publish, channel.close")
            .expects("close-ok; no message")
            .run(async |cx| {
                let (mut client, queue) = transactional(cx).await?;
                client.publish(1, "", &queue, "left").await?;
                client.close_channel(1).await?;
                ensure_eq("messages left", &client.drain(2, &queue).await?.len(), &0)
            }),
        check("tx/connection-end-discards")
            .must(Spec("tx.select"), "what was not committed when the connection ends never was")
            .sends("tx.select on a second connection, a publish, channel.flow, then the end of the stream")
            .expects("the broker ends its side; no message")
            .run(async |cx| {
                let (mut client, queue) = transactional(cx).await?;
                let mut other = cx.open_channel().await?;
                other.tx_select(1).await?;
                other.publish(1, "", &queue, "left").await?;
                other.barrier(1).await?;
                other.half_close().await;
                other.expect_end().await?;
                ensure_eq("messages left", &client.drain(2, &queue).await?.len(), &0)
            }),
    ]
}
