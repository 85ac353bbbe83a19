//! Just as long as it may be, and one octet more.

use amqp_codec::basic::{self, Properties};
use amqp_codec::{MethodFields, ReplyCode, ShortStr, frame, queue};

use crate::check::Source::{Spec, Text};
use crate::{Check, Connection, Context, Failure, check, ensure, ensure_eq};

const STRINGS: &str = "4.2.5.3 Strings";
const BODY: &str = "4.2.6.2 The Content Body";

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("limits/body-of-one-full-frame")
            .must(
                Text(BODY),
                "a frame may be as large as was agreed upon, its eight octets of framing included",
            )
            .sends("a body of frame-max less 8 octets; basic.get")
            .expects("the same body, in frames within the frame-max")
            .run(async |cx| body_comes_back(cx, |full| full).await),
        check("limits/body-of-one-octet-less-than-a-frame")
            .must(
                Text(BODY),
                "a body comes back as it was, however it fills its frames",
            )
            .sends("a body of frame-max less 9 octets; basic.get")
            .expects("the same body, in frames within the frame-max")
            .run(async |cx| body_comes_back(cx, |full| full - 1).await),
        check("limits/body-of-one-octet-more-than-a-frame")
            .must(
                Text(BODY),
                "a body comes back as it was, however it fills its frames",
            )
            .sends("a body of frame-max less 7 octets, in two frames; basic.get")
            .expects("the same body, in frames within the frame-max")
            .run(async |cx| body_comes_back(cx, |full| full + 1).await),
        check("limits/body-of-many-full-frames")
            .must(
                Text(BODY),
                "a body comes back as it was, however it fills its frames",
            )
            .sends("a body of 20 times frame-max less 8 octets; basic.get")
            .expects("the same body, in frames within the frame-max")
            .run(async |cx| body_comes_back(cx, |full| 20 * full).await),
        check("limits/body-of-4-mib")
            .must(
                Text(BODY),
                "a body comes back as it was, however it fills its frames",
            )
            .sends("a body of 4 MiB; basic.get")
            .expects("the same body, in frames within the frame-max")
            .deadline(30)
            .run(async |cx| body_comes_back(cx, |_| 4 << 20).await),
        check("limits/header-of-one-full-frame")
            .must(
                Text("4.2.3 General Frame Format"),
                "a content header may be as large as a frame may be",
            )
            .sends("headers that make a frame of frame-max octets; basic.get")
            .expects("the same headers")
            .run(async |cx| {
                let queue = cx.name("headers");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                // 8 of framing, 14 of the header, 4 of the table; 3 for the key and its tag, 4 for the string's length.
                let octets = client.frame_max() as usize - 8 - 14 - 4 - 7;
                let headers = amqp_codec::table! { "k" => "x".repeat(octets) };
                let properties = Properties { headers: Some(headers.into()), ..Properties::EMPTY };
                properties_come_back(&mut client, queue, &properties).await
            }),
        check("limits/method-of-one-full-frame")
            .must(
                Text("4.2.3 General Frame Format"),
                "a method may be as large as a frame may be",
            )
            .sends("queue.bind to amq.headers with arguments that make a frame of frame-max octets")
            .expects("queue.bind-ok")
            .run(async |cx| {
                let queue = cx.name("bound");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                let mut bind = queue::Bind {
                    queue,
                    exchange: amqp_codec::short!("amq.headers"),
                    arguments: amqp_codec::table! { "k" => "" },
                    ..Default::default()
                };
                let octets = client.frame_max() as usize - frame::method_frame_len(&bind);
                bind.arguments = amqp_codec::table! { "k" => "x".repeat(octets) };
                ensure_eq("octets", &(bind.fields_len() + 12), &(client.frame_max() as usize))?;
                client.call::<queue::BindOk>(1, bind).await.map(drop)
            }),
        check("limits/consumer-tag-of-255-octets")
            .must(
                Text(STRINGS),
                "a short string has up to 255 octets",
            )
            .sends("basic.consume with a tag of 255 octets, and a publish")
            .expects("consume-ok and a delivery with that tag")
            .run(async |cx| {
                let queue = cx.name("consumed");
                let tag = "t".repeat(255);
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                client.consume(1, &queue, &tag, true).await?;
                client.publish(1, "", &queue, "body").await?;
                let delivery = client.expect_delivery(1).await?;
                let same = delivery.method.consumer_tag.as_bytes() == tag.as_bytes();
                ensure_eq("tag is the same", &same, &true)
            }),
        check("limits/reply-text-about-255-octets")
            .must(
                Text(STRINGS),
                "an error about a name as long as a name may be is an error as others",
            )
            .sends("a passive declare of a missing queue with a name of 255 octets")
            .expects("channel.close 404")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                passive(&mut client, &"q".repeat(255)).await?;
                client.expect_channel_error(1, ReplyCode::NOT_FOUND).await.map(drop)
            }),
        check("limits/reply-text-about-255-octets-of-utf-8")
            .must(
                Text(STRINGS),
                "a short string is UTF-8: a text that is too long is not cut amid a character",
            )
            .sends("a passive declare of a missing queue with a name of 255 octets, two for each character")
            .expects("channel.close 404 with a text that is UTF-8")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                // Wherever the text is cut, in one of the two it is amid a character.
                for name in ["\u{e4}".repeat(127), format!("q{}", "\u{e4}".repeat(127))] {
                    passive(&mut client, &name).await?;
                    let close = client.expect_channel_error(1, ReplyCode::NOT_FOUND).await?;
                    let utf_8 = close.reply_text.as_str().is_ok();
                    ensure(utf_8, "a text in UTF-8", "a text that is no UTF-8")?;
                    client.open_channel(1).await?;
                }
                Ok(())
            }),
        check("limits/queue-name-of-255-octets")
            .must(
                Spec("domain queue-name"),
                "a queue's name has up to 255 octets",
            )
            .sends("queue.declare with a name of 255 octets, a publish and a get")
            .expects("declare-ok with the name, and the message")
            .run(async |cx| {
                let name = cx.name("long").to_string_lossy().into_owned();
                let name = format!("{name}{}", "q".repeat(255 - name.len()));
                let mut client = cx.open_channel().await?;
                let ok = client.declare_queue(1, &name).await?;
                ensure_eq("name is the same", &(ok.queue.as_bytes() == name.as_bytes()), &true)?;
                client.publish(1, "", &name, "body").await?;
                let got = client.get(1, &name).await?;
                ensure_eq("messages", &got.is_some(), &true)
            }),
    ]
}

