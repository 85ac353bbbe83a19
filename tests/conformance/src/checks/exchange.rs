//! Declaring, deleting and binding exchanges.

use amqp_codec::{ReplyCode, ShortStr, Table, exchange, queue, short, table};

use crate::check::Source::Spec;
use crate::{Check, Connection, Failure, check, ensure_eq};

pub(super) fn checks() -> Vec<Check> {
    [declare(), names(), predeclared(), delete(), bind()]
        .into_iter()
        .flatten()
        .collect()
}

fn a_direct(name: &ShortStr<'static>) -> exchange::Declare<'static> {
    exchange::Declare {
        exchange: name.clone(),
        kind: short!("direct"),
        ..Default::default()
    }
}

/// Declares it a second time with these settings, which must be refused.
async fn redeclared_otherwise(
    client: &mut Connection,
    first: exchange::Declare<'_>,
    second: exchange::Declare<'_>,
) -> Result<(), Failure> {
    client.call::<exchange::DeclareOk>(1, first).await?;
    client.send(1, second).await?;
    let codes = [ReplyCode::PRECONDITION_FAILED, ReplyCode::NOT_ALLOWED];
    client.expect_channel_error(1, codes).await.map(drop)
}

fn declare() -> Vec<Check> {
    let mut checks = vec![
        check("exchange.declare/passive-finds")
            .must(
                Spec("exchange.declare.passive"),
                "a passive declaration of an exchange that exists is answered by declare-ok",
            )
            .sends("exchange.declare, then the same name passively with another type")
            .expects("exchange.declare-ok both times: passive declarations compare nothing")
            .run(async |cx| {
                let name = cx.exchange("there");
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &name, "direct").await?;
                let passive = exchange::Declare {
                    exchange: name,
                    kind: short!("fanout"),
                    passive: true,
                    ..Default::default()
                };
                client.call::<exchange::DeclareOk>(1, passive).await.map(drop)
            }),
        check("exchange.declare/passive-missing")
            .must(
                Spec("exchange.declare.passive rule not-found"),
                "a passive declaration of an exchange that does not exist is a channel error: 404",
            )
            .sends("exchange.declare passive of a name that no exchange has")
            .expects("channel.close 404; nothing was made: the second try fails the same way")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let passive = exchange::Declare {
                    passive: true,
                    ..a_direct(&cx.exchange("missing"))
                };
                client.open_channel(2).await?;
                for channel in [1, 2] {
                    client.send(channel, passive.clone()).await?;
                    client.expect_channel_error(channel, ReplyCode::NOT_FOUND).await?;
                }
                Ok(())
            }),
        check("exchange.declare/equivalent-again")
            .must(
                Spec("exchange.declare.passive rule equivalent"),
                "declaring an exchange again with the same settings is answered by declare-ok",
            )
            .sends("the same exchange.declare twice: durable, auto-delete, with an argument")
            .expects("exchange.declare-ok both times")
            .run(async |cx| {
                let declare = exchange::Declare {
                    durable: true,
                    auto_delete: true,
                    arguments: table! { "alternate-exchange" => "amq.fanout" },
                    ..a_direct(&cx.exchange("twice"))
                };
                let mut client = cx.open_channel().await?;
                for _ in 0..2 {
                    client.call::<exchange::DeclareOk>(1, declare.clone()).await?;
                }
                Ok(())
            }),
        check("exchange.declare/other-type-refused")
            .must(
                Spec("exchange.declare.type rule typed"),
                "an exchange cannot be declared again with another type",
            )
            .sends("exchange.declare as direct, then as fanout")
            .expects("channel.close 406 or 530")
            .run(async |cx| {
                let first = a_direct(&cx.exchange("typed"));
                let second = exchange::Declare { kind: short!("fanout"), ..first.clone() };
                redeclared_otherwise(&mut cx.open_channel().await?, first, second).await
            }),
        check("exchange.declare/other-durability-refused")
            .must(
                Spec("exchange.declare.passive rule equivalent"),
                "an exchange cannot be declared again with another durability",
            )
            .sends("exchange.declare transient, then durable")
            .expects("channel.close 406 or 530")
            .run(async |cx| {
                let first = a_direct(&cx.exchange("transient"));
                let second = exchange::Declare { durable: true, ..first.clone() };
                redeclared_otherwise(&mut cx.open_channel().await?, first, second).await
            }),
        check("exchange.declare/other-arguments-refused")
            .must(
                Spec("exchange.declare.passive rule equivalent"),
                "an exchange cannot be declared again with other arguments",
            )
            .sends("exchange.declare, then again with alternate-exchange")
            .expects("channel.close 406 or 530")
            .run(async |cx| {
                let first = a_direct(&cx.exchange("plain"));
                let second = exchange::Declare {
                    arguments: table! { "alternate-exchange" => "amq.fanout" },
                    ..first.clone()
                };
                redeclared_otherwise(&mut cx.open_channel().await?, first, second).await
            }),
        check("exchange.declare/other-auto-delete-refused")
            .rabbitmq(
                "Exchanges",
                "an exchange cannot be declared again with another setting of auto-delete",
            )
            .sends("exchange.declare, then again with auto-delete")
            .expects("channel.close 406 or 530")
            .run(async |cx| {
                let first = a_direct(&cx.exchange("kept"));
                let second = exchange::Declare { auto_delete: true, ..first.clone() };
                redeclared_otherwise(&mut cx.open_channel().await?, first, second).await
            }),
        check("exchange.declare/other-internal-refused")
            .rabbitmq(
                "Exchanges",
                "an exchange cannot be declared again with another setting of internal",
            )
            .sends("exchange.declare, then again with internal")
            .expects("channel.close 406 or 530")
            .run(async |cx| {
                let first = a_direct(&cx.exchange("public"));
                let second = exchange::Declare { internal: true, ..first.clone() };
                redeclared_otherwise(&mut cx.open_channel().await?, first, second).await
            }),
        check("exchange.declare/unknown-type-refused")
            .must(
                Spec("exchange.declare.type rule support"),
                "an exchange of a type that the server does not have is refused: 503, which ends the connection",
            )
            .sends("exchange.declare with type x-no-such-type")
            .expects("connection.close 503")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let declare = exchange::Declare {
                    kind: short!("x-no-such-type"),
                    ..a_direct(&cx.exchange("odd"))
                };
                client.send(1, declare).await?;
                client.expect_connection_error(ReplyCode::COMMAND_INVALID).await.map(drop)
            }),
        check("exchange.declare/no-wait-unanswered")
            .must(
                Spec("exchange.declare.no-wait"),
                "a declaration with no-wait is carried out and not answered",
            )
            .sends("exchange.declare no-wait, then passively")
            .expects("one exchange.declare-ok, that of the passive declaration")
            .run(async |cx| {
                let quiet = exchange::Declare { no_wait: true, ..a_direct(&cx.exchange("quiet")) };
                let passive = exchange::Declare { passive: true, no_wait: false, ..quiet.clone() };
                let mut client = cx.open_channel().await?;
                client.send(1, quiet).await?;
                client.barrier(1).await?;
                client.call::<exchange::DeclareOk>(1, passive).await.map(drop)
            }),
        check("exchange.declare/outlives-its-connection")
            .must(
                Spec("exchange.declare.auto-delete"),
                "an exchange stays when the connection that declared it ends",
            )
            .sends("exchange.declare transient, connection.close; passively on a new connection")
            .expects("exchange.declare-ok")
            .run(async |cx| {
                let name = cx.exchange("stays");
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &name, "fanout").await?;
                client.close().await?;
                let passive = exchange::Declare { passive: true, ..a_direct(&name) };
                let mut client = cx.open_channel().await?;
                client.call::<exchange::DeclareOk>(1, passive).await.map(drop)
            }),
        check("exchange.declare/auto-delete-goes-with-last-binding")
            .rabbitmq(
                "Exchanges",
                "an auto-delete exchange is deleted when its last binding goes, and not before it had one",
            )
            .sends("exchange.declare auto-delete; passively; two bindings; both removed, passively after each")
            .expects("there until the second binding is gone, then 404")
            .run(async |cx| {
                let name = cx.exchange("auto");
                let queue = cx.name("bound");
                let passive = exchange::Declare { passive: true, ..a_direct(&name) };
                let mut client = cx.open_channel().await?;
                let declare = exchange::Declare { auto_delete: true, ..a_direct(&name) };
                client.call::<exchange::DeclareOk>(1, declare).await?;
                client.declare_queue(1, &queue).await?;
                client.call::<exchange::DeclareOk>(1, passive.clone()).await?;
                for key in ["one", "two"] {
                    client.bind_queue(1, &queue, &name, key).await?;
                }
                for key in [short!("one"), short!("two")] {
                    client.call::<exchange::DeclareOk>(1, passive.clone()).await?;
                    let unbind = queue::Unbind {
                        queue: queue.clone(),
                        exchange: name.clone(),
                        routing_key: key,
                        ..Default::default()
                    };
                    client.call::<queue::UnbindOk>(1, unbind).await?;
                }
                client.send(1, passive).await?;
                client.expect_channel_error(1, ReplyCode::NOT_FOUND).await.map(drop)
            }),
        check("exchange.declare/internal-refuses-publishes")
            .rabbitmq("Exchanges", "clients cannot publish to an internal exchange: 403")
            .sends("exchange.declare internal, basic.publish to it")
            .expects("channel.close 403")
            .run(async |cx| {
                let name = cx.exchange("internal");
                let mut client = cx.open_channel().await?;
                let declare = exchange::Declare { internal: true, ..a_direct(&name) };
                client.call::<exchange::DeclareOk>(1, declare).await?;
                client.publish(1, &name, "key", "body").await?;
                client.expect_channel_error(1, ReplyCode::ACCESS_REFUSED).await.map(drop)
            }),
        check("exchange.declare/alternate-exchange-takes-the-unroutable")
            .rabbitmq(
                "Alternate Exchanges",
                "a message that an exchange cannot route goes to its alternate exchange, and only such a message",
            )
            .sends("a direct exchange with a fanout as its alternate; a message with a key that is bound, one without")
            .expects("the first in the bound queue alone, the second in the queue of the alternate")
            .run(async |cx| {
                let (main, spare) = (cx.exchange("main"), cx.exchange("spare"));
                let (routed, unrouted) = (cx.name("routed"), cx.name("unrouted"));
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &spare, "fanout").await?;
                let mut arguments = Table::EMPTY;
                arguments.insert("alternate-exchange", spare.clone())?;
                let declare = exchange::Declare { arguments, ..a_direct(&main) };
                client.call::<exchange::DeclareOk>(1, declare).await?;
                client.declare_queue(1, &routed).await?;
                client.declare_queue(1, &unrouted).await?;
                client.bind_queue(1, &routed, &main, "key").await?;
                client.bind_queue(1, &unrouted, &spare, "").await?;
                client.publish(1, &main, "key", "first").await?;
                client.publish(1, &main, "other", "second").await?;
                let bodies = client.drain(1, &routed).await?;
                ensure_eq("routed", &bodies, &["first"])?;
                let bodies = client.drain(1, &unrouted).await?;
                ensure_eq("unrouted", &bodies, &["second"])
            }),
        check("exchange.declare/alternate-exchange-of-wrong-type-refused")
            .rabbitmq("Alternate Exchanges", "an alternate exchange is named by a string; anything else is a 406")
            .sends("exchange.declare with alternate-exchange => 5")
            .expects("channel.close 406")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let declare = exchange::Declare {
                    arguments: table! { "alternate-exchange" => 5 },
                    ..a_direct(&cx.exchange("numbered"))
                };
                client.send(1, declare).await?;
                client.expect_channel_error(1, ReplyCode::PRECONDITION_FAILED).await.map(drop)
            }),
    ];
    checks.extend(TYPES.iter().map(|(name, kind)| {
        check(name)
            .must(
                Spec("exchange rule required-types"),
                "direct and fanout exchanges can be declared, topic and headers should be",
            )
            .sends("exchange.declare of the type, durable and transient")
            .expects("exchange.declare-ok both times")
            .run(async move |cx| {
                let mut client = cx.open_channel().await?;
                for durable in [false, true] {
                    let declare = exchange::Declare {
                        exchange: cx.exchange(kind),
                        kind: ShortStr::from_static(kind),
                        durable,
                        ..Default::default()
                    };
                    client.call::<exchange::DeclareOk>(1, declare).await?;
                }
                Ok(())
            })
    }));
    checks
}

