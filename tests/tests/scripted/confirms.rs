//! The orders in which brokers confirm and return (PROTOCOL.md 10 to 14): each publish ends as its own frames say,
//! whatever comes for others in between.

use amqp_client::codec::basic::Properties;
use amqp_client::codec::{ReplyCode, ShortStr, Table, Value, basic, table};
use amqp_client::proto::RETURN_TAG;
use amqp_client::{Confirm, ConfirmChannel, ConfirmOptions, Followed, Match, Message, Outcome};
use amqp_tests::peer::Publish;

use super::support::{
    MemoryPeer, confirming, confirming_with, mandatory, no_task_left, settle, word,
};

/// Publishes mandatory messages with these bodies, and has the peer read them.
async fn publish(
    peer: &mut MemoryPeer,
    channel: &ConfirmChannel,
    bodies: &[&str],
) -> (Vec<Confirm>, Vec<Publish>) {
    let mut confirms = Vec::new();
    let mut publishes = Vec::new();
    for body in bodies {
        let message = mandatory(*body);
        confirms.push(channel.publish("orders", "key", message).await.unwrap());
        publishes.push(peer.expect_publish().await);
    }
    (confirms, publishes)
}

async fn outcomes(confirms: Vec<Confirm>) -> Vec<Outcome> {
    futures_util::future::join_all(confirms).await
}

async fn still_open(confirm: &mut Confirm) -> bool {
    futures_util::future::poll_immediate(confirm)
        .await
        .is_none()
}

fn words(outcomes: &[Outcome]) -> Vec<&'static str> {
    outcomes.iter().map(word).collect()
}

/// The body that comes back with an outcome.
fn body(outcome: Outcome) -> String {
    let publication = outcome.into_publication().unwrap();
    String::from_utf8(publication.message.into_body().to_vec()).unwrap()
}

async fn return_it(peer: &mut MemoryPeer, publish: &Publish) {
    peer.send_return(publish, ReplyCode::NO_ROUTE, "NO_ROUTE")
        .await;
}

#[tokio::test(start_paused = true)]
async fn ack_multiple_over_nacked_tags_leaves_them_nacked() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let (confirms, _) = publish(&mut peer, &channel, &["1", "2", "3", "4", "5"]).await;
    peer.send_nack(on, 3, false).await;
    peer.send_nack(on, 1, false).await;
    peer.send_ack(on, 5, true).await;
    let outcomes = outcomes(confirms).await;
    assert_eq!(
        words(&outcomes),
        ["nacked", "acked", "nacked", "acked", "acked"]
    );
    assert_eq!(body(outcomes.into_iter().nth(2).unwrap()), "3");
    let counts = channel.status().counts;
    assert_eq!((counts.acked, counts.nacked), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn nack_multiple_over_acked_tags_leaves_them_acked() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let (confirms, _) = publish(&mut peer, &channel, &["1", "2", "3", "4", "5"]).await;
    peer.send_ack(on, 2, false).await;
    peer.send_ack(on, 4, false).await;
    peer.send_nack(on, 4, true).await;
    peer.send_ack(on, 5, true).await;
    let outcomes = outcomes(confirms).await;
    assert_eq!(
        words(&outcomes),
        ["nacked", "acked", "nacked", "acked", "acked"]
    );
    assert_eq!(body(outcomes.into_iter().next().unwrap()), "1");
}

#[tokio::test(start_paused = true)]
async fn ack_six_then_ack_through_five() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let (mut confirms, _) =
        publish(&mut peer, &channel, &["1", "2", "3", "4", "5", "6", "7"]).await;
    peer.send_ack(on, 6, false).await;
    let mut seventh = confirms.pop().unwrap();
    assert_eq!(confirms.pop().unwrap().await, Outcome::Acked);
    assert_eq!(channel.status().in_flight, 6);
    peer.send_ack(on, 5, true).await;
    assert_eq!(words(&outcomes(confirms).await), ["acked"; 5]);
    // Neither of the two said anything of 7.
    assert!(still_open(&mut seventh).await);
    assert_eq!(channel.status().in_flight, 1);
    // Tag 0 with multiple is everything outstanding.
    peer.send_ack(on, 0, true).await;
    assert_eq!(seventh.await, Outcome::Acked);
}

