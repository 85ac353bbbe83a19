//! Every method and argument that has a call of its own: that it does what it says, and that the broker refuses what is
//! refused here.

use std::time::Duration;

use amqp_client::codec::basic::Properties;
use amqp_client::codec::{
    MethodFields, ReplyCode, ShortStr, Table, Value, basic, connection, exchange, queue, short,
    table,
};
use amqp_client::error::ErrorKind;
use amqp_client::{
    Channel, Connection, Consume, Consumer, Delivery, ExchangeDeclare, ExchangeKind, HeadersMatch,
    Message, Outcome, QueueDeclare, QueueDelete, QueueInfo, QueueOverflow, QueueType, StreamOffset,
};
use amqp_tests::broker::Vhost;
use amqp_tests::{Broker, RawClient};

use crate::support::{channel, confirm_channel, connect, declare, name, raw, soon, until, word};

on_each_broker!(
    times_to_live_and_dead_letters,
    full_queues,
    priorities,
    alternate_exchanges,
    copies,
    exchanges_bound_to_exchanges,
    headers_exchanges,
    consumer_priorities,
    single_active_consumers,
    queues_that_go_by_themselves,
    delivery_limits,
    streams,
    methods_without_an_answer,
    refusals_without_an_answer,
    what_is_refused_here_is_refused_there,
    a_consumer_tag_used_twice,
    direct_reply_to,
);

async fn next(consumer: &mut Consumer) -> Delivery {
    let delivery = soon("a delivery", consumer.next()).await;
    delivery.expect("the consumer goes on").unwrap()
}

async fn queue(channel: &Channel, declare: QueueDeclare) -> QueueInfo {
    soon("a queue", channel.queue_declare(declare))
        .await
        .unwrap()
}

/// What became of a message.
async fn publish(
    connection: &Connection,
    exchange: &str,
    key: &str,
    message: Message,
) -> &'static str {
    let channel = confirm_channel(connection).await;
    let confirm = channel.publish(name(exchange), name(key), message).await;
    let outcome = soon("an outcome", confirm.unwrap()).await;
    channel.close().await.unwrap();
    word(&outcome)
}

/// What is in a queue, taken out.
async fn bodies(raw: &mut RawClient, queue: &str) -> Vec<String> {
    let got = raw.drain(1, queue).await;
    got.iter()
        .map(|got| String::from_utf8(got.body.to_vec()).unwrap())
        .collect()
}

async fn until_there_are(raw: &mut RawClient, queue: &str, count: u32) {
    until("messages in the queue", async || {
        raw.message_count(1, queue).await == count
    })
    .await;
}

async fn times_to_live_and_dead_letters(broker: &'static Broker) {
    let vhost = broker.vhost("methods").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    let mut raw = raw(broker.address(), &vhost).await;
    declare(&connection, "dead").await;
    let letters = |declare: QueueDeclare| {
        declare
            .dead_letter_exchange("")
            .dead_letter_routing_key("dead")
    };
    queue(
        &channel,
        letters(QueueDeclare::new("brief").message_ttl(Duration::from_millis(50))),
    )
    .await;
    queue(&channel, letters(QueueDeclare::new("patient"))).await;

    publish(&connection, "", "brief", Message::new("by the queue")).await;
    until_there_are(&mut raw, "dead", 1).await;
    let expired = raw.get(1, "dead").await.unwrap();
    let headers = expired
        .properties
        .headers(&Default::default())
        .unwrap()
        .unwrap();
    assert_eq!(headers.get_str("x-first-death-reason"), Some("expired"));
    assert_eq!(headers.get_str("x-first-death-queue"), Some("brief"));

    let moment = Message::new("by itself").ttl(Duration::from_millis(50));
    publish(&connection, "", "patient", moment).await;
    until_there_are(&mut raw, "dead", 1).await;
    assert_eq!(bodies(&mut raw, "dead").await, ["by itself"]);

    publish(&connection, "", "patient", Message::new("rejected")).await;
    let got = channel.get("patient", false).await.unwrap().unwrap();
    got.delivery.reject(false).unwrap();
    until_there_are(&mut raw, "dead", 1).await;
    assert_eq!(bodies(&mut raw, "dead").await, ["rejected"]);

    // The longest time that the client sends is one that the broker takes.
    let ten_years = Duration::from_secs(10 * 365 * 86_400);
    let lasting = QueueDeclare::new("lasting")
        .message_ttl(ten_years)
        .expires(ten_years);
    queue(&channel, lasting).await;
    connection.close().await.unwrap();
}

