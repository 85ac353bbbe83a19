//! Declaring, binding, purging and deleting queues.

use amqp_codec::{MethodFields, ReplyCode, ShortStr, basic, exchange, queue, short, table};

use crate::check::Source::{Spec, Text};
use crate::{Check, Connection, Failure, check, ensure, ensure_eq};

pub(super) fn checks() -> Vec<Check> {
    [
        declare(),
        lifetime(),
        exclusive(),
        bind(),
        unbind(),
        purge(),
        delete(),
        missing(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn a_queue(name: &ShortStr<'static>) -> queue::Declare<'static> {
    queue::Declare {
        queue: name.clone(),
        ..Default::default()
    }
}

fn passive(name: &ShortStr<'static>) -> queue::Declare<'static> {
    queue::Declare {
        passive: true,
        ..a_queue(name)
    }
}

/// There must be no such queue. Costs the channel.
async fn is_gone(
    client: &mut Connection,
    channel: u16,
    name: &ShortStr<'static>,
) -> Result<(), Failure> {
    refused(client, channel, passive(name), ReplyCode::NOT_FOUND).await
}

/// The request must cost the channel, with this code.
async fn refused(
    client: &mut Connection,
    channel: u16,
    request: impl MethodFields,
    code: ReplyCode,
) -> Result<(), Failure> {
    client.send(channel, request).await?;
    client.expect_channel_error(channel, code).await.map(drop)
}

/// Declares it a second time with these settings, which must be refused.
async fn redeclared_otherwise(
    mut client: Connection,
    first: queue::Declare<'_>,
    second: queue::Declare<'_>,
) -> Result<(), Failure> {
    client.call::<queue::DeclareOk>(1, first).await?;
    refused(&mut client, 1, second, ReplyCode::PRECONDITION_FAILED).await
}

fn declare() -> Vec<Check> {
    vec![
        check("queue.declare/answered-with-name-and-counts")
            .must(
                Spec("queue.declare-ok"),
                "declare-ok says the queue's name, how many messages are ready and how many consumers it has",
            )
            .sends("queue.declare; three confirmed messages, two consumers that may take one each; queue.declare passive")
            .expects("the name with 0 and 0; with 3 and 0; then with 1 and 2")
            .run(async |cx| {
                let name = cx.name("counted");
                let mut client = cx.open_channel().await?;
                let counts = |ok: queue::DeclareOk<'_>| {
                    (ok.queue == name, ok.message_count, ok.consumer_count)
                };
                let declared = client.declare_queue(1, &name).await?;
                ensure_eq("name, messages, consumers", &counts(declared), &(true, 0, 0))?;
                client.confirm_select(1).await?;
                for _ in 0..3 {
                    client.publish(1, "", &name, "body").await?;
                }
                client.expect_acks(1, 3).await?;
                let counted = client.call(1, passive(&name)).await?;
                ensure_eq("name, messages, consumers", &counts(counted), &(true, 3, 0))?;
                let qos = basic::Qos { prefetch_count: 1, ..Default::default() };
                client.call::<basic::QosOk>(1, qos).await?;
                for tag in ["one", "two"] {
                    client.consume(1, &name, tag, false).await?;
                    client.expect_delivery(1).await?;
                }
                let counted = client.call(1, passive(&name)).await?;
                ensure_eq("name, messages, consumers", &counts(counted), &(true, 1, 2))
            }),
        check("queue.declare/server-names-it")
            .must(
                Spec("queue.declare.queue rule default-name"),
                "an empty name makes the server choose one that nobody has",
            )
            .sends("queue.declare with the empty name, twice; a publish to the first name")
            .expects("two names, not empty and not the same; the message in the first queue alone")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let unnamed = queue::Declare { exclusive: true, ..Default::default() };
                let one: queue::DeclareOk = client.call(1, unnamed.clone()).await?;
                let two: queue::DeclareOk = client.call(1, unnamed).await?;
                ensure(!one.queue.is_empty(), "a name", "the empty name")?;
                ensure(one.queue != two.queue, "another name", "the same name twice")?;
                client.publish(1, "", &one.queue, "first").await?;
                ensure_eq("bodies", &client.drain(1, &two.queue).await?.len(), &0)?;
                ensure_eq("bodies", &client.drain(1, &one.queue).await?, &["first"])
            }),
        check("queue.declare/empty-name-is-the-last-declared")
            .must(
                Spec("queue.bind.queue rule queue-known"),
                "where a method names no queue, it is the last one that was declared on the channel",
            )
            .sends("two queues declared; queue.bind, basic.get, queue.purge and queue.delete without a name")
            .expects("all of them about the second queue")
            .run(async |cx| {
                let (one, two) = (cx.name("one"), cx.name("two"));
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &one).await?;
                client.declare_queue(1, &two).await?;
                let exchange = cx.exchange("fanout");
                client.declare_exchange(1, &exchange, "fanout").await?;
                client.bind_queue(1, "", &exchange, "").await?;
                for body in ["got", "purged"] {
                    client.publish(1, &exchange, "", body).await?;
                }
                let got = client.get(1, "").await?;
                let body = got.map(|got| got.body);
                ensure_eq("body got", &body.as_deref(), &Some(&b"got"[..]))?;
                let purged: queue::PurgeOk = client.call(1, queue::Purge::default()).await?;
                ensure_eq("messages purged", &purged.message_count, &1)?;
                client.call::<queue::DeleteOk>(1, queue::Delete::default()).await?;
                client.call::<queue::DeclareOk>(1, passive(&one)).await?;
                is_gone(&mut client, 1, &two).await
            }),
        check("queue.declare/empty-name-without-any-refused")
            .must(
                Spec("domain queue-name"),
                "a method that names no queue on a channel that declared none is an error: 502; 404 and 530 say it as well",
            )
            .sends("queue.purge without a name on a new channel")
            .expects("channel.close 502 or 404, or connection.close 502 or 530")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(1, queue::Purge::default()).await?;
                let event = client.next_on(1).await;
                match event.found().as_str() {
                    "channel.close 502" | "connection.close 502" | "channel.close 404" | "connection.close 530" => Ok(()),
                    _ => Err(Failure::unexpected("channel.close 502 or 404, or connection.close 502 or 530", &event)),
                }
            }),
        check("queue.declare/passive-missing")
            .must(
                Spec("queue.declare.passive rule passive"),
                "a passive declaration of a queue that does not exist is a channel error: 404",
            )
            .sends("queue.declare passive of a name that no queue has, twice")
            .expects("channel.close 404 both times: nothing was made")
            .run(async |cx| {
                let name = cx.name("missing");
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                is_gone(&mut client, 1, &name).await?;
                is_gone(&mut client, 2, &name).await
            }),
        check("queue.declare/equivalent-again")
            .must(
                Spec("queue.declare.passive rule equivalent"),
                "declaring a queue again with the same settings is answered by declare-ok and changes nothing",
            )
            .sends("queue.declare durable with an argument, a message, the same declaration from another connection")
            .expects("queue.declare-ok both times; the message is still there")
            .run(async |cx| {
                let name = cx.queue("again");
                let declare = queue::Declare {
                    durable: true,
                    arguments: table! { "x-max-length" => 10 },
                    ..a_queue(&name)
                };
                let mut client = cx.open_channel().await?;
                client.call::<queue::DeclareOk>(1, declare.clone()).await?;
                client.publish(1, "", &name, "kept").await?;
                client.barrier(1).await?;
                let mut other = cx.open_channel().await?;
                other.call::<queue::DeclareOk>(1, declare).await?;
                let bodies = client.drain(1, &name).await?;
                ensure_eq("bodies", &bodies, &["kept"])
            }),
        check("queue.declare/other-durability-refused")
            .must(
                Spec("queue.declare.passive rule equivalent"),
                "a queue cannot be declared again with another durability: 406",
            )
            .sends("queue.declare durable, then transient")
            .expects("channel.close 406")
            .run(async |cx| {
                let first = queue::Declare { durable: true, ..a_queue(&cx.queue("durable")) };
                let second = queue::Declare { durable: false, ..first.clone() };
                redeclared_otherwise(cx.open_channel().await?, first, second).await
            }),
        check("queue.declare/other-auto-delete-refused")
            .must(
                Spec("queue.declare.passive rule equivalent"),
                "a queue cannot be declared again with another setting of auto-delete: 406",
            )
            .sends("queue.declare, then with auto-delete")
            .expects("channel.close 406")
            .run(async |cx| {
                let first = queue::Declare { exclusive: true, ..a_queue(&cx.name("kept")) };
                let second = queue::Declare { auto_delete: true, ..first.clone() };
                redeclared_otherwise(cx.open_channel().await?, first, second).await
            }),
        check("queue.declare/other-arguments-refused")
            .must(
                Spec("queue.declare.passive rule equivalent"),
                "a queue cannot be declared again with other arguments: 406",
            )
            .sends("queue.declare with x-max-length 10, then with 11")
            .expects("channel.close 406")
            .run(async |cx| {
                let first = queue::Declare {
                    exclusive: true,
                    arguments: table! { "x-max-length" => 10 },
                    ..a_queue(&cx.name("limited"))
                };
                let second = queue::Declare {
                    arguments: table! { "x-max-length" => 11 },
                    ..first.clone()
                };
                redeclared_otherwise(cx.open_channel().await?, first, second).await
            }),
        check("queue.declare/reserved-name-refused")
            .must(
                Spec("queue.declare.queue rule reserved"),
                "names that begin with amq. belong to the server: 403",
            )
            .sends("queue.declare of amq.conformance")
            .expects("channel.close 403")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let declare = queue::Declare { exclusive: true, ..a_queue(&short!("amq.conformance")) };
                refused(&mut client, 1, declare, ReplyCode::ACCESS_REFUSED).await
            }),
        check("queue.declare/name-of-127-octets")
            .must(
                Spec("domain queue-name"),
                "names have up to 127 octets of letters, digits, hyphen, underscore, period and colon",
            )
            .sends("queue.declare of a name with 127 octets; a publish to it and to a name that differs in the last octet")
            .expects("declare-ok with the same name; the first message alone")
            .run(async |cx| {
                let start = cx.name("Az09-_.:").to_string();
                let name = cx.name(&"n".repeat(127 - start.len() - 1));
                let mut client = cx.open_channel().await?;
                let declared = client.declare_queue(1, &name).await?;
                ensure_eq("name is the same", &(declared.queue == name), &true)?;
                let mut other = name.as_bytes().to_vec();
                other.pop();
                other.push(b'm');
                client.publish(1, "", &other, "other").await?;
                client.publish(1, "", &name, "same").await?;
                ensure_eq("bodies", &client.drain(1, &name).await?, &["same"])
            }),
        check("queue.declare/no-wait-unanswered")
            .must(
                Spec("queue.declare.no-wait"),
                "a declaration with no-wait is carried out and not answered",
            )
            .sends("queue.declare no-wait, channel.flow, queue.declare passive")
            .expects("channel.flow-ok first; then one queue.declare-ok")
            .run(async |cx| {
                let name = cx.name("quiet");
                let mut client = cx.open_channel().await?;
                let declare = queue::Declare { exclusive: true, no_wait: true, ..a_queue(&name) };
                client.send(1, declare).await?;
                client.barrier(1).await?;
                client.call::<queue::DeclareOk>(1, passive(&name)).await.map(drop)
            }),
        check("queue.declare/no-wait-fails-all-the-same")
            .must(
                Spec("queue.declare.no-wait"),
                "a method with no-wait that cannot be carried out raises its exception all the same",
            )
            .sends("queue.declare passive and no-wait of a name that no queue has")
            .expects("channel.close 404")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let declare = queue::Declare { no_wait: true, ..passive(&cx.name("missing")) };
                refused(&mut client, 1, declare, ReplyCode::NOT_FOUND).await
            }),
        check("queue/messages-in-order")
            .must(
                Text("4.7 Content Ordering Guarantees"),
                "messages of one channel through one exchange to one queue come in the order of their publishing",
            )
            .sends("500 publishes on one channel; basic.get until the queue is empty")
            .expects("the same 500 in the same order")
            .run(async |cx| {
                let name = cx.name("ordered");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &name).await?;
                let sent: Vec<String> = (0..500).map(|it| it.to_string()).collect();
                for body in &sent {
                    client.publish(1, "", &name, body).await?;
                }
                let bodies = client.drain(1, &name).await?;
                ensure_eq("bodies are the same", &(bodies == sent), &true)
            }),
    ]
}

