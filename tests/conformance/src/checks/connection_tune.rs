//! What the two sides agree upon, and whether the server keeps to it.

use amqp_codec::basic::{self, Properties};
use amqp_codec::{ReplyCode, channel, connection, frame, table};

use super::steps::{SLOW_DEADLINE, expect_end_without_a_word, open_with, tuned};
use crate::check::Source::Spec;
use crate::{Check, Context, Event, Failure, check, ensure, ensure_eq};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("connection.tune/frame-max-at-least-4096")
            .must(
                Spec("connection.tune.frame-max rule minimum"),
                "the frame size that the server proposes is at least 4096, or 0 for no limit",
            )
            .sends("the handshake up to connection.tune")
            .expects("connection.tune with such a frame-max")
            .run(async |cx| {
                let (_, tune) = tuned(cx).await?;
                let enough = tune.frame_max == 0 || tune.frame_max >= frame::FRAME_MIN_SIZE;
                ensure(enough, "4096 or more", format!("frame-max {}", tune.frame_max))
            }),
        check("connection.tune/frame-max-4096-accepted")
            .must(
                Spec("connection.tune-ok.frame-max rule minimum"),
                "a client may ask for frames of 4096 octets, the minimum",
            )
            .sends("connection.tune-ok with a frame-max of 4096")
            .expects("connection.open-ok, and a channel that works")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let mut client = open_with(cx, limits(10, 4096)).await?;
                client.open_channel(1).await
            }),
        check("connection.tune/frame-max-below-4096-refused")
            .must(
                Spec("connection.tune-ok.frame-max rule minimum"),
                "the frame size that is agreed upon is not below 4096",
            )
            .sends("connection.tune-ok with a frame-max of 4095")
            .expects("the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| refused(cx, |_| Some(limits(10, 4095))).await),
        check("connection.tune/frame-max-above-proposal-refused")
            .must(
                Spec("connection.tune-ok.frame-max rule upper-limit"),
                "a frame size above the server's ends the connection, without a negotiated close",
            )
            .sends("connection.tune-ok with a frame-max one above the server's")
            .expects("the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let above = |limit: u32| limit.checked_add(1).filter(|_| limit > 0);
                refused(cx, |tune| Some(limits(tune.channel_max, above(tune.frame_max)?))).await
            }),
        check("connection.tune/channel-max-above-proposal-refused")
            .must(
                Spec("connection.tune-ok.channel-max rule upper-limit"),
                "a channel-max above the server's ends the connection, without a negotiated close",
            )
            .sends("connection.tune-ok with a channel-max one above the server's")
            .expects("the end of the stream")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| {
                let above = |limit: u16| limit.checked_add(1).filter(|_| limit > 0);
                refused(cx, |tune| Some(limits(above(tune.channel_max)?, tune.frame_max))).await
            }),
        check("connection.tune/channel-max-0")
            .silent(
                Spec("connection.tune-ok.channel-max"),
                "whether a client may answer a limit by no limit is not said",
            )
            .sends("connection.tune-ok with a channel-max of 0")
            .expects("connection.open-ok, or the end of the stream; which one is observed")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| opened_or_ended(cx, |tune| limits(0, tune.frame_max)).await),
        check("connection.tune/frame-max-0")
            .silent(
                Spec("connection.tune-ok.frame-max"),
                "whether a client may answer a limit by no limit is not said",
            )
            .sends("connection.tune-ok with a frame-max of 0")
            .expects("connection.open-ok, or the end of the stream; which one is observed")
            .deadline(SLOW_DEADLINE)
            .run(async |cx| opened_or_ended(cx, |tune| limits(tune.channel_max, 0)).await),
        check("connection.tune/heartbeat-above-proposal-accepted")
            .must(
                Spec("connection.tune-ok.heartbeat"),
                "the interval of heartbeats is the client's choice",
            )
            .sends("connection.tune-ok with a heartbeat of an hour")
            .expects("connection.open-ok")
            .run(async |cx| {
                let tune_ok = connection::TuneOk { heartbeat: 3600, ..limits(10, 131_072) };
                open_with(cx, tune_ok).await.map(drop)
            }),
        check("connection.tune/channel-max-itself-opens")
            .must(
                Spec("connection.tune.channel-max"),
                "channel-max is the highest number that a channel can have",
            )
            .sends("connection.tune-ok with a channel-max of 2; channel.open on 2")
            .expects("channel.open-ok")
            .run(async |cx| {
                let mut client = open_with(cx, limits(2, 131_072)).await?;
                client.open_channel(2).await?;
                client.barrier(2).await
            }),
        check("connection.tune/channel-above-channel-max-refused")
            .must(
                Spec("connection.tune.channel-max"),
                "channel-max is the highest number that a channel can have",
            )
            .sends("connection.tune-ok with a channel-max of 2; channel.open on 3")
            .expects("connection.close 504 or 530")
            .run(async |cx| {
                let mut client = open_with(cx, limits(2, 131_072)).await?;
                client.send(3, channel::Open::default()).await?;
                let codes = [ReplyCode::CHANNEL_ERROR, ReplyCode::NOT_ALLOWED];
                client.expect_connection_error_next(codes).await.map(drop)
            }),
        check("connection.tune/one-channel-too-many-refused")
            .must(
                Spec("connection.tune-ok.channel-max"),
                "no more channels open than were agreed upon",
            )
            .sends("connection.tune-ok with a channel-max of 2; channel.open on 1, 2 and 3")
            .expects("two times open-ok, then connection.close 504 or 530")
            .run(async |cx| {
                let mut client = open_with(cx, limits(2, 131_072)).await?;
                client.open_channel(1).await?;
                client.open_channel(2).await?;
                client.send(3, channel::Open::default()).await?;
                let codes = [ReplyCode::CHANNEL_ERROR, ReplyCode::NOT_ALLOWED];
                client.expect_connection_error_next(codes).await.map(drop)
            }),
        check("connection.tune/closed-channel-makes-room")
            .must(
                Spec("connection.tune-ok.channel-max"),
                "a channel that was closed does not count any more",
            )
            .sends("connection.tune-ok with a channel-max of 2; 1 and 2 opened, 1 closed, 1 opened")
            .expects("open-ok each time")
            .run(async |cx| {
                let mut client = open_with(cx, limits(2, 131_072)).await?;
                client.open_channel(1).await?;
                client.open_channel(2).await?;
                client.close_channel(1).await?;
                client.open_channel(1).await?;
                client.barrier(2).await
            }),
        check("connection.tune/server-keeps-to-frame-max")
            .must(
                Spec("connection.tune-ok.frame-max"),
                "no peer sends frames above the size that was agreed upon",
            )
            .sends("a body of 50,000 octets from one connection; basic.get on one with a frame-max of 8192")
            .expects("the same body in frames of at most 8192 octets")
            .run(async |cx| {
                let mut publisher = cx.open_channel().await?;
                let mut client = open_with(cx, limits(10, 8192)).await?;
                client.open_channel(1).await?;
                let queue = cx.name("bodies");
                client.declare_queue(1, &queue).await?;
                let body: Vec<u8> = (0..50_000_u32).map(|at| (at % 251) as u8).collect();
                publisher.confirm_select(1).await?;
                publisher.publish(1, "", &queue, &body).await?;
                publisher.expect_acks(1, 1).await?;
                // A larger body frame would be malformed.
                let got = client.get(1, &queue).await?;
                let got = got.ok_or_else(|| Failure::new("basic.get-ok", "basic.get-empty"))?;
                ensure_eq("body is the same", &(got.body == body), &true)
            }),
        check("connection.tune/server-keeps-to-frame-max-in-headers")
            .must(
                Spec("connection.tune-ok.frame-max"),
                "no peer sends frames above the size that was agreed upon, be they content headers",
            )
            .sends("headers of 20,000 octets from one connection; basic.get on one with a frame-max of 8192")
            .expects("no frame above 8192 octets: an error, for one")
            .run(async |cx| {
                let mut publisher = cx.open_channel().await?;
                let mut client = open_with(cx, limits(10, 8192)).await?;
                client.open_channel(1).await?;
                let queue = cx.name("headers");
                client.declare_queue(1, &queue).await?;
                let properties = Properties {
                    headers: Some(table! { "large" => "x".repeat(20_000) }.into()),
                    ..Properties::EMPTY
                };
                let publish = basic::Publish { routing_key: queue.clone(), ..Default::default() };
                publisher.confirm_select(1).await?;
                publisher.send_content(1, publish, &properties, b"").await?;
                publisher.expect_acks(1, 1).await?;
                let get = basic::Get { queue, no_ack: true, ..Default::default() };
                client.send(1, get).await?;
                loop {
                    match client.next_on(1).await {
                        Event::Frame(it) if it.payload.len() + frame::FRAME_OVERHEAD > 8192 => {
                            return Err(Failure::new("frames of at most 8192 octets", "a larger header frame"));
                        }
                        event if event.typed::<basic::GetOk<'static>>().is_some() => {}
                        Event::Silence(_) => return Err(Failure::new("an answer", "silence")),
                        _ => return Ok(()),
                    }
                }
            }),
    ]
}