async fn full_queues(broker: &'static Broker) {
    let vhost = broker.vhost("methods").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    let mut raw = raw(broker.address(), &vhost).await;
    declare(&connection, "dead").await;
    let letters = |declare: QueueDeclare| {
        declare
            .dead_letter_exchange("")
            .dead_letter_routing_key("dead")
    };
    for (queue_name, overflow, outcome, kept, dead) in [
        (
            "drops",
            QueueOverflow::DropHead,
            "acked",
            "two",
            vec!["one"],
        ),
        (
            "rejects",
            QueueOverflow::RejectPublish,
            "nacked",
            "one",
            vec![],
        ),
        (
            "buries",
            QueueOverflow::RejectPublishDlx,
            "nacked",
            "one",
            vec!["two"],
        ),
    ] {
        let declare = QueueDeclare::new(queue_name)
            .max_length(1)
            .overflow(overflow);
        queue(&channel, letters(declare)).await;
        assert_eq!(
            publish(&connection, "", queue_name, Message::new("one")).await,
            "acked"
        );
        assert_eq!(
            publish(&connection, "", queue_name, Message::new("two")).await,
            outcome
        );
        until_there_are(&mut raw, "dead", dead.len() as u32).await;
        assert_eq!(bodies(&mut raw, queue_name).await, [kept], "{overflow:?}");
        assert_eq!(bodies(&mut raw, "dead").await, dead, "{overflow:?}");
    }
    let declare = QueueDeclare::new("bytes").max_length_bytes(5);
    queue(&channel, declare).await;
    for body in ["abcd", "efgh"] {
        assert_eq!(
            publish(&connection, "", "bytes", Message::new(body)).await,
            "acked"
        );
    }
    assert_eq!(bodies(&mut raw, "bytes").await, ["efgh"]);
    connection.close().await.unwrap();
}

async fn priorities(broker: &'static Broker) {
    let vhost = broker.vhost("methods").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    let mut raw = raw(broker.address(), &vhost).await;
    queue(&channel, QueueDeclare::new("q").max_priority(5)).await;
    for (body, priority) in [("low", 1), ("high", 5), ("middle", 3), ("as high", 200)] {
        publish(&connection, "", "q", Message::new(body).priority(priority)).await;
    }
    publish(&connection, "", "q", Message::new("none")).await;
    let expected = ["high", "as high", "middle", "low", "none"];
    assert_eq!(bodies(&mut raw, "q").await, expected);
    connection.close().await.unwrap();
}

async fn alternate_exchanges(broker: &'static Broker) {
    let vhost = broker.vhost("methods").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    let mut raw = raw(broker.address(), &vhost).await;
    queue(&channel, QueueDeclare::new("unrouted")).await;
    let unrouted = ExchangeDeclare::new("unrouted", ExchangeKind::Fanout);
    channel.exchange_declare(unrouted).await.unwrap();
    let bound = channel.queue_bind("unrouted", "unrouted", "", table! {});
    bound.await.unwrap();
    let orders = ExchangeDeclare::new("orders", ExchangeKind::Topic).alternate_exchange("unrouted");
    channel.exchange_declare(orders).await.unwrap();
    let stray = Message::new("stray").mandatory();
    assert_eq!(publish(&connection, "orders", "none", stray).await, "acked");
    assert_eq!(bodies(&mut raw, "unrouted").await, ["stray"]);
    connection.close().await.unwrap();
}

