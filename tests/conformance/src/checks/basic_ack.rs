//! Acknowledging, rejecting, and what becomes of messages that are neither.

use amqp_codec::{MethodFields, ReplyCode, ShortStr, basic, queue};

use super::steps::{self, comes_back};
use crate::check::Source::Spec;
use crate::{Check, Connection, Context, Failure, check, ensure_eq};

pub(super) fn checks() -> Vec<Check> {
    [acks(), tags(), rejects(), nacks(), left(), recover()]
        .into_iter()
        .flatten()
        .collect()
}

/// A queue with these messages, and a channel 2 beside channel 1.
async fn filled(cx: &Context, bodies: &[&str]) -> Result<(Connection, ShortStr<'static>), Failure> {
    let (mut client, queue) = steps::filled(cx, bodies).await?;
    client.open_channel(2).await?;
    Ok((client, queue))
}

/// Gets one message on channel 1, not acknowledged: its tag, whether it is redelivered, and its body.
async fn got(
    client: &mut Connection,
    queue: &ShortStr<'static>,
) -> Result<(u64, bool, String), Failure> {
    let get = basic::Get {
        queue: queue.clone(),
        ..Default::default()
    };
    let got = client.get_with(1, get).await?;
    let got = got.ok_or_else(|| Failure::new("basic.get-ok", "basic.get-empty"))?;
    let body = String::from_utf8_lossy(&got.body).into_owned();
    Ok((got.method.delivery_tag, got.method.redelivered, body))
}

/// Gets as many messages, not acknowledged: their tags.
async fn got_all(
    client: &mut Connection,
    queue: &ShortStr<'static>,
    count: usize,
) -> Result<Vec<u64>, Failure> {
    let mut tags = Vec::new();
    for _ in 0..count {
        tags.push(got(client, queue).await?.0);
    }
    Ok(tags)
}

/// The method must cost channel 1: 406.
async fn refused(client: &mut Connection, method: impl MethodFields) -> Result<(), Failure> {
    client.send(1, method).await?;
    client
        .expect_channel_error(1, ReplyCode::PRECONDITION_FAILED)
        .await
        .map(drop)
}

fn ack(delivery_tag: u64, multiple: bool) -> basic::Ack {
    basic::Ack {
        delivery_tag,
        multiple,
        ..Default::default()
    }
}

fn acks() -> Vec<Check> {
    vec![
        check("basic.ack/one")
            .must(Spec("basic.ack.multiple"), "an ack without multiple is about the message with its tag alone")
            .sends("three messages got; basic.ack of the second; channel.close")
            .expects("the first and the third come back")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1", "2", "3"]).await?;
                let tags = got_all(&mut client, &queue, 3).await?;
                client.send(1, ack(tags[1], false)).await?;
                ensure_eq("bodies", &comes_back(&mut client, &queue).await?, &["1", "3"])
            }),
        check("basic.ack/multiple")
            .must(
                Spec("basic.ack.multiple"),
                "an ack with multiple is about all messages up to and including its tag",
            )
            .sends("four messages got; basic.ack multiple of the third; channel.close")
            .expects("the fourth comes back")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1", "2", "3", "4"]).await?;
                let tags = got_all(&mut client, &queue, 4).await?;
                client.send(1, ack(tags[2], true)).await?;
                ensure_eq("bodies", &comes_back(&mut client, &queue).await?, &["4"])
            }),
        check("basic.ack/multiple-after-single-ones")
            .must(
                Spec("basic.ack.multiple"),
                "an ack with multiple leaves alone what is acknowledged already",
            )
            .sends("four messages got; basic.ack of the first and the third; basic.ack multiple of the fourth; channel.flow")
            .expects("channel.flow-ok; nothing comes back")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1", "2", "3", "4"]).await?;
                let tags = got_all(&mut client, &queue, 4).await?;
                client.send(1, ack(tags[2], false)).await?;
                client.send(1, ack(tags[0], false)).await?;
                client.send(1, ack(tags[3], true)).await?;
                client.barrier(1).await?;
                ensure_eq("messages left", &comes_back(&mut client, &queue).await?.len(), &0)
            }),
        check("basic.ack/zero-with-multiple-is-all")
            .must(
                Spec("basic.ack.multiple"),
                "an ack of tag 0 with multiple is about all messages outstanding",
            )
            .sends("two messages got; basic.ack 0 multiple; channel.close")
            .expects("nothing comes back")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1", "2"]).await?;
                got_all(&mut client, &queue, 2).await?;
                client.send(1, ack(0, true)).await?;
                ensure_eq("messages left", &comes_back(&mut client, &queue).await?.len(), &0)
            }),
        check("basic.ack/zero-with-multiple-is-fine-with-none")
            .must(
                Spec("basic.ack.multiple"),
                "an ack of tag 0 with multiple is about all messages outstanding, also if there are none",
            )
            .sends("basic.ack 0 multiple on a new channel; channel.flow")
            .expects("channel.flow-ok")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(1, ack(0, true)).await?;
                client.barrier(1).await
            }),
    ]
}

