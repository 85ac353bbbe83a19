//! Arguments of queues: all of them are RabbitMQ's.

use std::time::Duration;

use amqp_codec::basic::{self, Properties};
use amqp_codec::{ReplyCode, ShortStr, Table, Value, queue, short, table};

use crate::connection::Confirm;
use crate::event::Content;
use crate::{Check, Connection, Context, Failure, check, ensure, ensure_eq};

pub(super) fn checks() -> Vec<Check> {
    [
        expiry(),
        length(),
        dead_letters(),
        order(),
        kinds(),
        refused(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

const TTL: &str = "Time-To-Live and Expiration";
const LENGTH: &str = "Queue Length Limit";
const DEAD: &str = "Dead Letter Exchanges";

/// A queue, and another that gets what dies in it.
struct Dying {
    client: Connection,
    queue: ShortStr<'static>,
    dead: ShortStr<'static>,
}

/// A queue with these arguments; what dies in it goes to a queue of its own.
async fn dying(cx: &Context, mut arguments: Table<'static>) -> Result<Dying, Failure> {
    let (queue, dead) = (cx.name("dying"), cx.name("dead"));
    arguments.insert("x-dead-letter-exchange", "")?;
    arguments.insert("x-dead-letter-routing-key", dead.clone())?;
    let mut client = cx.open_channel().await?;
    client.declare_queue(1, &dead).await?;
    client.declare_queue_with(1, &queue, arguments).await?;
    Ok(Dying {
        client,
        queue,
        dead,
    })
}

/// The next dead letter, when it comes.
async fn dead_letter(dying: &mut Dying) -> Result<Content<basic::Deliver<'static>>, Failure> {
    dying.client.consume(1, &dying.dead, "dead", true).await?;
    dying.client.expect_delivery(1).await
}

/// The first entry of a dead letter's x-death.
fn first_death(letter: &Content<basic::Deliver<'static>>) -> Result<Table<'static>, Failure> {
    let missing = || Failure::new("x-death in the headers", "no x-death");
    let headers = letter.properties.headers.as_ref().ok_or_else(missing)?;
    let headers = headers
        .decode(&Default::default())
        .map_err(|error| missing().detail(error))?;
    let deaths = headers.get_array("x-death").ok_or_else(missing)?;
    match deaths.get(0) {
        Some(Value::Table(death)) => Ok(death.into_owned()),
        _ => Err(missing()),
    }
}

fn publish(routing_key: &ShortStr<'static>) -> basic::Publish<'static> {
    basic::Publish {
        routing_key: routing_key.clone(),
        ..Default::default()
    }
}

fn expiry() -> Vec<Check> {
    vec![
        check("queue.arguments/message-ttl-expires")
            .rabbitmq(TTL, "a message that lies longer than x-message-ttl in a queue is not delivered any more")
            .sends("a queue with x-message-ttl 100 and a dead letter exchange; a message; a wait for its dead letter; basic.get")
            .expects("the dead letter within a second, reason expired; basic.get-empty")
            .run(async |cx| {
                let mut dying = dying(cx, table! { "x-message-ttl" => 100 }).await?;
                let queue = dying.queue.clone();
                dying.client.publish(1, "", &queue, "late").await?;
                let letter = dead_letter(&mut dying).await?;
                ensure_eq("reason", &first_death(&letter)?.get_str("reason"), &Some("expired"))?;
                ensure_eq("body", &&letter.body[..], &&b"late"[..])?;
                ensure_eq("messages left", &dying.client.drain(1, &queue).await?.len(), &0)
            }),
        check("queue.arguments/message-ttl-zero-delivers-at-once-or-never")
            .rabbitmq(TTL, "with x-message-ttl 0, a message expires unless a consumer takes it at once")
            .sends("a queue with x-message-ttl 0; a message; then a consumer and another message")
            .expects("the second message alone")
            .run(async |cx| {
                let queue = cx.name("at once");
                let mut client = cx.open_channel().await?;
                client.declare_queue_with(1, &queue, table! { "x-message-ttl" => 0 }).await?;
                client.publish(1, "", &queue, "first").await?;
                ensure_eq("messages left", &client.drain(1, &queue).await?.len(), &0)?;
                client.consume(1, &queue, "only", true).await?;
                client.publish(1, "", &queue, "second").await?;
                let delivery = client.expect_delivery(1).await?;
                ensure_eq("body", &&delivery.body[..], &&b"second"[..])
            }),
        check("queue.arguments/expiration-of-a-message")
            .rabbitmq(TTL, "a message with an expiration expires by itself; its dead letter has none, so that it stays")
            .sends("a message with expiration 100 to a queue with a dead letter exchange")
            .expects("the dead letter within a second, without expiration, with original-expiration in x-death")
            .run(async |cx| {
                let mut dying = dying(cx, table! {}).await?;
                let properties = Properties { expiration: Some(short!("100")), ..Properties::EMPTY };
                let publish = publish(&dying.queue);
                dying.client.send_content(1, publish, &properties, b"late").await?;
                let letter = dead_letter(&mut dying).await?;
                ensure_eq("expiration", &letter.properties.expiration, &None)?;
                let death = first_death(&letter)?;
                ensure_eq("original-expiration", &death.get_str("original-expiration"), &Some("100"))
            }),
        check("queue.arguments/shorter-of-two-ttls-counts")
            .rabbitmq(TTL, "of a queue's x-message-ttl and a message's expiration the shorter counts")
            .sends("a queue with x-message-ttl of a minute; a message with expiration 100")
            .expects("the dead letter within a second")
            .run(async |cx| {
                let mut dying = dying(cx, table! { "x-message-ttl" => 60_000 }).await?;
                let properties = Properties { expiration: Some(short!("100")), ..Properties::EMPTY };
                let publish = publish(&dying.queue);
                dying.client.send_content(1, publish, &properties, b"late").await?;
                let letter = dead_letter(&mut dying).await?;
                ensure_eq("reason", &first_death(&letter)?.get_str("reason"), &Some("expired"))
            }),
        check("queue.arguments/expires-deletes-an-unused-queue")
            .rabbitmq(TTL, "a queue that is not used for x-expires milliseconds is deleted")
            .sends("a queue with x-expires 200 and a consumer on another queue; passively until it is gone")
            .expects("channel.close 404 within some seconds")
            .run(async |cx| {
                let queue = cx.queue("expiring");
                let mut client = cx.open_channel().await?;
                let declare = queue::Declare {
                    queue: queue.clone(),
                    arguments: table! { "x-expires" => 200 },
                    ..Default::default()
                };
                client.call::<queue::DeclareOk>(1, declare).await?;
                // Declaring it again, even passively, counts as use: each wait is longer than the time it has.
                for channel in 2..6 {
                    client.expect_silence(Duration::from_millis(600)).await?;
                    client.open_channel(channel).await?;
                    let passive = queue::Declare {
                        queue: queue.clone(),
                        passive: true,
                        ..Default::default()
                    };
                    client.send(channel, passive).await?;
                    let event = client.next_on(channel).await;
                    if event.found() == "channel.close 404" {
                        return Ok(());
                    }
                }
                Err(Failure::new("channel.close 404", "the queue is still there"))
            }),
    ]
}

fn length() -> Vec<Check> {
    vec![
        check("queue.arguments/max-length-drops-the-oldest")
            .rabbitmq(LENGTH, "a queue with x-max-length drops its oldest messages for new ones")
            .sends("a queue with x-max-length 2; three messages")
            .expects("the second and the third")
            .run(async |cx| {
                let queue = cx.name("short");
                let mut client = cx.open_channel().await?;
                client.declare_queue_with(1, &queue, table! { "x-max-length" => 2 }).await?;
                for body in ["first", "second", "third"] {
                    client.publish(1, "", &queue, body).await?;
                }
                ensure_eq("bodies", &client.drain(1, &queue).await?, &["second", "third"])
            }),
        check("queue.arguments/max-length-bytes-drops-the-oldest")
            .rabbitmq(LENGTH, "a queue with x-max-length-bytes drops its oldest messages for new ones; bodies count")
            .sends("a queue with x-max-length-bytes 10; three messages of 4 bytes")
            .expects("the second and the third")
            .run(async |cx| {
                let queue = cx.name("short");
                let mut client = cx.open_channel().await?;
                client.declare_queue_with(1, &queue, table! { "x-max-length-bytes" => 10 }).await?;
                for body in ["1111", "2222", "3333"] {
                    client.publish(1, "", &queue, body).await?;
                }
                ensure_eq("bodies", &client.drain(1, &queue).await?, &["2222", "3333"])
            }),
        check("queue.arguments/reject-publish-nacks")
            .rabbitmq(LENGTH, "with x-overflow reject-publish a full queue refuses new messages, and nacks them")
            .sends("a queue with x-max-length 1 and reject-publish; confirmed messages one after the other until one is nacked")
            .expects("the first acked, a later one nacked and not in the queue")
            .run(async |cx| {
                let queue = cx.name("full");
                let mut client = cx.open_channel().await?;
                let arguments = table! { "x-max-length" => 1, "x-overflow" => "reject-publish" };
                client.declare_queue_with(1, &queue, arguments).await?;
                client.confirm_select(1).await?;
                client.publish(1, "", &queue, "first").await?;
                client.expect_acks(1, 1).await?;
                client.publish(1, "", &queue, "second").await?;
                let confirms = client.expect_confirms_after(1, 1, 2).await?;
                ensure_eq("confirm of the second", &confirms.get(&2), &Some(&Confirm::Nack))?;
                ensure_eq("bodies", &client.drain(1, &queue).await?, &["first"])
            }),
    ]
}

fn dead_letters() -> Vec<Check> {
    vec![
        check("queue.arguments/dead-letter-of-the-rejected")
            .rabbitmq(DEAD, "a message rejected without requeue goes to the dead letter exchange, and x-death says why")
            .sends("a message with properties; basic.get; basic.reject without requeue")
            .expects("the same message, x-death with queue, reason rejected, count 1, exchange and routing keys")
            .run(async |cx| {
                let mut dying = dying(cx, table! {}).await?;
                let properties = Properties { message_id: Some(short!("m-1")), ..Properties::EMPTY };
                let publish = publish(&dying.queue);
                dying.client.send_content(1, publish, &properties, b"rejected").await?;
                let get = basic::Get { queue: dying.queue.clone(), ..Default::default() };
                let got = dying.client.get_with(1, get).await?;
                let got = got.ok_or_else(|| Failure::new("basic.get-ok", "basic.get-empty"))?;
                let delivery_tag = got.method.delivery_tag;
                dying.client.send(1, basic::Reject { delivery_tag, ..Default::default() }).await?;
                let letter = dead_letter(&mut dying).await?;
                ensure_eq("body", &&letter.body[..], &&b"rejected"[..])?;
                ensure_eq("message id", &letter.properties.message_id, &Some(short!("m-1")))?;
                let death = first_death(&letter)?;
                ensure_eq("reason", &death.get_str("reason"), &Some("rejected"))?;
                ensure_eq("count", &death.get_i64("count"), &Some(1))?;
                ensure_eq("exchange", &death.get_str("exchange"), &Some(""))?;
                let same = death.get_str("queue") == dying.queue.as_str().ok();
                ensure_eq("queue is the one it died in", &same, &true)?;
                let keys = death.get_array("routing-keys");
                let key = keys.and_then(|keys| keys.get(0).map(Value::into_owned));
                let same = key == Some(Value::from(dying.queue.clone()));
                ensure_eq("routing key is the one it was published with", &same, &true)
            }),
        check("queue.arguments/dead-letter-of-the-dropped")
            .rabbitmq(DEAD, "a message that a full queue drops goes to the dead letter exchange: reason maxlen")
            .sends("a queue with x-max-length 1; two messages")
            .expects("the first as a dead letter, reason maxlen; the second in the queue")
            .run(async |cx| {
                let mut dying = dying(cx, table! { "x-max-length" => 1 }).await?;
                let queue = dying.queue.clone();
                for body in ["first", "second"] {
                    dying.client.publish(1, "", &queue, body).await?;
                }
                let letter = dead_letter(&mut dying).await?;
                ensure_eq("body", &&letter.body[..], &&b"first"[..])?;
                ensure_eq("reason", &first_death(&letter)?.get_str("reason"), &Some("maxlen"))?;
                ensure_eq("bodies", &dying.client.drain(1, &queue).await?, &["second"])
            }),
        check("queue.arguments/dead-letter-keeps-its-key")
            .rabbitmq(DEAD, "without x-dead-letter-routing-key a dead letter keeps the routing keys it had")
            .sends("a queue whose dead letters go to a direct exchange; a message that is rejected")
            .expects("the dead letter in the queue bound by the message's own key")
            .run(async |cx| {
                let (exchange, queue, dead) = (cx.exchange("direct"), cx.name("dying"), cx.name("dead"));
                let mut client = cx.open_channel().await?;
                client.declare_exchange(1, &exchange, "direct").await?;
                let mut arguments = Table::EMPTY;
                arguments.insert("x-dead-letter-exchange", exchange.clone())?;
                client.declare_queue_with(1, &queue, arguments).await?;
                client.declare_queue(1, &dead).await?;
                client.bind_queue(1, &dead, &exchange, &queue).await?;
                client.publish(1, "", &queue, "dead").await?;
                let get = basic::Get { queue, ..Default::default() };
                let got = client.get_with(1, get).await?;
                let got = got.ok_or_else(|| Failure::new("basic.get-ok", "basic.get-empty"))?;
                let delivery_tag = got.method.delivery_tag;
                client.send(1, basic::Reject { delivery_tag, ..Default::default() }).await?;
                client.consume(1, &dead, "dead", true).await?;
                let letter = client.expect_delivery(1).await?;
                ensure_eq("body", &&letter.body[..], &&b"dead"[..])
            }),
        check("queue.arguments/dead-letter-key-without-exchange-refused")
            .rabbitmq(DEAD, "x-dead-letter-routing-key makes no sense without x-dead-letter-exchange: 406")
            .sends("queue.declare with x-dead-letter-routing-key alone")
            .expects("channel.close 406")
            .run(async |cx| {
                refuses(cx, table! { "x-dead-letter-routing-key" => "key" }).await
            }),
    ]
}

fn order() -> Vec<Check> {
    vec![
        check("queue.arguments/higher-priority-first")
            .rabbitmq("Priority Queues", "a queue with x-max-priority gives out messages of a higher priority first, equal ones in order")
            .sends("a queue with x-max-priority 5; messages with priority none, 1, 5, 1, 9; basic.get of each")
            .expects("5 and 9 (which counts as 5) in their order, 1 and 1, then the one without")
            .run(async |cx| {
                let queue = cx.name("ranked");
                let mut client = cx.open_channel().await?;
                client.declare_queue_with(1, &queue, table! { "x-max-priority" => 5 }).await?;
                let messages = [(None, "none"), (Some(1), "1 a"), (Some(5), "5"), (Some(1), "1 b"), (Some(9), "9")];
                for (priority, body) in messages {
                    let properties = Properties { priority, ..Properties::EMPTY };
                    client.send_content(1, publish(&queue), &properties, body.as_bytes()).await?;
                }
                let bodies = client.drain(1, &queue).await?;
                ensure_eq("bodies", &bodies, &["5", "9", "1 a", "1 b", "none"])
            }),
        check("queue.arguments/single-active-consumer")
            .rabbitmq("Consumers, Single Active Consumer", "one consumer at a time gets messages; the next one takes over when it is cancelled")
            .sends("a queue with x-single-active-consumer, two consumers, two messages; basic.cancel of the first, a message")
            .expects("both messages to the first, the third to the second")
            .run(async |cx| {
                let queue = cx.name("single");
                let mut client = cx.open_channel().await?;
                let arguments = table! { "x-single-active-consumer" => true };
                client.declare_queue_with(1, &queue, arguments).await?;
                for tag in ["one", "two"] {
                    client.consume(1, &queue, tag, true).await?;
                }
                for expected in ["one", "one", "two"] {
                    if expected == "two" {
                        let cancel = basic::Cancel { consumer_tag: short!("one"), ..Default::default() };
                        client.call::<basic::CancelOk>(1, cancel).await?;
                    }
                    client.publish(1, "", &queue, "body").await?;
                    let delivery = client.expect_delivery(1).await?;
                    ensure_eq("consumer", &delivery.method.consumer_tag, &expected)?;
                }
                Ok(())
            }),
    ]
}

/// A durable queue of this type that is deleted after the check.
async fn of_type(
    cx: &Context,
    client: &mut Connection,
    mut arguments: Table<'static>,
    kind: &str,
) -> Result<ShortStr<'static>, Failure> {
    let queue = cx.queue(kind);
    arguments.insert("x-queue-type", kind)?;
    let declare = queue::Declare {
        queue: queue.clone(),
        durable: true,
        arguments,
        ..Default::default()
    };
    client.call::<queue::DeclareOk>(1, declare).await?;
    Ok(queue)
}

fn kinds() -> Vec<Check> {
    vec![
        check("queue.arguments/type-classic")
            .rabbitmq("Queues", "x-queue-type classic is what a queue is without it")
            .sends("queue.declare with x-queue-type classic, then without")
            .expects("queue.declare-ok both times: they are equivalent")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let queue = of_type(cx, &mut client, table! {}, "classic").await?;
                let declare = queue::Declare { queue, durable: true, ..Default::default() };
                client.call::<queue::DeclareOk>(1, declare).await.map(drop)
            }),
        check("queue.arguments/quorum-counts-deliveries")
            .rabbitmq("Quorum Queues, Poison Message Handling", "a quorum queue counts failed deliveries in x-delivery-count and drops a message after x-delivery-limit of them")
            .sends("a quorum queue with x-delivery-limit 2; a message that is returned to it each time it comes")
            .expects("three deliveries: without a count or with 0, with 1, with 2; then none")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let queue = of_type(cx, &mut client, table! { "x-delivery-limit" => 2 }, "quorum").await?;
                client.confirm_select(1).await?;
                client.publish(1, "", &queue, "poison").await?;
                client.expect_acks(1, 1).await?;
                client.consume(1, &queue, "only", false).await?;
                for expected in 0..3 {
                    let delivery = client.expect_delivery(1).await?;
                    let headers = delivery.properties.headers.unwrap_or_default();
                    let headers = headers.decode(&Default::default()).unwrap_or_default();
                    let count = headers.get_i64("x-delivery-count").unwrap_or(0);
                    ensure_eq("x-delivery-count", &count, &expected)?;
                    let delivery_tag = delivery.method.delivery_tag;
                    client.send(1, basic::Reject { delivery_tag, requeue: true, ..Default::default() }).await?;
                }
                client.publish(1, "", &queue, "next").await?;
                loop {
                    // Its confirm and the next message come in either order; the poison message must not.
                    let event = client.next_on(1).await;
                    if let Some(delivery) = event.typed::<basic::Deliver>() {
                        let delivery = client.content_of(1, delivery).await?;
                        return ensure_eq("body", &&delivery.body[..], &&b"next"[..]);
                    }
                    if event.typed::<basic::Ack>().is_none() {
                        return Err(Failure::unexpected("basic.deliver or basic.ack", &event));
                    }
                }
            }),
        check("queue.arguments/stream-read-from-its-first")
            .rabbitmq("Streams", "a stream keeps its messages: consumers read it from where they say, and again")
            .sends("a stream with two confirmed messages; two consumers with x-stream-offset first, one after the other")
            .expects("both messages both times, with x-stream-offset 0 and 1")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let queue = of_type(cx, &mut client, table! {}, "stream").await?;
                client.confirm_select(1).await?;
                for body in ["0", "1"] {
                    client.publish(1, "", &queue, body).await?;
                }
                client.expect_acks(1, 2).await?;
                let qos = basic::Qos { prefetch_count: 10, ..Default::default() };
                client.call::<basic::QosOk>(1, qos).await?;
                for tag in [short!("one"), short!("two")] {
                    let consume = basic::Consume {
                        queue: queue.clone(),
                        consumer_tag: tag.clone(),
                        arguments: table! { "x-stream-offset" => "first" },
                        ..Default::default()
                    };
                    client.call::<basic::ConsumeOk>(1, consume).await?;
                    for expected in 0..2 {
                        let delivery = client.expect_delivery(1).await?;
                        let headers = delivery.properties.headers.unwrap_or_default();
                        let headers = headers.decode(&Default::default()).unwrap_or_default();
                        let offset = headers.get_i64("x-stream-offset");
                        ensure_eq("x-stream-offset", &offset, &Some(expected))?;
                        client.ack(1, delivery.method.delivery_tag, false).await?;
                    }
                    let cancel = basic::Cancel { consumer_tag: tag, ..Default::default() };
                    client.call::<basic::CancelOk>(1, cancel).await?;
                }
                Ok(())
            }),
        check("queue.arguments/stream-get-refused")
            .rabbitmq("Streams", "basic.get is not for streams: 540")
            .sends("basic.get from a stream")
            .expects("connection.close 540")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                let queue = of_type(cx, &mut client, table! {}, "stream").await?;
                client.send(1, basic::Get { queue, ..Default::default() }).await?;
                client.expect_connection_error(ReplyCode::NOT_IMPLEMENTED).await.map(drop)
            }),
    ]
}

