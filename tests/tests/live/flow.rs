//! How much is in flight, who waits, and for how long.

use std::time::{Duration, Instant};

use amqp_client::codec::MethodId;
use amqp_client::error::{ErrorKind, NotSent};
use amqp_client::{Confirm, ConfirmChannel, ConfirmOptions, Message, Outcome, UnknownReason};
use amqp_tests::Broker;
use amqp_tests::proxy::Link;
use futures_util::future::join_all;

use crate::support::{
    channel, confirm_channel, confirm_channel_with, connect, connect_through, declare,
    declare_full, drain, poll_once, raw, soon, until,
};

on_each_broker!(
    full_by_count,
    full_by_bytes,
    those_who_wait_are_served_in_order,
    the_bound_holds_against_a_broker_that_does_not_answer,
    a_socket_that_takes_nothing,
    confirms_that_come_too_late,
    wait_for_confirms,
    wait_for_confirms_while_others_publish,
);

fn numbered(number: u32) -> Message {
    Message::new(number.to_string())
}

fn try_publish(channel: &ConfirmChannel, message: Message) -> Confirm {
    channel.try_publish("", "q", message).unwrap()
}

async fn full_by_count(broker: &'static Broker) {
    let vhost = broker.vhost("flow").await;
    let (_proxy, link, connection) = connect_through(broker, &vhost, |options| options).await;
    declare(&connection, "q").await;
    let options = ConfirmOptions::default()
        .max_in_flight(10)
        .wait(Duration::from_millis(100));
    let channel = confirm_channel_with(&connection, options).await;
    link.to_client().hold();
    let confirms: Vec<_> = (0..10)
        .map(|number| try_publish(&channel, numbered(number)))
        .collect();
    let status = channel.status();
    assert_eq!(
        (status.in_flight, status.bytes_in_flight, status.last),
        (10, 10, 10)
    );

    let message = Message::new("too many").message_id("id").mandatory();
    let refused = channel
        .try_publish("", "q", message.clone())
        .expect_err("it is full");
    assert_eq!(refused.reason, NotSent::Full);
    assert_eq!(refused.publication.message, message);
    assert_eq!(refused.publication.routing_key, "q");
    // The same, after having waited.
    let began = Instant::now();
    let refused = soon("an answer", channel.publish("", "q", message.clone())).await;
    let refused = refused.expect_err("it stays full");
    assert_eq!(refused.reason, NotSent::Full);
    assert_eq!(refused.publication.message, message);
    assert!(began.elapsed() >= Duration::from_millis(100));
    assert_eq!(channel.status().in_flight, 10);

    link.to_client().release();
    for outcome in join_all(confirms).await {
        assert_eq!(outcome, Outcome::Acked);
    }
    // Room is back, without anybody having awaited anything else.
    let again = channel.publish_again(*refused.publication).await.unwrap();
    assert_eq!(again.sequence_number(), 11);
    assert_eq!(soon("an ack", again).await, Outcome::Acked);
    let mut raw = raw(broker.address(), &vhost).await;
    assert_eq!(raw.message_count(1, "q").await, 11);
    connection.close().await.unwrap();
}

async fn full_by_bytes(broker: &'static Broker) {
    let vhost = broker.vhost("flow").await;
    let (_proxy, link, connection) = connect_through(broker, &vhost, |options| options).await;
    declare(&connection, "q").await;
    let options = ConfirmOptions::default().max_bytes(1000);
    let channel = confirm_channel_with(&connection, options).await;
    let of_size = |size: usize| Message::new(vec![b'x'; size]);
    link.to_client().hold();
    let mut confirms = vec![
        try_publish(&channel, of_size(400)),
        try_publish(&channel, of_size(500)),
    ];
    let full = channel.try_publish("", "q", of_size(101)).unwrap_err();
    assert_eq!(full.reason, NotSent::Full);
    confirms.push(try_publish(&channel, of_size(100)));
    confirms.push(try_publish(&channel, of_size(0)));
    assert_eq!(channel.status().bytes_in_flight, 1000);
    link.to_client().release();
    for outcome in join_all(confirms).await {
        assert_eq!(outcome, Outcome::Acked);
    }
    // Larger than the whole bound: alone, it goes.
    link.to_client().hold();
    let large = try_publish(&channel, of_size(5000));
    let full = channel.try_publish("", "q", of_size(1)).unwrap_err();
    assert_eq!(full.reason, NotSent::Full);
    link.to_client().release();
    assert_eq!(soon("an ack", large).await, Outcome::Acked);
    connection.close().await.unwrap();
}