#[tokio::test(start_paused = true)]
async fn second_bit_of_the_nack_octet_is_not_multiple() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let (mut confirms, _) = publish(&mut peer, &channel, &["1", "2", "3"]).await;
    // 0x02: requeue is set, which means nothing here, and multiple is not.
    let nack = basic::Nack {
        delivery_tag: 2,
        requeue: true,
        ..Default::default()
    };
    peer.send(on, nack).await;
    let second = confirms.remove(1);
    assert_eq!(word(&second.await), "nacked");
    settle().await;
    assert_eq!(channel.status().in_flight, 2);
    // 0x03 is both.
    let nack = basic::Nack {
        delivery_tag: 3,
        multiple: true,
        requeue: true,
        ..Default::default()
    };
    peer.send(on, nack).await;
    assert_eq!(words(&outcomes(confirms).await), ["nacked", "nacked"]);
}

#[tokio::test(start_paused = true)]
async fn acks_of_others_between_a_return_and_its_own() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let bodies: Vec<String> = (1..=200).map(|n| n.to_string()).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    let (confirms, publishes) = publish(&mut peer, &channel, &bodies).await;
    // 150 comes back, then 180 single acks for others, lower and higher ones, then its own.
    return_it(&mut peer, &publishes[149]).await;
    for tag in (1..=200).filter(|tag| *tag != 150).take(180) {
        peer.send_ack(on, tag, false).await;
    }
    peer.send_ack(on, 150, false).await;
    peer.send_ack(on, 200, true).await;
    let outcomes = outcomes(confirms).await;
    for (index, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Outcome::Returned(returned) => {
                assert_eq!(index, 149);
                assert_eq!(returned.publication.message.body(), "150".as_bytes());
                assert_eq!(returned.followed, Followed::Ack);
                assert_eq!(returned.matched, Match::Unique);
                assert_eq!(
                    (returned.code, returned.text),
                    (ReplyCode::NO_ROUTE, ShortStr::try_from("NO_ROUTE").unwrap())
                );
                assert_eq!(returned.publication.exchange, "orders");
                assert_eq!(returned.publication.routing_key, "key");
            }
            outcome => assert_eq!((index == 149, outcome), (false, Outcome::Acked)),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn several_returns_before_one_ack_multiple() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let (confirms, publishes) = publish(&mut peer, &channel, &["1", "2", "3", "4", "5"]).await;
    for index in [0, 2, 3] {
        return_it(&mut peer, &publishes[index]).await;
    }
    peer.send_ack(on, 5, true).await;
    let outcomes = outcomes(confirms).await;
    assert_eq!(
        words(&outcomes),
        ["returned", "acked", "returned", "returned", "acked"]
    );
    let bodies: Vec<_> = outcomes
        .into_iter()
        .filter(|outcome| !outcome.is_acked())
        .map(body)
        .collect();
    assert_eq!(bodies, ["1", "3", "4"]);
}

#[tokio::test(start_paused = true)]
async fn return_then_nack_is_returned_and_says_so() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let (mut confirms, publishes) = publish(&mut peer, &channel, &["1", "2"]).await;
    return_it(&mut peer, &publishes[0]).await;
    peer.send_nack(on, 2, true).await;
    let second = confirms.pop().unwrap().await;
    let Outcome::Returned(first) = confirms.pop().unwrap().await else {
        panic!("it came back");
    };
    assert_eq!(first.followed, Followed::Nack);
    assert_eq!(body(second), "2");
    let counts = channel.status().counts;
    assert_eq!((counts.returned, counts.nacked), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn return_without_its_ack_is_returned_when_the_connection_goes() {
    let (mut peer, connection, channel, _) = confirming().await;
    let (confirms, publishes) = publish(&mut peer, &channel, &["1", "2"]).await;
    return_it(&mut peer, &publishes[1]).await;
    drop(peer);
    let outcomes = outcomes(confirms).await;
    assert_eq!(words(&outcomes), ["unknown", "returned"]);
    let Outcome::Returned(returned) = &outcomes[1] else {
        unreachable!()
    };
    assert_eq!(returned.followed, Followed::Nothing);
    drop((connection, channel, outcomes));
    no_task_left().await;
}

/// What RabbitMQ 4.x makes of headers: sorted, duplicates dropped, `L` as `l`, a bool of 2 as 1; BCC is gone.
#[tokio::test(start_paused = true)]
async fn returned_headers_that_were_encoded_anew_still_tell_the_publish() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let headers = |n: i64| -> Table<'static> {
        table! {
            "z" => n,
            "BCC" => Value::Array(["hidden"].into_iter().map(Value::from).collect()),
            "b" => true,
            "nested" => table! { "y" => 2i64, "x" => 1i64 },
            "a" => "text",
        }
    };
    let mut confirms = Vec::new();
    for n in 1..=3 {
        let message = mandatory("same").headers(headers(n));
        confirms.push(channel.publish("e", "k", message).await.unwrap());
    }
    let mut publishes = Vec::new();
    for _ in 1..=3 {
        publishes.push(peer.expect_publish().await);
    }
    // The same headers as 2 has, as another encoder writes them: name, tag and value by hand.
    let mut encoded = Vec::new();
    encoded.extend_from_slice(b"\x01aS\0\0\0\x04text");
    encoded.extend_from_slice(b"\x01bt\x02");
    encoded.extend_from_slice(b"\x06nestedF\0\0\0\x16");
    encoded.extend_from_slice(b"\x01yL\0\0\0\0\0\0\0\x02");
    encoded.extend_from_slice(b"\x01xl\0\0\0\0\0\0\0\x01");
    encoded.extend_from_slice(b"\x01zL\0\0\0\0\0\0\0\x02");
    // What an interceptor adds.
    encoded.extend_from_slice(b"\x0bx-routed-byS\0\0\0\x03rab");
    let mut returned = publishes[1].clone();
    returned.properties.headers =
        Some(amqp_client::codec::RawTable::from_bytes(&encoded).into_owned());
    return_it(&mut peer, &returned).await;
    peer.send_ack(on, 3, true).await;
    let outcomes = outcomes(confirms).await;
    assert_eq!(words(&outcomes), ["acked", "returned", "acked"]);
    let Outcome::Returned(returned) = outcomes.into_iter().nth(1).unwrap() else {
        unreachable!()
    };
    assert_eq!(returned.matched, Match::Unique);
    // What comes back to the caller is what was sent, BCC included.
    let expected = mandatory("same").headers(headers(2));
    assert_eq!(returned.publication.message, expected);
}