const TYPES: [(&str, &str); 4] = [
    ("exchange.declare/type-direct", "direct"),
    ("exchange.declare/type-fanout", "fanout"),
    ("exchange.declare/type-topic", "topic"),
    ("exchange.declare/type-headers", "headers"),
];

fn names() -> Vec<Check> {
    vec![
        check("exchange.declare/reserved-name-refused")
            .must(
                Spec("exchange.declare.exchange rule reserved"),
                "names that begin with amq. belong to the server: 403",
            )
            .sends("exchange.declare of amq.conformance")
            .expects("channel.close 403")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(1, a_direct(&short!("amq.conformance"))).await?;
                client.expect_channel_error(1, ReplyCode::ACCESS_REFUSED).await.map(drop)
            }),
        check("exchange.declare/default-exchange-refused")
            .must(
                Spec("exchange rule default-access"),
                "the default exchange cannot be declared by clients: 403",
            )
            .sends("exchange.declare of the empty name, as direct and durable")
            .expects("channel.close 403")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let declare = exchange::Declare { durable: true, ..a_direct(&ShortStr::EMPTY) };
                client.send(1, declare).await?;
                client.expect_channel_error(1, ReplyCode::ACCESS_REFUSED).await.map(drop)
            }),
        check("exchange.declare/name-of-127-octets")
            .must(
                Spec("domain exchange-name"),
                "names have up to 127 octets of letters, digits, hyphen, underscore, period and colon",
            )
            .sends("exchange.declare of a name with 127 octets, all kinds of allowed characters in it; passively")
            .expects("exchange.declare-ok both times; not found when the last octet differs")
            .run(async |cx| {
                let start = cx.exchange("Az09-_.:").to_string();
                let name = cx.exchange(&"n".repeat(127 - start.len() - 1));
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &name, "direct").await?;
                let passive = exchange::Declare { passive: true, ..a_direct(&name) };
                client.call::<exchange::DeclareOk>(1, passive).await?;
                let mut other = name.as_bytes().to_vec();
                if let Some(last) = other.last_mut() {
                    *last = b'm';
                }
                let passive = exchange::Declare {
                    exchange: ShortStr::try_from(other)?,
                    passive: true,
                    ..Default::default()
                };
                client.send(1, passive).await?;
                client.expect_channel_error(1, ReplyCode::NOT_FOUND).await.map(drop)
            }),
    ]
}

