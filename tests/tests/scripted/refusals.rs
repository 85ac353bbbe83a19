//! What is refused here, because every broker would: nothing is sent, and the channel lives on. The live tests check
//! that a broker does refuse the same.

use std::time::Duration;

use amqp_client::codec::{Array, ReplyCode, basic, channel, exchange, queue, short, table};
use amqp_client::error::{Error, ErrorKind, NotSent, UsageError};
use amqp_client::{
    Channel, Consume, ExchangeDeclare, ExchangeKind, HeadersMatch, Message, Property, QueueDeclare,
    QueueDelete, QueueOverflow, QueueType, StreamOffset,
};

use super::support::{connected, plain_channel};

/// What a call that waits for an answer was refused with.
fn why<T: std::fmt::Debug>(result: Result<T, Error>) -> UsageError {
    let error = result.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Usage);
    let source = std::error::Error::source(&error).expect("the reason");
    source.downcast_ref::<UsageError>().expect("typed").clone()
}

fn long() -> String {
    "x".repeat(256)
}

fn is_too_long(error: UsageError) -> bool {
    matches!(error, UsageError::StringTooLong(too_long) if too_long.len == 256)
}

#[tokio::test(start_paused = true)]
async fn names() {
    let (mut peer, connection) = connected().await;
    let (channel, on) = plain_channel(&mut peer, &connection).await;
    let reserved = |name: &'static str| UsageError::ReservedName(name.try_into().unwrap());
    let exchange = |name: &'static str| ExchangeDeclare::new(name, ExchangeKind::Direct);

    let refused = why(channel.exchange_declare(exchange("amq.mine")).await);
    assert_eq!(refused, reserved("amq.mine"));
    let refused = channel.no_wait().exchange_declare(exchange("amq.mine"));
    assert_eq!(refused, Err(reserved("amq.mine")));
    let refused = why(channel.queue_declare(QueueDeclare::new("amq.mine")).await);
    assert_eq!(refused, reserved("amq.mine"));
    let refused = channel
        .no_wait()
        .queue_declare(QueueDeclare::new("amq.mine"));
    assert_eq!(refused, Err(reserved("amq.mine")));
    let refused = why(channel.exchange_delete("amq.direct", false).await);
    assert_eq!(refused, reserved("amq.direct"));

    for declare in [exchange(""), exchange("").passive()] {
        let refused = why(channel.exchange_declare(declare).await);
        assert_eq!(refused, UsageError::DefaultExchange);
    }
    let none = || table! {};
    let default = [
        why(channel.exchange_delete("", false).await),
        why(channel.exchange_bind("", "x", "k", none()).await),
        why(channel.exchange_bind("x", "", "k", none()).await),
        why(channel.exchange_unbind("", "x", "k", none()).await),
        why(channel.exchange_unbind("x", "", "k", none()).await),
        why(channel.queue_bind("q", "", "k", none()).await),
        why(channel.queue_unbind("q", "", "k", none()).await),
        channel.no_wait().exchange_delete("", false).unwrap_err(),
        channel
            .no_wait()
            .exchange_bind("", "x", "k", none())
            .unwrap_err(),
        channel
            .no_wait()
            .exchange_unbind("x", "", "k", none())
            .unwrap_err(),
        channel
            .no_wait()
            .queue_bind("q", "", "k", none())
            .unwrap_err(),
    ];
    assert!(
        default
            .iter()
            .all(|error| *error == UsageError::DefaultExchange)
    );

    // The rest of a chain of setters does not make it good.
    let declare = QueueDeclare::new(long()).durable().exclusive();
    assert!(is_too_long(why(channel.queue_declare(declare).await)));
    let declare = QueueDeclare::new("q").argument(long(), 1).durable();
    assert!(is_too_long(why(channel.queue_declare(declare).await)));
    let declare = QueueDeclare::new("q").dead_letter_exchange(long());
    assert!(is_too_long(why(channel.queue_declare(declare).await)));
    let declare = exchange("x").alternate_exchange(long());
    assert!(is_too_long(why(channel.exchange_declare(declare).await)));
    let delete = QueueDelete::new(long()).if_empty();
    assert!(is_too_long(why(channel.queue_delete(delete).await)));
    assert!(is_too_long(why(channel.queue_purge(long()).await)));
    assert!(is_too_long(why(channel
        .queue_bind("q", "x", long(), none())
        .await)));
    assert!(is_too_long(why(channel.get(long(), true).await)));
    let consumer = channel.consume(Consume::new("q").tag(long())).await;
    assert!(is_too_long(why(consumer.map(drop))));
    let text = channel.close_with(ReplyCode::REPLY_SUCCESS, long()).await;
    assert!(is_too_long(why(text)));

    peer.expect_silence(Duration::from_secs(1)).await;
    // What is not for the client to say goes out.
    let declare = ExchangeDeclare::new("amq.topic", ExchangeKind::Topic).durable();
    let declared = async {
        peer.reply::<exchange::Declare>(on, exchange::DeclareOk {})
            .await
    };
    let (result, _) = tokio::join!(channel.exchange_declare(declare), declared);
    result.unwrap();
    let passive = QueueDeclare::new("amq.gen-1").passive();
    let declared = peer.accept_queue(on);
    let (result, _) = tokio::join!(channel.queue_declare(passive), declared);
    assert_eq!(result.unwrap().name, "amq.gen-1");
}