/// queue.declare with these arguments must cost the channel: 406.
async fn refuses(cx: &Context, arguments: Table<'static>) -> Result<(), Failure> {
    let mut client = cx.open_channel().await?;
    let declare = queue::Declare {
        queue: cx.queue("refused"),
        durable: true,
        arguments,
        ..Default::default()
    };
    client.send(1, declare).await?;
    client
        .expect_channel_error(1, ReplyCode::PRECONDITION_FAILED)
        .await
        .map(drop)
}

/// A setting that no queue can have.
struct Refused {
    name: &'static str,
    document: &'static str,
    rule: &'static str,
    sends: &'static str,
    arguments: fn() -> Table<'static>,
}

#[rustfmt::skip]
const REFUSED: &[Refused] = &[
    Refused {
        name: "queue.arguments/negative-ttl-refused",
        document: TTL,
        rule: "x-message-ttl is not negative: 406",
        sends: "queue.declare with x-message-ttl -1",
        arguments: || table! { "x-message-ttl" => -1 },
    },
    Refused {
        name: "queue.arguments/ttl-in-a-string-refused",
        document: TTL,
        rule: "x-message-ttl is a number: 406",
        sends: "queue.declare with x-message-ttl \"1000\"",
        arguments: || table! { "x-message-ttl" => "1000" },
    },
    Refused {
        name: "queue.arguments/expires-zero-refused",
        document: TTL,
        rule: "x-expires is positive: 406",
        sends: "queue.declare with x-expires 0",
        arguments: || table! { "x-expires" => 0 },
    },
    Refused {
        name: "queue.arguments/negative-length-refused",
        document: LENGTH,
        rule: "x-max-length is not negative: 406",
        sends: "queue.declare with x-max-length -1",
        arguments: || table! { "x-max-length" => -1 },
    },
    Refused {
        name: "queue.arguments/unknown-overflow-refused",
        document: LENGTH,
        rule: "x-overflow is drop-head, reject-publish or reject-publish-dlx: 406",
        sends: "queue.declare with x-overflow drop-tail",
        arguments: || table! { "x-max-length" => 1, "x-overflow" => "drop-tail" },
    },
    Refused {
        name: "queue.arguments/priority-above-255-refused",
        document: "Priority Queues",
        rule: "x-max-priority is at most 255: 406",
        sends: "queue.declare with x-max-priority 256",
        arguments: || table! { "x-max-priority" => 256 },
    },
    Refused {
        name: "queue.arguments/unknown-type-refused",
        document: "Queues",
        rule: "x-queue-type is one of those the server has: 406",
        sends: "queue.declare with x-queue-type square",
        arguments: || table! { "x-queue-type" => "square" },
    },
];

