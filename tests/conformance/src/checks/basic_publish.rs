//! Publishing: returns and confirms.

use amqp_codec::basic::{self, Properties};
use amqp_codec::{ReplyCode, ShortStr, short};

use crate::check::Source::Spec;
use crate::{Check, check, ensure_eq};

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
            .must(
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
    ]
}
