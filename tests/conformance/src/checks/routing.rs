//! Which queues a message reaches.

use amqp_codec::basic::{self, Properties};
use amqp_codec::{ShortStr, Table, Value, exchange, queue, table};

use crate::check::Source::{Spec, Text};
use crate::{Check, Connection, Context, Failure, check, ensure_eq};

pub(super) fn checks() -> Vec<Check> {
    [default(), direct(), fanout(), topic(), headers()]
        .into_iter()
        .flatten()
        .collect()
}

/// An exchange of this kind and a queue that is bound to it with each of these keys.
async fn bound(
    cx: &Context,
    kind: &str,
    keys: &[&str],
) -> Result<(Connection, ShortStr<'static>, ShortStr<'static>), Failure> {
    let (exchange, queue) = (cx.exchange(kind), cx.name("bound"));
    let mut client = cx.open_channel().await?;
    client.declare_exchange(1, &exchange, kind).await?;
    client.declare_queue(1, &queue).await?;
    for key in keys {
        client.bind_queue(1, &queue, &exchange, key).await?;
    }
    Ok((client, exchange, queue))
}

/// Publishes a message with each of these keys: those in `matching` must reach the queue, in that order and once each.
async fn keys_reach(
    cx: &Context,
    kind: &str,
    bindings: &[&str],
    matching: &[&str],
    others: &[&str],
) -> Result<(), Failure> {
    let (mut client, exchange, queue) = bound(cx, kind, bindings).await?;
    for key in others.iter().chain(matching) {
        client.publish(1, &exchange, key, key).await?;
    }
    let keys = client.drain(1, &queue).await?;
    ensure_eq("keys that arrived", &keys, &matching)
}

fn default() -> Vec<Check> {
    vec![
        check("routing.default/by-queue-name")
            .must(
                Spec("queue.declare rule default-binding"),
                "every queue is bound to the default exchange by its name",
            )
            .sends("publishes to the empty exchange name with the names of two queues, and that of none")
            .expects("each queue has the message with its name alone")
            .run(async |cx| {
                let (one, two) = (cx.name("one"), cx.name("two"));
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &one).await?;
                client.declare_queue(1, &two).await?;
                client.publish(1, "", &one, "for one").await?;
                client.publish(1, "", &two, "for two").await?;
                client.publish(1, "", cx.name("three"), "for none").await?;
                ensure_eq("bodies", &client.drain(1, &one).await?, &["for one"])?;
                ensure_eq("bodies", &client.drain(1, &two).await?, &["for two"])
            }),
    ]
}

