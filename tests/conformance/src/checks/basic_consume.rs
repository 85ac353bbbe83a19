//! Consumers, prefetch, and their ends.

use amqp_codec::basic::Properties;
use amqp_codec::{ReplyCode, ShortStr, basic, queue, short, table};

use super::steps::{comes_back, filled};
use crate::check::Source::Spec;
use crate::{Check, Connection, Failure, check, ensure, ensure_eq};

pub(super) fn checks() -> Vec<Check> {
    [
        consume(),
        refusals(),
        sharing(),
        cancel(),
        qos(),
        reply_to(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The next delivery on this channel: the tag of its consumer, and its body.
async fn next(client: &mut Connection, channel: u16) -> Result<(String, String), Failure> {
    let delivery = client.expect_delivery(channel).await?;
    let body = String::from_utf8_lossy(&delivery.body).into_owned();
    Ok((delivery.method.consumer_tag.to_string(), body))
}

async fn cancel_consumer(
    client: &mut Connection,
    channel: u16,
    tag: &'static str,
) -> Result<(), Failure> {
    let cancel = basic::Cancel {
        consumer_tag: ShortStr::from_static(tag),
        ..Default::default()
    };
    client
        .call::<basic::CancelOk>(channel, cancel)
        .await
        .map(drop)
}

fn consume() -> Vec<Check> {
    vec![
        check("basic.consume/ok-before-the-first-delivery")
            .must(
                Spec("basic.consume"),
                "consume-ok comes first and says the tag; then come the messages that were waiting",
            )
            .sends("a queue with two messages; basic.consume with a tag")
            .expects("basic.consume-ok with that tag, then both messages in order")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1", "2"]).await?;
                let consume = basic::Consume {
                    queue,
                    consumer_tag: short!("mine"),
                    ..Default::default()
                };
                let ok: basic::ConsumeOk = client.call(1, consume).await?;
                ensure_eq("consumer tag", &ok.consumer_tag, &"mine")?;
                for expected in ["1", "2"] {
                    let (tag, body) = next(&mut client, 1).await?;
                    ensure_eq(
                        "consumer tag and body",
                        &(tag.as_str(), body.as_str()),
                        &("mine", expected),
                    )?;
                }
                Ok(())
            }),
        check("basic.consume/server-names-it")
            .must(
                Spec("basic.consume.consumer-tag"),
                "without a tag the server chooses one that no other consumer of the channel has",
            )
            .sends("basic.consume twice without a tag; a message")
            .expects("two tags, not empty and not the same; the message says one of them")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &[]).await?;
                let consume = basic::Consume {
                    queue: queue.clone(),
                    ..Default::default()
                };
                let one: basic::ConsumeOk = client.call(1, consume.clone()).await?;
                let two: basic::ConsumeOk = client.call(1, consume).await?;
                ensure(!one.consumer_tag.is_empty(), "a tag", "no tag")?;
                ensure(
                    one.consumer_tag != two.consumer_tag,
                    "another tag",
                    "the same tag twice",
                )?;
                client.publish(1, "", &queue, "message").await?;
                let delivery = client.expect_delivery(1).await?;
                let tag = delivery.method.consumer_tag;
                let known = tag == one.consumer_tag || tag == two.consumer_tag;
                ensure(known, "one of the two tags", "another tag")
            }),
        check("basic.deliver/says-where-from")
            .must(
                Spec("basic.deliver"),
                "a delivery says exchange and key of its publish, and that it is not a redelivery",
            )
            .sends("a message through a topic exchange to a consumer")
            .expects("that exchange and key, not redelivered, properties and body as published")
            .run(async |cx| {
                let (exchange, queue) = (cx.exchange("topic"), cx.name("bound"));
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &exchange, "topic").await?;
                client.declare_queue(1, &queue).await?;
                client.bind_queue(1, &queue, &exchange, "order.*").await?;
                client.consume(1, &queue, "only", true).await?;
                let publish = basic::Publish {
                    exchange: exchange.clone(),
                    routing_key: short!("order.created"),
                    ..Default::default()
                };
                let properties = Properties {
                    message_id: Some(short!("m-1")),
                    ..Properties::EMPTY
                };
                client
                    .send_content(1, publish, &properties, b"body")
                    .await?;
                let delivery = client.expect_delivery(1).await?;
                ensure_eq(
                    "exchange is the same",
                    &(delivery.method.exchange == exchange),
                    &true,
                )?;
                ensure_eq("key", &delivery.method.routing_key, &"order.created")?;
                ensure_eq("redelivered", &delivery.method.redelivered, &false)?;
                ensure_eq("properties", &delivery.properties, &properties)?;
                ensure_eq("body", &&delivery.body[..], &&b"body"[..])
            }),
        check("basic.consume/no-wait-unanswered")
            .must(
                Spec("basic.consume.no-wait"),
                "a consumer started with no-wait gets messages, and no consume-ok",
            )
            .sends("a queue with a message; basic.consume no-wait")
            .expects("the message, and nothing before it")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1"]).await?;
                let consume = basic::Consume {
                    queue,
                    consumer_tag: short!("quiet"),
                    no_wait: true,
                    ..Default::default()
                };
                client.send(1, consume).await?;
                let seen = next(&mut client, 1).await?;
                ensure_eq(
                    "consumer tag and body",
                    &seen,
                    &("quiet".to_owned(), "1".to_owned()),
                )
            }),
        check("basic.consume/no-ack-settles-at-once")
            .must(
                Spec("domain no-ack"),
                "with no-ack a message is done with when it is delivered",
            )
            .sends(
                "a consumer with no-ack and a message; basic.cancel, channel.close; a consumer on another channel",
            )
            .expects("the message; it does not come back")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1"]).await?;
                client.open_channel(2).await?;
                client.consume(1, &queue, "only", true).await?;
                client.expect_delivery(1).await?;
                cancel_consumer(&mut client, 1, "only").await?;
                ensure_eq("messages left", &comes_back(&mut client, &queue).await?.len(), &0)
            }),
    ]
}

