//! The lives of channels.

use amqp_codec::{ReplyCode, ShortStr, basic, channel, frame, queue, short};

use crate::check::Source::{Spec, Text};
use crate::{Check, Connection, Failure, check, ensure, ensure_eq};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("channel.open/twice")
            .must(
                Spec("channel.open rule state"),
                "opening a channel that is open already is a channel error of the connection: 504",
            )
            .sends("channel.open twice")
            .expects("connection.close 504")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(1, channel::Open::default()).await?;
                client
                    .expect_connection_error(ReplyCode::CHANNEL_ERROR)
                    .await
                    .map(drop)
            }),
        check("channel.close/number-can-be-used-again")
            .must(
                Spec("channel.close"),
                "a channel that has been closed can be opened again under its number",
            )
            .sends("channel.open, channel.close, channel.open")
            .expects("open-ok, close-ok, open-ok")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.close_channel(1).await?;
                client.open_channel(1).await?;
                client.barrier(1).await
            }),
        check("channel.open/numbers-with-gaps")
            .must(
                Text("4.3 Channel Multiplexing"),
                "channels are opened under any number up to channel-max, in any order",
            )
            .sends("channel.open on 300, 7 and 20")
            .expects("open-ok each time, on that channel")
            .run(async |cx| {
                let mut client = cx.open().await?;
                for number in [300, 7, 20] {
                    client.open_channel(number).await?;
                }
                client.barrier(7).await
            }),
        check("channel.open/highest-number")
            .must(
                Spec("connection.tune.channel-max"),
                "the number of channel-max is one that a channel can have",
            )
            .sends("channel.open on the channel-max that the server proposed, or 65535 for no limit")
            .expects("open-ok")
            .run(async |cx| {
                let mut client = cx.open().await?;
                let highest = highest(&client);
                client.open_channel(highest).await?;
                client.barrier(highest).await
            }),
        check("channel.open/above-the-highest-number-refused")
            .must(
                Spec("connection.tune.channel-max"),
                "a number above channel-max is none that a channel can have",
            )
            .sends("channel.open on the number above the server's channel-max")
            .expects("connection.close 504 or 530")
            .run(async |cx| {
                let mut client = cx.open().await?;
                let Some(above) = highest(&client).checked_add(1) else {
                    let expected = "a channel-max below 65535";
                    return Err(Failure::unimplemented(expected, "no limit of channels"));
                };
                client.send(above, channel::Open::default()).await?;
                let codes = [ReplyCode::CHANNEL_ERROR, ReplyCode::NOT_ALLOWED];
                client.expect_connection_error_next(codes).await.map(drop)
            }),
        check("channel.open/on-channel-0-refused")
            .must(
                Text("4.3 Channel Multiplexing"),
                "channel 0 is that of the connection, and not to be opened",
            )
            .sends("channel.open on 0")
            .expects("connection.close 503 or 504")
            .run(async |cx| {
                let mut client = cx.open().await?;
                client.send(0, channel::Open::default()).await?;
                let codes = [ReplyCode::COMMAND_INVALID, ReplyCode::CHANNEL_ERROR];
                client.expect_connection_error(codes).await.map(drop)
            }),
        check("channel.open/reserved-field-ignored")
            .must(
                Spec("channel.open.reserved-1"),
                "what is in reserved fields does not matter",
            )
            .sends("channel.open with reserved-1 set")
            .expects("open-ok")
            .run(async |cx| {
                let mut client = cx.open().await?;
                let open = channel::Open { reserved_1: short!("out of band") };
                client.call::<channel::OpenOk<'static>>(1, open).await.map(drop)
            }),
        check("channel.open/many-in-a-row")
            .must(
                Spec("channel.close"),
                "a number can be used again, however often",
            )
            .sends("100 times channel.open and channel.close under one number")
            .expects("open-ok and close-ok each time")
            .run(async |cx| {
                let mut client = cx.open().await?;
                for _ in 0..100 {
                    client.open_channel(1).await?;
                    client.close_channel(1).await?;
                }
                client.open_channel(1).await
            }),
        check("channel.open/many-side-by-side")
            .must(
                Text("4.3 Channel Multiplexing"),
                "channels of one connection live side by side",
            )
            .sends("channel.open on 1 to 200, without waiting; channel.flow on each")
            .expects("an answer on each")
            .run(async |cx| {
                let mut client = cx.open().await?;
                let all = 1..=highest(&client).min(200);
                for number in all.clone() {
                    client.send(number, channel::Open::default()).await?;
                }
                for number in all.clone() {
                    client.expect::<channel::OpenOk<'static>>(number).await?;
                }
                for number in all {
                    client.barrier(number).await?;
                }
                Ok(())
            }),
        check("channel/answers-on-their-own-channels")
            .must(
                Text("4.3 Channel Multiplexing"),
                "what is asked on a channel is answered on it",
            )
            .sends("queue.declare on three channels, without waiting")
            .expects("declare-ok on each, with the name that was declared there")
            .run(async |cx| {
                let mut client = cx.open().await?;
                let queues = [cx.name("one"), cx.name("two"), cx.name("three")];
                for number in 1..=3 {
                    client.open_channel(number).await?;
                }
                for (number, queue) in (1..).zip(&queues) {
                    client.send(number, declare(queue)).await?;
                }
                for (number, queue) in (1..).zip(&queues) {
                    let ok: queue::DeclareOk<'static> = client.expect(number).await?;
                    ensure_eq("name is the same", &(ok.queue == *queue), &true)?;
                }
                Ok(())
            }),
        check("channel/method-on-unopened-refused")
            .must(
                Spec("constant channel-error"),
                "work on a channel that is not open is an error: 504",
            )
            .sends("queue.declare on a channel that was never opened")
            .expects("connection.close 504")
            .run(async |cx| {
                let mut client = cx.open().await?;
                client.send(1, declare(&cx.name("unopened"))).await?;
                client.expect_connection_error_next(ReplyCode::CHANNEL_ERROR).await.map(drop)
            }),
        check("channel/publish-on-unopened-refused")
            .must(
                Spec("constant channel-error"),
                "work on a channel that is not open is an error: 504",
            )
            .sends("basic.publish with its content on a channel that was never opened")
            .expects("connection.close 504")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.publish(2, "", cx.name("unopened"), "body").await?;
                client.expect_connection_error_next(ReplyCode::CHANNEL_ERROR).await.map(drop)
            }),
        check("channel/header-on-unopened-refused")
            .must(
                Spec("constant channel-error"),
                "work on a channel that is not open is an error: 504",
            )
            .sends("a content header on a channel that was never opened")
            .expects("connection.close 504")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let header = [0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                client.send_frame(frame::HEADER, 2, &header).await?;
                client.expect_connection_error_next(ReplyCode::CHANNEL_ERROR).await.map(drop)
            }),
        check("channel.close/on-unopened-refused")
            .must(
                Spec("constant channel-error"),
                "work on a channel that is not open is an error: 504",
            )
            .sends("channel.close on a channel that was never opened")
            .expects("connection.close 504")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(2, close("")?).await?;
                client.expect_connection_error_next(ReplyCode::CHANNEL_ERROR).await.map(drop)
            }),
        check("channel.close/answered")
            .must(
                Spec("channel.close"),
                "a close is answered by close-ok, and the connection goes on",
            )
            .sends("channel.close 404 with a text of 255 octets; then channel.flow on another channel")
            .expects("channel.close-ok, channel.flow-ok")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                let close = channel::Close { reply_code: ReplyCode::NOT_FOUND, ..close(&"t".repeat(255))? };
                client.call::<channel::CloseOk>(1, close).await?;
                client.barrier(2).await
            }),
        check("channel.close/ends-the-channel")
            .must(
                Spec("constant channel-error"),
                "a channel that was closed is not open: 504",
            )
            .sends("channel.close, then queue.declare on the channel")
            .expects("close-ok, then connection.close 504")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.close_channel(1).await?;
                client.send(1, declare(&cx.name("closed"))).await?;
                client.expect_connection_error_next(ReplyCode::CHANNEL_ERROR).await.map(drop)
            }),
        check("channel.close/number-can-be-used-again-after-an-error")
            .must(
                Text("4.5 Channel Closure"),
                "a channel that the server has closed can be opened again under its number",
            )
            .sends("a passive declare of a missing queue, close-ok, channel.open")
            .expects("channel.close 404, open-ok")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(1, passive(cx.name("missing"))).await?;
                client.expect_channel_error(1, ReplyCode::NOT_FOUND).await?;
                client.open_channel(1).await?;
                client.barrier(1).await
            }),
        check("channel.close/error-leaves-other-channels-alone")
            .must(
                Text("4.8.1 Exceptions"),
                "a channel exception closes its channel, no other",
            )
            .sends("a consumer on channel 2, an error on channel 1, a publish on channel 3")
            .expects("channel.close 404 on 1, the delivery on 2")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                client.open_channel(3).await?;
                let queue = cx.name("alive");
                client.declare_queue(2, &queue).await?;
                client.consume(2, &queue, "consumer", true).await?;
                client.send(1, passive(cx.name("missing"))).await?;
                client.expect_channel_error(1, ReplyCode::NOT_FOUND).await?;
                client.publish(3, "", &queue, "alive").await?;
                let delivery = client.expect_delivery(2).await?;
                ensure_eq("body", &&delivery.body[..], &&b"alive"[..])
            }),
        check("channel.close/names-the-method")
            .must(
                Spec("channel.close.class-id"),
                "a close that a method provoked names its class and method",
            )
            .sends("a passive declare of a missing queue")
            .expects("channel.close with the class 50 and the method 10")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(1, passive(cx.name("missing"))).await?;
                let close = client.expect_channel_error(1, ReplyCode::NOT_FOUND).await?;
                ensure_eq("class and method", &(close.class_id, close.method_id), &(50, 10))
            }),
        check("channel.close/gives-a-text")
            .must(
                Spec("channel.close.reply-text"),
                "the text that says why is not empty",
            )
            .sends("a passive declare of a missing queue")
            .expects("channel.close with a text")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(1, passive(cx.name("missing"))).await?;
                let close = client.expect_channel_error(1, ReplyCode::NOT_FOUND).await?;
                ensure(!close.reply_text.is_empty(), "a text", "no text")
            }),
        check("channel.close/nothing-counts-before-close-ok")
            .must(
                Spec("channel.close rule stability"),
                "after its close the server discards all but close and close-ok",
            )
            .sends("an error; before close-ok a publish to a queue and a get; then close-ok and channel.open")
            .expects("open-ok, and an empty queue")
            .run(async |cx| {
                let queue = cx.name("empty");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                client.send(1, passive(cx.name("missing"))).await?;
                client.expect::<channel::Close<'static>>(1).await?;
                client.publish(1, "", &queue, "too late").await?;
                let get = basic::Get { queue: queue.clone(), ..Default::default() };
                client.send(1, get).await?;
                client.send(1, channel::CloseOk {}).await?;
                client.open_channel(1).await?;
                let count = client.message_count(1, &queue).await?;
                ensure_eq("message count", &count, &0)
            }),
        check("channel.close/open-before-close-ok-ignored")
            .must(
                Spec("channel.close rule stability"),
                "after its close the server discards all but close and close-ok, channel.open included",
            )
            .sends("an error; before close-ok channel.open; then close-ok and channel.open")
            .expects("one open-ok, for the second channel.open")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(1, passive(cx.name("missing"))).await?;
                client.expect::<channel::Close<'static>>(1).await?;
                client.send(1, channel::Open::default()).await?;
                client.send(1, channel::CloseOk {}).await?;
                client.open_channel(1).await?;
                client.barrier(1).await
            }),
        check("channel.close/crossing-an-error")
            .must(
                Spec("channel.close rule stability"),
                "a close that crosses the server's own is answered by close-ok",
            )
            .sends("an error; after the server's close, channel.close, close-ok and channel.open")
            .expects("close-ok, then open-ok")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(1, passive(cx.name("missing"))).await?;
                client.expect::<channel::Close<'static>>(1).await?;
                client.call::<channel::CloseOk>(1, close("")?).await?;
                client.send(1, channel::CloseOk {}).await?;
                client.open_channel(1).await?;
                client.barrier(1).await
            }),
        check("channel.close-ok/unsolicited-refused")
            .must(
                Spec("constant command-invalid"),
                "a close-ok without a close is out of sequence: 503",
            )
            .sends("channel.close-ok on an open channel")
            .expects("connection.close 503")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(1, channel::CloseOk {}).await?;
                client.expect_connection_error(ReplyCode::COMMAND_INVALID).await.map(drop)
            }),
        check("channel.open-ok/from-client-refused")
            .must(
                Spec("constant command-invalid"),
                "an answer of the server's, sent by a client, is invalid: 503",
            )
            .sends("channel.open-ok on an open channel")
            .expects("connection.close 503")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(1, channel::OpenOk::default()).await?;
                client.expect_connection_error(ReplyCode::COMMAND_INVALID).await.map(drop)
            }),
        check("channel.flow/active-answered")
            .must(
                Spec("channel.flow-ok.active"),
                "flow-ok says the state that was asked for: active",
            )
            .sends("channel.flow with active set")
            .expects("channel.flow-ok with active set")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let flow = channel::Flow { active: true, ..Default::default() };
                let ok: channel::FlowOk = client.call(1, flow).await?;
                ensure_eq("active", &ok.active, &true)
            }),
        check("channel.flow/inactive-stops-deliveries")
            .must(
                Spec("channel.flow.active"),
                "a channel that the client has stopped delivers nothing until it is started again",
            )
            .sends("a consumer, channel.flow without active, a publish, channel.flow with active")
            .expects("flow-ok without active, nothing; then flow-ok with active, and the delivery")
            .run(async |cx| {
                let queue = cx.name("stopped");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                client.consume(1, &queue, "consumer", true).await?;
                let ok: channel::FlowOk = client.call(1, channel::Flow::default()).await?;
                ensure_eq("active", &ok.active, &false)?;
                client.publish(1, "", &queue, "body").await?;
                // Its answer comes before the delivery, or the channel was not stopped.
                client.message_count(1, &queue).await?;
                client.barrier(1).await?;
                client.expect_delivery(1).await.map(drop)
            }),
    ]
}

/// The highest number that a channel can have.
fn highest(client: &Connection) -> u16 {
    match client.opened().map(|it| it.tune_ok.channel_max) {
        None | Some(0) => u16::MAX,
        Some(channel_max) => channel_max,
    }
}

fn close(text: &str) -> Result<channel::Close<'static>, Failure> {
    Ok(channel::Close {
        reply_code: ReplyCode::REPLY_SUCCESS,
        reply_text: ShortStr::try_from(text.to_owned())?,
        ..Default::default()
    })
}

fn declare<'a>(queue: &'a ShortStr<'_>) -> queue::Declare<'a> {
    queue::Declare {
        queue: queue.as_borrowed(),
        exclusive: true,
        ..Default::default()
    }
}

fn passive(queue: ShortStr<'static>) -> queue::Declare<'static> {
    queue::Declare {
        queue,
        passive: true,
        ..Default::default()
    }
}