fn lifetime() -> Vec<Check> {
    vec![
        check("queue.declare/outlives-its-connection")
            .must(
                Spec("queue.declare.exclusive"),
                "a queue that is neither exclusive nor auto-delete stays when the connection ends, with its messages",
            )
            .sends("queue.declare durable, a confirmed message, connection.close; basic.get on a new connection")
            .expects("the message")
            .run(async |cx| {
                let name = cx.queue("stays");
                let mut client = cx.open_channel().await?;
                let declare = queue::Declare { durable: true, ..a_queue(&name) };
                client.call::<queue::DeclareOk>(1, declare).await?;
                client.confirm_select(1).await?;
                client.publish(1, "", &name, "kept").await?;
                client.expect_acks(1, 1).await?;
                client.close().await?;
                let mut client = cx.open_channel().await?;
                ensure_eq("bodies", &client.drain(1, &name).await?, &["kept"])
            }),
        check("queue.declare/auto-delete-goes-with-last-consumer")
            .must(
                Spec("queue.declare.auto-delete"),
                "an auto-delete queue is deleted when its last consumer goes, and not before it had one",
            )
            .sends("queue.declare auto-delete; passively; two consumers; basic.cancel of both, passively after the first")
            .expects("there until the second consumer is cancelled, then 404")
            .run(async |cx| {
                let name = cx.queue("auto");
                let mut client = cx.open_channel().await?;
                let declare = queue::Declare { auto_delete: true, ..a_queue(&name) };
                client.call::<queue::DeclareOk>(1, declare).await?;
                client.call::<queue::DeclareOk>(1, passive(&name)).await?;
                for tag in ["one", "two"] {
                    client.consume(1, &name, tag, true).await?;
                }
                for tag in [short!("one"), short!("two")] {
                    client.call::<queue::DeclareOk>(1, passive(&name)).await?;
                    let cancel = basic::Cancel { consumer_tag: tag, ..Default::default() };
                    client.call::<basic::CancelOk>(1, cancel).await?;
                }
                is_gone(&mut client, 1, &name).await
            }),
        check("queue.declare/auto-delete-goes-with-the-channel-of-its-consumer")
            .must(
                Spec("queue.declare.auto-delete"),
                "a consumer ends with its channel, and an auto-delete queue with its last consumer",
            )
            .sends("queue.declare auto-delete on channel 1, a consumer on channel 2, channel.close of that; passively")
            .expects("channel.close-ok, then 404")
            .run(async |cx| {
                let name = cx.queue("auto");
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                let declare = queue::Declare { auto_delete: true, ..a_queue(&name) };
                client.call::<queue::DeclareOk>(1, declare).await?;
                client.consume(2, &name, "only", true).await?;
                client.close_channel(2).await?;
                is_gone(&mut client, 1, &name).await
            }),
    ]
}