async fn copies(broker: &'static Broker) {
    let vhost = broker.vhost("methods").await;
    let connection = connect(&vhost.uri).await;
    let mut raw = raw(broker.address(), &vhost).await;
    for queue in ["to", "copy", "blind"] {
        declare(&connection, queue).await;
    }
    let message = Message::new("m").cc(["copy"]).bcc(["blind".to_owned()]);
    assert_eq!(publish(&connection, "", "to", message).await, "acked");
    for queue in ["to", "copy", "blind"] {
        let got = raw.drain(1, queue).await;
        assert_eq!(got.len(), 1, "{queue}");
        let headers = got[0]
            .properties
            .headers(&Default::default())
            .unwrap()
            .unwrap();
        let seen: Vec<_> = headers
            .get_array("CC")
            .unwrap()
            .iter()
            .map(Value::into_owned)
            .collect();
        assert_eq!(seen, [Value::from("copy")]);
        assert!(!headers.contains_key("BCC"), "{queue}");
    }
    connection.close().await.unwrap();
}

async fn exchanges_bound_to_exchanges(broker: &'static Broker) {
    let vhost = broker.vhost("methods").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    let mut raw = raw(broker.address(), &vhost).await;
    queue(&channel, QueueDeclare::new("q")).await;
    let inner = ExchangeDeclare::new("inner", ExchangeKind::Fanout).internal();
    channel.exchange_declare(inner).await.unwrap();
    channel
        .queue_bind("q", "inner", "", table! {})
        .await
        .unwrap();
    let bound = channel.exchange_bind("inner", "amq.topic", "order.#", table! {});
    bound.await.unwrap();
    for key in ["order.new", "invoice.new"] {
        publish(
            &connection,
            "amq.topic",
            key,
            Message::new(name(key).to_string()),
        )
        .await;
    }
    assert_eq!(bodies(&mut raw, "q").await, ["order.new"]);
    let unbound = channel.exchange_unbind("inner", "amq.topic", "order.#", table! {});
    unbound.await.unwrap();
    publish(&connection, "amq.topic", "order.new", Message::new("late")).await;
    assert_eq!(raw.message_count(1, "q").await, 0);
    connection.close().await.unwrap();
}

async fn headers_exchanges(broker: &'static Broker) {
    let vhost = broker.vhost("methods").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    let mut raw = raw(broker.address(), &vhost).await;
    let headers = || table! { "colour" => "red", "x-size" => 3 };
    for (queue_name, how, both, colour, size) in [
        ("all", HeadersMatch::All, 1, 1, 0),
        ("any", HeadersMatch::Any, 1, 1, 0),
        ("all with x", HeadersMatch::AllWithX, 1, 0, 0),
        ("any with x", HeadersMatch::AnyWithX, 1, 1, 1),
    ] {
        queue(&channel, QueueDeclare::new(queue_name)).await;
        let bound = channel.queue_bind(queue_name, "amq.headers", "", how.of(headers()));
        bound.await.unwrap();
        let message = || Message::new("m");
        for (message, expected) in [
            (message().headers(headers()), both),
            (message().header("colour", "red"), colour),
            (message().header("x-size", 3), size),
        ] {
            publish(&connection, "amq.headers", "", message.clone()).await;
            let got = raw.drain(1, queue_name).await.len();
            assert_eq!(got, expected, "{how:?}, {:?}", message.properties());
        }
    }
    connection.close().await.unwrap();
}

async fn consumer_priorities(broker: &'static Broker) {
    let vhost = broker.vhost("methods").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    queue(&channel, QueueDeclare::new("q")).await;
    channel.qos(1, false).await.unwrap();
    let ordinary = Consume::new("q");
    let mut second = channel.consume(ordinary.clone()).await.unwrap();
    let mut third = channel.consume(ordinary.priority(-1)).await.unwrap();
    let mut first = channel
        .consume(Consume::new("q").priority(10))
        .await
        .unwrap();
    for body in ["1", "2", "3"] {
        publish(&connection, "", "q", Message::new(body)).await;
    }
    // Each takes one, and then no more.
    let deliveries = [
        next(&mut first).await,
        next(&mut second).await,
        next(&mut third).await,
    ];
    let order = deliveries
        .each_ref()
        .map(|delivery| delivery.body().to_vec());
    assert_eq!(order, [b"1", b"2", b"3"]);
    connection.close().await.unwrap();
}

