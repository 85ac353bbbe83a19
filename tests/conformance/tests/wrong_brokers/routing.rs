use amqp_codec::{MethodId, ShortStr, Table, Value, basic, exchange, queue, short, table};

use crate::broker::{
    Fault, Passing, Unit, WrongBroker, duplicates, fault, misreads, rewrites, wrong,
};

/// Exchanges of one kind behave as another.
fn mistakes(kind: &'static str, other: &'static str) -> Fault {
    misreads(move |it: &mut exchange::Declare<'static>| {
        if it.kind == kind {
            it.kind = ShortStr::from_static(other);
        }
    })
}

/// What a binding to a headers exchange has to say is changed.
fn misreads_arguments(rewrite: fn(&Table<'_>) -> Table<'static>) -> Fault {
    misreads(move |it: &mut queue::Bind<'static>| it.arguments = rewrite(&it.arguments))
}

/// The arguments with another x-match.
fn matching(arguments: &Table<'_>, x_match: &'static str) -> Table<'static> {
    let mut changed = table! { "x-match" => x_match };
    for (key, value) in arguments {
        if key != "x-match" {
            changed
                .insert(key.into_owned(), value.into_owned())
                .expect("it was a key before");
        }
    }
    changed
}

pub(crate) fn brokers() -> Vec<WrongBroker> {
    [keys(), topics(), headers()]
        .into_iter()
        .flatten()
        .collect()
}

fn keys() -> Vec<WrongBroker> {
    vec![
        wrong(
            "routing.default/goes-by-amq-direct",
            misreads(|it: &mut basic::Publish<'static>| {
                if it.exchange.is_empty() {
                    it.exchange = short!("amq.direct");
                }
            }),
        )
        .caught_by([
            "routing.default/by-queue-name",
            "queue.declare/server-names-it",
        ]),
        wrong("routing.direct/ignores-keys", mistakes("direct", "fanout")).caught_by([
            "routing.direct/equal-keys-alone",
            "routing.direct/patterns-are-literal",
            "routing.direct/empty-key",
            "routing.direct/every-bound-queue",
            "routing/unbound-gets-nothing-more",
            "routing/key-of-255-octets",
            "routing/key-outside-ascii",
        ]),
        wrong("routing.direct/reads-patterns", mistakes("direct", "topic"))
            .caught_by(["routing.direct/patterns-are-literal"]),
        wrong("routing.fanout/looks-at-keys", mistakes("fanout", "direct"))
            .caught_by(["routing.fanout/ignores-keys"]),
        wrong("routing/binds-the-first-queue-alone", {
            fault(|| {
                let mut bound = false;
                move |passing, out| match &passing {
                    Passing::Client(frame)
                        if frame.method().map(|it| it.id()) == Some(MethodId::QUEUE_BIND)
                            && std::mem::replace(&mut bound, true) =>
                    {
                        out.tell_client(&Unit::method(frame.channel, &queue::BindOk {}));
                    }
                    _ => out.pass(passing),
                }
            })
        })
        .caught_by([
            "routing.fanout/every-bound-queue",
            "routing.direct/every-bound-queue",
        ]),
        wrong(
            "routing/a-copy-for-each-binding",
            duplicates(MethodId::BASIC_GET_OK),
        )
        .caught_by([
            "routing/one-copy-for-two-bindings",
            "exchange.bind/cycle-ends",
        ]),
        wrong(
            "routing/cuts-keys-to-254-octets",
            rewrites(|it: &mut basic::GetOk<'static>| {
                let octets = it.routing_key.as_bytes();
                let cut = octets[..octets.len().min(254)].to_vec();
                it.routing_key = cut.try_into().expect("it became no longer");
            }),
        )
        .caught_by(["routing/key-of-255-octets"]),
        wrong(
            "routing/keys-in-ascii-alone",
            rewrites(|it: &mut basic::GetOk<'static>| {
                let ascii: Vec<u8> = it
                    .routing_key
                    .as_bytes()
                    .iter()
                    .map(|it| it & 0x7f)
                    .collect();
                it.routing_key = ascii.try_into().expect("it became no longer");
            }),
        )
        .caught_by(["routing/key-outside-ascii"]),
    ]
}

fn topics() -> Vec<WrongBroker> {
    vec![
        wrong(
            "routing.topic/takes-patterns-as-they-stand",
            mistakes("topic", "direct"),
        )
        .caught_by([
            "routing.topic/star-is-one-word",
            "routing.topic/star-alone",
            "routing.topic/star-twice",
            "routing.topic/hash-is-any-words",
            "routing.topic/hash-alone",
            "routing.topic/hash-in-the-middle",
            "routing.topic/hash-at-both-ends",
            "routing.topic/star-and-hash",
            "routing.topic/several-bindings",
        ]),
        wrong(
            "routing.topic/matches-everything",
            mistakes("topic", "fanout"),
        )
        .caught_by(["routing.topic/literal-words", "routing.topic/star-alone"]),
        wrong(
            "routing.topic/star-is-any-words",
            misreads(|it: &mut queue::Bind<'static>| {
                let pattern = String::from_utf8_lossy(it.routing_key.as_bytes()).replace('*', "#");
                it.routing_key = pattern.try_into().expect("it is as long as before");
            }),
        )
        .caught_by(["routing.topic/star-is-one-word", "routing.topic/star-twice"]),
        wrong(
            "routing.topic/hash-is-one-word",
            misreads(|it: &mut queue::Bind<'static>| {
                let pattern = String::from_utf8_lossy(it.routing_key.as_bytes()).replace('#', "*");
                it.routing_key = pattern.try_into().expect("it is as long as before");
            }),
        )
        .caught_by([
            "routing.topic/hash-is-any-words",
            "routing.topic/hash-in-the-middle",
        ]),
    ]
}

fn headers() -> Vec<WrongBroker> {
    vec![
        wrong(
            "routing.headers/matches-everything",
            mistakes("headers", "fanout"),
        )
        .caught_by([
            "routing.headers/all",
            "routing.headers/any",
            "routing.headers/void-matches-any-value",
            "routing.headers/types-count",
            "routing.headers/x-headers-do-not-count",
            "routing.headers/unknown-match-refused",
        ]),
        wrong(
            "routing.headers/one-header-is-enough",
            misreads_arguments(|it| matching(it, "any")),
        )
        .caught_by([
            "routing.headers/all",
            "routing.headers/all-is-the-default",
            "routing.headers/all-without-headers-matches-everything",
        ]),
        wrong(
            "routing.headers/wants-every-header",
            misreads_arguments(|it| matching(it, "all")),
        )
        .caught_by([
            "routing.headers/any",
            "routing.headers/all-with-x",
            "routing.headers/any-with-x",
        ]),
        wrong(
            "routing.headers/counts-x-headers",
            misreads_arguments(|it| matching(it, "all-with-x")),
        )
        .caught_by(["routing.headers/x-headers-do-not-count"]),
        wrong(
            "routing.headers/takes-no-value-for-a-value",
            misreads_arguments(|it| {
                let mut changed = Table::EMPTY;
                for (key, value) in it {
                    let value = match value {
                        Value::Void => Value::from("void"),
                        value => value.into_owned(),
                    };
                    changed
                        .insert(key.into_owned(), value)
                        .expect("it was a key before");
                }
                changed
            }),
        )
        .caught_by(["routing.headers/void-matches-any-value"]),
    ]
}