fn predeclared() -> Vec<Check> {
    PREDECLARED
        .iter()
        .map(|&(slug, name, kind)| {
            check(slug)
                .must(
                    Spec("exchange rule required-instances"),
                    "each standard type has an exchange from the start: amq.direct, amq.fanout, amq.topic, amq.match",
                )
                .sends("exchange.declare passive of it; publishes through it to a bound queue")
                .expects("exchange.declare-ok; the message arrives")
                .run(async move |cx| {
                    let queue = cx.name("bound");
                    let mut client = cx.open_channel().await?;
                    let passive = exchange::Declare {
                        exchange: ShortStr::from_static(name),
                        kind: ShortStr::from_static(kind),
                        passive: true,
                        ..Default::default()
                    };
                    client.call::<exchange::DeclareOk>(1, passive).await?;
                    client.declare_queue(1, &queue).await?;
                    let bind = queue::Bind {
                        queue: queue.clone(),
                        exchange: ShortStr::from_static(name),
                        routing_key: queue.clone(),
                        arguments: table! { "x-match" => "all" },
                        ..Default::default()
                    };
                    client.call::<queue::BindOk>(1, bind).await?;
                    client.publish(1, name, &queue, "through").await?;
                    // Others publish to these exchanges too.
                    let bodies = client.drain(1, &queue).await?;
                    let came = bodies.iter().any(|body| body == "through");
                    ensure_eq("message came", &came, &true)
                })
        })
        .collect()
}