async fn single_active_consumers(broker: &'static Broker) {
    let vhost = broker.vhost("methods").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    queue(&channel, QueueDeclare::new("q").single_active_consumer()).await;
    let mut active = channel.consume(Consume::new("q").no_ack()).await.unwrap();
    let mut waiting = channel.consume(Consume::new("q").no_ack()).await.unwrap();
    for body in ["1", "2", "3"] {
        publish(&connection, "", "q", Message::new(body)).await;
        assert_eq!(next(&mut active).await.body(), body.as_bytes());
    }
    active.cancel().await.unwrap();
    publish(&connection, "", "q", Message::new("4")).await;
    assert_eq!(next(&mut waiting).await.body(), b"4");
    connection.close().await.unwrap();
}

async fn queues_that_go_by_themselves(broker: &'static Broker) {
    let vhost = broker.vhost("methods").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    let generated = queue(&channel, QueueDeclare::new("").exclusive())
        .await
        .name;
    assert!(generated.as_bytes().starts_with(b"amq.gen"), "{generated}");
    queue(&channel, QueueDeclare::new("auto").auto_delete()).await;
    queue(
        &channel,
        QueueDeclare::new("unused").expires(Duration::from_millis(100)),
    )
    .await;

    let other = connect(&vhost.uri).await;
    assert_eq!(
        missing(&other, generated.clone()).await,
        Some(ReplyCode::RESOURCE_LOCKED)
    );
    assert_eq!(missing(&other, short!("auto")).await, None);
    let mut consumer = channel.consume(Consume::new("auto")).await.unwrap();
    consumer.cancel().await.unwrap();
    assert_eq!(
        missing(&other, short!("auto")).await,
        Some(ReplyCode::NOT_FOUND)
    );
    // Being asked for is use: not so often that it stays.
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    assert_eq!(
        missing(&other, short!("unused")).await,
        Some(ReplyCode::NOT_FOUND)
    );
    connection.close().await.unwrap();
    until("the exclusive queue is gone", async || {
        missing(&other, generated.clone()).await == Some(ReplyCode::NOT_FOUND)
    })
    .await;
    other.close().await.unwrap();
}

/// The code with which a queue is not found; `None` if it is.
async fn missing(connection: &Connection, queue: ShortStr<'static>) -> Option<ReplyCode> {
    let channel = channel(connection).await;
    let passive = QueueDeclare::new(queue).passive();
    let error = soon("an answer", channel.queue_declare(passive))
        .await
        .err()?;
    error.closed().map(|closed| closed.code)
}

async fn delivery_limits(broker: &'static Broker) {
    let vhost = broker.vhost("methods").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    declare(&connection, "dead").await;
    let quorum = QueueDeclare::new("q")
        .durable()
        .queue_type(QueueType::Quorum)
        .delivery_limit(1)
        .dead_letter_exchange("")
        .dead_letter_routing_key("dead");
    queue(&channel, quorum).await;
    publish(&connection, "", "q", Message::new("poison")).await;
    let mut consumer = channel.consume(Consume::new("q")).await.unwrap();
    for redelivered in [false, true] {
        let delivery = next(&mut consumer).await;
        assert_eq!(delivery.redelivered(), redelivered);
        delivery.nack(true).unwrap();
    }
    let mut raw = raw(broker.address(), &vhost).await;
    until_there_are(&mut raw, "dead", 1).await;
    connection.close().await.unwrap();
}