#[tokio::test(start_paused = true)]
async fn arguments() {
    let (mut peer, connection) = connected().await;
    let (channel, on) = plain_channel(&mut peer, &connection).await;
    let queue = || QueueDeclare::new("q");
    let ten_years = Duration::from_secs(10 * 365 * 86_400);
    let beyond = ten_years + Duration::from_millis(1);
    let moment = Duration::from_micros(999);
    for (name, declare) in [
        ("x-message-ttl", queue().message_ttl(beyond)),
        ("x-message-ttl", queue().message_ttl(Duration::MAX)),
        ("x-expires", queue().expires(beyond)),
        ("x-expires", queue().expires(moment)),
        ("x-max-length", queue().max_length(1 << 63)),
        ("x-max-length-bytes", queue().max_length_bytes(u64::MAX)),
        ("x-max-priority", queue().max_priority(0)),
        ("x-consumer-timeout", queue().consumer_timeout(beyond)),
        ("x-max-age", queue().max_age(Duration::from_millis(999))),
        ("x-ratio", queue().argument("x-ratio", f64::NAN)),
        (
            "x-nested",
            queue().argument("x-nested", Array::from([1.0, f64::INFINITY])),
        ),
    ] {
        let refused = why(channel.queue_declare(declare.clone()).await);
        let expected = UsageError::InvalidArgument(name.try_into().unwrap());
        assert_eq!(refused, expected);
        assert_eq!(channel.no_wait().queue_declare(declare), Err(expected));
    }
    let nan = table! { "fine" => 1, "not" => f32::NAN };
    let refused = why(channel.queue_bind("q", "x", "", nan).await);
    assert_eq!(refused, UsageError::InvalidArgument(short!("not")));
    let offset = Consume::new("q").stream_offset(StreamOffset::Offset(1 << 63));
    let refused = why(channel.consume(offset).await.map(drop));
    assert_eq!(
        refused,
        UsageError::InvalidArgument(short!("x-stream-offset"))
    );
    let replies = Consume::new("amq.rabbitmq.reply-to");
    let refused = why(channel.consume(replies).await.map(drop));
    assert_eq!(refused, UsageError::ReplyToWithAcks);
    peer.expect_silence(Duration::from_secs(1)).await;

    // At their limits they are sent, as the broker expects them.
    let all = queue()
        .queue_type(QueueType::Classic)
        .message_ttl(ten_years)
        .expires(Duration::from_millis(1))
        .max_length(i64::MAX as u64)
        .max_length_bytes(0)
        .overflow(QueueOverflow::RejectPublishDlx)
        .dead_letter_exchange("")
        .dead_letter_routing_key("dead")
        .max_priority(255)
        .single_active_consumer()
        .delivery_limit(3)
        .lazy()
        .max_age(Duration::from_secs(90))
        // Said twice, the last counts.
        .argument("x-other", 1)
        .argument("x-other", 2);
    let (_, declared) = tokio::join!(channel.queue_declare(all), peer.accept_queue(on));
    let expected = table! {
        "x-queue-type" => "classic",
        "x-message-ttl" => 315_360_000_000_i64,
        "x-expires" => 1,
        "x-max-length" => i64::MAX,
        "x-max-length-bytes" => 0,
        "x-overflow" => "reject-publish-dlx",
        "x-dead-letter-exchange" => "",
        "x-dead-letter-routing-key" => "dead",
        "x-max-priority" => 255,
        "x-single-active-consumer" => true,
        "x-delivery-limit" => 3,
        "x-queue-mode" => "lazy",
        "x-max-age" => "90s",
        "x-other" => 2,
    };
    let sent = declared.arguments;
    assert_eq!(sent.len(), expected.len());
    for (name, value) in &expected {
        let (sent, number) = (sent.get(&name).expect("each is sent"), value.as_i64());
        match number {
            Some(_) => assert_eq!(sent.as_i64(), number, "{name}"),
            None => assert_eq!(sent, value, "{name}"),
        }
    }
}

