//! Publisher confirms: an extension of RabbitMQ's.

use amqp_codec::basic::{self, Properties};
use amqp_codec::{Method, ReplyCode, ShortStr, confirm, queue, table, tx};

use crate::connection::Confirm;
use crate::{Check, Connection, Failure, check, ensure, ensure_eq};

pub(super) fn checks() -> Vec<Check> {
    [select(), numbering(), settling()]
        .into_iter()
        .flatten()
        .collect()
}

const CONFIRMS: &str = "Consumer Acknowledgements and Publisher Confirms";

fn select() -> Vec<Check> {
    vec![
        check("confirm.select/answered")
            .rabbitmq(CONFIRMS, "confirm.select is answered by select-ok")
            .sends("confirm.select")
            .expects("confirm.select-ok")
            .run(async |cx| cx.open_channel().await?.confirm_select(1).await),
        check("confirm.select/twice-is-fine")
            .rabbitmq(
                CONFIRMS,
                "selecting confirms again changes nothing: the numbering goes on",
            )
            .sends("confirm.select, a publish, confirm.select, a publish")
            .expects("select-ok both times; confirms of 1 and 2")
            .run(async |cx| {
                let queue = cx.name("confirmed");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                client.confirm_select(1).await?;
                client.publish(1, "", &queue, "first").await?;
                client.expect_acks(1, 1).await?;
                client.confirm_select(1).await?;
                client.publish(1, "", &queue, "second").await?;
                client.expect_confirms_after(1, 1, 2).await.map(drop)
            }),
        check("confirm.select/no-wait-unanswered")
            .rabbitmq(
                CONFIRMS,
                "confirm.select with no-wait takes effect and is not answered",
            )
            .sends("confirm.select no-wait, a publish")
            .expects("basic.ack 1, and nothing before it")
            .run(async |cx| {
                let queue = cx.name("confirmed");
                let mut client = cx.open_channel().await?;
                client.require_capability("publisher_confirms")?;
                client.declare_queue(1, &queue).await?;
                client
                    .send(
                        1,
                        confirm::Select {
                            no_wait: true,
                            ..Default::default()
                        },
                    )
                    .await?;
                client.publish(1, "", &queue, "body").await?;
                client.expect_acks(1, 1).await
            }),
        check("confirm.select/refused-after-tx-select")
            .rabbitmq(
                CONFIRMS,
                "a transactional channel cannot be put into confirm mode: 406",
            )
            .sends("tx.select, confirm.select")
            .expects("channel.close 406")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.require_capability("publisher_confirms")?;
                client.tx_select(1).await?;
                client.send(1, confirm::Select::default()).await?;
                client
                    .expect_channel_error(1, ReplyCode::PRECONDITION_FAILED)
                    .await
                    .map(drop)
            }),
        check("tx.select/refused-after-confirm-select")
            .rabbitmq(
                CONFIRMS,
                "a channel in confirm mode cannot be made transactional: 406",
            )
            .sends("confirm.select, tx.select")
            .expects("channel.close 406")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.confirm_select(1).await?;
                client.send(1, tx::Select::default()).await?;
                client
                    .expect_channel_error(1, ReplyCode::PRECONDITION_FAILED)
                    .await
                    .map(drop)
            }),
    ]
}