fn limits(channel_max: u16, frame_max: u32) -> connection::TuneOk {
    connection::TuneOk {
        channel_max,
        frame_max,
        heartbeat: 0,
    }
}

/// A tune-ok that must end the connection, whether connection.open follows it or not.
async fn refused(
    cx: &Context,
    tune_ok: impl Fn(connection::Tune) -> Option<connection::TuneOk>,
) -> Result<(), Failure> {
    let (mut client, tune) = tuned(cx).await?;
    let Some(tune_ok) = tune_ok(tune) else {
        cx.observe("the server sets no limit that could be exceeded");
        return Ok(());
    };
    client.send(0, tune_ok).await?;
    let open = connection::Open {
        virtual_host: cx.login().vhost,
        ..Default::default()
    };
    client.send(0, open).await?;
    expect_end_without_a_word(&mut client).await
}

async fn opened_or_ended(
    cx: &Context,
    tune_ok: impl Fn(connection::Tune) -> connection::TuneOk,
) -> Result<(), Failure> {
    match refused(cx, |tune| Some(tune_ok(tune))).await {
        Ok(()) => cx.observe("the connection is ended"),
        Err(failure) if failure.found == "connection.open-ok" => cx.observe("accepted"),
        Err(failure) => return Err(failure),
    }
    Ok(())
}