fn tags() -> Vec<Check> {
    vec![
        check("basic.ack/unknown-tag-refused")
            .must(
                Spec("basic.ack.multiple rule exists"),
                "acknowledging what was never delivered is a channel error: 406",
            )
            .sends("basic.ack 17 on a channel that delivered nothing")
            .expects("channel.close 406")
            .run(async |cx| refused(&mut cx.open_channel().await?, ack(17, false)).await),
        check("basic.ack/unknown-tag-with-multiple-refused")
            .must(
                Spec("basic.ack.multiple rule exists"),
                "acknowledging what was never delivered is a channel error: 406",
            )
            .sends("basic.ack 17 multiple on a channel that delivered nothing")
            .expects("channel.close 406")
            .run(async |cx| refused(&mut cx.open_channel().await?, ack(17, true)).await),
        check("basic.ack/zero-alone-refused")
            .must(
                Spec("domain delivery-tag rule non-zero"),
                "no message has the tag 0: 406",
            )
            .sends("a message got; basic.ack 0 without multiple")
            .expects("channel.close 406")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1"]).await?;
                got(&mut client, &queue).await?;
                refused(&mut client, ack(0, false)).await
            }),
        check("basic.ack/twice-refused")
            .must(
                Spec("basic.ack.multiple rule exists"),
                "a message is acknowledged once; a second time is a channel error: 406",
            )
            .sends("a message got; basic.ack twice")
            .expects("channel.close 406")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1"]).await?;
                let tag = got(&mut client, &queue).await?.0;
                client.send(1, ack(tag, false)).await?;
                client.barrier(1).await?;
                refused(&mut client, ack(tag, false)).await
            }),
        check("basic.ack/after-reject-refused")
            .must(
                Spec("basic.ack.multiple rule exists"),
                "a message that was rejected cannot be acknowledged: 406",
            )
            .sends("a message got; basic.reject, basic.ack")
            .expects("channel.close 406")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1"]).await?;
                let delivery_tag = got(&mut client, &queue).await?.0;
                client.send(1, basic::Reject { delivery_tag, ..Default::default() }).await?;
                refused(&mut client, ack(delivery_tag, false)).await
            }),
        check("basic.ack/on-another-channel-refused")
            .must(
                Spec("domain delivery-tag rule channel-local"),
                "a tag means something on its own channel alone: elsewhere it is unknown, 406",
            )
            .sends("a message got on channel 1; basic.ack on channel 2; channel.close of channel 1")
            .expects("channel.close 406 on channel 2; the message comes back")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1"]).await?;
                client.open_channel(3).await?;
                let tag = got(&mut client, &queue).await?.0;
                client.send(2, ack(tag, false)).await?;
                client.expect_channel_error(2, ReplyCode::PRECONDITION_FAILED).await?;
                client.close_channel(1).await?;
                client.consume(3, &queue, "next", true).await?;
                let delivery = client.expect_delivery(3).await?;
                ensure_eq("body", &&delivery.body[..], &&b"1"[..])
            }),
        check("basic.ack/of-no-ack-delivery-refused")
            .must(
                Spec("basic.ack.multiple rule exists"),
                "what was delivered with no-ack is not waiting for an acknowledgement: 406",
            )
            .sends("a message got with no-ack; basic.ack of its tag")
            .expects("channel.close 406")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1"]).await?;
                let got = client.get(1, &queue).await?;
                let got = got.ok_or_else(|| Failure::new("basic.get-ok", "basic.get-empty"))?;
                refused(&mut client, ack(got.method.delivery_tag, false)).await
            }),
        check("basic.deliver/tags-count-up")
            .rabbitmq(
                "Consumer Acknowledgements and Publisher Confirms",
                "delivery tags identify the deliveries of a channel; brokers count them from 1",
            )
            .sends("five messages to a consumer")
            .expects("tags 1 to 5")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1", "2", "3", "4", "5"]).await?;
                client.consume(1, &queue, "only", false).await?;
                for expected in 1..=5 {
                    let delivery = client.expect_delivery(1).await?;
                    ensure_eq("delivery tag", &delivery.method.delivery_tag, &expected)?;
                }
                Ok(())
            }),
        check("basic.deliver/tags-shared-by-get-and-consume")
            .rabbitmq(
                "Consumer Acknowledgements and Publisher Confirms",
                "all that is delivered on a channel has a tag of its own, got or consumed, with or without no-ack",
            )
            .sends("a message got, one got with no-ack, one consumed")
            .expects("the tags 1, 2 and 3")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1", "2", "3"]).await?;
                let first = got(&mut client, &queue).await?.0;
                let second = client.get(1, &queue).await?.map(|got| got.method.delivery_tag);
                client.consume(1, &queue, "only", false).await?;
                let third = client.expect_delivery(1).await?.method.delivery_tag;
                ensure_eq("tags", &(first, second, third), &(1, Some(2), 3))
            }),
    ]
}