async fn those_who_wait_are_served_in_order(broker: &'static Broker) {
    let vhost = broker.vhost("flow").await;
    let (_proxy, link, connection) = connect_through(broker, &vhost, |options| options).await;
    declare(&connection, "q").await;
    let options = ConfirmOptions::default().max_in_flight(1);
    let channel = confirm_channel_with(&connection, options).await;
    link.to_client().hold();
    let first = try_publish(&channel, numbered(0));

    // Each in a task of its own; they queue in the order in which they are spawned.
    let mut waiting = Vec::new();
    for number in 1..=20 {
        let channel = channel.clone();
        waiting.push(tokio::spawn(async move {
            let confirm = channel.publish("", "q", numbered(number)).await.unwrap();
            let sequence = confirm.sequence_number();
            (sequence, confirm.await)
        }));
        tokio::task::yield_now().await;
    }
    // Some give up: nothing of theirs is sent, and nobody behind them waits longer for it.
    for gone in [1, 4, 5, 19] {
        waiting[gone].abort();
    }
    // Nobody overtakes those who wait.
    let full = channel.try_publish("", "q", numbered(99)).unwrap_err();
    assert_eq!(full.reason, NotSent::Full);

    link.to_client().release();
    assert_eq!(soon("an ack", first).await, Outcome::Acked);
    let mut sequences = Vec::new();
    for (at, waiting) in waiting.into_iter().enumerate() {
        match soon("an outcome", waiting).await {
            Ok((sequence, outcome)) => {
                assert_eq!(outcome, Outcome::Acked);
                sequences.push(sequence);
            }
            Err(error) => assert!(
                error.is_cancelled() && [1, 4, 5, 19].contains(&at),
                "{error}"
            ),
        }
    }
    assert_eq!(sequences, (2..=17).collect::<Vec<u64>>());
    let mut raw = raw(broker.address(), &vhost).await;
    let expected: Vec<_> = (0..=20)
        .filter(|number| ![2, 5, 6, 20].contains(number))
        .map(|number: u32| number.to_string())
        .collect();
    assert_eq!(drain(&mut raw, "q").await, expected);
    connection.close().await.unwrap();
}

fn publishes_passed(link: &Link) -> usize {
    let frames = link.to_server().frames();
    let publish = Some(MethodId::BASIC_PUBLISH);
    frames.iter().filter(|span| span.method == publish).count()
}

async fn the_bound_holds_against_a_broker_that_does_not_answer(broker: &'static Broker) {
    let vhost = broker.vhost("flow").await;
    let (_proxy, link, connection) = connect_through(broker, &vhost, |options| options).await;
    declare(&connection, "q").await;
    let options = ConfirmOptions::default().max_in_flight(16);
    let channel = confirm_channel_with(&connection, options).await;
    link.to_client().hold();
    let publishers: Vec<_> = (0..4)
        .map(|publisher| {
            let channel = channel.clone();
            tokio::spawn(async move {
                let mut confirms = Vec::new();
                for number in 0..100 {
                    let message = numbered(publisher * 100 + number);
                    confirms.push(channel.publish("", "q", message).await.unwrap());
                    assert!(channel.status().in_flight <= 16);
                }
                join_all(confirms).await
            })
        })
        .collect();
    let mut raw = raw(broker.address(), &vhost).await;
    until("the broker has what the bound allows", async || {
        raw.message_count(1, "q").await == 16
    })
    .await;
    // It has answered; its acks are held. Nothing more comes in the time in which all of it would have come.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(raw.message_count(1, "q").await, 16);
    assert_eq!(publishes_passed(&link), 16);
    assert_eq!(channel.status().in_flight, 16);
    assert!(publishers.iter().all(|publisher| !publisher.is_finished()));

    link.to_client().release();
    for publisher in publishers {
        let outcomes = soon("all outcomes", publisher).await.unwrap();
        assert!(outcomes.iter().all(Outcome::is_acked));
    }
    assert_eq!(raw.message_count(1, "q").await, 400);
    assert_eq!(channel.status().in_flight, 0);
    connection.close().await.unwrap();
}