async fn streams(broker: &'static Broker) {
    let vhost = broker.vhost("methods").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    let stream = QueueDeclare::new("s")
        .durable()
        .queue_type(QueueType::Stream)
        .max_age(Duration::from_secs(3_600))
        .max_length_bytes(1 << 20);
    queue(&channel, stream).await;
    for body in ["0", "1", "2"] {
        assert_eq!(
            publish(&connection, "", "s", Message::new(body)).await,
            "acked"
        );
    }
    channel.qos(10, false).await.unwrap();
    for (offset, first) in [
        (StreamOffset::First, "0"),
        (StreamOffset::Offset(1), "1"),
        (StreamOffset::Timestamp(0), "0"),
    ] {
        let consume = Consume::new("s").stream_offset(offset);
        let mut consumer = channel.consume(consume).await.unwrap();
        let delivery = next(&mut consumer).await;
        assert_eq!(delivery.body(), first.as_bytes(), "{offset:?}");
        delivery.ack().unwrap();
        consumer.cancel().await.unwrap();
    }
    let consume = Consume::new("s").stream_offset(StreamOffset::Next);
    let mut consumer = channel.consume(consume).await.unwrap();
    publish(&connection, "", "s", Message::new("3")).await;
    assert_eq!(next(&mut consumer).await.body(), b"3");
    connection.close().await.unwrap();
}

/// All in one go; the answer to the last call says that each has taken effect.
async fn methods_without_an_answer(broker: &'static Broker) {
    let vhost = broker.vhost("methods").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    let no_wait = channel.no_wait();
    let exchange = |name| ExchangeDeclare::new(name, ExchangeKind::Fanout);
    let passive = |name| QueueDeclare::new(name).passive();

    no_wait.exchange_declare(exchange("x")).unwrap();
    no_wait.exchange_declare(exchange("y")).unwrap();
    no_wait.exchange_bind("y", "x", "", table! {}).unwrap();
    no_wait.queue_declare(QueueDeclare::new("q")).unwrap();
    no_wait.queue_bind("q", "y", "", table! {}).unwrap();
    channel
        .publish("x", "", Message::new("routed"))
        .await
        .unwrap();
    no_wait.exchange_unbind("y", "x", "", table! {}).unwrap();
    channel
        .publish("x", "", Message::new("too late"))
        .await
        .unwrap();
    // A queue may count before it takes what came first.
    until("one message in the queue", async || {
        queue(&channel, passive("q")).await.message_count == 1
    })
    .await;

    let mut consumer = no_wait.consume(Consume::new("q").tag("mine")).unwrap();
    assert_eq!(consumer.tag(), &"mine");
    let delivery = next(&mut consumer).await;
    assert_eq!(delivery.body(), b"routed");
    delivery.ack().unwrap();
    consumer.cancel_no_wait().unwrap();
    assert!(soon("the end", consumer.next()).await.is_none());
    assert!(!consumer.is_cancelled_by_server());
    assert_eq!(queue(&channel, passive("q")).await.consumer_count, 0);

    channel
        .publish("", "q", Message::new("purged"))
        .await
        .unwrap();
    no_wait.queue_purge("q").unwrap();
    assert_eq!(queue(&channel, passive("q")).await.message_count, 0);
    no_wait.queue_delete(QueueDelete::new("q")).unwrap();
    no_wait.exchange_delete("x", false).unwrap();
    no_wait.exchange_delete("y", false).unwrap();
    // Nothing of these was refused, and nothing is left.
    channel.qos(0, false).await.unwrap();
    assert_eq!(
        missing(&connection, short!("q")).await,
        Some(ReplyCode::NOT_FOUND)
    );
    for name in ["x", "y"] {
        let passive = exchange(name).passive();
        let error = self::channel(&connection)
            .await
            .exchange_declare(passive)
            .await;
        let error = error.unwrap_err();
        assert_eq!(error.closed().unwrap().code, ReplyCode::NOT_FOUND, "{name}");
    }
    connection.close().await.unwrap();
}

