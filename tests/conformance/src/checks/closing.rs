//! What is under way when a channel or a connection is closed.

use amqp_codec::{ReplyCode, basic, connection, queue, table, tx};

use crate::check::Source::Spec;
use crate::{Check, Failure, check, ensure_eq};

pub(super) fn checks() -> Vec<Check> {
    [races(), blocked(), operator()]
        .into_iter()
        .flatten()
        .collect()
}

fn races() -> Vec<Check> {
    vec![
        check("channel.close/publishes-before-it-count")
            .must(
                Spec("channel.close"),
                "what was sent on a channel before its close is carried out",
            )
            .sends("100 publishes and channel.close in one go; basic.get on another channel")
            .expects("close-ok; the 100 messages")
            .run(async |cx| {
                let queue = cx.name("flushed");
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                client.declare_queue(2, &queue).await?;
                for _ in 0..100 {
                    client.publish(1, "", &queue, "body").await?;
                }
                client.close_channel(1).await?;
                ensure_eq("messages", &client.drain(2, &queue).await?.len(), &100)
            }),
        check("channel.close/nothing-after-close-ok")
            .must(
                Spec("channel.close-ok"),
                "close-ok is the last thing on a channel, also when deliveries are under way",
            )
            .sends("200 messages, a consumer without limit, channel.close at once; channel.open again and channel.flow")
            .expects("deliveries, close-ok, then open-ok and flow-ok with nothing between them")
            .run(async |cx| {
                let queue = cx.name("busy");
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                client.declare_queue(2, &queue).await?;
                for _ in 0..200 {
                    client.publish(2, "", &queue, "body").await?;
                }
                client.barrier(2).await?;
                client.consume(1, &queue, "only", false).await?;
                client.close_channel(1).await?;
                client.open_channel(1).await?;
                client.barrier(1).await
            }),
        check("channel.close/unacked-come-back")
            .must(
                Spec("channel.close"),
                "what was under way to a channel that is closed goes back to its queue",
            )
            .sends("200 messages, a consumer without limit, channel.close at once; a consumer on another channel")
            .expects("close-ok; all 200 messages")
            .run(async |cx| {
                let queue = cx.name("busy");
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                client.declare_queue(2, &queue).await?;
                for _ in 0..200 {
                    client.publish(2, "", &queue, "body").await?;
                }
                client.barrier(2).await?;
                client.consume(1, &queue, "only", false).await?;
                client.close_channel(1).await?;
                client.consume(2, &queue, "next", true).await?;
                for _ in 0..200 {
                    client.expect_delivery(2).await?;
                }
                Ok(())
            }),
        check("tx.commit/then-close-at-once")
            .must(
                Spec("tx.commit"),
                "a commit that was sent before the close of its channel is carried out",
            )
            .sends("tx.select, a publish, tx.commit and channel.close in one go; basic.get on another channel")
            .expects("close-ok, with or without commit-ok before it; the message")
            .run(async |cx| {
                let queue = cx.name("committed");
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                client.declare_queue(2, &queue).await?;
                client.tx_select(1).await?;
                client.publish(1, "", &queue, "body").await?;
                client.send(1, tx::Commit::default()).await?;
                client.close_channel(1).await?;
                ensure_eq("bodies", &client.drain(2, &queue).await?, &["body"])
            }),
    ]
}

const BLOCKED: &str = "Blocked Connection Notifications";

fn blocked() -> Vec<Check> {
    vec![
        check("connection.blocked/told-at-a-publish")
            .rabbitmq(BLOCKED, "a client that publishes while the server is out of resources is told that it is blocked, and when no more")
            .sends("an alarm; a publish; the end of the alarm; basic.get")
            .expects("connection.blocked with a reason; connection.unblocked; the message is there")
            .hurts()
            .deadline(30)
            .run(async |cx| {
                let queue = cx.name("blocked");
                let mut client = cx.open_channel().await?;
                client.require_capability("connection.blocked")?;
                client.declare_queue(1, &queue).await?;
                cx.control("raise-alarm").await?;
                let told = async {
                    client.publish(1, "", &queue, "late").await?;
                    let blocked: connection::Blocked = client.expect(0).await?;
                    ensure_eq("reason is there", &!blocked.reason.is_empty(), &true)
                };
                let told = told.await;
                cx.control("clear-alarm").await?;
                told?;
                client.expect::<connection::Unblocked>(0).await?;
                ensure_eq("bodies", &client.drain(1, &queue).await?, &["late"])
            }),
        check("connection.blocked/consumers-go-on")
            .rabbitmq(BLOCKED, "a connection that does not publish is not blocked: it consumes while there is an alarm")
            .sends("a queue filled by one connection; an alarm; basic.get on another connection; the end of the alarm")
            .expects("the message; no connection.blocked on that connection")
            .hurts()
            .deadline(30)
            .run(async |cx| {
                let queue = cx.queue("consumed");
                let mut publisher = cx.open_channel().await?;
                let declare = queue::Declare { queue: queue.clone(), ..Default::default() };
                publisher.call::<queue::DeclareOk>(1, declare).await?;
                publisher.publish(1, "", &queue, "early").await?;
                publisher.close().await?;
                let mut client = cx.open_channel().await?;
                cx.control("raise-alarm").await?;
                let bodies = client.drain(1, &queue).await;
                cx.control("clear-alarm").await?;
                ensure_eq("bodies", &bodies?, &["early"])?;
                client.send(1, basic::Qos::default()).await?;
                let event = client.next().await;
                match event.typed::<basic::QosOk>() {
                    Some(_) => Ok(()),
                    None => Err(Failure::unexpected("basic.qos-ok", &event)),
                }
            }),
        check("connection.blocked/not-told-without-the-capability")
            .rabbitmq(BLOCKED, "a client that did not announce connection.blocked is not told")
            .sends("a login without capabilities; an alarm; a publish; the end of the alarm; channel.flow")
            .expects("channel.flow-ok, and nothing before it")
            .hurts()
            .deadline(30)
            .run(async |cx| {
                let mut login = cx.login();
                login.client_properties = table! { "product" => "amqp-conformance" };
                let mut client = cx.open_as(&login).await?;
                client.open_channel(1).await?;
                cx.control("raise-alarm").await?;
                let sent = client.publish(1, "", "amqp-conformance.nowhere", "body").await;
                cx.control("clear-alarm").await?;
                sent?;
                client.send(1, basic::Qos::default()).await?;
                let event = client.next().await;
                match event.typed::<basic::QosOk>() {
                    Some(_) => Ok(()),
                    None => Err(Failure::unexpected("basic.qos-ok", &event)),
                }
            }),
    ]
}

fn operator() -> Vec<Check> {
    vec![
        check("connection.close/forced-by-the-operator")
            .must(
                Spec("constant connection-forced"),
                "a connection that an operator closes ends with 320",
            )
            .sends("nothing; the operator closes the connections")
            .expects("connection.close 320, and the end of the stream after close-ok")
            .hurts()
            .deadline(30)
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                cx.control("close-connections").await?;
                client
                    .expect_connection_error(ReplyCode::CONNECTION_FORCED)
                    .await
                    .map(drop)
            }),
    ]
}
