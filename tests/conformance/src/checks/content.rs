//! Contents: a method, its header, its bodies, and what is not one.

use amqp_codec::basic::{self, Properties};
use amqp_codec::{ReplyCode, ShortStr, channel, frame};

use crate::check::Source::{Spec, Text};
use crate::verify::Codes;
use crate::{Check, Connection, Context, Failure, check, ensure_eq};

const CONTENT: &str = "4.2.6 Content Framing";
const HEADER: &str = "4.2.6.1 The Content Header";
const BODY: &str = "4.2.6.2 The Content Body";
const INCOMPLETE: &str =
    "a content that is incomplete or badly formed is an error of the connection: 505";

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("content/header-without-method")
            .must(Text(CONTENT), INCOMPLETE)
            .sends("a content header without a method before it")
            .expects("connection.close 505")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send_frame(frame::HEADER, 1, &header(4)).await?;
                refused(client, ReplyCode::UNEXPECTED_FRAME).await
            }),
        check("content/body-without-method")
            .must(Text(CONTENT), INCOMPLETE)
            .sends("a body without a method before it")
            .expects("connection.close 505")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send_frame(frame::BODY, 1, b"body").await?;
                refused(client, ReplyCode::UNEXPECTED_FRAME).await
            }),
        check("content/body-without-header")
            .must(Text(CONTENT), INCOMPLETE)
            .sends("basic.publish, and a body without a header")
            .expects("connection.close 505")
            .run(async |cx| {
                let mut client = begin(cx).await?;
                client.send_frame(frame::BODY, 1, b"body").await?;
                refused(client, ReplyCode::UNEXPECTED_FRAME).await
            }),
        check("content/method-instead-of-header")
            .must(Text(CONTENT), INCOMPLETE)
            .sends("basic.publish, and channel.flow instead of a header")
            .expects("connection.close 505")
            .run(async |cx| {
                let mut client = begin(cx).await?;
                client.send(1, FLOW).await?;
                refused(client, ReplyCode::UNEXPECTED_FRAME).await
            }),
        check("content/method-instead-of-body")
            .must(Text(CONTENT), INCOMPLETE)
            .sends("basic.publish and a header that announces 4 octets; channel.flow instead of a body")
            .expects("connection.close 505")
            .run(async |cx| {
                let mut client = begin(cx).await?;
                client.send_frame(frame::HEADER, 1, &header(4)).await?;
                client.send(1, FLOW).await?;
                refused(client, ReplyCode::UNEXPECTED_FRAME).await
            }),
        check("content/method-amid-bodies")
            .must(Text(CONTENT), INCOMPLETE)
            .sends("basic.publish, a header that announces 8 octets, 4 of them, and channel.flow")
            .expects("connection.close 505")
            .run(async |cx| {
                let mut client = begin(cx).await?;
                client.send_frame(frame::HEADER, 1, &header(8)).await?;
                client.send_frame(frame::BODY, 1, b"half").await?;
                client.send(1, FLOW).await?;
                refused(client, ReplyCode::UNEXPECTED_FRAME).await
            }),
        check("content/header-twice")
            .must(Text(CONTENT), INCOMPLETE)
            .sends("basic.publish and its header twice")
            .expects("connection.close 505")
            .run(async |cx| {
                let mut client = begin(cx).await?;
                client.send_frame(frame::HEADER, 1, &header(4)).await?;
                client.send_frame(frame::HEADER, 1, &header(4)).await?;
                refused(client, ReplyCode::UNEXPECTED_FRAME).await
            }),
        check("content/header-of-another-class")
            .must(
                Text(HEADER),
                "a header whose class is not that of the method is an error: 501, or 505",
            )
            .sends("basic.publish, and a header of the queue class")
            .expects("connection.close 501 or 505")
            .run(async |cx| {
                let mut header = header(4);
                header[1] = 50;
                let mut client = begin(cx).await?;
                client.send_frame(frame::HEADER, 1, &header).await?;
                refused(client, [ReplyCode::FRAME_ERROR, ReplyCode::UNEXPECTED_FRAME]).await
            }),
        check("content/header-with-a-weight")
            .must(
                Text(HEADER),
                "the weight in a header is 0; another one is an error: 501, 502 or 505",
            )
            .sends("basic.publish, and a header with a weight of 1")
            .expects("connection.close 501, 502 or 505")
            .run(async |cx| {
                let mut header = header(4);
                header[3] = 1;
                let mut client = begin(cx).await?;
                client.send_frame(frame::HEADER, 1, &header).await?;
                let codes = [
                    ReplyCode::FRAME_ERROR,
                    ReplyCode::SYNTAX_ERROR,
                    ReplyCode::UNEXPECTED_FRAME,
                ];
                refused(client, codes).await
            }),
        check("content/header-cut-short")
            .must(
                Spec("constant frame-error"),
                "a header that is too short for its fields is malformed: 501, or 502",
            )
            .sends("basic.publish, and a header of 10 octets")
            .expects("connection.close 501 or 502")
            .run(async |cx| {
                let mut client = begin(cx).await?;
                client.send_frame(frame::HEADER, 1, &header(4)[..10]).await?;
                refused(client, [ReplyCode::FRAME_ERROR, ReplyCode::SYNTAX_ERROR]).await
            }),
        check("content/body-larger-than-announced")
            .must(
                Text(BODY),
                "a body above the size that its header announced is an error: 501, or 505",
            )
            .sends("basic.publish, a header that announces 4 octets, a body of 8, and channel.flow")
            .expects("connection.close 501 or 505")
            .run(async |cx| {
                let mut client = begin(cx).await?;
                client.send_frame(frame::HEADER, 1, &header(4)).await?;
                client.send_frame(frame::BODY, 1, b"too much").await?;
                client.send(1, FLOW).await?;
                refused(client, [ReplyCode::FRAME_ERROR, ReplyCode::UNEXPECTED_FRAME]).await
            }),
        check("content/body-after-an-empty-one")
            .must(
                Text(BODY),
                "a body frame after a header that announces no body is an error: 501, or 505",
            )
            .sends("basic.publish, a header that announces 0 octets, and a body")
            .expects("connection.close 501 or 505")
            .run(async |cx| {
                let mut client = begin(cx).await?;
                client.send_frame(frame::HEADER, 1, &header(0)).await?;
                client.send_frame(frame::BODY, 1, b"body").await?;
                refused(client, [ReplyCode::FRAME_ERROR, ReplyCode::UNEXPECTED_FRAME]).await
            }),
        check("content/incomplete-at-the-end-is-none")
            .must(
                Text(CONTENT),
                "a content whose bodies did not all come when the connection ended was never published",
            )
            .sends("basic.publish and half of its body; then connection.close")
            .expects("an empty queue, seen from another connection")
            .run(async |cx| {
                let queue = cx.name("empty");
                let mut observer = cx.open_channel().await?;
                observer.declare_queue(1, &queue).await?;
                let mut client = cx.open_channel().await?;
                client.send(1, publish(queue.clone())).await?;
                client.send_frame(frame::HEADER, 1, &header(8)).await?;
                client.send_frame(frame::BODY, 1, b"half").await?;
                // Its answer comes once the channels have come to an end.
                client.close().await?;
                let count = observer.message_count(1, &queue).await?;
                ensure_eq("message count", &count, &0)
            }),
        check("content/in-frames-of-one-octet")
            .must(
                Text(BODY),
                "a body is split into as many frames as its sender likes, and comes back the same",
            )
            .sends("a body of 100 octets in 100 frames; basic.get")
            .expects("the same 100 octets")
            .run(async |cx| {
                let body: Vec<u8> = (0..100).collect();
                let frames: Vec<&[u8]> = body.chunks(1).collect();
                comes_back(cx, &frames).await
            }),
        check("content/empty-frames-amid-bodies")
            .must(
                Text(BODY),
                "an empty frame adds nothing to a body",
            )
            .sends("a body in two frames with empty ones before and between them; basic.get")
            .expects("the same body")
            .run(async |cx| comes_back(cx, &[b"", b"first, ", b"", b"", b"second"]).await),
        check("content/empty-has-no-body-frame")
            .must(
                Text(CONTENT),
                "a content without a body is its method and its header",
            )
            .sends("an empty message; basic.get")
            .expects("basic.get-ok and a header that announces nothing; no body frame before the next answer")
            .run(async |cx| {
                let queue = cx.name("empty");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                client.publish(1, "", &queue, "").await?;
                let got = client.get(1, &queue).await?;
                ensure_eq("messages", &got.is_some(), &true)?;
                client.barrier(1).await
            }),
        check("content/of-two-channels-interleaved")
            .must(
                Text(CONTENT),
                "the frames of contents on different channels may be mixed",
            )
            .sends("two messages on two channels, their frames in turn; basic.get")
            .expects("both messages")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                let queues = [cx.name("one"), cx.name("two")];
                for (number, queue) in (1..).zip(&queues) {
                    client.declare_queue(number, queue).await?;
                    client.send(number, publish(queue.clone())).await?;
                }
                for number in [2, 1] {
                    client.send_frame(frame::HEADER, number, &header(6)).await?;
                }
                for part in [b"abc", b"def"] {
                    client.send_frame(frame::BODY, 1, part).await?;
                    client.send_frame(frame::BODY, 2, &part.map(|it| it.to_ascii_uppercase())).await?;
                }
                for (number, body) in [(1, b"abcdef"), (2, b"ABCDEF")] {
                    let got = client.get(number, &queues[usize::from(number) - 1]).await?;
                    let got = got.ok_or_else(|| Failure::new("basic.get-ok", "basic.get-empty"))?;
                    ensure_eq("body", &&got.body[..], &&body[..])?;
                }
                Ok(())
            }),
        check("content/another-channel-works-meanwhile")
            .must(
                Text(CONTENT),
                "a content that is not complete holds up its channel, not the others",
            )
            .sends("basic.publish and a header on channel 1; queue.declare on channel 2; the body on channel 1")
            .expects("declare-ok at once, and the message in its queue")
            .run(async |cx| {
                let queue = cx.name("held-up");
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                client.declare_queue(2, &queue).await?;
                client.send(1, publish(queue.clone())).await?;
                client.send_frame(frame::HEADER, 1, &header(4)).await?;
                client.declare_queue(2, cx.name("meanwhile")).await?;
                client.send_frame(frame::BODY, 1, b"body").await?;
                let got = client.get(1, &queue).await?;
                ensure_eq("messages", &got.is_some(), &true)
            }),
        check("content/heartbeats-amid-frames")
            .must(
                Text("4.2.7 Heartbeat Frames"),
                "heartbeats can be sent at any time, between the frames of a content too",
            )
            .sends("a heartbeat after the method, after the header and between the bodies; basic.get")
            .expects("the same body")
            .run(async |cx| {
                let queue = cx.name("heartbeats");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                client.send(1, publish(queue.clone())).await?;
                client.send_heartbeat().await?;
                client.send_frame(frame::HEADER, 1, &header(8)).await?;
                client.send_heartbeat().await?;
                client.send_frame(frame::BODY, 1, b"beat").await?;
                client.send_heartbeat().await?;
                client.send_frame(frame::BODY, 1, b"beat").await?;
                let got = client.get(1, &queue).await?;
                let got = got.ok_or_else(|| Failure::new("basic.get-ok", "basic.get-empty"))?;
                ensure_eq("body", &&got.body[..], &&b"beatbeat"[..])
            }),
    ]
}