fn refusals() -> Vec<Check> {
    vec![
        check("basic.consume/missing-queue-refused")
            .must(
                Spec("basic.consume.queue"),
                "consuming from a queue that does not exist is a channel error: 404",
            )
            .sends("basic.consume from a name that no queue has")
            .expects("channel.close 404")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let consume = basic::Consume {
                    queue: cx.name("missing"),
                    ..Default::default()
                };
                client.send(1, consume).await?;
                client
                    .expect_channel_error(1, ReplyCode::NOT_FOUND)
                    .await
                    .map(drop)
            }),
        check("basic.consume/tag-in-use-refused")
            .must(
                Spec("basic.consume.consumer-tag rule 01"),
                "a tag that another consumer of the channel has is an error of the connection: 530",
            )
            .sends("basic.consume twice with the same tag")
            .expects("connection.close 530")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &[]).await?;
                client.consume(1, &queue, "same", true).await?;
                let consume = basic::Consume {
                    queue,
                    consumer_tag: short!("same"),
                    ..Default::default()
                };
                client.send(1, consume).await?;
                client
                    .expect_connection_error(ReplyCode::NOT_ALLOWED)
                    .await
                    .map(drop)
            }),
        check("basic.consume/same-tag-on-another-channel")
            .must(
                Spec("domain consumer-tag"),
                "a tag is the channel's: two channels can use the same",
            )
            .sends("basic.consume with the same tag on two channels; two messages")
            .expects("consume-ok on both; a message on each channel")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &[]).await?;
                client.open_channel(2).await?;
                client.consume(1, &queue, "same", true).await?;
                client.consume(2, &queue, "same", true).await?;
                for body in ["1", "2"] {
                    client.publish(1, "", &queue, body).await?;
                }
                next(&mut client, 1).await?;
                next(&mut client, 2).await.map(drop)
            }),
        check("basic.consume/exclusive-shuts-others-out")
            .must(
                Spec("basic.consume.exclusive rule 01"),
                "while a queue has an exclusive consumer, nobody else can consume from it: 403",
            )
            .sends("basic.consume exclusive; basic.consume on another channel")
            .expects("channel.close 403")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &[]).await?;
                client.open_channel(2).await?;
                let exclusive = basic::Consume {
                    queue: queue.clone(),
                    exclusive: true,
                    ..Default::default()
                };
                client.call::<basic::ConsumeOk>(1, exclusive).await?;
                client
                    .send(
                        2,
                        basic::Consume {
                            queue,
                            ..Default::default()
                        },
                    )
                    .await?;
                client
                    .expect_channel_error(2, ReplyCode::ACCESS_REFUSED)
                    .await
                    .map(drop)
            }),
        check("basic.consume/exclusive-refused-beside-others")
            .must(
                Spec("basic.consume.exclusive rule 01"),
                "a queue that has a consumer cannot get an exclusive one: 403",
            )
            .sends("basic.consume; basic.consume exclusive on another channel")
            .expects("channel.close 403")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &[]).await?;
                client.open_channel(2).await?;
                client.consume(1, &queue, "first", true).await?;
                client
                    .send(
                        2,
                        basic::Consume {
                            queue,
                            exclusive: true,
                            ..Default::default()
                        },
                    )
                    .await?;
                client
                    .expect_channel_error(2, ReplyCode::ACCESS_REFUSED)
                    .await
                    .map(drop)
            }),
        check("basic.consume/no-local")
            .must(
                Spec("domain no-local"),
                "with no-local a consumer does not get what its own connection publishes",
            )
            .sends("basic.consume no-local; a message from its own connection, one from another")
            .expects("the other's message alone")
            .run(async |cx| {
                let queue = cx.queue("local");
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                let declare = queue::Declare {
                    queue: queue.clone(),
                    ..Default::default()
                };
                client.call::<queue::DeclareOk>(1, declare).await?;
                let consume = basic::Consume {
                    queue: queue.clone(),
                    no_local: true,
                    no_ack: true,
                    ..Default::default()
                };
                client.call::<basic::ConsumeOk>(1, consume).await?;
                client.publish(2, "", &queue, "own").await?;
                client.barrier(2).await?;
                let mut other = cx.open_channel().await?;
                other.publish(1, "", &queue, "other").await?;
                let (_, body) = next(&mut client, 1).await?;
                ensure_eq("body", &body, &"other")
            }),
    ]
}