fn direct() -> Vec<Check> {
    vec![
        check("routing.direct/equal-keys-alone")
            .must(
                Spec("queue.bind.routing-key rule direct-exchange-key-matching"),
                "a direct exchange routes by equal keys: octet by octet, patterns mean nothing",
            )
            .sends("a binding with key a.b; publishes with that key and with others that resemble it")
            .expects("the first alone")
            .run(async |cx| {
                let others = ["a", "a.b.c", "A.B", "a.*", "#", "", " a.b", "a.b "];
                keys_reach(cx, "direct", &["a.b"], &["a.b"], &others).await
            }),
        check("routing.direct/patterns-are-literal")
            .must(
                Spec("queue.bind.routing-key rule direct-exchange-key-matching"),
                "a direct exchange takes * and # as they stand",
            )
            .sends("bindings with the keys * and #; publishes with these and with a, a.b")
            .expects("the messages with * and # alone")
            .run(async |cx| keys_reach(cx, "direct", &["*", "#"], &["*", "#"], &["a", "a.b", ""]).await),
        check("routing.direct/empty-key")
            .must(
                Spec("queue.bind.routing-key rule direct-exchange-key-matching"),
                "the empty key is a key as any other",
            )
            .sends("a binding with the empty key; publishes with it and with another")
            .expects("the first alone")
            .run(async |cx| keys_reach(cx, "direct", &[""], &[""], &["a", "."]).await),
        check("routing.direct/every-bound-queue")
            .must(
                Spec("exchange rule required-types"),
                "a message goes to every queue that is bound with its key",
            )
            .sends("two queues bound with one key, a third with another; a publish with the first key")
            .expects("a copy in the first and the second queue, none in the third")
            .run(async |cx| {
                let (mut client, exchange, one) = bound(cx, "direct", &["key"]).await?;
                let (two, three) = (cx.name("two"), cx.name("three"));
                for (queue, key) in [(&two, "key"), (&three, "other")] {
                    client.declare_queue(1, queue).await?;
                    client.bind_queue(1, queue, &exchange, key).await?;
                }
                client.publish(1, &exchange, "key", "copy").await?;
                let mut copies = Vec::new();
                for queue in [&one, &two, &three] {
                    copies.push(client.drain(1, queue).await?.len());
                }
                ensure_eq("copies", &copies, &[1, 1, 0])
            }),
        check("routing/one-copy-for-two-bindings")
            .must(
                Spec("queue.bind rule unique"),
                "a queue gets a message once, however many of its bindings match",
            )
            .sends("a topic exchange, a queue bound with a.*, *.b and #; a publish with a.b")
            .expects("one message")
            .run(async |cx| keys_reach(cx, "topic", &["a.*", "*.b", "#"], &["a.b"], &[]).await),
        check("routing/unbound-gets-nothing-more")
            .must(Spec("queue.unbind"), "a binding that was removed routes no more; the others go on")
            .sends("bindings with two keys; queue.unbind of one; publishes with both")
            .expects("the message with the other key alone")
            .run(async |cx| {
                let (mut client, exchange, queue) = bound(cx, "direct", &["one", "two"]).await?;
                let unbind = queue::Unbind {
                    queue: queue.clone(),
                    exchange: exchange.clone(),
                    routing_key: ShortStr::from_static("one"),
                    ..Default::default()
                };
                client.call::<queue::UnbindOk>(1, unbind).await?;
                client.publish(1, &exchange, "one", "one").await?;
                client.publish(1, &exchange, "two", "two").await?;
                ensure_eq("bodies", &client.drain(1, &queue).await?, &["two"])
            }),
        check("routing/key-of-255-octets")
            .must(
                Spec("domain shortstr"),
                "a routing key has up to 255 octets, and all of them count",
            )
            .sends("a binding with a key of 255 octets; publishes with it and with one that differs in the last octet")
            .expects("the first alone, with its whole key")
            .run(async |cx| {
                let key = "k".repeat(255);
                let other = format!("{}o", "k".repeat(254));
                let (mut client, exchange, queue) = bound(cx, "direct", &[&key]).await?;
                client.publish(1, &exchange, &other, "other").await?;
                client.publish(1, &exchange, &key, "same").await?;
                let got = client.get(1, &queue).await?;
                let got = got.ok_or_else(|| Failure::new("basic.get-ok", "basic.get-empty"))?;
                ensure_eq("key is whole", &(got.method.routing_key == key.as_str()), &true)?;
                ensure_eq("body", &&got.body[..], &&b"same"[..])
            }),
        check("routing/key-outside-ascii")
            .must(
                Text("4.2.5.3 Strings"),
                "short strings are UTF-8: a key outside ASCII is routed and comes back as it was",
            )
            .sends("a binding with a key of Greek letters; publishes with it and with one that differs in one letter")
            .expects("the first alone, with the same key")
            .run(async |cx| {
                let (mut client, exchange, queue) = bound(cx, "direct", &["κλειδί"]).await?;
                client.publish(1, &exchange, "κλειδά", "other").await?;
                client.publish(1, &exchange, "κλειδί", "same").await?;
                let got = client.get(1, &queue).await?;
                let got = got.ok_or_else(|| Failure::new("basic.get-ok", "basic.get-empty"))?;
                ensure_eq("key", &got.method.routing_key, &"κλειδί")?;
                ensure_eq("body", &&got.body[..], &&b"same"[..])
            }),
    ]
}

fn fanout() -> Vec<Check> {
    vec![
        check("routing.fanout/ignores-keys")
            .must(
                Spec("exchange rule required-types"),
                "a fanout exchange routes every message to every queue bound to it, whatever the keys",
            )
            .sends("a binding with key a; publishes with a, b and no key")
            .expects("all three, once each")
            .run(async |cx| keys_reach(cx, "fanout", &["a"], &["a", "b", ""], &[]).await),
        check("routing.fanout/every-bound-queue")
            .must(
                Spec("exchange rule required-types"),
                "a fanout exchange routes every message to every queue bound to it",
            )
            .sends("ten queues bound to a fanout exchange; one publish")
            .expects("one copy in each")
            .run(async |cx| {
                let (mut client, exchange, _) = bound(cx, "fanout", &[]).await?;
                let mut queues = Vec::new();
                for _ in 0..10 {
                    let queue = cx.name("one of ten");
                    client.declare_queue(1, &queue).await?;
                    client.bind_queue(1, &queue, &exchange, "").await?;
                    queues.push(queue);
                }
                client.publish(1, &exchange, "", "copy").await?;
                let mut copies = 0;
                for queue in &queues {
                    copies += client.drain(1, queue).await?.len();
                }
                ensure_eq("copies", &copies, &10)
            }),
    ]
}