const FLOW: channel::Flow = channel::Flow {
    active: true,
    undefined_bits: 0,
};

fn publish(queue: ShortStr<'static>) -> basic::Publish<'static> {
    basic::Publish {
        routing_key: queue,
        ..Default::default()
    }
}

/// A header of the basic class, without properties, that announces so many octets of body.
fn header(octets: u64) -> [u8; 14] {
    let mut header = [0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[4..12].copy_from_slice(&octets.to_be_bytes());
    header
}

/// A channel on which basic.publish has been sent, without its content.
async fn begin(cx: &Context) -> Result<Connection, Failure> {
    let queue = cx.name("content");
    let mut client = cx.open_channel().await?;
    client.declare_queue(1, &queue).await?;
    client.send(1, publish(queue)).await?;
    Ok(client)
}

async fn refused(mut client: Connection, codes: impl Into<Codes>) -> Result<(), Failure> {
    client.expect_connection_error_next(codes).await.map(drop)
}

/// A message whose body is sent in these frames must be got with all of them.
async fn comes_back(cx: &Context, frames: &[&[u8]]) -> Result<(), Failure> {
    let body = frames.concat();
    let queue = cx.name("bodies");
    let mut client = cx.open_channel().await?;
    client.declare_queue(1, &queue).await?;
    client.send(1, publish(queue.clone())).await?;
    client
        .send_frame(frame::HEADER, 1, &header(body.len() as u64))
        .await?;
    for payload in frames {
        client.send_frame(frame::BODY, 1, payload).await?;
    }
    let got = client.get(1, &queue).await?;
    let got = got.ok_or_else(|| Failure::new("basic.get-ok", "basic.get-empty"))?;
    ensure_eq("properties", &got.properties, &Properties::EMPTY)?;
    ensure_eq("body", &got.body.to_vec(), &body)
}
