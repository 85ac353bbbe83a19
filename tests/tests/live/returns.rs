//! What no queue took: with its publish in confirm mode, on the stream of returns otherwise.

use amqp_client::codec::{ReplyCode, short, table};
use amqp_client::{
    ConfirmOptions, ExchangeDeclare, Followed, Match, Message, Outcome, QueueDeclare, Returned,
    Returns,
};
use amqp_tests::Broker;
use futures_util::StreamExt as _;

use crate::support::{
    channel, confirm_channel, confirm_channel_with, connect, declare, poll_once, raw, soon,
};

on_each_broker!(
    outside_confirm_mode,
    of_dropped_confirms,
    with_every_property_and_re_encoded_headers,
    of_equal_messages,
    what_prevents_a_return,
    more_than_anybody_reads,
);

async fn next(returns: &mut Returns) -> Returned {
    let next = soon("a return", returns.next()).await;
    next.expect("the channel is open").expect("none was missed")
}

async fn returned(outcome: Outcome) -> Returned {
    match outcome {
        Outcome::Returned(returned) => *returned,
        other => panic!("{other:?}"),
    }
}

async fn outside_confirm_mode(broker: &'static Broker) {
    let vhost = broker.vhost("returns").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    let channel = channel(&connection).await;
    let mut returns = channel.returns();
    let lost = |body: &'static str| Message::new(body).message_id(body).mandatory();
    channel.publish("", "none", lost("1")).await.unwrap();
    channel.publish("", "q", lost("2")).await.unwrap();
    channel
        .publish("", "none", Message::new("3"))
        .await
        .unwrap();
    channel
        .publish("amq.direct", "key", lost(""))
        .await
        .unwrap();

    let first = next(&mut returns).await;
    assert_eq!(first.code, ReplyCode::NO_ROUTE);
    assert_eq!(first.text, "NO_ROUTE");
    assert_eq!(first.publication.exchange, "");
    assert_eq!(first.publication.routing_key, "none");
    assert_eq!(first.publication.message.body(), "1");
    let id = &first.publication.message.properties().message_id;
    assert_eq!(id.as_ref().unwrap(), &"1");
    assert_eq!(
        (first.followed, first.matched),
        (Followed::Nothing, Match::None)
    );

    // The empty one has no body frame.
    let last = next(&mut returns).await;
    assert_eq!(last.publication.exchange, "amq.direct");
    assert_eq!(last.publication.routing_key, "key");
    assert_eq!(last.publication.message.body(), "");
    assert!(poll_once(returns.next()).await.is_pending());

    channel.close().await.unwrap();
    assert!(soon("the end", returns.next()).await.is_none());
    connection.close().await.unwrap();
}

async fn of_dropped_confirms(broker: &'static Broker) {
    let vhost = broker.vhost("returns").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    let channel = confirm_channel(&connection).await;
    let mut returns = channel.returns();
    let message = |body: &'static str| Message::new(body).mandatory();
    drop(channel.publish("", "none", message("1")).await.unwrap());
    let kept = channel.publish("", "none", message("2")).await.unwrap();
    drop(channel.publish("", "q", message("3")).await.unwrap());

    let dropped = next(&mut returns).await;
    assert_eq!(dropped.publication.message, message("1"));
    assert_eq!(
        (dropped.followed, dropped.matched),
        (Followed::Ack, Match::Unique)
    );
    // The other has its own, and it is there alone.
    let kept = returned(soon("an outcome", kept).await).await;
    assert_eq!(kept.publication.message, message("2"));
    let counts = channel
        .wait_for_confirms(std::time::Duration::from_secs(10))
        .await
        .unwrap();
    assert_eq!((counts.acked, counts.returned, counts.settled()), (1, 2, 3));
    assert!(poll_once(returns.next()).await.is_pending());
    connection.close().await.unwrap();
}

