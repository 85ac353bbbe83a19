//! The properties of a message, and what a broker itself makes of them.

use amqp_codec::basic::{self, Properties};
use amqp_codec::{Array, Limits, ReplyCode, ShortStr, Table, frame, queue, short, table};

use crate::check::Source::{Spec, Text};
use crate::{Check, Context, Failure, check, ensure_eq};

pub(super) fn checks() -> Vec<Check> {
    [relayed(), looked_at(), copies(), malformed()]
        .into_iter()
        .flatten()
        .collect()
}

/// What a message has to come back with.
async fn comes_back(cx: &Context, properties: &Properties<'static>) -> Result<(), Failure> {
    let queue = cx.name("relayed");
    let mut client = cx.open_channel().await?;
    client.declare_queue(1, &queue).await?;
    let publish = basic::Publish {
        routing_key: queue.clone(),
        ..Default::default()
    };
    client.send_content(1, publish, properties, b"body").await?;
    let got = client.get(1, &queue).await?;
    let got = got.ok_or_else(|| Failure::new("basic.get-ok", "basic.get-empty"))?;
    ensure_eq("properties", &got.properties, properties)
}

/// One property and a value of it.
struct Relayed {
    name: &'static str,
    sends: &'static str,
    properties: fn() -> Properties<'static>,
}

const LONGEST: ShortStr<'static> = {
    const OCTETS: [u8; 255] = [b'p'; 255];
    match core::str::from_utf8(&OCTETS) {
        Ok(text) => ShortStr::from_static(text),
        Err(_) => ShortStr::EMPTY,
    }
};

#[rustfmt::skip]
const RELAYED: &[Relayed] = &[
    Relayed {
        name: "properties/none",
        sends: "a message without any property",
        properties: || Properties::EMPTY,
    },
    Relayed {
        name: "properties/content-type",
        sends: "content-type application/json",
        properties: || Properties { content_type: Some(short!("application/json")), ..Properties::EMPTY },
    },
    Relayed {
        name: "properties/content-encoding",
        sends: "content-encoding gzip",
        properties: || Properties { content_encoding: Some(short!("gzip")), ..Properties::EMPTY },
    },
    Relayed {
        name: "properties/headers",
        sends: "headers with two entries",
        properties: || Properties { headers: Some(table! { "a" => 1, "b" => "x" }.into()), ..Properties::EMPTY },
    },
    Relayed {
        name: "properties/headers-empty",
        sends: "headers that are an empty table",
        properties: || Properties { headers: Some(table! {}.into()), ..Properties::EMPTY },
    },
    Relayed {
        name: "properties/delivery-mode-transient",
        sends: "delivery-mode 1",
        properties: || Properties { delivery_mode: Some(1), ..Properties::EMPTY },
    },
    Relayed {
        name: "properties/delivery-mode-persistent",
        sends: "delivery-mode 2",
        properties: || Properties { delivery_mode: Some(2), ..Properties::EMPTY },
    },
    Relayed {
        name: "properties/priority",
        sends: "priority 9",
        properties: || Properties { priority: Some(9), ..Properties::EMPTY },
    },
    Relayed {
        name: "properties/priority-zero",
        sends: "priority 0: there, and not the same as none",
        properties: || Properties { priority: Some(0), ..Properties::EMPTY },
    },
    Relayed {
        name: "properties/correlation-id",
        sends: "correlation-id with characters outside ASCII",
        properties: || Properties { correlation_id: Some(short!("ключ-17")), ..Properties::EMPTY },
    },
    Relayed {
        name: "properties/reply-to",
        sends: "reply-to",
        properties: || Properties { reply_to: Some(short!("answers")), ..Properties::EMPTY },
    },
    Relayed {
        name: "properties/expiration",
        sends: "expiration 600000",
        properties: || Properties { expiration: Some(short!("600000")), ..Properties::EMPTY },
    },
    Relayed {
        name: "properties/message-id",
        sends: "message-id",
        properties: || Properties { message_id: Some(short!("m-1")), ..Properties::EMPTY },
    },
    Relayed {
        name: "properties/timestamp",
        sends: "timestamp 1700000000",
        properties: || Properties { timestamp: Some(1_700_000_000), ..Properties::EMPTY },
    },
    Relayed {
        name: "properties/timestamp-largest",
        sends: "timestamp with all 64 bits set",
        properties: || Properties { timestamp: Some(u64::MAX), ..Properties::EMPTY },
    },
    Relayed {
        name: "properties/type",
        sends: "type",
        properties: || Properties { kind: Some(short!("order.created")), ..Properties::EMPTY },
    },
    Relayed {
        name: "properties/app-id",
        sends: "app-id",
        properties: || Properties { app_id: Some(short!("conformance")), ..Properties::EMPTY },
    },
    Relayed {
        name: "properties/cluster-id",
        sends: "cluster-id, which is reserved and means nothing",
        properties: || Properties { cluster_id: Some(short!("reserved")), ..Properties::EMPTY },
    },
    Relayed {
        name: "properties/255-octets",
        sends: "message-id, correlation-id and type of 255 octets each",
        properties: || Properties {
            message_id: Some(LONGEST),
            correlation_id: Some(LONGEST),
            kind: Some(LONGEST),
            ..Properties::EMPTY
        },
    },
    Relayed {
        name: "properties/empty-strings",
        sends: "content-type and message-id that are there and empty",
        properties: || Properties {
            content_type: Some(ShortStr::EMPTY),
            message_id: Some(ShortStr::EMPTY),
            ..Properties::EMPTY
        },
    },
    Relayed {
        name: "properties/all-at-once",
        sends: "every property but the user's name",
        properties: || Properties {
            content_type: Some(short!("text/plain")),
            content_encoding: Some(short!("identity")),
            headers: Some(table! { "a" => 1 }.into()),
            delivery_mode: Some(2),
            priority: Some(3),
            correlation_id: Some(short!("c-1")),
            reply_to: Some(short!("answers")),
            expiration: Some(short!("600000")),
            message_id: Some(short!("m-1")),
            timestamp: Some(1_700_000_000),
            kind: Some(short!("order.created")),
            user_id: None,
            app_id: Some(short!("conformance")),
            cluster_id: Some(short!("reserved")),
        },
    },
];