/// A pattern, the keys that match it, and some that do not.
struct Pattern {
    name: &'static str,
    rule: &'static str,
    sends: &'static str,
    expects: &'static str,
    bindings: &'static [&'static str],
    matching: &'static [&'static str],
    others: &'static [&'static str],
}

#[rustfmt::skip]
const PATTERNS: &[Pattern] = &[
    Pattern {
        name: "routing.topic/literal-words",
        rule: "words match themselves, in full and in their case",
        sends: "a binding with a.b.c; publishes with it and with keys that resemble it",
        expects: "a.b.c alone",
        bindings: &["a.b.c"],
        matching: &["a.b.c"],
        others: &["a.b", "a.b.c.d", "A.b.c", "a.bc", "a..b.c", "a.b.c.", ".a.b.c", ""],
    },
    Pattern {
        name: "routing.topic/star-is-one-word",
        rule: "* stands for exactly one word",
        sends: "a binding with a.*.c; publishes with one, no and two words in its place",
        expects: "those with one word",
        bindings: &["a.*.c"],
        matching: &["a.b.c", "a.long-word.c"],
        others: &["a.c", "a.b.b.c", "b.b.c", "a.b.d"],
    },
    Pattern {
        name: "routing.topic/star-alone",
        rule: "* stands for exactly one word",
        sends: "a binding with *; publishes with keys of one word and of two",
        expects: "the keys of one word",
        bindings: &["*"],
        matching: &["a", "long-word"],
        others: &["a.b", "a.b.c"],
    },
    Pattern {
        name: "routing.topic/star-twice",
        rule: "each * stands for a word of its own",
        sends: "a binding with *.*; publishes with keys of one, two and three words",
        expects: "the key of two words",
        bindings: &["*.*"],
        matching: &["a.b"],
        others: &["a", "a.b.c"],
    },
    Pattern {
        name: "routing.topic/hash-is-any-words",
        rule: "# stands for any number of words, none included",
        sends: "a binding with a.#; publishes with a and keys that begin with it or resemble it",
        expects: "a and what goes on with a.",
        bindings: &["a.#"],
        matching: &["a", "a.b", "a.b.c.d.e"],
        others: &["b", "ab", "b.a", ""],
    },
    Pattern {
        name: "routing.topic/hash-alone",
        rule: "# stands for any number of words: alone, it matches every key",
        sends: "a binding with #; publishes with many keys, the empty one among them",
        expects: "all of them",
        bindings: &["#"],
        matching: &["", "a", "a.b", "a.b.c", ".", "#", "*"],
        others: &[],
    },
    Pattern {
        name: "routing.topic/hash-in-the-middle",
        rule: "# stands for any number of words, between others too",
        sends: "a binding with a.#.z; publishes",
        expects: "a.z and whatever begins with a. and ends with .z",
        bindings: &["a.#.z"],
        matching: &["a.z", "a.b.z", "a.z.z", "a.b.c.d.z"],
        others: &["a", "z", "a.z.b", "b.a.z", "az"],
    },
    Pattern {
        name: "routing.topic/hash-at-both-ends",
        rule: "# stands for any number of words, more than once in a pattern",
        sends: "a binding with #.b.#; publishes",
        expects: "keys with the word b",
        bindings: &["#.b.#"],
        matching: &["b", "a.b", "b.c", "a.a.b.c.c"],
        others: &["a", "a.c", "bb", "a.bb.c"],
    },
    Pattern {
        name: "routing.topic/star-and-hash",
        rule: "* and # together: at least one word",
        sends: "a binding with *.#; publishes",
        expects: "all keys of one word and more",
        bindings: &["*.#"],
        matching: &["a", "a.b", "a.b.c"],
        others: &[],
    },
    Pattern {
        name: "routing.topic/several-bindings",
        rule: "a queue gets what any of its bindings matches",
        sends: "bindings with a.* and *.z; publishes",
        expects: "what either matches, once each",
        bindings: &["a.*", "*.z"],
        matching: &["a.b", "b.z", "a.z"],
        others: &["b.b", "a.b.z"],
    },
];