async fn with_every_property_and_re_encoded_headers(broker: &'static Broker) {
    let vhost = broker.vhost("returns").await;
    let connection = connect(&vhost.uri).await;
    let channel = confirm_channel(&connection).await;
    // 4.x sorts top-level keys; both strip BCC, which nobody is to see.
    let headers = table! {
        "zebra" => true,
        "alpha" => -1,
        "nested" => table! { "z" => 1.5, "a" => "text" },
        "long" => i64::MIN,
        "when" => amqp_client::codec::Value::Timestamp(1_700_000_000),
        "bytes" => &b"\xff\x00"[..],
    };
    let message = |body: &'static str| {
        Message::new(body)
            .content_type("application/json")
            .content_encoding("identity")
            .headers(headers.clone())
            .persistent()
            .priority(9)
            .correlation_id("correlation")
            .reply_to("reply")
            .expiration("60000")
            .message_id("id")
            .timestamp(1_700_000_000)
            .kind("kind")
            .user_id("guest")
            .app_id("app")
            .mandatory()
    };
    let bcc = |body: &'static str| {
        let none =
            amqp_client::codec::Array::from_iter([amqp_client::codec::Value::from("none-either")]);
        message(body).header("BCC", none)
    };
    let mut confirms = Vec::new();
    for message in [message("1"), bcc("2"), message("3"), bcc("4")] {
        let confirm = channel.publish("", "none", message.clone()).await.unwrap();
        confirms.push((message, confirm));
    }
    for (message, confirm) in confirms {
        let returned = returned(soon("an outcome", confirm).await).await;
        assert_eq!(returned.publication.message, message);
        assert_eq!(returned.code, ReplyCode::NO_ROUTE);
        assert_eq!(
            (returned.followed, returned.matched),
            (Followed::Ack, Match::Unique)
        );
    }
    connection.close().await.unwrap();
}

async fn of_equal_messages(broker: &'static Broker) {
    let vhost = broker.vhost("returns").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    for tagged in [false, true] {
        let options = ConfirmOptions::default().tag_returns(tagged);
        let channel = confirm_channel_with(&connection, options).await;
        let mut confirms = Vec::new();
        for _ in 0..50 {
            let equal = Message::new("equal").mandatory();
            confirms.push(channel.publish("", "none", equal.clone()).await.unwrap());
            let routed = channel.publish("", "q", equal).await.unwrap();
            assert_eq!(soon("an ack", routed).await, Outcome::Acked);
        }
        for confirm in confirms {
            let returned = returned(soon("an outcome", confirm).await).await;
            assert_eq!(returned.followed, Followed::Ack);
            match tagged {
                true => assert_eq!(returned.matched, Match::Header),
                false => assert!(matches!(returned.matched, Match::Order | Match::Unique)),
            }
            // What is given back is what was published, without the tag.
            assert_eq!(
                returned.publication.message,
                Message::new("equal").mandatory()
            );
        }
        channel.close().await.unwrap();
    }
    // Consumers see the tag, as documented.
    let mut raw = raw(broker.address(), &vhost).await;
    let messages = raw.drain(1, "q").await;
    assert_eq!(messages.len(), 100);
    for (at, message) in messages.iter().enumerate() {
        assert_eq!(message.properties.headers.is_some(), at >= 50);
    }
    connection.close().await.unwrap();
}

async fn what_prevents_a_return(broker: &'static Broker) {
    let vhost = broker.vhost("returns").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    let plain = channel(&connection).await;
    let declare = ExchangeDeclare::new(short!("unrouted"), short!("fanout"));
    plain.exchange_declare(declare).await.unwrap();
    let unrouted = QueueDeclare::new(short!("unrouted"));
    plain.queue_declare(unrouted).await.unwrap();
    let bind = plain
        .queue_bind("unrouted", "unrouted", "", table! {})
        .await;
    bind.unwrap();
    let with_alternate = ExchangeDeclare::new(short!("x"), short!("direct"))
        .argument(short!("alternate-exchange"), "unrouted");
    plain.exchange_declare(with_alternate).await.unwrap();

    let channel = confirm_channel(&connection).await;
    let message = || Message::new("m").mandatory();
    let alternate = channel.publish("x", "none", message()).await.unwrap();
    assert_eq!(soon("an ack", alternate).await, Outcome::Acked);
    let copies = amqp_client::codec::Array::from_iter([amqp_client::codec::Value::from("q")]);
    let copied = message().header("CC", copies);
    let copied = channel.publish("", "none", copied).await.unwrap();
    assert_eq!(soon("an ack", copied).await, Outcome::Acked);

    let mut raw = raw(broker.address(), &vhost).await;
    assert_eq!(raw.message_count(1, "unrouted").await, 1);
    assert_eq!(raw.message_count(1, "q").await, 1);
    connection.close().await.unwrap();
}

async fn more_than_anybody_reads(broker: &'static Broker) {
    let vhost = broker.vhost("returns").await;
    let connection = connect(&vhost.uri).await;
    let channel = channel(&connection).await;
    let mut returns = channel.returns();
    for number in 0..1_100_u32 {
        let message = Message::new(number.to_string()).mandatory();
        channel.publish("", "none", message).await.unwrap();
    }
    // A call on the same channel: all returns are here before its answer.
    channel.recover().await.unwrap();
    let missed = soon("how many", returns.next()).await.unwrap().unwrap_err();
    assert_eq!(missed.0, 76);
    for number in 76..1_100_u32 {
        let returned = next(&mut returns).await;
        assert_eq!(returned.publication.message.body(), &number.to_string());
    }
    connection.close().await.unwrap();
}