#[test]
fn headers_to_match() {
    let arguments = HeadersMatch::AnyWithX.of(table! { "x-a" => 1, "b" => "c" });
    let expected = table! { "x-match" => "any-with-x", "x-a" => 1, "b" => "c" };
    assert_eq!(arguments, expected);
}

#[tokio::test(start_paused = true)]
async fn expirations_and_copies() {
    let (mut peer, connection) = connected().await;
    let (channel, _) = plain_channel(&mut peer, &connection).await;
    let message = || Message::new("m");
    let ten_years = "315360000000";
    for bad in [
        "",
        "abc",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1.5",
        "315360000001",
        "99999999999999999999",
    ] {
        let error = publish(&channel, message().expiration(bad)).await;
        assert_eq!(error, Err(Property::Expiration), "{bad:?}");
    }
    let forever = message().ttl(Duration::MAX);
    assert_eq!(publish(&channel, forever).await, Err(Property::Expiration));
    let copies = message().cc(["fine".to_owned(), long()]);
    assert_eq!(publish(&channel, copies).await, Err(Property::Headers));
    let copies = message().bcc([long()]);
    assert_eq!(publish(&channel, copies).await, Err(Property::Headers));
    peer.expect_silence(Duration::from_secs(1)).await;

    for good in ["0", "007", ten_years] {
        publish(&channel, message().expiration(good)).await.unwrap();
        let sent = peer.expect_publish().await.properties.expiration;
        assert_eq!(sent.unwrap(), good);
    }
    let copied = message().cc(["a", "b"]).bcc(["c"]).cc(["d"]);
    publish(&channel, copied).await.unwrap();
    let sent = peer.expect_publish().await.properties;
    let headers = sent.headers(&Default::default()).unwrap().unwrap();
    let expected = table! { "CC" => Array::from(["d"]), "BCC" => Array::from(["c"]) };
    assert!(headers.eq_as_map(&expected), "{headers:?}");
}

async fn publish(channel: &Channel, message: Message) -> Result<(), Property> {
    channel.publish("", "q", message).await.map_err(|error| {
        assert_eq!(error.publication.message.body(), "m");
        match error.reason {
            NotSent::Usage(UsageError::InvalidProperty(property)) => property,
            other => panic!("{other:?}"),
        }
    })
}