#[tokio::test(start_paused = true)]
async fn of_two_identical_publishes_the_first_after_the_last_return_is_taken() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let (confirms, publishes) = publish(&mut peer, &channel, &["a", "same", "same", "b"]).await;
    return_it(&mut peer, &publishes[1]).await;
    peer.send_ack(on, 4, true).await;
    let outcomes = outcomes(confirms).await;
    assert_eq!(words(&outcomes), ["acked", "returned", "acked", "acked"]);
    let Outcome::Returned(returned) = &outcomes[1] else {
        unreachable!()
    };
    assert_eq!(returned.matched, Match::Order);
}

#[tokio::test(start_paused = true)]
async fn tagged_returns_tell_identical_publishes_apart() {
    let options = ConfirmOptions::default().tag_returns(true);
    let (mut peer, _connection, channel, on) = confirming_with(options).await;
    let (confirms, publishes) = publish(&mut peer, &channel, &["same", "same", "same"]).await;
    let tag_of = |publish: &Publish| {
        let headers = publish.properties.headers.clone().unwrap();
        let headers = headers
            .decode(&amqp_client::codec::Limits::default())
            .unwrap();
        headers
            .get_str(RETURN_TAG.as_bytes())
            .map(str::to_owned)
            .unwrap()
    };
    assert_eq!(
        publishes.iter().map(tag_of).collect::<Vec<_>>(),
        ["1", "2", "3"]
    );
    // The second alone, though content alone would have said the first.
    return_it(&mut peer, &publishes[1]).await;
    peer.send_ack(on, 3, true).await;
    let outcomes = outcomes(confirms).await;
    assert_eq!(words(&outcomes), ["acked", "returned", "acked"]);
    let Outcome::Returned(returned) = outcomes.into_iter().nth(1).unwrap() else {
        unreachable!()
    };
    assert_eq!(returned.matched, Match::Header);
    // The caller's message has no header that the caller did not put there.
    assert_eq!(returned.publication.message, mandatory("same"));
}

#[tokio::test(start_paused = true)]
async fn returned_message_without_a_body_has_no_body_frame() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let (confirms, publishes) = publish(&mut peer, &channel, &["", "x"]).await;
    return_it(&mut peer, &publishes[0]).await;
    peer.send_ack(on, 1, false).await;
    peer.send_ack(on, 2, false).await;
    assert_eq!(words(&outcomes(confirms).await), ["returned", "acked"]);
}