fn sharing() -> Vec<Check> {
    vec![
        check("basic.consume/consumers-take-turns")
            .rabbitmq(
                "Consumers",
                "the consumers of a queue get its messages in turn",
            )
            .sends("two consumers with prefetch 1 each; two messages; then acks and two more")
            .expects("each consumer gets two")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &[]).await?;
                let qos = basic::Qos {
                    prefetch_count: 1,
                    ..Default::default()
                };
                client.call::<basic::QosOk>(1, qos).await?;
                for tag in ["one", "two"] {
                    client.consume(1, &queue, tag, false).await?;
                }
                let mut tags = Vec::new();
                for _ in 0..2 {
                    for _ in 0..2 {
                        client.publish(1, "", &queue, "body").await?;
                    }
                    for _ in 0..2 {
                        tags.push(next(&mut client, 1).await?.0);
                    }
                    client.ack(1, 0, true).await?;
                }
                tags.sort();
                ensure_eq("consumers", &tags, &["one", "one", "two", "two"])
            }),
        check("basic.consume/higher-priority-first")
            .rabbitmq(
                "Consumer Priorities",
                "a consumer of a higher priority gets the messages as long as it can take them",
            )
            .sends("a consumer, another with x-priority 10; three messages")
            .expects("all to the second")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &[]).await?;
                client.require_capability("consumer_priorities")?;
                client.consume(1, &queue, "low", true).await?;
                let consume = basic::Consume {
                    queue: queue.clone(),
                    consumer_tag: short!("high"),
                    no_ack: true,
                    arguments: table! { "x-priority" => 10 },
                    ..Default::default()
                };
                client.call::<basic::ConsumeOk>(1, consume).await?;
                for _ in 0..3 {
                    client.publish(1, "", &queue, "body").await?;
                }
                for _ in 0..3 {
                    ensure_eq("consumer", &next(&mut client, 1).await?.0, &"high")?;
                }
                Ok(())
            }),
    ]
}