async fn refusals_without_an_answer(broker: &'static Broker) {
    let vhost = broker.vhost("methods").await;
    let connection = connect(&vhost.uri).await;
    // A passive declare closes the channel, even without an answer; the next call tells which.
    let asking = channel(&connection).await;
    asking
        .no_wait()
        .queue_declare(QueueDeclare::new("none").passive())
        .unwrap();
    let error = soon("an error", asking.qos(1, false)).await.unwrap_err();
    let closed = error.closed().expect("how it was closed");
    assert_eq!(closed.code, ReplyCode::NOT_FOUND, "{error}");
    assert_eq!(closed.method, Some(queue::Declare::ID));

    let consuming = channel(&connection).await;
    let consume = Consume::new("none").tag("c");
    let mut consumer = consuming.no_wait().consume(consume).unwrap();
    let error = soon("the end", consumer.next()).await.unwrap().unwrap_err();
    assert_eq!(error.0.code, ReplyCode::NOT_FOUND);
    assert_eq!(error.0.method, Some(basic::Consume::ID));
    assert!(connection.is_open());
    connection.close().await.unwrap();
}

/// The client refuses these before they are sent: in raw frames, the broker does.
async fn what_is_refused_here_is_refused_there(broker: &'static Broker) {
    let vhost = broker.vhost("methods").await;
    let reserved = short!("amq.mine");
    let declare = exchange::Declare {
        exchange: reserved.clone(),
        kind: short!("direct"),
        ..Default::default()
    };
    refuses(broker, &vhost, declare, ReplyCode::ACCESS_REFUSED).await;
    let declare = queue::Declare {
        queue: reserved,
        ..Default::default()
    };
    refuses(broker, &vhost, declare, ReplyCode::ACCESS_REFUSED).await;
    let delete = exchange::Delete {
        exchange: short!("amq.direct"),
        ..Default::default()
    };
    refuses(broker, &vhost, delete, ReplyCode::ACCESS_REFUSED).await;

    let kind = short!("direct");
    let declare = exchange::Declare {
        kind: kind.clone(),
        ..Default::default()
    };
    refuses(broker, &vhost, declare, ReplyCode::ACCESS_REFUSED).await;
    let declare = exchange::Declare {
        kind,
        passive: true,
        ..Default::default()
    };
    refuses(broker, &vhost, declare, ReplyCode::ACCESS_REFUSED).await;
    refuses(
        broker,
        &vhost,
        exchange::Delete::default(),
        ReplyCode::ACCESS_REFUSED,
    )
    .await;
    let bind = exchange::Bind {
        destination: short!("amq.topic"),
        ..Default::default()
    };
    refuses(broker, &vhost, bind, ReplyCode::ACCESS_REFUSED).await;
    let unbind = exchange::Unbind {
        source: short!("amq.topic"),
        ..Default::default()
    };
    refuses(broker, &vhost, unbind, ReplyCode::ACCESS_REFUSED).await;
    let mut raw = raw(broker.address(), &vhost).await;
    raw.declare(1, "q", Table::EMPTY).await;
    let bind = queue::Bind {
        queue: short!("q"),
        ..Default::default()
    };
    refuses(broker, &vhost, bind, ReplyCode::ACCESS_REFUSED).await;
    let unbind = queue::Unbind {
        queue: short!("q"),
        ..Default::default()
    };
    refuses(broker, &vhost, unbind, ReplyCode::ACCESS_REFUSED).await;

    let acking = basic::Consume {
        queue: short!("amq.rabbitmq.reply-to"),
        ..Default::default()
    };
    refuses(broker, &vhost, acking, ReplyCode::PRECONDITION_FAILED).await;
    for arguments in [
        table! { "x-message-ttl" => 315_360_000_001_i64 },
        table! { "x-expires" => 0 },
        table! { "x-expires" => 315_360_000_001_i64 },
    ] {
        let declare = queue::Declare {
            queue: short!("odd"),
            arguments,
            ..Default::default()
        };
        refuses(broker, &vhost, declare, ReplyCode::PRECONDITION_FAILED).await;
    }
    // What exists may be declared again, reserved or not.
    let again = exchange::Declare {
        exchange: short!("amq.topic"),
        kind: short!("topic"),
        durable: true,
        ..Default::default()
    };
    raw.call::<exchange::DeclareOk>(1, again).await;
    raw.close().await;
}