/// An exclusive queue, its connection, and another connection.
async fn locked(
    cx: &crate::Context,
) -> Result<(ShortStr<'static>, Connection, Connection), Failure> {
    let name = cx.name("locked");
    let mut owner = cx.open_channel().await?;
    owner.declare_queue(1, &name).await?;
    let other = cx.open_channel().await?;
    Ok((name, owner, other))
}

fn exclusive() -> Vec<Check> {
    vec![
        check("queue.declare/exclusive-belongs-to-its-connection")
            .must(
                Spec("queue.declare.exclusive rule exclusive"),
                "an exclusive queue cannot be declared by another connection, passively neither: 405",
            )
            .sends("queue.declare exclusive; the same and passively from another connection")
            .expects("channel.close 405 both times")
            .run(async |cx| {
                let (name, _owner, mut other) = locked(cx).await?;
                other.open_channel(2).await?;
                let declare = queue::Declare { exclusive: true, ..a_queue(&name) };
                refused(&mut other, 1, declare, ReplyCode::RESOURCE_LOCKED).await?;
                refused(&mut other, 2, passive(&name), ReplyCode::RESOURCE_LOCKED).await
            }),
        check("queue.declare/exclusive-used-on-all-channels")
            .must(
                Spec("queue.declare.exclusive"),
                "an exclusive queue can be used on every channel of its connection",
            )
            .sends("queue.declare exclusive on channel 1; passively, a publish and basic.get on channel 2")
            .expects("queue.declare-ok, and the message")
            .run(async |cx| {
                let (name, mut owner, _other) = locked(cx).await?;
                owner.open_channel(2).await?;
                owner.call::<queue::DeclareOk>(2, passive(&name)).await?;
                owner.publish(2, "", &name, "own").await?;
                ensure_eq("bodies", &owner.drain(2, &name).await?, &["own"])
            }),
        check("queue.declare/exclusive-goes-with-its-connection")
            .must(
                Spec("queue.declare.exclusive"),
                "an exclusive queue is deleted when its connection ends",
            )
            .sends("queue.declare exclusive and durable, connection.close; passively on another connection")
            .expects("channel.close 404")
            .run(async |cx| {
                let (name, owner, mut other) = locked(cx).await?;
                owner.close().await?;
                is_gone(&mut other, 1, &name).await
            }),
        check("queue.bind/exclusive-of-another-refused")
            .must(
                Spec("queue.declare.exclusive rule exclusive"),
                "an exclusive queue cannot be bound by another connection: 405",
            )
            .sends("queue.bind of another connection's exclusive queue")
            .expects("channel.close 405")
            .run(async |cx| {
                let (queue, _owner, mut other) = locked(cx).await?;
                let bind = queue::Bind { queue, exchange: short!("amq.direct"), ..Default::default() };
                refused(&mut other, 1, bind, ReplyCode::RESOURCE_LOCKED).await
            }),
        check("queue.purge/exclusive-of-another-refused")
            .must(
                Spec("queue.declare.exclusive rule exclusive"),
                "an exclusive queue cannot be purged by another connection: 405",
            )
            .sends("queue.purge of another connection's exclusive queue")
            .expects("channel.close 405")
            .run(async |cx| {
                let (queue, _owner, mut other) = locked(cx).await?;
                let purge = queue::Purge { queue, ..Default::default() };
                refused(&mut other, 1, purge, ReplyCode::RESOURCE_LOCKED).await
            }),
        check("queue.delete/exclusive-of-another-refused")
            .must(
                Spec("queue.declare.exclusive rule exclusive"),
                "an exclusive queue cannot be deleted by another connection: 405",
            )
            .sends("queue.delete of another connection's exclusive queue; passively by its owner")
            .expects("channel.close 405; the queue is still there")
            .run(async |cx| {
                let (name, mut owner, mut other) = locked(cx).await?;
                let delete = queue::Delete { queue: name.clone(), ..Default::default() };
                refused(&mut other, 1, delete, ReplyCode::RESOURCE_LOCKED).await?;
                owner.call::<queue::DeclareOk>(1, passive(&name)).await.map(drop)
            }),
        check("basic.consume/exclusive-queue-of-another-refused")
            .must(
                Spec("queue.declare.exclusive rule exclusive"),
                "an exclusive queue cannot be consumed from by another connection: 405",
            )
            .sends("basic.consume from another connection's exclusive queue")
            .expects("channel.close 405")
            .run(async |cx| {
                let (queue, _owner, mut other) = locked(cx).await?;
                let consume = basic::Consume { queue, ..Default::default() };
                refused(&mut other, 1, consume, ReplyCode::RESOURCE_LOCKED).await
            }),
        check("basic.get/exclusive-queue-of-another-refused")
            .must(
                Spec("queue.declare.exclusive rule exclusive"),
                "an exclusive queue cannot be got from by another connection: 405",
            )
            .sends("basic.get from another connection's exclusive queue")
            .expects("channel.close 405")
            .run(async |cx| {
                let (queue, _owner, mut other) = locked(cx).await?;
                let get = basic::Get { queue, ..Default::default() };
                refused(&mut other, 1, get, ReplyCode::RESOURCE_LOCKED).await
            }),
        check("basic.publish/exclusive-queue-of-another-takes-it")
            .must(
                Spec("queue.declare.exclusive"),
                "exclusive is about consuming and managing: messages of other connections are routed to the queue",
            )
            .sends("basic.publish to another connection's exclusive queue, confirmed")
            .expects("basic.ack; the owner gets the message")
            .run(async |cx| {
                let (name, mut owner, mut other) = locked(cx).await?;
                other.confirm_select(1).await?;
                other.publish(1, "", &name, "theirs").await?;
                other.expect_acks(1, 1).await?;
                ensure_eq("bodies", &owner.drain(1, &name).await?, &["theirs"])
            }),
    ]
}