fn cancel() -> Vec<Check> {
    vec![
        check("basic.cancel/nothing-after-it")
            .must(
                Spec("basic.cancel"),
                "after cancel-ok the consumer gets nothing more; the messages stay in the queue",
            )
            .sends("basic.consume, basic.cancel, a publish, channel.flow, basic.get")
            .expects("cancel-ok with the tag; no delivery; the message is got")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &[]).await?;
                client.consume(1, &queue, "gone", true).await?;
                let cancel = basic::Cancel { consumer_tag: short!("gone"), ..Default::default() };
                let ok: basic::CancelOk = client.call(1, cancel).await?;
                ensure_eq("consumer tag", &ok.consumer_tag, &"gone")?;
                client.publish(1, "", &queue, "kept").await?;
                client.barrier(1).await?;
                ensure_eq("bodies", &client.drain(1, &queue).await?, &["kept"])
            }),
        check("basic.cancel/unacked-stay-with-the-channel")
            .must(
                Spec("basic.cancel"),
                "cancelling does not touch what was delivered: it can still be acknowledged",
            )
            .sends("a message consumed; basic.cancel; basic.ack; channel.close")
            .expects("cancel-ok; the message does not come back")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1"]).await?;
                client.open_channel(2).await?;
                client.consume(1, &queue, "gone", false).await?;
                let tag = client.expect_delivery(1).await?.method.delivery_tag;
                cancel_consumer(&mut client, 1, "gone").await?;
                ensure_eq("messages before", &client.drain(2, &queue).await?.len(), &0)?;
                client.ack(1, tag, false).await?;
                ensure_eq("messages left", &comes_back(&mut client, &queue).await?.len(), &0)
            }),
        check("basic.cancel/unknown-tag-is-fine")
            .must(
                Spec("basic.cancel"),
                "cancelling a consumer that does not exist is no error",
            )
            .sends("basic.cancel of a tag that no consumer has")
            .expects("basic.cancel-ok with that tag")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                cancel_consumer(&mut client, 1, "nobody").await
            }),
        check("basic.cancel/tag-can-be-used-again")
            .must(Spec("basic.consume.consumer-tag"), "the tag of a cancelled consumer is free")
            .sends("basic.consume, basic.cancel, basic.consume with the same tag; a message")
            .expects("consume-ok both times; one delivery")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &[]).await?;
                client.consume(1, &queue, "same", true).await?;
                cancel_consumer(&mut client, 1, "same").await?;
                client.consume(1, &queue, "same", true).await?;
                client.publish(1, "", &queue, "body").await?;
                next(&mut client, 1).await?;
                client.barrier(1).await
            }),
        check("basic.cancel/no-wait-unanswered")
            .must(Spec("basic.cancel.no-wait"), "a cancel with no-wait is carried out and not answered")
            .sends("basic.consume, basic.cancel no-wait, a publish, channel.flow, basic.get")
            .expects("channel.flow-ok first; the message is got")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &[]).await?;
                client.consume(1, &queue, "gone", true).await?;
                let cancel = basic::Cancel { consumer_tag: short!("gone"), no_wait: true, ..Default::default() };
                client.send(1, cancel).await?;
                client.publish(1, "", &queue, "kept").await?;
                client.barrier(1).await?;
                ensure_eq("bodies", &client.drain(1, &queue).await?, &["kept"])
            }),
        check("basic.cancel/from-the-server-when-the-queue-goes")
            .rabbitmq("Consumer Cancel Notification", "a client that can take it is told that its consumer ended with its queue")
            .sends("a consumer; queue.delete on another channel")
            .expects("basic.cancel with the tag on the consumer's channel")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &[]).await?;
                client.require_capability("consumer_cancel_notify")?;
                client.open_channel(2).await?;
                client.consume(1, &queue, "orphan", true).await?;
                client.call::<queue::DeleteOk>(2, queue::Delete { queue, ..Default::default() }).await?;
                let cancel: basic::Cancel = client.expect(1).await?;
                ensure_eq("consumer tag", &cancel.consumer_tag, &"orphan")?;
                client.barrier(1).await
            }),
        check("basic.cancel/not-from-the-server-without-the-capability")
            .rabbitmq("Consumer Cancel Notification", "a client that did not announce consumer_cancel_notify is not told")
            .sends("a login without capabilities; a consumer; queue.delete on another channel; channel.flow")
            .expects("channel.flow-ok, and no basic.cancel before it")
            .run(async |cx| {
                let mut login = cx.login();
                login.client_properties = table! { "product" => "amqp-conformance" };
                let queue = cx.name("deleted");
                let mut client = cx.open_as(&login).await?;
                client.open_channel(1).await?;
                client.open_channel(2).await?;
                client.declare_queue(1, &queue).await?;
                client.consume(1, &queue, "orphan", true).await?;
                client.call::<queue::DeleteOk>(2, queue::Delete { queue, ..Default::default() }).await?;
                client.barrier(1).await
            }),
    ]
}

fn prefetch(prefetch_count: u16, global: bool) -> basic::Qos {
    basic::Qos {
        prefetch_count,
        global,
        ..Default::default()
    }
}