async fn a_socket_that_takes_nothing(broker: &'static Broker) {
    let vhost = broker.vhost("flow").await;
    let (_proxy, link, connection) =
        connect_through(broker, &vhost, |options| options.outgoing_buffer(64 * 1024)).await;
    declare(&connection, "q").await;
    let plain = channel(&connection).await;
    let confirms = confirm_channel(&connection).await;
    link.to_server().hold();
    let large = Message::new(vec![b'x'; 32 * 1024]);
    let mut sent = 0;
    loop {
        let publish = plain.publish("", "q", large.clone());
        match tokio::time::timeout(Duration::from_millis(300), publish).await {
            Ok(result) => result.unwrap(),
            // Given up while it waited: nothing of it is sent.
            Err(_) => break,
        }
        sent += 1;
        assert!(sent < 2_000, "64 MiB, and nobody waits");
    }
    // The system's buffers, and ours once.
    assert!(sent >= 2, "{sent}");
    let full = confirms.try_publish("", "q", numbered(1)).unwrap_err();
    assert_eq!(full.reason, NotSent::Full);
    link.to_server().release();
    let last = soon("room", confirms.publish("", "q", numbered(2))).await;
    let outcome = soon("an ack", last.unwrap()).await;
    assert_eq!(outcome, Outcome::Acked);
    plain.close().await.unwrap();
    let mut raw = raw(broker.address(), &vhost).await;
    assert_eq!(raw.message_count(1, "q").await, sent + 1);
    connection.close().await.unwrap();
}

async fn confirms_that_come_too_late(broker: &'static Broker) {
    let vhost = broker.vhost("flow").await;
    let (_proxy, link, connection) = connect_through(broker, &vhost, |options| options).await;
    declare(&connection, "q").await;
    let options = ConfirmOptions::default()
        .max_in_flight(5)
        .timeout(Duration::from_millis(150));
    let channel = confirm_channel_with(&connection, options).await;
    let mut returns = channel.returns();
    link.to_client().hold();
    let mut confirms: Vec<_> = (0..4)
        .map(|number| try_publish(&channel, numbered(number)))
        .collect();
    let unroutable = Message::new("late return").mandatory();
    confirms.push(channel.try_publish("", "none", unroutable.clone()).unwrap());
    for (at, outcome) in soon("timeouts", join_all(confirms))
        .await
        .into_iter()
        .enumerate()
    {
        match outcome {
            Outcome::Unknown {
                publication,
                reason: UnknownReason::TimedOut,
            } => match at {
                4 => assert_eq!(publication.message, unroutable),
                _ => assert_eq!(publication.message.body(), &at.to_string()),
            },
            other => panic!("{other:?}"),
        }
    }
    // They keep their place, and no bytes.
    let status = channel.status();
    assert_eq!((status.in_flight, status.bytes_in_flight), (5, 0));
    assert_eq!(status.counts.unknown, 5);
    let full = channel.try_publish("", "q", numbered(9)).unwrap_err();
    assert_eq!(full.reason, NotSent::Full);

    link.to_client().release();
    // Late confirms make room and are counted; a late return goes to the stream of returns.
    until("all late confirms are in", async || {
        channel.status().in_flight == 0
    })
    .await;
    let counts = channel.status().counts;
    assert_eq!((counts.late, counts.settled(), counts.acked), (5, 5, 0));
    let returned = soon("the return", futures_util::StreamExt::next(&mut returns)).await;
    assert_eq!(returned.unwrap().unwrap().publication.message, unroutable);
    drop(try_publish(&channel, numbered(5)));
    connection.close().await.unwrap();
}