fn numbering() -> Vec<Check> {
    vec![
        check("confirm/counts-from-the-select")
            .rabbitmq(
                CONFIRMS,
                "publishes are numbered from 1 after confirm.select; earlier ones do not count",
            )
            .sends("three publishes, confirm.select, one publish")
            .expects("basic.ack 1, and no other")
            .run(async |cx| {
                let queue = cx.name("confirmed");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                for _ in 0..3 {
                    client.publish(1, "", &queue, "before").await?;
                }
                client.confirm_select(1).await?;
                client.publish(1, "", &queue, "after").await?;
                client.expect_acks(1, 1).await?;
                client.barrier(1).await
            }),
        check("confirm/numbers-belong-to-the-channel")
            .rabbitmq(CONFIRMS, "each channel numbers its own publishes")
            .sends("confirm.select on two channels, two publishes on the first, one on the second")
            .expects("1 and 2 confirmed on the first channel, 1 on the second")
            .run(async |cx| {
                let queue = cx.name("confirmed");
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                client.declare_queue(1, &queue).await?;
                client.confirm_select(1).await?;
                client.confirm_select(2).await?;
                for channel in [1, 2, 1] {
                    client.publish(channel, "", &queue, "body").await?;
                }
                client.expect_acks(1, 2).await?;
                client.expect_acks(2, 1).await?;
                client.barrier(1).await?;
                client.barrier(2).await
            }),
        check("confirm/numbers-begin-anew-with-the-channel")
            .rabbitmq(CONFIRMS, "a channel that is opened again numbers from 1")
            .sends(
                "two confirmed publishes, channel.close, channel.open, confirm.select, a publish",
            )
            .expects("basic.ack 1 on the new channel")
            .run(async |cx| {
                let queue = cx.name("confirmed");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                client.confirm_select(1).await?;
                for _ in 0..2 {
                    client.publish(1, "", &queue, "body").await?;
                }
                client.expect_acks(1, 2).await?;
                client.close_channel(1).await?;
                client.open_channel(1).await?;
                client.confirm_select(1).await?;
                client.publish(1, "", &queue, "body").await?;
                client.expect_acks(1, 1).await
            }),
    ]
}

/// Reads confirms up to `last`, each tag once and for all: a tag that was settled one by one must not be settled again
/// one by one.
async fn settled_once(client: &mut Connection, last: u64) -> Result<(), Failure> {
    let mut open: std::collections::BTreeSet<u64> = (1..=last).collect();
    while !open.is_empty() {
        let event = client.next_on(1).await;
        let (tag, multiple) = match event.method() {
            Some(Method::BasicAck(it)) => (it.delivery_tag, it.multiple),
            _ => return Err(Failure::unexpected("basic.ack", &event)),
        };
        match multiple {
            true => open.retain(|it| *it > tag),
            false => {
                let expected = format_args!("a confirm of one of {} open publishes", open.len());
                ensure(
                    open.remove(&tag),
                    expected,
                    "a publish confirmed twice, or never made",
                )?;
            }
        }
    }
    Ok(())
}