fn refused() -> Vec<Check> {
    let mut checks: Vec<Check> = REFUSED
        .iter()
        .map(|case| {
            check(case.name)
                .rabbitmq(case.document, case.rule)
                .sends(case.sends)
                .expects("channel.close 406")
                .run(async move |cx| refuses(cx, (case.arguments)()).await)
        })
        .collect();
    checks.push(
        check("queue.arguments/quorum-exclusive-refused")
            .rabbitmq(
                "Quorum Queues",
                "a quorum queue can be neither exclusive nor transient: 406",
            )
            .sends("queue.declare with x-queue-type quorum, exclusive and durable; then transient")
            .expects("channel.close 406 both times")
            .run(async |cx| {
                let mut client = cx.open_channel().await?;
                client.open_channel(2).await?;
                for (channel, exclusive, durable) in [(1, true, true), (2, false, false)] {
                    let declare = queue::Declare {
                        queue: cx.queue("quorum"),
                        exclusive,
                        durable,
                        arguments: table! { "x-queue-type" => "quorum" },
                        ..Default::default()
                    };
                    client.send(channel, declare).await?;
                    client
                        .expect_channel_error(channel, ReplyCode::PRECONDITION_FAILED)
                        .await?;
                }
                Ok(())
            }),
    );
    checks.push(
        check("queue.arguments/unknown-ones-ignored")
            .must(
                crate::check::Source::Spec("queue.declare.arguments"),
                "arguments are up to the implementation; those it does not know do no harm",
            )
            .sends("queue.declare with x-no-such-argument of several types")
            .expects("queue.declare-ok; the queue works")
            .run(async |cx| {
                let queue = cx.name("odd");
                let mut client = cx.open_channel().await?;
                let arguments = table! {
                    "x-no-such-argument" => table! { "nested" => 1 },
                    "x-another" => "text",
                };
                client.declare_queue_with(1, &queue, arguments).await?;
                client.publish(1, "", &queue, "through").await?;
                let bodies = client.drain(1, &queue).await?;
                ensure(bodies == ["through"], "the message", "no message")
            }),
    );
    checks
}