const PREDECLARED: [(&str, &str, &str); 4] = [
    ("exchange/amq-direct-is-there", "amq.direct", "direct"),
    ("exchange/amq-fanout-is-there", "amq.fanout", "fanout"),
    ("exchange/amq-topic-is-there", "amq.topic", "topic"),
    ("exchange/amq-match-is-there", "amq.match", "headers"),
];

fn delete() -> Vec<Check> {
    vec![
        check("exchange.delete/removes")
            .must(
                Spec("exchange.delete"),
                "a deleted exchange is gone, and so are its bindings: declared again, it routes nothing",
            )
            .sends("exchange.delete of an exchange with a binding; declared again; a publish")
            .expects("exchange.delete-ok; the queue stays empty")
            .run(async |cx| {
                let (name, queue) = (cx.exchange("deleted"), cx.name("bound"));
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &name, "fanout").await?;
                client.declare_queue(1, &queue).await?;
                client.bind_queue(1, &queue, &name, "").await?;
                client.publish(1, &name, "", "before").await?;
                let delete = exchange::Delete { exchange: name.clone(), ..Default::default() };
                client.call::<exchange::DeleteOk>(1, delete).await?;
                client.declare_exchange(1, &name, "fanout").await?;
                client.publish(1, &name, "", "after").await?;
                let bodies = client.drain(1, &queue).await?;
                ensure_eq("bodies", &bodies, &["before"])
            }),
        check("exchange.delete/missing-refused")
            .must(
                Spec("exchange.delete.exchange rule exists"),
                "deleting an exchange that does not exist is a channel error: 404",
            )
            .sends("exchange.delete of a name that no exchange has")
            .expects("channel.close 404")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let exchange = cx.exchange("missing");
                client.send(1, exchange::Delete { exchange, ..Default::default() }).await?;
                client.expect_channel_error(1, ReplyCode::NOT_FOUND).await.map(drop)
            }),
        check("exchange.delete/if-unused-refused-when-bound")
            .must(
                Spec("exchange.delete.if-unused rule in-use"),
                "an exchange with bindings is not deleted with if-unused: 406",
            )
            .sends("exchange.delete if-unused of an exchange with a binding; a passive declaration on another channel")
            .expects("channel.close 406; the exchange is still there")
            .run(async |cx| {
                let (name, queue) = (cx.exchange("used"), cx.name("bound"));
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                client.declare_exchange(1, &name, "direct").await?;
                client.declare_queue(1, &queue).await?;
                client.bind_queue(1, &queue, &name, "key").await?;
                let delete = exchange::Delete {
                    exchange: name.clone(),
                    if_unused: true,
                    ..Default::default()
                };
                client.send(1, delete).await?;
                client.expect_channel_error(1, ReplyCode::PRECONDITION_FAILED).await?;
                let passive = exchange::Declare { passive: true, ..a_direct(&name) };
                client.call::<exchange::DeclareOk>(2, passive).await.map(drop)
            }),
        check("exchange.delete/if-unused-removes-the-unbound")
            .must(
                Spec("exchange.delete.if-unused"),
                "an exchange without bindings is deleted with if-unused",
            )
            .sends("exchange.delete if-unused of a new exchange; a passive declaration")
            .expects("exchange.delete-ok, then channel.close 404")
            .run(async |cx| {
                let name = cx.exchange("unused");
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &name, "direct").await?;
                let delete = exchange::Delete {
                    exchange: name.clone(),
                    if_unused: true,
                    ..Default::default()
                };
                client.call::<exchange::DeleteOk>(1, delete).await?;
                client.send(1, exchange::Declare { passive: true, ..a_direct(&name) }).await?;
                client.expect_channel_error(1, ReplyCode::NOT_FOUND).await.map(drop)
            }),
        check("exchange.delete/predeclared-refused")
            .must(
                Spec("exchange.declare.exchange rule reserved"),
                "the server's own exchanges cannot be deleted: 403",
            )
            .sends("exchange.delete if-unused of the empty name")
            .expects("channel.close 403")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.send(1, exchange::Delete { if_unused: true, ..Default::default() }).await?;
                client.expect_channel_error(1, ReplyCode::ACCESS_REFUSED).await.map(drop)
            }),
        check("exchange.delete/no-wait-unanswered")
            .must(
                Spec("exchange.delete.no-wait"),
                "a deletion with no-wait is carried out and not answered",
            )
            .sends("exchange.delete no-wait; channel.flow; a passive declaration")
            .expects("channel.flow-ok first; then channel.close 404")
            .run(async |cx| {
                let name = cx.exchange("quiet");
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &name, "direct").await?;
                let delete = exchange::Delete {
                    exchange: name.clone(),
                    no_wait: true,
                    ..Default::default()
                };
                client.send(1, delete).await?;
                client.barrier(1).await?;
                client.send(1, exchange::Declare { passive: true, ..a_direct(&name) }).await?;
                client.expect_channel_error(1, ReplyCode::NOT_FOUND).await.map(drop)
            }),
    ]
}