fn settling() -> Vec<Check> {
    vec![
        check("confirm/thousand-in-flight")
            .rabbitmq(CONFIRMS, "every publish is confirmed once, however many are under way")
            .sends("confirm.select; 1,000 publishes to a queue without waiting")
            .expects("acks that cover 1 to 1,000, none of them twice; the queue has 1,000 messages")
            .run(async |cx| {
                let queue = cx.name("confirmed");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                client.confirm_select(1).await?;
                for _ in 0..1000 {
                    client.publish(1, "", &queue, "body").await?;
                }
                settled_once(&mut client, 1000).await?;
                client.barrier(1).await?;
                let count = client.message_count(1, &queue).await?;
                ensure_eq("message count", &count, &1000)
            }),
        check("confirm/unroutable-acked")
            .rabbitmq(CONFIRMS, "a message that no queue takes, and that is not mandatory, is acked")
            .sends("confirm.select; a publish with a key that no queue has")
            .expects("basic.ack 1")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.confirm_select(1).await?;
                client.publish(1, "", cx.name("nowhere"), "body").await?;
                client.expect_acks(1, 1).await
            }),
        check("confirm/persistent-to-durable")
            .rabbitmq(CONFIRMS, "a persistent message to a durable queue is acked once it is on disk")
            .sends("confirm.select; ten persistent messages to a durable queue")
            .expects("acks that cover 1 to 10")
            .run(async |cx| {
                let queue = cx.queue("durable");
                let mut client = cx.open_channel().await?;
                let declare = queue::Declare { queue: queue.clone(), durable: true, ..Default::default() };
                client.call::<queue::DeclareOk>(1, declare).await?;
                client.confirm_select(1).await?;
                for _ in 0..10 {
                    let publish = basic::Publish { routing_key: queue.clone(), ..Default::default() };
                    let properties = Properties { delivery_mode: Some(2), ..Properties::EMPTY };
                    client.send_content(1, publish, &properties, b"body").await?;
                }
                client.expect_acks(1, 10).await
            }),
        check("confirm/acked-when-every-queue-has-it")
            .rabbitmq(CONFIRMS, "a message for several queues is confirmed once, when all of them have it")
            .sends("a fanout with three queues; confirm.select; a publish; basic.get from each queue after the ack")
            .expects("one basic.ack; the message in each queue")
            .run(async |cx| {
                let exchange = cx.exchange("fanout");
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &exchange, "fanout").await?;
                let queues = [cx.name("one"), cx.name("two"), cx.name("three")];
                for queue in &queues {
                    client.declare_queue(1, queue).await?;
                    client.bind_queue(1, queue, &exchange, "").await?;
                }
                client.confirm_select(1).await?;
                client.publish(1, &exchange, "", "copy").await?;
                client.expect_acks(1, 1).await?;
                for queue in &queues {
                    ensure_eq("bodies", &client.drain(1, queue).await?, &["copy"])?;
                }
                client.barrier(1).await
            }),
        check("confirm/nack-concerns-its-own-message")
            .rabbitmq("Queue Length Limit", "a message that a full queue refuses is nacked, others under way are acked")
            .sends("a queue with room for one and reject-publish, full; confirm.select; publishes to it and to another queue in turn")
            .expects("nacks of those to the full queue, acks of the others")
            .run(async |cx| {
                let (full, other) = (cx.name("full"), cx.name("other"));
                let mut client = cx.open_channel().await?;
                let arguments = table! { "x-max-length" => 1, "x-overflow" => "reject-publish" };
                client.declare_queue_with(1, &full, arguments).await?;
                client.declare_queue(1, &other).await?;
                client.confirm_select(1).await?;
                client.publish(1, "", &full, "fills it").await?;
                client.expect_acks(1, 1).await?;
                for queue in [&full, &other, &full, &other] {
                    client.publish(1, "", queue, "body").await?;
                }
                let confirms = client.expect_confirms_after(1, 1, 5).await?;
                let confirms: Vec<Confirm> = confirms.into_values().collect();
                let expected = [Confirm::Nack, Confirm::Ack, Confirm::Nack, Confirm::Ack];
                ensure_eq("confirms of 2 to 5", &confirms, &expected)
            }),
        check("confirm/queue-deleted-meanwhile")
            .rabbitmq(CONFIRMS, "every publish is confirmed, also when its queue is deleted")
            .sends("confirm.select; 20 publishes to a queue, and queue.delete after them without waiting")
            .expects("confirms of 1 to 20 and queue.delete-ok, in any order")
            .run(async |cx| {
                let queue = cx.name("deleted");
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                client.declare_queue(1, &queue).await?;
                client.confirm_select(1).await?;
                for _ in 0..20 {
                    client.publish(1, "", &queue, "body").await?;
                }
                let delete = queue::Delete { queue, ..Default::default() };
                client.call::<queue::DeleteOk>(2, delete).await?;
                client.expect_confirms(1, 20).await.map(drop)
            }),
        check("confirm/404-ends-the-channel")
            .rabbitmq(CONFIRMS, "a publish to an exchange that does not exist is no nack: it closes the channel with 404")
            .sends("confirm.select; a publish to an exchange that does not exist")
            .expects("channel.close 404, and no confirm before it")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.confirm_select(1).await?;
                client.publish(1, cx.name("missing"), "key", "body").await?;
                client.expect_channel_error(1, ReplyCode::NOT_FOUND).await.map(drop)
            }),
        check("confirm/none-without-select")
            .rabbitmq(CONFIRMS, "publishes on a channel without confirm.select are not confirmed")
            .sends("a publish on a channel as it was opened; basic.get; channel.flow")
            .expects("no basic.ack; the message")
            .run(async |cx| {
                let queue: ShortStr = cx.name("plain");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                client.publish(1, "", &queue, "body").await?;
                ensure_eq("bodies", &client.drain(1, &queue).await?, &["body"])?;
                client.barrier(1).await
            }),
    ]
}