fn bind() -> Vec<Check> {
    vec![
        check("queue.bind/missing-exchange-refused")
            .must(
                Spec("queue.bind.exchange rule exchange-existence"),
                "binding to an exchange that does not exist is a channel error: 404",
            )
            .sends("queue.bind to a name that no exchange has")
            .expects("channel.close 404")
            .run(async |cx| {
                let queue = cx.name("alone");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                let bind = queue::Bind {
                    queue,
                    exchange: cx.name("missing"),
                    ..Default::default()
                };
                refused(&mut client, 1, bind, ReplyCode::NOT_FOUND).await
            }),
        check("queue.bind/default-exchange-refused")
            .must(
                Spec("exchange rule default-access"),
                "clients cannot bind to the default exchange: 403",
            )
            .sends("queue.bind to the empty exchange name")
            .expects("channel.close 403")
            .run(async |cx| {
                let queue = cx.name("alone");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                let bind = queue::Bind {
                    queue,
                    routing_key: short!("key"),
                    ..Default::default()
                };
                refused(&mut client, 1, bind, ReplyCode::ACCESS_REFUSED).await
            }),
        check("queue.bind/twice-is-once")
            .must(
                Spec("queue.bind rule duplicates"),
                "the same binding a second time is accepted and changes nothing",
            )
            .sends("queue.bind twice; a publish; queue.unbind once; a publish")
            .expects("bind-ok twice; the first message once, the second not")
            .run(async |cx| {
                let (exchange, queue) = (cx.exchange("direct"), cx.name("bound"));
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &exchange, "direct").await?;
                client.declare_queue(1, &queue).await?;
                for _ in 0..2 {
                    client.bind_queue(1, &queue, &exchange, "key").await?;
                }
                client.publish(1, &exchange, "key", "bound").await?;
                let unbind = queue::Unbind {
                    queue: queue.clone(),
                    exchange: exchange.clone(),
                    routing_key: short!("key"),
                    ..Default::default()
                };
                client.call::<queue::UnbindOk>(1, unbind).await?;
                client.publish(1, &exchange, "key", "unbound").await?;
                ensure_eq("bodies", &client.drain(1, &queue).await?, &["bound"])
            }),
        check("queue.bind/no-wait-unanswered")
            .must(
                Spec("queue.bind.no-wait"),
                "a binding with no-wait is made and not answered",
            )
            .sends("queue.bind no-wait; channel.flow; a publish")
            .expects("channel.flow-ok first; the message arrives")
            .run(async |cx| {
                let (exchange, queue) = (cx.exchange("fanout"), cx.name("bound"));
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &exchange, "fanout").await?;
                client.declare_queue(1, &queue).await?;
                let bind = queue::Bind {
                    queue: queue.clone(),
                    exchange: exchange.clone(),
                    no_wait: true,
                    ..Default::default()
                };
                client.send(1, bind).await?;
                client.barrier(1).await?;
                client.publish(1, &exchange, "", "through").await?;
                ensure_eq("bodies", &client.drain(1, &queue).await?, &["through"])
            }),
    ]
}

