//! Getting single messages.

use amqp_codec::basic::{self, Properties};
use amqp_codec::{ReplyCode, table};

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
    ]
}