/// Binds an exchange to another by this key.
fn binding(
    source: &ShortStr<'static>,
    destination: &ShortStr<'static>,
    routing_key: &'static str,
) -> exchange::Bind<'static> {
    exchange::Bind {
        source: source.clone(),
        destination: destination.clone(),
        routing_key: ShortStr::from_static(routing_key),
        ..Default::default()
    }
}

const BINDINGS: &str = "Exchange to Exchange Bindings";

fn bind() -> Vec<Check> {
    vec![
        check("exchange.bind/routes-on")
            .rabbitmq(BINDINGS, "what an exchange routes to another goes on to the queues bound to that one")
            .sends("exchange.bind of a fanout to a direct by a key; publishes with that key and another")
            .expects("the first message alone in the queue of the fanout")
            .run(async |cx| {
                let (source, destination) = (cx.exchange("source"), cx.exchange("destination"));
                let queue = cx.name("end");
                let mut client = cx.open_channel().await?;
                client.require_capability("exchange_exchange_bindings")?;
                client.declare_exchange(1, &source, "direct").await?;
                client.declare_exchange(1, &destination, "fanout").await?;
                client.declare_queue(1, &queue).await?;
                client.bind_queue(1, &queue, &destination, "").await?;
                client.call::<exchange::BindOk>(1, binding(&source, &destination, "key")).await?;
                client.publish(1, &source, "key", "first").await?;
                client.publish(1, &source, "other", "second").await?;
                let bodies = client.drain(1, &queue).await?;
                ensure_eq("bodies", &bodies, &["first"])
            }),
        check("exchange.bind/cycle-ends")
            .rabbitmq(BINDINGS, "a message goes round a cycle of exchanges once, and to each queue once")
            .sends("two fanouts bound to each other, a queue bound to both; a publish to each")
            .expects("each message once")
            .run(async |cx| {
                let (one, two) = (cx.exchange("one"), cx.exchange("two"));
                let queue = cx.name("end");
                let mut client = cx.open_channel().await?;
                client.require_capability("exchange_exchange_bindings")?;
                client.declare_queue(1, &queue).await?;
                for name in [&one, &two] {
                    client.declare_exchange(1, name, "fanout").await?;
                    client.bind_queue(1, &queue, name, "").await?;
                }
                client.call::<exchange::BindOk>(1, binding(&one, &two, "")).await?;
                client.call::<exchange::BindOk>(1, binding(&two, &one, "")).await?;
                client.publish(1, &one, "", "first").await?;
                client.publish(1, &two, "", "second").await?;
                let bodies = client.drain(1, &queue).await?;
                ensure_eq("bodies", &bodies, &["first", "second"])
            }),
        check("exchange.bind/twice-is-once")
            .rabbitmq(BINDINGS, "the same binding twice is one")
            .sends("exchange.bind twice, exchange.unbind once; a publish")
            .expects("bind-ok twice, unbind-ok; no message")
            .run(async |cx| {
                let (source, destination) = (cx.exchange("source"), cx.exchange("destination"));
                let queue = cx.name("end");
                let mut client = cx.open_channel().await?;
                client.require_capability("exchange_exchange_bindings")?;
                client.declare_exchange(1, &source, "direct").await?;
                client.declare_exchange(1, &destination, "fanout").await?;
                client.declare_queue(1, &queue).await?;
                client.bind_queue(1, &queue, &destination, "").await?;
                for _ in 0..2 {
                    let bind = binding(&source, &destination, "key");
                    client.call::<exchange::BindOk>(1, bind).await?;
                }
                client.publish(1, &source, "key", "bound").await?;
                let unbind = exchange::Unbind {
                    source: source.clone(),
                    destination,
                    routing_key: short!("key"),
                    ..Default::default()
                };
                client.call::<exchange::UnbindOk>(1, unbind).await?;
                client.publish(1, &source, "key", "unbound").await?;
                let bodies = client.drain(1, &queue).await?;
                ensure_eq("bodies", &bodies, &["bound"])
            }),
        check("exchange.bind/missing-source-refused")
            .rabbitmq(BINDINGS, "binding to an exchange that does not exist is a 404")
            .sends("exchange.bind with a source that does not exist")
            .expects("channel.close 404")
            .run(async |cx| {
                let destination = cx.exchange("destination");
                let mut client = cx.open_channel().await?;
                client.require_capability("exchange_exchange_bindings")?;
                client.declare_exchange(1, &destination, "fanout").await?;
                client.send(1, binding(&cx.name("missing"), &destination, "key")).await?;
                client.expect_channel_error(1, ReplyCode::NOT_FOUND).await.map(drop)
            }),
        check("exchange.bind/missing-destination-refused")
            .rabbitmq(BINDINGS, "binding an exchange that does not exist is a 404")
            .sends("exchange.bind with a destination that does not exist")
            .expects("channel.close 404")
            .run(async |cx| {
                let source = cx.exchange("source");
                let mut client = cx.open_channel().await?;
                client.require_capability("exchange_exchange_bindings")?;
                client.declare_exchange(1, &source, "fanout").await?;
                client.send(1, binding(&source, &cx.name("missing"), "key")).await?;
                client.expect_channel_error(1, ReplyCode::NOT_FOUND).await.map(drop)
            }),
        check("exchange.bind/default-exchange-refused")
            .rabbitmq(BINDINGS, "the default exchange is neither source nor destination of bindings: 403")
            .sends("exchange.bind with the empty name as source, then as destination")
            .expects("channel.close 403 both times")
            .run(async |cx| {
                let other = cx.exchange("other");
                let mut client = cx.open_channel().await?;
                client.require_capability("exchange_exchange_bindings")?;
                client.declare_exchange(1, &other, "fanout").await?;
                client.open_channel(2).await?;
                client.send(1, binding(&ShortStr::EMPTY, &other, "key")).await?;
                client.expect_channel_error(1, ReplyCode::ACCESS_REFUSED).await?;
                client.send(2, binding(&other, &ShortStr::EMPTY, "key")).await?;
                client.expect_channel_error(2, ReplyCode::ACCESS_REFUSED).await.map(drop)
            }),
        check("exchange.bind/no-wait-unanswered")
            .rabbitmq(BINDINGS, "exchange.bind and unbind with no-wait are carried out and not answered")
            .sends("exchange.bind no-wait, a publish, exchange.unbind no-wait, a publish")
            .expects("no answer; the first message alone arrives")
            .run(async |cx| {
                let (source, destination) = (cx.exchange("source"), cx.exchange("destination"));
                let queue = cx.name("end");
                let mut client = cx.open_channel().await?;
                client.require_capability("exchange_exchange_bindings")?;
                client.declare_exchange(1, &source, "direct").await?;
                client.declare_exchange(1, &destination, "fanout").await?;
                client.declare_queue(1, &queue).await?;
                client.bind_queue(1, &queue, &destination, "").await?;
                let bind = exchange::Bind { no_wait: true, ..binding(&source, &destination, "key") };
                client.send(1, bind).await?;
                client.publish(1, &source, "key", "bound").await?;
                let unbind = exchange::Unbind {
                    source: source.clone(),
                    destination,
                    routing_key: short!("key"),
                    no_wait: true,
                    ..Default::default()
                };
                client.send(1, unbind).await?;
                client.publish(1, &source, "key", "unbound").await?;
                client.barrier(1).await?;
                let bodies = client.drain(1, &queue).await?;
                ensure_eq("bodies", &bodies, &["bound"])
            }),
        check("exchange.unbind/missing-is-fine")
            .rabbitmq(BINDINGS, "removing a binding that does not exist changes nothing and is answered by unbind-ok")
            .sends("exchange.unbind of two exchanges that are not bound")
            .expects("exchange.unbind-ok")
            .run(async |cx| {
                let (source, destination) = (cx.exchange("source"), cx.exchange("destination"));
                let mut client = cx.open_channel().await?;
                client.require_capability("exchange_exchange_bindings")?;
                client.declare_exchange(1, &source, "direct").await?;
                client.declare_exchange(1, &destination, "fanout").await?;
                let unbind = exchange::Unbind { source, destination, ..Default::default() };
                client.call::<exchange::UnbindOk>(1, unbind).await.map(drop)
            }),
    ]
}