fn unbind() -> Vec<Check> {
    vec![
        check("queue.unbind/arguments-count")
            .must(
                Spec("queue.unbind.arguments"),
                "a binding is removed by all that it was made with: key and arguments",
            )
            .sends("queue.bind with key and argument; queue.unbind with other arguments, a publish; with the same, a publish")
            .expects("the first message alone")
            .run(async |cx| {
                let (exchange, queue) = (cx.exchange("direct"), cx.name("bound"));
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &exchange, "direct").await?;
                client.declare_queue(1, &queue).await?;
                let bind = queue::Bind {
                    queue: queue.clone(),
                    exchange: exchange.clone(),
                    routing_key: short!("key"),
                    arguments: table! { "n" => 1 },
                    ..Default::default()
                };
                client.call::<queue::BindOk>(1, bind).await?;
                for (arguments, body) in [(table! { "n" => 2 }, "bound"), (table! { "n" => 1 }, "unbound")] {
                    let unbind = queue::Unbind {
                        queue: queue.clone(),
                        exchange: exchange.clone(),
                        routing_key: short!("key"),
                        arguments,
                        ..Default::default()
                    };
                    // Whether removing what is not there is an error has a check of its own.
                    client.call::<queue::UnbindOk>(1, unbind).await?;
                    client.publish(1, &exchange, "key", body).await?;
                }
                ensure_eq("bodies", &client.drain(1, &queue).await?, &["bound"])
            }),
        check("queue.unbind/missing-binding")
            .rabbitmq(
                "AMQP 0-9-1 Protocol Extensions",
                "removing a binding that does not exist changes nothing and is answered by unbind-ok",
            )
            .sends("queue.unbind of a queue and an exchange that are not bound")
            .expects("queue.unbind-ok")
            .run(async |cx| {
                let (exchange, queue) = (cx.exchange("direct"), cx.name("unbound"));
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &exchange, "direct").await?;
                client.declare_queue(1, &queue).await?;
                let unbind = queue::Unbind { queue, exchange, ..Default::default() };
                client.call::<queue::UnbindOk>(1, unbind).await.map(drop)
            }),
    ]
}