fn topic() -> Vec<Check> {
    PATTERNS
        .iter()
        .map(|pattern| {
            check(pattern.name)
                .must(Spec("exchange rule recommended-types"), pattern.rule)
                .sends(pattern.sends)
                .expects(pattern.expects)
                .run(async move |cx| {
                    keys_reach(
                        cx,
                        "topic",
                        pattern.bindings,
                        pattern.matching,
                        pattern.others,
                    )
                    .await
                })
        })
        .collect()
}

/// Arguments of a binding to a headers exchange, and messages that reach the queue or do not.
struct Match {
    name: &'static str,
    rule: &'static str,
    sends: &'static str,
    expects: &'static str,
    rabbitmq: bool,
    arguments: fn() -> Table<'static>,
    matching: fn() -> Vec<Table<'static>>,
    others: fn() -> Vec<Table<'static>>,
}

#[rustfmt::skip]
const MATCHES: &[Match] = &[
    Match {
        name: "routing.headers/all",
        rule: "with x-match all, every header of the binding must be there with its value; others do no harm",
        sends: "a binding with all, a 1, b x; messages with both, more, one, none, and another value",
        expects: "those with both",
        rabbitmq: false,
        arguments: || table! { "x-match" => "all", "a" => 1, "b" => "x" },
        matching: || vec![table! { "a" => 1, "b" => "x" }, table! { "b" => "x", "c" => true, "a" => 1 }],
        others: || vec![table! { "a" => 1 }, table! { "b" => "x" }, table! { "a" => 2, "b" => "x" }, table! {}],
    },
    Match {
        name: "routing.headers/any",
        rule: "with x-match any, one header of the binding with its value is enough",
        sends: "a binding with any, a 1, b x; messages with both, one, none, and other values",
        expects: "those with at least one",
        rabbitmq: false,
        arguments: || table! { "x-match" => "any", "a" => 1, "b" => "x" },
        matching: || vec![table! { "a" => 1, "b" => "x" }, table! { "a" => 1, "b" => "y" }, table! { "b" => "x" }],
        others: || vec![table! { "a" => 2, "b" => "y" }, table! { "c" => 1 }, table! {}],
    },
    Match {
        name: "routing.headers/all-is-the-default",
        rule: "without x-match, all headers must match",
        sends: "a binding with a 1, b x and no x-match; messages with both and with one",
        expects: "the one with both",
        rabbitmq: true,
        arguments: || table! { "a" => 1, "b" => "x" },
        matching: || vec![table! { "a" => 1, "b" => "x" }],
        others: || vec![table! { "a" => 1 }, table! { "b" => "x" }],
    },
    Match {
        name: "routing.headers/void-matches-any-value",
        rule: "a header of the binding without a value matches by being there",
        sends: "a binding with all and a void; messages with a of several values, and without it",
        expects: "those with a",
        rabbitmq: false,
        arguments: || table! { "x-match" => "all", "a" => Value::Void },
        matching: || vec![table! { "a" => 1 }, table! { "a" => "text" }],
        others: || vec![table! { "b" => 1 }, table! {}],
    },
    Match {
        name: "routing.headers/types-count",
        rule: "a value of another type is another value: \"1\" is not 1",
        sends: "a binding with all, a 1; messages with the number and with the text",
        expects: "the number alone",
        rabbitmq: false,
        arguments: || table! { "x-match" => "all", "a" => 1 },
        matching: || vec![table! { "a" => 1 }],
        others: || vec![table! { "a" => "1" }, table! { "a" => true }],
    },
    Match {
        name: "routing.headers/all-without-headers-matches-everything",
        rule: "a binding with all and no headers matches every message",
        sends: "a binding with all alone; messages with and without headers",
        expects: "all of them",
        rabbitmq: true,
        arguments: || table! { "x-match" => "all" },
        matching: || vec![table! { "a" => 1 }, table! {}],
        others: Vec::new,
    },
    Match {
        name: "routing.headers/x-headers-do-not-count",
        rule: "headers that begin with x- do not count with all and any",
        sends: "a binding with all, x-a 1, b 1; messages with b and another x-a",
        expects: "whatever has b 1",
        rabbitmq: true,
        arguments: || table! { "x-match" => "all", "x-a" => 1, "b" => 1 },
        matching: || vec![table! { "x-a" => 2, "b" => 1 }, table! { "b" => 1 }],
        others: || vec![table! { "x-a" => 1 }],
    },
    Match {
        name: "routing.headers/all-with-x",
        rule: "with x-match all-with-x, headers that begin with x- count too",
        sends: "a binding with all-with-x, x-a 1, b 1; messages with both and with one",
        expects: "the one with both",
        rabbitmq: true,
        arguments: || table! { "x-match" => "all-with-x", "x-a" => 1, "b" => 1 },
        matching: || vec![table! { "x-a" => 1, "b" => 1 }],
        others: || vec![table! { "x-a" => 2, "b" => 1 }, table! { "b" => 1 }],
    },
    Match {
        name: "routing.headers/any-with-x",
        rule: "with x-match any-with-x, headers that begin with x- count too",
        sends: "a binding with any-with-x, x-a 1, b 1; messages with one, and with none",
        expects: "those with one",
        rabbitmq: true,
        arguments: || table! { "x-match" => "any-with-x", "x-a" => 1, "b" => 1 },
        matching: || vec![table! { "x-a" => 1 }, table! { "b" => 1 }],
        others: || vec![table! { "x-a" => 2, "b" => 2 }, table! {}],
    },
];

