//! Messages of many frames.

use amqp_client::codec::{frame, short};
use amqp_client::{Consume, Message, Outcome};
use amqp_tests::Broker;
use amqp_tests::proxy::Span;
use bytes::Bytes;
use futures_util::future::join_all;

use crate::support::{channel, confirm_channel, connect_through, declare, poll_once, soon};

on_each_broker!(ten_mebibytes_there_and_back);

const SIZE: usize = 10 << 20;

/// Bytes among which none that is lost, doubled or moved goes unnoticed.
fn body(seed: u32) -> Bytes {
    let mut state = seed;
    let words = (0..SIZE / 4).flat_map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()
    });
    words.collect()
}

async fn ten_mebibytes_there_and_back(broker: &'static Broker) {
    let vhost = broker.vhost("large").await;
    let (_proxy, link, connection) = connect_through(broker, &vhost, |options| options).await;
    declare(&connection, "large").await;
    declare(&connection, "small").await;
    let large = confirm_channel(&connection).await;
    let small = confirm_channel(&connection).await;

    // Two seconds for the large one. What another channel publishes after it does not wait for it.
    link.to_server()
        .change(|faults| faults.throttle(SIZE as u64 / 2));
    let sent = body(1);
    let mut on_its_way = large
        .try_publish("", "large", Message::new(sent.clone()))
        .unwrap();
    let pings: Vec<_> = (0..10)
        .map(|_| {
            small
                .try_publish("", "small", Message::new("ping"))
                .unwrap()
        })
        .collect();
    for outcome in soon("acks", join_all(pings)).await {
        assert_eq!(outcome, Outcome::Acked);
    }
    assert!(poll_once(&mut on_its_way).await.is_pending());
    assert_eq!(soon("an ack", on_its_way).await, Outcome::Acked);
    link.to_server().change(|_| Default::default());

    // In as many frames as it takes, and none too large.
    let number = large.id().number;
    let frames = link.to_server().frames();
    let of_large = |span: &&Span| span.kind == frame::BODY && span.channel == number;
    let bodies: Vec<_> = frames
        .iter()
        .filter(of_large)
        .map(|span| span.range.end - span.range.start)
        .collect();
    let frame_max = u64::from(connection.negotiated().unwrap().frame_max);
    assert_eq!(bodies.len() as u64, (SIZE as u64).div_ceil(frame_max - 8));
    assert!(bodies.iter().all(|size| *size <= frame_max));
    // The last of the small ones, and how much of the large one is before it.
    let last = frames
        .iter()
        .rposition(|span| span.channel == small.id().number);
    let before = frames[..last.unwrap()].iter().filter(of_large).count();
    assert!(
        before <= bodies.len() / 4,
        "{before} of {} frames before the last small one",
        bodies.len()
    );

    // And back, by get and by consume.
    let receiving = channel(&connection).await;
    let got = soon("the message", receiving.get("large", false)).await;
    let delivery = got.unwrap().expect("a message").delivery;
    assert!(delivery.body() == sent, "got another body");
    delivery.nack(true).unwrap();
    let mut consumer = receiving
        .consume(Consume::new(short!("large")))
        .await
        .unwrap();
    let delivery = soon("the message", consumer.next()).await;
    let delivery = delivery.unwrap().unwrap();
    assert!(delivery.redelivered());
    let (received, acker) = delivery.into_parts();
    assert!(received == sent, "got another body");
    acker.ack().unwrap();

    // Returned, it is the same, too.
    let message = Message::new(body(2)).mandatory();
    let confirm = large.publish("", "none", message.clone()).await.unwrap();
    match soon("an outcome", confirm).await {
        Outcome::Returned(returned) => assert!(returned.publication.message == message),
        other => panic!("{other:?}"),
    }
    connection.close().await.unwrap();
}
