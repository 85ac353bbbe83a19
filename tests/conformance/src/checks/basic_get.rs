//! Getting single messages.

use amqp_codec::basic::{self, Properties};
use amqp_codec::{ReplyCode, queue, table};

use crate::check::Source::Spec;
use crate::{Check, Failure, check, ensure, ensure_eq};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("basic.get/empty")
            .must(
                Spec("basic.get-empty"),
                "getting from an empty queue is answered by get-empty",
            )
            .sends("basic.get from a new queue")
            .expects("basic.get-empty")
            .run(async |cx| {
                let queue = cx.name("empty");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                let got = client.get(1, &queue).await?;
                ensure(got.is_none(), "basic.get-empty", "basic.get-ok")?;
                client.barrier(1).await
            }),
        check("basic.get/missing-queue")
            .must(
                Spec("basic.get.queue"),
                "getting from a queue that does not exist is a channel error: 404",
            )
            .sends("basic.get from a name that no queue has")
            .expects("channel.close 404")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let get = basic::Get {
                    queue: cx.name("missing"),
                    ..Default::default()
                };
                client.send(1, get).await?;
                client
                    .expect_channel_error(1, ReplyCode::NOT_FOUND)
                    .await
                    .map(drop)
            }),
        check("basic.get/content-comes-back")
            .must(
                Spec("basic.get-ok"),
                "a message comes back with the properties and the body that it was published with",
            )
            .sends("a publish with properties, headers and a body of several frames; basic.get")
            .expects("basic.get-ok with the same")
            .run(async |cx| {
                let queue = cx.name("content");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                let properties = Properties {
                    content_type: Some(amqp_codec::short!("text/plain")),
                    headers: Some(table! { "answer" => 42 }.into()),
                    delivery_mode: Some(1),
                    ..Properties::EMPTY
                };
                let publish = basic::Publish {
                    routing_key: queue.clone(),
                    ..Default::default()
                };
                let body = vec![b'x'; 200_000];
                client.send_content(1, publish, &properties, &body).await?;
                let got = client.get(1, &queue).await?;
                let got = got.ok_or_else(|| Failure::new("basic.get-ok", "basic.get-empty"))?;
                ensure_eq("properties", &got.properties, &properties)?;
                ensure_eq("body is the same", &(got.body == body), &true)
            }),
        check("basic.get/counts-what-is-left")
            .must(
                Spec("basic.get-ok.message-count"),
                "get-ok says how many messages are left in the queue",
            )
            .sends("three confirmed messages; basic.get of each")
            .expects("message-count 2, 1 and 0")
            .run(async |cx| {
                let queue = cx.name("counted");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                client.confirm_select(1).await?;
                for _ in 0..3 {
                    client.publish(1, "", &queue, "body").await?;
                }
                client.expect_acks(1, 3).await?;
                let mut counts = Vec::new();
                while let Some(got) = client.get(1, &queue).await? {
                    counts.push(got.method.message_count);
                }
                ensure_eq("message counts", &counts, &[2, 1, 0])
            }),
        check("basic.get/says-where-from")
            .must(
                Spec("basic.get-ok"),
                "get-ok says exchange and key of the publish",
            )
            .sends("a message through a fanout with a key; basic.get")
            .expects("that exchange and key")
            .run(async |cx| {
                let (exchange, queue) = (cx.exchange("fanout"), cx.name("bound"));
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &exchange, "fanout").await?;
                client.declare_queue(1, &queue).await?;
                client.bind_queue(1, &queue, &exchange, "").await?;
                client
                    .publish(1, &exchange, "order.created", "body")
                    .await?;
                let got = client.get(1, &queue).await?;
                let got = got.ok_or_else(|| Failure::new("basic.get-ok", "basic.get-empty"))?;
                ensure_eq(
                    "exchange is the same",
                    &(got.method.exchange == exchange),
                    &true,
                )?;
                ensure_eq("key", &got.method.routing_key, &"order.created")
            }),
        check("basic.get/unacked-is-not-given-out-twice")
            .must(
                Spec("basic.get"),
                "a message that waits for its acknowledgement is not given to anybody else",
            )
            .sends("a message; basic.get, then basic.get on another channel")
            .expects("the message, then basic.get-empty")
            .run(async |cx| {
                let queue = cx.name("once");
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                client.declare_queue(1, &queue).await?;
                client.publish(1, "", &queue, "body").await?;
                let get = basic::Get {
                    queue: queue.clone(),
                    ..Default::default()
                };
                let got = client.get_with(1, get).await?;
                ensure(got.is_some(), "basic.get-ok", "basic.get-empty")?;
                let got = client.get(2, &queue).await?;
                ensure(got.is_none(), "basic.get-empty", "basic.get-ok")
            }),
        check("basic.get/does-not-make-a-consumer")
            .must(
                Spec("basic.get"),
                "getting is no consuming: the queue has no consumer, and gives out one message",
            )
            .sends("two messages; basic.get; queue.delete if-unused on the same channel")
            .expects("one basic.get-ok; queue.delete-ok")
            .run(async |cx| {
                let queue = cx.name("polled");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                for _ in 0..2 {
                    client.publish(1, "", &queue, "body").await?;
                }
                client.get(1, &queue).await?;
                let delete = queue::Delete {
                    queue,
                    if_unused: true,
                    ..Default::default()
                };
                let deleted: queue::DeleteOk = client.call(1, delete).await?;
                ensure_eq("messages deleted", &deleted.message_count, &1)
            }),
    ]
}