fn rejects() -> Vec<Check> {
    vec![
        check("basic.reject/discards")
            .must(Spec("basic.reject.requeue"), "a message rejected without requeue is discarded")
            .sends("a message got; basic.reject without requeue; channel.close")
            .expects("the message does not come back")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1"]).await?;
                let delivery_tag = got(&mut client, &queue).await?.0;
                client.send(1, basic::Reject { delivery_tag, ..Default::default() }).await?;
                ensure_eq("messages left", &comes_back(&mut client, &queue).await?.len(), &0)
            }),
        check("basic.reject/requeues")
            .must(
                Spec("basic.reject.requeue"),
                "a message rejected with requeue is delivered again; not on the same channel, which has refused it",
            )
            .sends("a message got; basic.reject with requeue; a consumer on another channel")
            .expects("the same message")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1"]).await?;
                let delivery_tag = got(&mut client, &queue).await?.0;
                let reject = basic::Reject { delivery_tag, requeue: true, ..Default::default() };
                client.send(1, reject).await?;
                client.consume(2, &queue, "next", true).await?;
                let delivery = client.expect_delivery(2).await?;
                ensure_eq("body", &&delivery.body[..], &&b"1"[..])
            }),
        check("basic.deliver/says-that-it-comes-again")
            .should(
                Spec("domain redelivered rule implementation"),
                "a message that was delivered before says so",
            )
            .sends("a message got; basic.reject with requeue; a consumer on another channel")
            .expects("not redelivered at first, redelivered then")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1"]).await?;
                let (delivery_tag, redelivered, _) = got(&mut client, &queue).await?;
                ensure_eq("redelivered at first", &redelivered, &false)?;
                let reject = basic::Reject { delivery_tag, requeue: true, ..Default::default() };
                client.send(1, reject).await?;
                client.consume(2, &queue, "next", true).await?;
                let delivery = client.expect_delivery(2).await?;
                ensure_eq("redelivered", &delivery.method.redelivered, &true)
            }),
        check("basic.reject/requeued-to-its-place")
            .rabbitmq(
                "Consumer Acknowledgements and Publisher Confirms",
                "a message that is requeued goes back to its place in the queue where that is possible",
            )
            .sends("the first of three messages got; basic.reject with requeue; all got")
            .expects("the messages in their order")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1", "2", "3"]).await?;
                let delivery_tag = got(&mut client, &queue).await?.0;
                let reject = basic::Reject { delivery_tag, requeue: true, ..Default::default() };
                client.send(1, reject).await?;
                ensure_eq("bodies", &client.drain(1, &queue).await?, &["1", "2", "3"])
            }),
        check("basic.reject/unknown-tag-refused")
            .must(
                Spec("domain delivery-tag"),
                "rejecting what was never delivered is a channel error: 406",
            )
            .sends("basic.reject 17 on a channel that delivered nothing")
            .expects("channel.close 406")
            .run(async |cx| {
                let reject = basic::Reject { delivery_tag: 17, ..Default::default() };
                refused(&mut cx.open_channel().await?, reject).await
            }),
    ]
}