fn purge() -> Vec<Check> {
    vec![
        check("queue.purge/removes-what-is-ready")
            .must(
                Spec("queue.purge"),
                "purge removes the messages of a queue and says how many",
            )
            .sends("three messages; queue.purge; basic.get; queue.purge")
            .expects("queue.purge-ok with 3; get-empty; queue.purge-ok with 0")
            .run(async |cx| {
                let queue = cx.name("purged");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                for _ in 0..3 {
                    client.publish(1, "", &queue, "body").await?;
                }
                let purge = queue::Purge { queue: queue.clone(), ..Default::default() };
                let purged: queue::PurgeOk = client.call(1, purge.clone()).await?;
                ensure_eq("messages purged", &purged.message_count, &3)?;
                ensure_eq("messages left", &client.drain(1, &queue).await?.len(), &0)?;
                let purged: queue::PurgeOk = client.call(1, purge).await?;
                ensure_eq("messages purged", &purged.message_count, &0)
            }),
        check("queue.purge/keeps-what-is-unacknowledged")
            .must(
                Spec("queue.purge rule 02"),
                "purge does not touch messages that were sent to a client and are not acknowledged",
            )
            .sends("two messages; basic.get of one, not acknowledged; queue.purge; basic.reject with requeue; a consumer on another channel")
            .expects("queue.purge-ok with 1; the first message again")
            .run(async |cx| {
                let queue = cx.name("purged");
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                client.declare_queue(1, &queue).await?;
                for body in ["kept", "purged"] {
                    client.publish(1, "", &queue, body).await?;
                }
                let get = basic::Get { queue: queue.clone(), ..Default::default() };
                let got = client.get_with(1, get).await?;
                let got = got.ok_or_else(|| Failure::new("basic.get-ok", "basic.get-empty"))?;
                let purge = queue::Purge { queue: queue.clone(), ..Default::default() };
                let purged: queue::PurgeOk = client.call(1, purge).await?;
                ensure_eq("messages purged", &purged.message_count, &1)?;
                let delivery_tag = got.method.delivery_tag;
                client.send(1, basic::Reject { delivery_tag, requeue: true, ..Default::default() }).await?;
                client.consume(2, &queue, "next", true).await?;
                let delivery = client.expect_delivery(2).await?;
                ensure_eq("body", &&delivery.body[..], &&b"kept"[..])
            }),
        check("queue.purge/no-wait-unanswered")
            .must(
                Spec("queue.purge.no-wait"),
                "a purge with no-wait is carried out and not answered",
            )
            .sends("a message; queue.purge no-wait; channel.flow; basic.get")
            .expects("channel.flow-ok first; basic.get-empty")
            .run(async |cx| {
                let queue = cx.name("purged");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                client.publish(1, "", &queue, "body").await?;
                let purge = queue::Purge { queue: queue.clone(), no_wait: true, ..Default::default() };
                client.send(1, purge).await?;
                client.barrier(1).await?;
                ensure_eq("messages left", &client.drain(1, &queue).await?.len(), &0)
            }),
    ]
}