/// A body whose length is made of what fits a frame must be got as it was published.
async fn body_comes_back(cx: &Context, len: impl Fn(usize) -> usize) -> Result<(), Failure> {
    let queue = cx.name("bodies");
    let mut client = cx.open_channel().await?;
    client.declare_queue(1, &queue).await?;
    let len = len(client.frame_max() as usize - frame::FRAME_OVERHEAD);
    let body: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    client.publish(1, "", &queue, &body).await?;
    // A body frame above the frame-max would be malformed.
    let got = client.get(1, &queue).await?;
    let got = got.ok_or_else(|| Failure::new("basic.get-ok", "basic.get-empty"))?;
    ensure_eq("octets", &got.body.len(), &len)?;
    ensure_eq("body is the same", &(got.body == body), &true)
}

async fn properties_come_back(
    client: &mut Connection,
    queue: ShortStr<'static>,
    properties: &Properties<'_>,
) -> Result<(), Failure> {
    let publish = basic::Publish {
        routing_key: queue.clone(),
        ..Default::default()
    };
    client.send_content(1, publish, properties, b"body").await?;
    let got = client.get(1, &queue).await?;
    let got = got.ok_or_else(|| Failure::new("basic.get-ok", "basic.get-empty"))?;
    ensure_eq(
        "properties are the same",
        &(got.properties == *properties),
        &true,
    )
}

async fn passive(client: &mut Connection, queue: &str) -> Result<(), Failure> {
    let declare = queue::Declare {
        queue: ShortStr::try_from(queue)?,
        passive: true,
        ..Default::default()
    };
    client.send(1, declare).await
}