const NACKS: &str = "Negative Acknowledgements";

fn nack(delivery_tag: u64, multiple: bool, requeue: bool) -> basic::Nack {
    basic::Nack {
        delivery_tag,
        multiple,
        requeue,
        ..Default::default()
    }
}

fn nacks() -> Vec<Check> {
    vec![
        check("basic.nack/one-discarded")
            .rabbitmq(NACKS, "a nack without multiple and requeue discards one message")
            .sends("two messages got; basic.nack of the first; channel.close")
            .expects("the second comes back")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1", "2"]).await?;
                client.require_capability("basic.nack")?;
                let tags = got_all(&mut client, &queue, 2).await?;
                client.send(1, nack(tags[0], false, false)).await?;
                ensure_eq("bodies", &comes_back(&mut client, &queue).await?, &["2"])
            }),
        check("basic.nack/multiple-discarded")
            .rabbitmq(NACKS, "a nack with multiple discards all messages up to its tag")
            .sends("three messages got; basic.nack multiple of the second; channel.close")
            .expects("the third comes back")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1", "2", "3"]).await?;
                client.require_capability("basic.nack")?;
                let tags = got_all(&mut client, &queue, 3).await?;
                client.send(1, nack(tags[1], true, false)).await?;
                ensure_eq("bodies", &comes_back(&mut client, &queue).await?, &["3"])
            }),
        check("basic.nack/multiple-requeued")
            .rabbitmq(NACKS, "a nack with multiple and requeue gives all messages up to its tag back to their queue")
            .sends("three messages got; basic.nack multiple of the second with requeue; basic.get of all")
            .expects("the first and the second, redelivered")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1", "2", "3"]).await?;
                client.require_capability("basic.nack")?;
                let tags = got_all(&mut client, &queue, 3).await?;
                client.send(1, nack(tags[1], true, true)).await?;
                for expected in ["1", "2"] {
                    let (_, redelivered, body) = got(&mut client, &queue).await?;
                    ensure_eq("body", &body, &expected)?;
                    ensure_eq("redelivered", &redelivered, &true)?;
                }
                ensure_eq("messages left", &client.drain(1, &queue).await?.len(), &0)
            }),
        check("basic.nack/zero-with-multiple-is-all")
            .rabbitmq(NACKS, "a nack of tag 0 with multiple is about all messages outstanding")
            .sends("two messages got; basic.nack 0 multiple; channel.close")
            .expects("nothing comes back")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1", "2"]).await?;
                client.require_capability("basic.nack")?;
                got_all(&mut client, &queue, 2).await?;
                client.send(1, nack(0, true, false)).await?;
                ensure_eq("messages left", &comes_back(&mut client, &queue).await?.len(), &0)
            }),
        check("basic.nack/unknown-tag-refused")
            .rabbitmq(NACKS, "a nack of what was never delivered is a channel error: 406")
            .sends("basic.nack 17 on a channel that delivered nothing")
            .expects("channel.close 406")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.require_capability("basic.nack")?;
                refused(&mut client, nack(17, false, true)).await
            }),
    ]
}