/// Each goes out at once with its bit set, in order, though an earlier call is unanswered.
#[tokio::test(start_paused = true)]
async fn methods_without_an_answer() {
    let (mut peer, connection) = connected().await;
    let (channel, on) = plain_channel(&mut peer, &connection).await;
    let none = || table! {};
    let unanswered = channel.queue_purge("other");
    let calls = async {
        peer.expect::<queue::Purge>(on).await;
        let no_wait = channel.no_wait();
        let exchange = ExchangeDeclare::new("x", ExchangeKind::Topic);
        no_wait.exchange_declare(exchange).unwrap();
        no_wait.queue_declare(QueueDeclare::new("q")).unwrap();
        no_wait.queue_bind("q", "x", "k", none()).unwrap();
        channel.publish("x", "k", Message::new("m")).await.unwrap();
        no_wait
            .exchange_bind("x", "amq.fanout", "k", none())
            .unwrap();
        no_wait
            .exchange_unbind("x", "amq.fanout", "k", none())
            .unwrap();
        no_wait.queue_purge("q").unwrap();
        let consume = Consume::new("q").tag("c");
        let mut consumer = no_wait.consume(consume.clone()).unwrap();
        let again = no_wait.consume(consume).map(drop);
        assert_eq!(again, Err(UsageError::ConsumerTagInUse(short!("c"))));
        let untagged = no_wait.consume(Consume::new("q")).map(drop);
        assert_eq!(untagged, Err(UsageError::NoConsumerTag));
        no_wait
            .queue_delete(QueueDelete::new("q").if_unused())
            .unwrap();
        no_wait.exchange_delete("x", true).unwrap();

        assert!(peer.expect::<exchange::Declare>(on).await.no_wait);
        assert!(peer.expect::<queue::Declare>(on).await.no_wait);
        assert!(peer.expect::<queue::Bind>(on).await.no_wait);
        assert_eq!(peer.expect_publish().await.body, "m");
        assert!(peer.expect::<exchange::Bind>(on).await.no_wait);
        assert!(peer.expect::<exchange::Unbind>(on).await.no_wait);
        assert!(peer.expect::<queue::Purge>(on).await.no_wait);
        assert!(peer.expect::<basic::Consume>(on).await.no_wait);
        let delete = peer.expect::<queue::Delete>(on).await;
        assert!(delete.no_wait && delete.if_unused && !delete.if_empty);
        let delete = peer.expect::<exchange::Delete>(on).await;
        assert!(delete.no_wait && delete.if_unused);

        // Its first message comes without further ado, and the answer is still the call's.
        peer.send_deliver(on, "c", 1, &Default::default(), b"d")
            .await;
        assert_eq!(consumer.next().await.unwrap().unwrap().body(), b"d");
        peer.send(on, queue::PurgeOk { message_count: 7 }).await;
        consumer.cancel_no_wait().unwrap();
        let ok = basic::CancelOk {
            consumer_tag: short!("c"),
        };
        let cancel = peer.reply::<basic::Cancel>(on, ok).await;
        assert!(!cancel.no_wait && cancel.consumer_tag == "c");
        assert!(consumer.next().await.is_none());
    };
    let (purged, ()) = tokio::join!(unanswered, calls);
    assert_eq!(purged.unwrap(), 7);
}

/// A refusal comes later, and ends what the call began.
#[tokio::test(start_paused = true)]
async fn a_refusal_without_an_answer() {
    let (mut peer, connection) = connected().await;
    let (channel, on) = plain_channel(&mut peer, &connection).await;
    let consume = Consume::new("none").tag("c");
    let mut consumer = channel.no_wait().consume(consume).unwrap();
    peer.expect::<basic::Consume>(on).await;
    let close = channel::Close {
        reply_code: ReplyCode::NOT_FOUND,
        reply_text: short!("NOT_FOUND - no queue"),
        class_id: 60,
        method_id: 20,
    };
    peer.send(on, close).await;
    let error = consumer.next().await.unwrap().unwrap_err();
    assert_eq!(error.0.code, ReplyCode::NOT_FOUND);
    assert_eq!(
        error.0.method.map(|id| id.to_string()),
        Some("basic.consume".to_owned())
    );
    let again = channel.no_wait().queue_purge("q").unwrap_err();
    assert!(
        matches!(again, UsageError::ChannelClosed(closed) if closed.code == ReplyCode::NOT_FOUND)
    );
}
