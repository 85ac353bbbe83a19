//! Publishing: returns and confirms.

use amqp_codec::basic::{self, Properties};
use amqp_codec::{ReplyCode, ShortStr, exchange, short};

use crate::check::Source::Spec;
use crate::{Check, Failure, check, ensure_eq};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("basic.publish/missing-exchange")
            .must(
                Spec("basic.publish.exchange rule must-exist"),
                "publishing to an exchange that does not exist is a channel error: 404",
            )
            .sends("basic.publish to a name that no exchange has")
            .expects("channel.close 404, and another channel goes on")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                client.publish(1, cx.name("missing"), "key", "body").await?;
                client.expect_channel_error(1, ReplyCode::NOT_FOUND).await?;
                client.barrier(2).await
            }),
        check("basic.publish/mandatory-unroutable-returned-before-ack")
            .rabbitmq(
                "Consumer Acknowledgements and Publisher Confirms",
                "an unroutable mandatory message is returned before it is acknowledged",
            )
            .sends("confirm.select, basic.publish mandatory with a key that no queue has")
            .expects("basic.return 312 with the content, then basic.ack 1")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.confirm_select(1).await?;
                let key = cx.name("nowhere");
                let publish = basic::Publish {
                    routing_key: key.clone(),
                    mandatory: true,
                    ..Default::default()
                };
                let properties = Properties {
                    message_id: Some(short!("m-1")),
                    ..Properties::EMPTY
                };
                client
                    .send_content(1, publish, &properties, b"body")
                    .await?;
                let returned = client.expect_return(1).await?;
                let method = &returned.method;
                ensure_eq("reply code", &method.reply_code, &ReplyCode::NO_ROUTE)?;
                ensure_eq("exchange", &method.exchange, &ShortStr::EMPTY)?;
                ensure_eq("key is the same", &(method.routing_key == key), &true)?;
                ensure_eq("properties", &returned.properties, &properties)?;
                ensure_eq("body", &&returned.body[..], &&b"body"[..])?;
                client.expect_acks(1, 1).await
            }),
        check("basic.publish/confirmed-when-routed")
            .rabbitmq(
                "Consumer Acknowledgements and Publisher Confirms",
                "every publish on a channel in confirm mode is confirmed once",
            )
            .sends("confirm.select, 100 times basic.publish to a queue")
            .expects("acks that cover 1 to 100; 100 messages in the queue")
            .run(async |cx| {
                let queue = cx.name("confirmed");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                client.confirm_select(1).await?;
                for _ in 0..100 {
                    client.publish(1, "", &queue, "body").await?;
                }
                client.expect_acks(1, 100).await?;
                let count = client.message_count(1, &queue).await?;
                ensure_eq("message count", &count, &100)
            }),
        check("basic.publish/immediate-without-consumer-returned")
            .should(
                Spec("basic.publish.immediate rule 01"),
                "an immediate message for which no consumer is ready is returned",
            )
            .sends("basic.publish immediate to a queue without consumers")
            .expects("basic.return 313")
            .run(async |cx| {
                let queue = cx.name("nobody");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                let publish = basic::Publish {
                    routing_key: queue,
                    immediate: true,
                    ..Default::default()
                };
                client
                    .send_content(1, publish, &Properties::EMPTY, b"body")
                    .await?;
                let returned = client.expect_return(1).await?;
                let code = returned.method.reply_code;
                ensure_eq("reply code", &code, &ReplyCode::NO_CONSUMERS)
            }),
        check("basic.publish/unroutable-not-mandatory-dropped")
            .must(
                Spec("basic.publish.mandatory"),
                "a message that no queue takes and that is not mandatory is dropped without a word",
            )
            .sends("basic.publish with a key that no queue has; channel.flow")
            .expects("channel.flow-ok, and nothing before it")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.publish(1, "", cx.name("nowhere"), "body").await?;
                client.barrier(1).await
            }),
        check("basic.publish/mandatory-routed-is-not-returned")
            .must(
                Spec("basic.publish.mandatory"),
                "a mandatory message that reaches a queue is not returned",
            )
            .sends("basic.publish mandatory to a queue; channel.flow; basic.get")
            .expects("channel.flow-ok first; the message")
            .run(async |cx| {
                let queue = cx.name("routed");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                client
                    .send_content(1, mandatory("", &queue)?, &Properties::EMPTY, b"body")
                    .await?;
                client.barrier(1).await?;
                ensure_eq("bodies", &client.drain(1, &queue).await?, &["body"])
            }),
        check("basic.publish/mandatory-in-part-is-not-returned")
            .must(
                Spec("basic.publish.mandatory"),
                "one queue is enough: a mandatory message is returned only if no queue takes it",
            )
            .sends("a fanout bound to a queue and to an exchange without bindings; basic.publish mandatory to it")
            .expects("no return; the message in the queue")
            .run(async |cx| {
                let (fanout, dead_end) = (cx.exchange("fanout"), cx.exchange("dead end"));
                let queue = cx.name("one");
                let mut client = cx.open_channel().await?;
                client.require_capability("exchange_exchange_bindings")?;
                client.declare_exchange(1, &fanout, "fanout").await?;
                client.declare_exchange(1, &dead_end, "fanout").await?;
                client.declare_queue(1, &queue).await?;
                client.bind_queue(1, &queue, &fanout, "").await?;
                let bind = exchange::Bind {
                    source: fanout.clone(),
                    destination: dead_end,
                    ..Default::default()
                };
                client.call::<exchange::BindOk>(1, bind).await?;
                client
                    .send_content(1, mandatory(&fanout, "")?, &Properties::EMPTY, b"body")
                    .await?;
                client.barrier(1).await?;
                ensure_eq("bodies", &client.drain(1, &queue).await?, &["body"])
            }),
    ]
}

fn mandatory(
    exchange: impl AsRef<[u8]>,
    routing_key: impl AsRef<[u8]>,
) -> Result<basic::Publish<'static>, Failure> {
    Ok(basic::Publish {
        exchange: ShortStr::try_from(exchange.as_ref())?.into_owned(),
        routing_key: ShortStr::try_from(routing_key.as_ref())?.into_owned(),
        mandatory: true,
        ..Default::default()
    })
}