async fn wait_for_confirms(broker: &'static Broker) {
    let vhost = broker.vhost("flow").await;
    let (_proxy, link, connection) = connect_through(broker, &vhost, |options| options).await;
    declare(&connection, "q").await;
    declare_full(&connection, "full").await;
    let channel = confirm_channel(&connection).await;
    let deadline = Duration::from_secs(10);
    // With nothing to wait for.
    let counts = channel.wait_for_confirms(deadline).await.unwrap();
    assert_eq!(counts.settled(), 0);

    let mut confirms = Vec::new();
    for number in 0..100 {
        confirms.push(channel.publish("", "q", numbered(number)).await.unwrap());
    }
    for _ in 0..7 {
        let rejected = channel.publish("", "full", Message::new("x")).await;
        confirms.push(rejected.unwrap());
    }
    for _ in 0..5 {
        let lost = Message::new("x").mandatory();
        confirms.push(channel.publish("", "none", lost).await.unwrap());
    }
    let counts = channel.wait_for_confirms(deadline).await.unwrap();
    assert_eq!((counts.acked, counts.nacked, counts.returned), (100, 7, 5));
    assert!(!counts.all_acked());
    // All outcomes are there.
    for confirm in confirms {
        assert!(poll_once(confirm).await.is_ready());
    }

    // Each call tells what is new.
    let ten = (0..10).map(|number| try_publish(&channel, numbered(number)));
    let ten: Vec<_> = ten.collect();
    let counts = channel.wait_for_confirms(deadline).await.unwrap();
    assert_eq!((counts.acked, counts.settled()), (10, 10));
    assert!(counts.all_acked());
    drop(ten);

    // The deadline holds.
    link.to_client().hold();
    let held = try_publish(&channel, numbered(0));
    let error = channel
        .wait_for_confirms(Duration::from_millis(100))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    link.to_client().release();
    let counts = channel.wait_for_confirms(deadline).await.unwrap();
    assert_eq!((counts.acked, counts.settled()), (1, 1));
    assert_eq!(soon("an ack", held).await, Outcome::Acked);

    // Dropped confirms count, too.
    drop(try_publish(&channel, numbered(1)));
    let counts = channel.wait_for_confirms(deadline).await.unwrap();
    assert_eq!(counts.settled(), 1);
    // A channel that ends has settled all.
    let _lost = channel.publish("missing", "", numbered(1)).await.unwrap();
    let counts = soon("an end", channel.wait_for_confirms(deadline)).await;
    assert_eq!(counts.unwrap().unknown, 1);
    connection.close().await.unwrap();
}

async fn wait_for_confirms_while_others_publish(broker: &'static Broker) {
    let vhost = broker.vhost("flow").await;
    let connection = connect(&vhost.uri).await;
    declare(&connection, "q").await;
    let channel = confirm_channel(&connection).await;
    let others = {
        let channel = channel.clone();
        tokio::spawn(async move {
            // There is always something in flight.
            let mut before = None;
            for number in 0.. {
                let confirm = channel.publish("", "q", numbered(number)).await.unwrap();
                if let Some(before) = before.replace(confirm) {
                    assert_eq!(before.await, Outcome::Acked);
                }
            }
        })
    };
    for round in 0..20 {
        let mine: Vec<_> = (0..10)
            .map(|number| try_publish(&channel, numbered(number)))
            .collect();
        let waited = channel.wait_for_confirms(Duration::from_secs(10)).await;
        assert!(waited.unwrap().acked >= 10, "round {round}");
        for confirm in mine {
            assert!(poll_once(confirm).await.is_ready());
        }
    }
    assert!(!others.is_finished());
    others.abort();
    connection.close().await.unwrap();
}