fn relayed() -> Vec<Check> {
    RELAYED
        .iter()
        .map(|case| {
            check(case.name)
                .must(
                    Text("4.2.6.1 The Content Header"),
                    "a server passes on the properties of a message as they are, those that are not there neither",
                )
                .sends(case.sends)
                .expects("basic.get-ok with the same properties, no more and no less")
                .run(async move |cx| comes_back(cx, &(case.properties)()).await)
        })
        .collect()
}

/// A publish with these properties must cost the channel: 406.
async fn refused(cx: &Context, properties: &Properties<'_>) -> Result<(), Failure> {
    let queue = cx.name("refused");
    let mut client = cx.open_channel().await?;
    client.open_channel(2).await?;
    client.declare_queue(2, &queue).await?;
    let publish = basic::Publish {
        routing_key: queue.clone(),
        ..Default::default()
    };
    client.send_content(1, publish, properties, b"body").await?;
    client
        .expect_channel_error(1, ReplyCode::PRECONDITION_FAILED)
        .await?;
    ensure_eq("messages left", &client.drain(2, &queue).await?.len(), &0)
}

fn looked_at() -> Vec<Check> {
    vec![
        check("properties/user-id-of-the-connection")
            .rabbitmq(
                "Validated User-ID",
                "a message may say the name of the user who publishes it",
            )
            .sends("user-id that is the connection's user")
            .expects("basic.get-ok with the same")
            .run(async |cx| {
                let user = ShortStr::try_from(cx.credentials().0.to_owned())?;
                comes_back(
                    cx,
                    &Properties {
                        user_id: Some(user),
                        ..Properties::EMPTY
                    },
                )
                .await
            }),
        check("properties/user-id-of-somebody-else-refused")
            .rabbitmq(
                "Validated User-ID",
                "a message that says the name of another user is refused: 406",
            )
            .sends("user-id that is not the connection's user")
            .expects("channel.close 406; the message is not routed")
            .run(async |cx| {
                let properties = Properties {
                    user_id: Some(short!("somebody-else")),
                    ..Properties::EMPTY
                };
                refused(cx, &properties).await
            }),
        check("properties/expiration-that-is-no-number-refused")
            .rabbitmq(
                "Time-To-Live and Expiration",
                "an expiration is a whole number of milliseconds in a string: 406",
            )
            .sends("expiration \"soon\"")
            .expects("channel.close 406; the message is not routed")
            .run(async |cx| {
                refused(
                    cx,
                    &Properties {
                        expiration: Some(short!("soon")),
                        ..Properties::EMPTY
                    },
                )
                .await
            }),
        check("properties/negative-expiration-refused")
            .rabbitmq(
                "Time-To-Live and Expiration",
                "an expiration is not negative: 406",
            )
            .sends("expiration \"-1\"")
            .expects("channel.close 406; the message is not routed")
            .run(async |cx| {
                refused(
                    cx,
                    &Properties {
                        expiration: Some(short!("-1")),
                        ..Properties::EMPTY
                    },
                )
                .await
            }),
        check("properties/delivery-mode-unknown")
            .silent(
                Spec("basic.delivery-mode"),
                "delivery-mode is 1 or 2; the specification is silent about others",
            )
            .sends("delivery-mode 7 to a queue; channel.flow")
            .expects("an answer; whether it is refused is observed")
            .run(async |cx| {
                let queue = cx.name("odd");
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                client.declare_queue(2, &queue).await?;
                let publish = basic::Publish {
                    routing_key: queue.clone(),
                    ..Default::default()
                };
                let properties = Properties {
                    delivery_mode: Some(7),
                    ..Properties::EMPTY
                };
                client
                    .send_content(1, publish, &properties, b"body")
                    .await?;
                client
                    .send(
                        1,
                        basic::Qos {
                            prefetch_count: 1,
                            ..Default::default()
                        },
                    )
                    .await?;
                let event = client.next_on(1).await;
                cx.observe(match event.found().as_str() {
                    "basic.qos-ok" => "accepted",
                    "channel.close 406" => "refused with 406",
                    _ => {
                        return Err(Failure::unexpected(
                            "basic.qos-ok or channel.close 406",
                            &event,
                        ));
                    }
                });
                client.barrier(2).await
            }),
    ]
}