/// A message that was not mandatory cannot come back: equal as it may be, the return is not its.
#[tokio::test(start_paused = true)]
async fn return_is_never_tied_to_a_publish_that_was_not_mandatory() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let plain = channel
        .publish("e", "k", Message::new("same"))
        .await
        .unwrap();
    let asked = channel.publish("e", "k", mandatory("same")).await.unwrap();
    let first = peer.expect_publish().await;
    peer.expect_publish().await;
    return_it(&mut peer, &first).await;
    peer.send_ack(on, 2, true).await;
    assert_eq!(plain.await, Outcome::Acked);
    assert_eq!(word(&asked.await), "returned");
}

#[tokio::test(start_paused = true)]
async fn one_tag_open_while_a_hundred_thousand_later_ones_settle() {
    let options = ConfirmOptions::default().timeout(None);
    let (mut peer, _connection, channel, on) = confirming_with(options).await;
    let (mut first, _) = publish(&mut peer, &channel, &["first"]).await;
    let mut last = 1;
    for _ in 0..1000 {
        let mut confirms = Vec::new();
        for _ in 0..100 {
            confirms.push(channel.publish("", "q", Message::new("x")).await.unwrap());
        }
        for _ in 0..100 {
            peer.expect_publish().await;
        }
        for tag in last + 1..=last + 100 {
            peer.send_ack(on, tag, false).await;
        }
        last += 100;
        assert!(outcomes(confirms).await.iter().all(Outcome::is_acked));
    }
    let status = channel.status();
    assert_eq!((status.in_flight, status.last), (1, 100_001));
    assert_eq!(status.counts.acked, 100_000);
    let mut first = first.pop().unwrap();
    assert!(still_open(&mut first).await);
    peer.send_nack(on, 1, false).await;
    assert_eq!(body(first.await), "first");
}

/// The headers that the client adds are not what tells publishes apart unless that was asked for.
#[tokio::test(start_paused = true)]
async fn nothing_is_added_to_a_message_that_was_not_asked_for() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let (confirms, publishes) = publish(&mut peer, &channel, &["1"]).await;
    assert_eq!(publishes[0].properties, Properties::EMPTY);
    assert_eq!(publishes[0].channel, on);
    peer.send_ack(on, 1, false).await;
    assert_eq!(words(&outcomes(confirms).await), ["acked"]);
}

/// Many tasks on several threads publish on one channel: each gets the outcome of its own message, whatever the order
/// of publishes, returns and confirms.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_publish_on_one_channel() {
    const TASKS: usize = 8;
    const EACH: usize = 500;
    /// What the broker says to the message with this number, which the client does not know.
    fn verdict(number: usize) -> &'static str {
        match number * 7919 % 10 {
            0 => "nacked",
            1 | 2 => "returned",
            _ => "acked",
        }
    }
    let options = ConfirmOptions::default().max_in_flight(64);
    let (mut peer, _connection, channel, on) = confirming_with(options).await;
    let broker = tokio::spawn(async move {
        let mut seen = 0;
        let mut waiting: Vec<(u64, &str)> = Vec::new();
        while seen < TASKS * EACH {
            let publish = peer.expect_publish().await;
            seen += 1;
            let number: usize = std::str::from_utf8(&publish.body).unwrap().parse().unwrap();
            let verdict = verdict(number);
            if verdict == "returned" {
                return_it(&mut peer, &publish).await;
            }
            waiting.push((seen as u64, verdict));
            // Some at a time: the refused ones first, then the last, then all up to it.
            if waiting.len() == 32 || seen == TASKS * EACH {
                for (tag, _) in waiting.iter().filter(|(_, verdict)| *verdict == "nacked") {
                    peer.send_nack(on, *tag, false).await;
                }
                let (last, verdict) = waiting[waiting.len() - 1];
                if verdict != "nacked" {
                    peer.send_ack(on, last, false).await;
                }
                peer.send_ack(on, last, true).await;
                waiting.clear();
            }
        }
        peer
    });
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let channel = channel.clone();
            tokio::spawn(async move {
                let mut confirms = Vec::new();
                for index in 0..EACH {
                    let number = task * EACH + index;
                    let message = mandatory(number.to_string());
                    let confirm = channel.publish("orders", "key", message).await.unwrap();
                    confirms.push((number, tokio::spawn(confirm)));
                }
                for (number, confirm) in confirms {
                    let outcome = confirm.await.unwrap();
                    assert_eq!(word(&outcome), verdict(number), "{number}");
                    if !outcome.is_acked() {
                        assert_eq!(body(outcome), number.to_string());
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let _peer = broker.await.unwrap();
    let status = channel.status();
    assert_eq!((status.in_flight, status.last), (0, (TASKS * EACH) as u64));
    assert_eq!((status.counts.nacked, status.counts.returned), (400, 800));
}