fn qos() -> Vec<Check> {
    vec![
        check("basic.qos/withholds-until-acked")
            .must(
                Spec("basic.qos.prefetch-count"),
                "with a prefetch count no more messages than that are outstanding",
            )
            .sends("basic.qos 2; three messages to a consumer; channel.flow; basic.ack of the first")
            .expects("two deliveries; after the ack the third")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1", "2", "3"]).await?;
                client.call::<basic::QosOk>(1, prefetch(2, false)).await?;
                client.consume(1, &queue, "only", false).await?;
                for expected in ["1", "2"] {
                    ensure_eq("body", &next(&mut client, 1).await?.1, &expected)?;
                }
                client.barrier(1).await?;
                client.ack(1, 1, false).await?;
                ensure_eq("body", &next(&mut client, 1).await?.1, &"3")
            }),
        check("basic.qos/zero-is-no-limit")
            .must(Spec("basic.qos.prefetch-count"), "a prefetch count of 0 is no limit")
            .sends("basic.qos 1, basic.qos 0; 100 messages to a consumer, none acked")
            .expects("all 100")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["body"; 100]).await?;
                client.call::<basic::QosOk>(1, prefetch(1, false)).await?;
                client.call::<basic::QosOk>(1, prefetch(0, false)).await?;
                client.consume(1, &queue, "only", false).await?;
                for _ in 0..100 {
                    next(&mut client, 1).await?;
                }
                Ok(())
            }),
        check("basic.qos/does-not-concern-no-ack")
            .must(
                Spec("basic.qos.prefetch-count rule 01"),
                "the prefetch count is about messages that are to be acknowledged",
            )
            .sends("basic.qos 1; three messages to a consumer with no-ack")
            .expects("all three")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1", "2", "3"]).await?;
                client.call::<basic::QosOk>(1, prefetch(1, false)).await?;
                client.consume(1, &queue, "only", true).await?;
                for expected in ["1", "2", "3"] {
                    ensure_eq("body", &next(&mut client, 1).await?.1, &expected)?;
                }
                Ok(())
            }),
        check("basic.qos/each-consumer-has-its-own")
            .rabbitmq("Consumer Prefetch", "without global, each new consumer of the channel has a limit of its own")
            .sends("basic.qos 1; consumers of two queues on one channel; two messages to each; basic.get on another channel")
            .expects("one message to each consumer; the others are got")
            .run(async |cx| {
                let (mut client, one) = filled(cx, &[]).await?;
                let two = cx.name("second");
                client.open_channel(2).await?;
                client.declare_queue(1, &two).await?;
                client.call::<basic::QosOk>(1, prefetch(1, false)).await?;
                client.consume(1, &one, "one", false).await?;
                client.consume(1, &two, "two", false).await?;
                for queue in [&one, &one, &two, &two] {
                    client.publish(2, "", queue, "body").await?;
                }
                let mut tags = [next(&mut client, 1).await?.0, next(&mut client, 1).await?.0];
                tags.sort();
                ensure_eq("consumers", &tags, &["one", "two"])?;
                client.barrier(2).await?;
                for queue in [&one, &two] {
                    ensure_eq("messages left", &client.drain(2, queue).await?.len(), &1)?;
                }
                Ok(())
            }),
        check("basic.qos/not-for-consumers-there-are")
            .rabbitmq("Consumer Prefetch", "a change concerns consumers that start after it")
            .sends("basic.qos 1, a consumer, basic.qos 100; three messages; channel.flow")
            .expects("one delivery")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &[]).await?;
                client.call::<basic::QosOk>(1, prefetch(1, false)).await?;
                client.consume(1, &queue, "only", false).await?;
                client.call::<basic::QosOk>(1, prefetch(100, false)).await?;
                client.open_channel(2).await?;
                for body in ["1", "2", "3"] {
                    client.publish(2, "", &queue, body).await?;
                }
                ensure_eq("body", &next(&mut client, 1).await?.1, &"1")?;
                client.barrier(2).await?;
                ensure_eq("bodies", &client.drain(2, &queue).await?, &["2", "3"])
            }),
        check("basic.qos/global-is-for-the-channel")
            .rabbitmq("Consumer Prefetch", "with global, the limit is shared by the consumers of the channel")
            .sends("basic.qos 1 global; two consumers of one queue; two messages; basic.get on another channel")
            .expects("one delivery; the other message is got")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &[]).await?;
                client.open_channel(2).await?;
                client.call::<basic::QosOk>(1, prefetch(1, true)).await?;
                for tag in ["one", "two"] {
                    client.consume(1, &queue, tag, false).await?;
                }
                for body in ["1", "2"] {
                    client.publish(2, "", &queue, body).await?;
                }
                next(&mut client, 1).await?;
                client.barrier(2).await?;
                ensure_eq("bodies", &client.drain(2, &queue).await?, &["2"])
            }),
        check("basic.qos/prefetch-size")
            .must(
                Spec("basic.qos.prefetch-size"),
                "with a prefetch size no more octets than that are outstanding",
            )
            .sends("basic.qos with prefetch-size 10; two messages of 8 octets to a consumer; basic.get on another channel")
            .expects("qos-ok; one delivery; the other message is got")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["11111111", "22222222"]).await?;
                client.open_channel(2).await?;
                let qos = basic::Qos { prefetch_size: 10, ..Default::default() };
                client.call::<basic::QosOk>(1, qos).await?;
                client.consume(1, &queue, "only", false).await?;
                next(&mut client, 1).await?;
                ensure_eq("bodies", &client.drain(2, &queue).await?, &["22222222"])
            }),
    ]
}