fn delete() -> Vec<Check> {
    vec![
        check("queue.delete/removes-with-its-messages")
            .must(
                Spec("queue.delete"),
                "a deleted queue is gone with its messages, of which delete-ok says how many, and its bindings",
            )
            .sends("a bound queue with two messages; queue.delete; declared again; a publish by the old binding")
            .expects("queue.delete-ok with 2; the new queue stays empty")
            .run(async |cx| {
                let (exchange, queue) = (cx.exchange("fanout"), cx.name("deleted"));
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &exchange, "fanout").await?;
                client.declare_queue(1, &queue).await?;
                client.bind_queue(1, &queue, &exchange, "").await?;
                for _ in 0..2 {
                    client.publish(1, &exchange, "", "body").await?;
                }
                let delete = queue::Delete { queue: queue.clone(), ..Default::default() };
                let deleted: queue::DeleteOk = client.call(1, delete).await?;
                ensure_eq("messages deleted", &deleted.message_count, &2)?;
                client.declare_queue(1, &queue).await?;
                client.publish(1, &exchange, "", "late").await?;
                ensure_eq("messages left", &client.drain(1, &queue).await?.len(), &0)
            }),
        check("queue.delete/if-unused-refused-with-consumer")
            .must(
                Spec("queue.delete.if-unused rule in-use"),
                "a queue with a consumer is not deleted with if-unused: 406",
            )
            .sends("a consumer on channel 2; queue.delete if-unused on channel 1; passively on channel 2")
            .expects("channel.close 406 on channel 1; the queue is still there")
            .run(async |cx| {
                let queue = cx.name("used");
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                client.declare_queue(1, &queue).await?;
                client.consume(2, &queue, "only", true).await?;
                let delete = queue::Delete { queue: queue.clone(), if_unused: true, ..Default::default() };
                refused(&mut client, 1, delete, ReplyCode::PRECONDITION_FAILED).await?;
                client.call::<queue::DeclareOk>(2, passive(&queue)).await.map(drop)
            }),
        check("queue.delete/if-empty-refused-with-message")
            .must(
                Spec("queue.delete.if-empty rule not-empty"),
                "a queue with messages is not deleted with if-empty: 406",
            )
            .sends("a confirmed message; queue.delete if-empty; basic.get on another channel")
            .expects("channel.close 406; the message is still there")
            .run(async |cx| {
                let queue = cx.name("full");
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                client.declare_queue(1, &queue).await?;
                client.confirm_select(1).await?;
                client.publish(1, "", &queue, "kept").await?;
                client.expect_acks(1, 1).await?;
                let delete = queue::Delete { queue: queue.clone(), if_empty: true, ..Default::default() };
                refused(&mut client, 1, delete, ReplyCode::PRECONDITION_FAILED).await?;
                ensure_eq("bodies", &client.drain(2, &queue).await?, &["kept"])
            }),
        check("queue.delete/if-unused-and-if-empty-when-both-hold")
            .must(
                Spec("queue.delete"),
                "a queue without consumers and messages is deleted with if-unused and if-empty",
            )
            .sends("queue.delete if-unused and if-empty of a new queue; passively")
            .expects("queue.delete-ok with 0; then 404")
            .run(async |cx| {
                let queue = cx.name("idle");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                let delete = queue::Delete {
                    queue: queue.clone(),
                    if_unused: true,
                    if_empty: true,
                    ..Default::default()
                };
                let deleted: queue::DeleteOk = client.call(1, delete).await?;
                ensure_eq("messages deleted", &deleted.message_count, &0)?;
                is_gone(&mut client, 1, &queue).await
            }),
        check("queue.delete/no-wait-unanswered")
            .must(
                Spec("queue.delete.no-wait"),
                "a deletion with no-wait is carried out and not answered",
            )
            .sends("queue.delete no-wait; channel.flow; passively")
            .expects("channel.flow-ok first; then channel.close 404")
            .run(async |cx| {
                let queue = cx.name("quiet");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                let delete = queue::Delete { queue: queue.clone(), no_wait: true, ..Default::default() };
                client.send(1, delete).await?;
                client.barrier(1).await?;
                is_gone(&mut client, 1, &queue).await
            }),
    ]
}