/// The routing keys in a header, as the array that brokers expect.
fn keys(names: &[&ShortStr<'static>]) -> Array<'static> {
    let mut keys = Array::EMPTY;
    for name in names {
        keys.push((*name).clone());
    }
    keys
}

const SENDER: &str = "Sender-selected Distribution";

fn copies() -> Vec<Check> {
    vec![
        check("properties/cc-routes-further-copies")
            .rabbitmq(SENDER, "the keys in the header CC route a message as its own key does; CC stays in the message")
            .sends("a publish to one queue with CC of two others")
            .expects("a copy in each of the three, with CC in its headers")
            .run(async |cx| {
                let queues = [cx.name("to"), cx.name("cc"), cx.name("cc")];
                let mut client = cx.open_channel().await?;
                for queue in &queues {
                    client.declare_queue(1, queue).await?;
                }
                let mut headers = Table::EMPTY;
                headers.insert("CC", keys(&[&queues[1], &queues[2]]))?;
                let properties = Properties { headers: Some(headers.into()), ..Properties::EMPTY };
                let publish = basic::Publish { routing_key: queues[0].clone(), ..Default::default() };
                client.send_content(1, publish, &properties, b"copy").await?;
                for queue in &queues {
                    let got = client.get(1, queue).await?;
                    let got = got.ok_or_else(|| Failure::new("a copy", "basic.get-empty"))?;
                    let same = got.properties == properties;
                    ensure_eq("properties are the same", &same, &true)?;
                }
                Ok(())
            }),
        check("properties/bcc-routes-and-is-taken-out")
            .rabbitmq(SENDER, "the keys in the header BCC route a message too, and nobody who gets it sees them")
            .sends("a publish to one queue with BCC of another")
            .expects("a copy in both, without BCC in its headers")
            .run(async |cx| {
                let queues = [cx.name("to"), cx.name("bcc")];
                let mut client = cx.open_channel().await?;
                for queue in &queues {
                    client.declare_queue(1, queue).await?;
                }
                let mut headers = table! { "kept" => 1 };
                headers.insert("BCC", keys(&[&queues[1]]))?;
                let properties = Properties { headers: Some(headers.into()), ..Properties::EMPTY };
                let publish = basic::Publish { routing_key: queues[0].clone(), ..Default::default() };
                client.send_content(1, publish, &properties, b"copy").await?;
                for queue in &queues {
                    let got = client.get(1, queue).await?;
                    let got = got.ok_or_else(|| Failure::new("a copy", "basic.get-empty"))?;
                    let headers = got.properties.headers.unwrap_or_default();
                    let headers = headers.decode(&Limits::default()).unwrap_or_default();
                    let seen = (headers.contains_key("BCC"), headers.get_i64("kept"));
                    ensure_eq("BCC and the other header", &seen, &(false, Some(1)))?;
                }
                Ok(())
            }),
        check("properties/cc-that-is-no-array-refused")
            .rabbitmq(SENDER, "CC is an array of strings; anything else is a 406")
            .sends("a publish with CC that is a string")
            .expects("channel.close 406; the message is not routed")
            .run(async |cx| {
                let headers = table! { "CC" => "key" };
                refused(cx, &Properties { headers: Some(headers.into()), ..Properties::EMPTY }).await
            }),
    ]
}

/// A content header frame's payload: class basic, weight 0, an empty body, these flags and property octets.
fn header(flags: &[u16], properties: &[u8]) -> Vec<u8> {
    let mut payload = vec![0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for flags in flags {
        payload.extend(flags.to_be_bytes());
    }
    payload.extend(properties);
    payload
}

/// A publish whose content header has this payload must end the connection.
async fn ends_the_connection(cx: &Context, payload: &[u8]) -> Result<(), Failure> {
    let mut client = cx.open_channel().await?;
    client.send(1, basic::Publish::default()).await?;
    client.send_frame(frame::HEADER, 1, payload).await?;
    let codes = [ReplyCode::SYNTAX_ERROR, ReplyCode::FRAME_ERROR];
    client.expect_connection_error(codes).await.map(drop)
}

fn malformed() -> Vec<Check> {
    vec![
        check("properties/flag-without-value-refused")
            .must(
                Spec("constant syntax-error"),
                "a content header whose flags announce more than follows is malformed: 502, or 501",
            )
            .sends("a content header with the flag for content-type, and nothing after it")
            .expects("connection.close 502 or 501")
            .run(async |cx| ends_the_connection(cx, &header(&[0x8000], &[])).await),
        check("properties/octets-after-the-last-refused")
            .must(
                Spec("constant syntax-error"),
                "a content header with octets after its last property is malformed: 502, or 501",
            )
            .sends("a content header without flags, and three octets after them")
            .expects("connection.close 502 or 501")
            .run(async |cx| ends_the_connection(cx, &header(&[0], &[1, 2, 3])).await),
        check("properties/string-beyond-the-frame-refused")
            .must(
                Spec("constant syntax-error"),
                "a property that is longer than the frame is malformed: 502, or 501",
            )
            .sends("a content header with a content-type of 200 octets, of which 3 follow")
            .expects("connection.close 502 or 501")
            .run(async |cx| ends_the_connection(cx, &header(&[0x8000], b"\xc8abc")).await),
        check("properties/table-beyond-the-frame-refused")
            .must(
                Spec("constant syntax-error"),
                "headers that are longer than the frame are malformed: 502, or 501",
            )
            .sends("a content header with headers of 4 GiB, of which nothing follows")
            .expects("connection.close 502 or 501")
            .run(async |cx| ends_the_connection(cx, &header(&[0x2000], &[0xff; 4])).await),
        check("properties/body-size-decides-about-body-frames")
            .must(
                Text("4.2.6.1 The Content Header"),
                "a content whose header says 0 octets is complete without a body frame",
            )
            .sends("a publish and a content header with body size 0 to a queue; queue.purge")
            .expects("queue.purge-ok with 1")
            .run(async |cx| {
                let queue = cx.name("empty body");
                let mut client = cx.open_channel().await?;
                client.declare_queue(1, &queue).await?;
                let publish = basic::Publish {
                    routing_key: queue.clone(),
                    ..Default::default()
                };
                client.send(1, publish).await?;
                client
                    .send_frame(frame::HEADER, 1, &header(&[0], &[]))
                    .await?;
                let purge = queue::Purge {
                    queue,
                    ..Default::default()
                };
                let purged: queue::PurgeOk = client.call(1, purge).await?;
                ensure_eq("messages purged", &purged.message_count, &1)
            }),
    ]
}