/// Refused here; in raw frames it is the connection's end.
async fn a_consumer_tag_used_twice(broker: &'static Broker) {
    let vhost = broker.vhost("methods").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    let channel = channel(&connection).await;
    let consume = || Consume::new("q").tag("c");
    let mut consumer = channel.consume(consume()).await.unwrap();
    let error = channel.consume(consume()).await.err().expect("a refusal");
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    // The tag is free when the first is cancelled, or its handle is gone.
    consumer.cancel().await.unwrap();
    let second = channel.consume(consume()).await.unwrap();
    drop(second);
    let mut third = channel.consume(consume()).await.unwrap();
    publish(&connection, "", "q", Message::new("m")).await;
    assert_eq!(next(&mut third).await.body(), b"m");
    connection.close().await.unwrap();

    let mut raw = raw(broker.address(), &vhost).await;
    let consume = || basic::Consume {
        queue: short!("q"),
        consumer_tag: short!("c"),
        ..Default::default()
    };
    raw.send(1, consume()).await;
    raw.send(1, consume()).await;
    let close = raw.skip_to::<connection::Close<'static>>(0).await;
    assert_eq!(close.reply_code, ReplyCode::NOT_ALLOWED, "{close:?}");
}

/// The broker closes the channel for this method.
async fn refuses(broker: &Broker, vhost: &Vhost, method: impl MethodFields, code: ReplyCode) {
    let what = id_of(&method);
    let mut raw = raw(broker.address(), vhost).await;
    raw.send(1, method).await;
    let close: amqp_client::codec::channel::Close<'static> = raw.expect(1).await;
    assert_eq!(close.reply_code, code, "{what}: {}", close.reply_text);
    raw.send(1, amqp_client::codec::channel::CloseOk {}).await;
    raw.close().await;
}

fn id_of<M: MethodFields>(_: &M) -> amqp_client::codec::MethodId {
    M::ID
}

async fn direct_reply_to(broker: &'static Broker) {
    let vhost = broker.vhost("methods").await;
    let (asking, answering) = (connect(&vhost.uri).await, connect(&vhost.uri).await);
    declare(&answering, "square").await;
    let server = async {
        let channel = channel(&answering).await;
        let mut requests = channel.consume(Consume::new("square")).await.unwrap();
        for _ in 0..3 {
            let request = next(&mut requests).await;
            let number: u32 = String::from_utf8_lossy(request.body()).parse().unwrap();
            let Properties {
                reply_to,
                correlation_id,
                ..
            } = request.properties();
            let reply = Message::new((number * number).to_string())
                .correlation_id(correlation_id.unwrap().into_owned());
            let to = reply_to.unwrap().into_owned();
            channel.publish("", to, reply).await.unwrap();
            request.ack().unwrap();
        }
        channel.close().await.unwrap();
    };
    let client = async {
        let channel = confirm_channel(&asking).await;
        let mut replies = channel.consume(Consume::direct_reply_to()).await.unwrap();
        for number in [2, 3, 4] {
            let request = Message::new(number.to_string())
                .reply_to(amqp_client::DIRECT_REPLY_TO)
                .correlation_id(format!("request {number}"))
                .mandatory();
            let confirm = channel.publish("", "square", request).await.unwrap();
            assert_eq!(soon("an ack", confirm).await, Outcome::Acked);
            let reply = next(&mut replies).await;
            assert_eq!(reply.body(), (number * number).to_string().as_bytes());
            assert_eq!(
                reply.properties().correlation_id.unwrap(),
                *format!("request {number}")
            );
        }
        channel.close().await.unwrap();
    };
    tokio::join!(server, client);
    asking.close().await.unwrap();
    answering.close().await.unwrap();
}