/// Each method about a queue that does not exist: 404.
fn missing() -> Vec<Check> {
    vec![
        check("queue.bind/missing-queue-refused")
            .must(
                Spec("queue.bind.queue rule must-exist"),
                "binding a queue that does not exist is a channel error: 404",
            )
            .sends("queue.bind of a name that no queue has")
            .expects("channel.close 404")
            .run(async |cx| {
                let exchange = cx.exchange("there");
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &exchange, "direct").await?;
                let bind = queue::Bind {
                    queue: cx.name("missing"),
                    exchange,
                    ..Default::default()
                };
                refused(&mut client, 1, bind, ReplyCode::NOT_FOUND).await
            }),
        check("queue.unbind/missing-queue-refused")
            .must(
                Spec("queue.unbind.queue rule must-exist"),
                "removing the binding of a queue that does not exist is a channel error: 404",
            )
            .sends("queue.unbind of a name that no queue has")
            .expects("channel.close 404")
            .run(async |cx| {
                let exchange = cx.exchange("there");
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &exchange, "direct").await?;
                let unbind = queue::Unbind {
                    queue: cx.name("missing"),
                    exchange,
                    ..Default::default()
                };
                refused(&mut client, 1, unbind, ReplyCode::NOT_FOUND).await
            }),
        check("queue.unbind/missing-exchange-refused")
            .must(
                Spec("queue.unbind.exchange rule must-exist"),
                "removing a binding to an exchange that does not exist is a channel error: 404",
            )
            .sends("queue.unbind with a name that no exchange has")
            .expects("channel.close 404")
            .run(async |cx| {
                let queue = cx.name("there");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                let unbind = queue::Unbind {
                    queue,
                    exchange: cx.name("missing"),
                    ..Default::default()
                };
                refused(&mut client, 1, unbind, ReplyCode::NOT_FOUND).await
            }),
        check("queue.purge/missing-queue-refused")
            .must(
                Spec("queue.purge.queue rule must-exist"),
                "purging a queue that does not exist is a channel error: 404",
            )
            .sends("queue.purge of a name that no queue has")
            .expects("channel.close 404")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let purge = queue::Purge {
                    queue: cx.name("missing"),
                    ..Default::default()
                };
                refused(&mut client, 1, purge, ReplyCode::NOT_FOUND).await
            }),
        check("queue.delete/missing-queue-refused")
            .must(
                Spec("queue.delete.queue rule must-exist"),
                "deleting a queue that does not exist is a channel error: 404",
            )
            .sends("queue.delete of a name that no queue has")
            .expects("channel.close 404")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let delete = queue::Delete {
                    queue: cx.name("missing"),
                    ..Default::default()
                };
                refused(&mut client, 1, delete, ReplyCode::NOT_FOUND).await
            }),
        check("queue.bind/bindings-go-with-the-exchange")
            .must(
                Spec("exchange.delete"),
                "the bindings of an exchange go with it; the queue and its messages stay",
            )
            .sends("a bound queue with a message; exchange.delete; basic.get")
            .expects("exchange.delete-ok; the message")
            .run(async |cx| {
                let (exchange, queue) = (cx.exchange("deleted"), cx.name("stays"));
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &exchange, "fanout").await?;
                client.declare_queue(1, &queue).await?;
                client.bind_queue(1, &queue, &exchange, "").await?;
                client.publish(1, &exchange, "", "kept").await?;
                let delete = exchange::Delete {
                    exchange,
                    ..Default::default()
                };
                client.call::<exchange::DeleteOk>(1, delete).await?;
                ensure_eq("bodies", &client.drain(1, &queue).await?, &["kept"])
            }),
    ]
}