const REPLY_TO: &str = "Direct Reply-to";

fn reply_to() -> Vec<Check> {
    vec![
        check("basic.consume/direct-reply-to")
            .rabbitmq(REPLY_TO, "who consumes from amq.rabbitmq.reply-to gets the answers to what the channel publishes with it")
            .sends("basic.consume no-ack from amq.rabbitmq.reply-to; a request with that as reply-to; an answer to what arrives")
            .expects("a reply-to with a name of its own in the request; the answer")
            .run(async |cx| {
                let requests = cx.name("requests");
                let mut client = cx.open_channel().await?;
                client.require_capability("direct_reply_to")?;
                client.open_channel(2).await?;
                client.declare_queue(2, &requests).await?;
                client.consume(1, "amq.rabbitmq.reply-to", "answers", true).await?;
                let publish = basic::Publish { routing_key: requests.clone(), ..Default::default() };
                let properties = Properties {
                    reply_to: Some(short!("amq.rabbitmq.reply-to")),
                    correlation_id: Some(short!("c-1")),
                    ..Properties::EMPTY
                };
                client.send_content(1, publish, &properties, b"question").await?;
                client.barrier(1).await?;
                let request = client.get(2, &requests).await?;
                let request = request.ok_or_else(|| Failure::new("the request", "basic.get-empty"))?;
                let reply_to = request.properties.reply_to;
                let reply_to = reply_to.ok_or_else(|| Failure::new("a reply-to", "no reply-to"))?;
                let own = reply_to != "amq.rabbitmq.reply-to";
                ensure(own, "a reply-to of its own", "amq.rabbitmq.reply-to as it was sent")?;
                client.publish(2, "", &reply_to, "answer").await?;
                ensure_eq("body", &next(&mut client, 1).await?.1, &"answer")
            }),
        check("basic.consume/direct-reply-to-wants-no-ack")
            .rabbitmq(REPLY_TO, "consuming from amq.rabbitmq.reply-to without no-ack is refused: 406")
            .sends("basic.consume from amq.rabbitmq.reply-to with acknowledgements")
            .expects("channel.close 406")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.require_capability("direct_reply_to")?;
                let consume = basic::Consume { queue: short!("amq.rabbitmq.reply-to"), ..Default::default() };
                client.send(1, consume).await?;
                client.expect_channel_error(1, ReplyCode::PRECONDITION_FAILED).await.map(drop)
            }),
        check("basic.publish/direct-reply-to-without-consumer-refused")
            .rabbitmq(REPLY_TO, "publishing with reply-to amq.rabbitmq.reply-to before consuming from it is refused: 406")
            .sends("basic.publish with reply-to amq.rabbitmq.reply-to on a channel without such a consumer")
            .expects("channel.close 406")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.require_capability("direct_reply_to")?;
                let properties = Properties {
                    reply_to: Some(short!("amq.rabbitmq.reply-to")),
                    ..Properties::EMPTY
                };
                client.send_content(1, basic::Publish::default(), &properties, b"question").await?;
                client.expect_channel_error(1, ReplyCode::PRECONDITION_FAILED).await.map(drop)
            }),
    ]
}