fn left() -> Vec<Check> {
    vec![
        check("basic.ack/unacked-come-back-when-the-channel-closes")
            .rabbitmq(
                "Consumer Acknowledgements and Publisher Confirms",
                "messages that were not acknowledged when their channel is closed are delivered again, and say so",
            )
            .sends("two messages got; channel.close; a consumer on another channel")
            .expects("both messages in their order, redelivered")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1", "2"]).await?;
                got_all(&mut client, &queue, 2).await?;
                client.close_channel(1).await?;
                client.consume(2, &queue, "next", true).await?;
                for expected in ["1", "2"] {
                    let delivery = client.expect_delivery(2).await?;
                    ensure_eq("body", &&delivery.body[..], &expected.as_bytes())?;
                    ensure_eq("redelivered", &delivery.method.redelivered, &true)?;
                }
                Ok(())
            }),
        check("basic.ack/unacked-come-back-when-the-connection-goes")
            .rabbitmq(
                "Consumer Acknowledgements and Publisher Confirms",
                "messages that were not acknowledged when their connection ends are delivered again, and say so",
            )
            .sends("a message consumed on one connection, whose stream then ends; a consumer on another connection")
            .expects("the message, redelivered")
            .run(async |cx| {
                let queue = cx.queue("shared");
                let mut other = cx.open_channel().await?;
                let declare = queue::Declare { queue: queue.clone(), ..Default::default() };
                other.call::<queue::DeclareOk>(1, declare).await?;
                other.publish(1, "", &queue, "message").await?;
                let mut client = cx.open_channel().await?;
                client.consume(1, &queue, "first", false).await?;
                client.expect_delivery(1).await?;
                other.consume(1, &queue, "second", true).await?;
                client.half_close().await;
                client.expect_end().await?;
                let delivery = other.expect_delivery(1).await?;
                ensure_eq("redelivered", &delivery.method.redelivered, &true)
            }),
    ]
}

fn recover() -> Vec<Check> {
    vec![
        check("basic.recover/requeues-and-delivers-again")
            .must(
                Spec("basic.recover.requeue"),
                "recover gives what is not acknowledged back to its queue, to be delivered again",
            )
            .sends("a consumer with two messages, not acknowledged; basic.recover with requeue")
            .expects("basic.recover-ok, then both messages, redelivered, with new tags")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1", "2"]).await?;
                client.consume(1, &queue, "only", false).await?;
                for _ in 0..2 {
                    client.expect_delivery(1).await?;
                }
                let recover = basic::Recover { requeue: true, ..Default::default() };
                client.call::<basic::RecoverOk>(1, recover).await?;
                for expected in ["1", "2"] {
                    let delivery = client.expect_delivery(1).await?;
                    ensure_eq("body", &&delivery.body[..], &expected.as_bytes())?;
                    ensure_eq("redelivered", &delivery.method.redelivered, &true)?;
                    let again = delivery.method.delivery_tag <= 2;
                    ensure_eq("tag was there before", &again, &false)?;
                }
                Ok(())
            }),
        check("basic.recover/to-the-same-consumer")
            .must(
                Spec("basic.recover.requeue"),
                "recover without requeue delivers what is not acknowledged to its own consumer again",
            )
            .sends("a consumer with a message, not acknowledged; basic.recover without requeue")
            .expects("basic.recover-ok, then the message, redelivered")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1"]).await?;
                client.consume(1, &queue, "only", false).await?;
                client.expect_delivery(1).await?;
                client.call::<basic::RecoverOk>(1, basic::Recover::default()).await?;
                let delivery = client.expect_delivery(1).await?;
                ensure_eq("redelivered", &delivery.method.redelivered, &true)
            }),
        check("basic.recover-async/not-answered")
            .must(
                Spec("basic.recover-async"),
                "recover-async does the same as recover and is not answered; it is deprecated",
            )
            .sends("a message got, not acknowledged; basic.recover-async with requeue; basic.get")
            .expects("the message, redelivered, and no recover-ok before it")
            .run(async |cx| {
                let (mut client, queue) = filled(cx, &["1"]).await?;
                got(&mut client, &queue).await?;
                client.send(1, basic::RecoverAsync { requeue: true, ..Default::default() }).await?;
                let (_, redelivered, body) = got(&mut client, &queue).await?;
                ensure_eq("body", &body, &"1")?;
                ensure_eq("redelivered", &redelivered, &true)
            }),
    ]
}