async fn headers_reach(cx: &Context, case: &Match) -> Result<(), Failure> {
    let (mut client, exchange, queue) = bound(cx, "headers", &[]).await?;
    let bind = queue::Bind {
        queue: queue.clone(),
        exchange: exchange.clone(),
        arguments: (case.arguments)(),
        ..Default::default()
    };
    client.call::<queue::BindOk>(1, bind).await?;
    let matching = (case.matching)();
    let messages = (case.others)()
        .into_iter()
        .map(|it| (it, "other".to_owned()));
    let expected: Vec<String> = (1..=matching.len())
        .map(|it| format!("match {it}"))
        .collect();
    for (headers, body) in messages.chain(matching.into_iter().zip(expected.clone())) {
        let publish = basic::Publish {
            exchange: exchange.clone(),
            ..Default::default()
        };
        let properties = Properties {
            headers: Some(headers.into()),
            ..Properties::EMPTY
        };
        client
            .send_content(1, publish, &properties, body.as_bytes())
            .await?;
    }
    let bodies = client.drain(1, &queue).await?;
    ensure_eq("messages that arrived", &bodies, &expected)
}

fn headers() -> Vec<Check> {
    let mut checks: Vec<Check> = MATCHES
        .iter()
        .map(|case| {
            let check = check(case.name);
            let check = match case.rabbitmq {
                true => check.rabbitmq("Exchanges, Headers Exchange", case.rule),
                false => check.must(Spec("exchange rule recommended-types"), case.rule),
            };
            check
                .sends(case.sends)
                .expects(case.expects)
                .run(async move |cx| headers_reach(cx, case).await)
        })
        .collect();
    checks.push(
        check("routing.headers/unknown-match-refused")
            .rabbitmq(
                "Exchanges, Headers Exchange",
                "an x-match that is none of those known is refused: 406",
            )
            .sends("queue.bind to a headers exchange with x-match some")
            .expects("channel.close 406")
            .run(async |cx| {
                let (mut client, exchange, queue) = bound(cx, "headers", &[]).await?;
                let bind = queue::Bind {
                    queue,
                    exchange,
                    arguments: table! { "x-match" => "some" },
                    ..Default::default()
                };
                client.send(1, bind).await?;
                let code = amqp_codec::ReplyCode::PRECONDITION_FAILED;
                client.expect_channel_error(1, code).await.map(drop)
            }),
    );
    checks.push(
        check("routing/deleted-exchange-is-404")
            .must(
                Spec("basic.publish.exchange rule must-exist"),
                "a publish to an exchange that was deleted is refused as one to any that does not exist: 404",
            )
            .sends("exchange.delete, then basic.publish to it")
            .expects("channel.close 404")
            .run(async |cx| {
                let (mut client, exchange, _) = bound(cx, "direct", &["key"]).await?;
                let delete = exchange::Delete {
                    exchange: exchange.clone(),
                    ..Default::default()
                };
                client.call::<exchange::DeleteOk>(1, delete).await?;
                client.publish(1, &exchange, "key", "body").await?;
                let code = amqp_codec::ReplyCode::NOT_FOUND;
                client.expect_channel_error(1, code).await.map(drop)
            }),
    );
    checks
}
