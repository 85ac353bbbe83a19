//! Room in flight: who waits for it is served in turn, and told when waiting is in vain.

use std::time::Duration;

use amqp_client::codec::ReplyCode;
use amqp_client::error::{Error, ErrorKind, NotSent};
use amqp_client::{ConfirmChannel, ConfirmOptions, Outcome, UnknownReason};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;

use crate::support::{confirming, confirming_with, mandatory, poll_once, settle, timed};

use super::{closed_with, given_back, one_in_flight, publish};

#[tokio::test(start_paused = true)]
async fn try_publish_gives_the_message_back_when_full() {
    let (mut peer, _connection, channel, on) = confirming_with(one_in_flight()).await;
    let first = channel.try_publish("e", "k", mandatory("1")).unwrap();
    let refused = channel.try_publish("e", "k", mandatory("2"));
    assert_eq!(given_back(refused), (NotSent::Full, "2".to_owned()));
    peer.expect_publish().await;
    peer.send_ack(on, 1, false).await;
    assert_eq!(first.await, Outcome::Acked);
    // The number of what was refused is used by the next one.
    let second = channel.try_publish("e", "k", mandatory("3")).unwrap();
    assert_eq!(second.sequence_number(), 2);
    assert_eq!(peer.expect_publish().await.body, "3");
    peer.send_ack(on, 2, false).await;
    assert_eq!(second.await, Outcome::Acked);
}

#[tokio::test(start_paused = true)]
async fn try_publish_does_not_overtake_who_waits() {
    let (mut peer, _connection, channel, on) = confirming_with(one_in_flight()).await;
    let first = publish(&channel, "1").await.unwrap();
    let mut waiting = Box::pin(publish(&channel, "2"));
    let (pending, woken) = poll_once(waiting.as_mut());
    assert!(pending.is_pending());
    peer.send_ack(on, 1, false).await;
    assert_eq!(first.await, Outcome::Acked);
    // There is room, and somebody has been told so who has not taken it yet.
    assert_eq!((channel.status().in_flight, woken.count() > 0), (0, true));
    let refused = channel.try_publish("e", "k", mandatory("3"));
    assert_eq!(given_back(refused), (NotSent::Full, "3".to_owned()));
    let second = waiting.await.unwrap();
    assert_eq!(second.sequence_number(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_served_in_turn() {
    let (mut peer, _connection, channel, on) = confirming_with(one_in_flight()).await;
    let first = publish(&channel, "0").await.unwrap();
    let waiting: Vec<_> = (1..=20)
        .map(|n| {
            let channel = channel.clone();
            tokio::spawn(async move { publish(&channel, &n.to_string()).await.unwrap().await })
        })
        .collect();
    settle().await;
    // Those in the middle give up.
    for n in [3, 4, 10] {
        waiting[n - 1].abort();
    }
    let mut bodies = Vec::new();
    for tag in 1..=18 {
        bodies.push(peer.expect_publish().await.body);
        peer.send_ack(on, tag, false).await;
    }
    let expected: Vec<String> = (0..=20)
        .filter(|n| ![3, 4, 10].contains(n))
        .map(|n: i32| n.to_string())
        .collect();
    assert_eq!(bodies, expected);
    assert_eq!(first.await, Outcome::Acked);
    for (index, outcome) in join_all(waiting).await.into_iter().enumerate() {
        match [3, 4, 10].contains(&(index + 1)) {
            true => assert!(outcome.unwrap_err().is_cancelled()),
            false => assert_eq!(outcome.unwrap(), Outcome::Acked),
        }
    }
}

/// Whoever is woken for the room, and is dropped before taking it, passes it on.
#[tokio::test(start_paused = true)]
async fn room_that_is_not_taken_goes_to_the_next() {
    let (mut peer, _connection, channel, on) = confirming_with(one_in_flight()).await;
    let _first = publish(&channel, "1").await.unwrap();
    let mut dropped = Box::pin(publish(&channel, "2"));
    assert!(poll_once(dropped.as_mut()).0.is_pending());
    let mut next = Box::pin(publish(&channel, "3"));
    let (pending, woken) = poll_once(next.as_mut());
    assert!(pending.is_pending());
    peer.send_ack(on, 1, false).await;
    settle().await;
    assert_eq!(woken.count(), 0);
    drop(dropped);
    assert_eq!(woken.count(), 1);
    assert_eq!(next.await.unwrap().sequence_number(), 2);
}

#[tokio::test(start_paused = true)]
async fn bytes_in_flight_are_bounded_and_a_larger_message_goes_alone() {
    let options = ConfirmOptions::default().max_bytes(100).timeout(None);
    let (mut peer, _connection, channel, on) = confirming_with(options).await;
    let large = "x".repeat(1000);
    let first = channel
        .try_publish("e", "k", mandatory(large.as_str()))
        .unwrap();
    let refused = channel.try_publish("e", "k", mandatory("y"));
    assert_eq!(given_back(refused).0, NotSent::Full);
    peer.expect_publish().await;
    peer.send_ack(on, 1, false).await;
    assert_eq!(first.await, Outcome::Acked);
    let _second = channel
        .try_publish("e", "k", mandatory("y".repeat(60)))
        .unwrap();
    let refused = channel.try_publish("e", "k", mandatory("y".repeat(41)));
    assert_eq!(given_back(refused).0, NotSent::Full);
    let _third = channel
        .try_publish("e", "k", mandatory("y".repeat(40)))
        .unwrap();
    assert_eq!(channel.status().bytes_in_flight, 100);
    // An empty body takes no bytes.
    let _fourth = channel.try_publish("e", "k", mandatory("")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn message_comes_back_when_there_is_no_room_in_time() {
    let wait = Duration::from_secs(7);
    let options = one_in_flight().wait(wait);
    let (_peer, _connection, channel, _) = confirming_with(options).await;
    let _first = publish(&channel, "1").await.unwrap();
    let (second, third) =
        tokio::join!(timed(publish(&channel, "2")), timed(publish(&channel, "3")));
    for ((result, took), body) in [(second, "2"), (third, "3")] {
        assert_eq!(given_back(result), (NotSent::Full, body.to_owned()));
        assert_eq!(took, wait);
    }
    assert_eq!(channel.status().last, 1);
}

/// What no broker would take is refused before it has a number: those that follow are confirmed by theirs.
#[tokio::test(start_paused = true)]
async fn message_that_cannot_be_sent_uses_no_number() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let long = "x".repeat(256);
    let refused = [
        channel.publish(long.clone(), "k", mandatory("a")).await,
        channel.publish("e", long.clone(), mandatory("a")).await,
        channel
            .publish("e", "k", mandatory("a").message_id(long.clone()))
            .await,
        channel
            .publish("e", "k", mandatory("a").header(long.clone(), 1_i32))
            .await,
        channel
            .publish("e", "k", mandatory("a").header("h", f64::NAN))
            .await,
        channel
            .publish("e", "k", mandatory("a").header("h", f64::INFINITY))
            .await,
        channel
            .publish("e", "k", mandatory("a").header("h", "x".repeat(140_000)))
            .await,
        channel.try_publish("e", "k", mandatory("a").reply_to(long)),
    ];
    for refused in refused {
        let error = refused.expect_err("no broker would take it");
        assert!(matches!(error.reason, NotSent::Usage(_)), "{error}");
        assert_eq!(error.publication.message.body(), "a".as_bytes());
    }
    let status = channel.status();
    assert_eq!(
        (status.last, status.in_flight, status.bytes_in_flight),
        (0, 0, 0)
    );
    let confirm = publish(&channel, "b").await.unwrap();
    assert_eq!(peer.expect_publish().await.body, "b");
    peer.send_nack(on, 1, false).await;
    assert!(matches!(confirm.await, Outcome::Nacked(_)));
}

/// `?` makes the client's error of it, which keeps the message.
#[tokio::test(start_paused = true)]
async fn question_mark_keeps_the_message() {
    async fn send(channel: &ConfirmChannel) -> Result<Outcome, Error> {
        Ok(channel.publish("e", "k", mandatory("kept")).await?.await)
    }
    let (mut peer, _connection, channel, on) = confirming().await;
    peer.close_channel(on, ReplyCode::NOT_FOUND, "gone").await;
    settle().await;
    let error = send(&channel).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSent);
    assert_eq!(error.closed().unwrap().code, ReplyCode::NOT_FOUND);
    assert_eq!(error.into_publication().unwrap().message, mandatory("kept"));
}

/// Several who wait, each on a task of its own, in an order that is not that of their places.
async fn waiting_in_disorder(
    channel: &ConfirmChannel,
    end: impl Future<Output = ()>,
) -> Vec<(NotSent, String)> {
    let mut waiting = ["2", "3", "4", "5"].map(|body| Box::pin(publish(channel, body)));
    for one in &mut waiting {
        assert!(poll_once(one.as_mut()).0.is_pending());
    }
    end.await;
    // From now on each is polled when it is woken, at first before the one in front of it.
    let all = waiting.into_iter().rev().collect::<FuturesUnordered<_>>();
    let all = tokio::time::timeout(
        Duration::from_secs(20),
        all.map(given_back).collect::<Vec<_>>(),
    );
    let mut all = all.await.expect("nobody waits for what will never be");
    all.sort_by(|(_, one), (_, other)| one.cmp(other));
    all
}

#[tokio::test(start_paused = true)]
async fn messages_come_back_when_the_server_closes_the_channel() {
    let (mut peer, _connection, channel, on) = confirming_with(one_in_flight()).await;
    let first = publish(&channel, "1").await.unwrap();
    let end = async {
        peer.expect_publish().await;
        peer.close_channel(on, ReplyCode::NOT_FOUND, "no exchange 'e'")
            .await;
        settle().await;
    };
    let (refused, took) = timed(waiting_in_disorder(&channel, end)).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    let bodies: Vec<_> = refused.iter().map(|(_, body)| body.as_str()).collect();
    assert_eq!(bodies, ["2", "3", "4", "5"]);
    for (reason, _) in &refused {
        closed_with(reason, ReplyCode::NOT_FOUND);
    }
    let Outcome::Unknown {
        reason: UnknownReason::ChannelClosed(closed),
        ..
    } = first.await
    else {
        panic!("nobody confirmed it")
    };
    assert_eq!(
        (closed.code, closed.text.as_bytes()),
        (ReplyCode::NOT_FOUND, &b"no exchange 'e'"[..])
    );
    // And those that come later.
    closed_with(
        &given_back(publish(&channel, "6").await).0,
        ReplyCode::NOT_FOUND,
    );
    let refused = channel.try_publish("e", "k", mandatory("7"));
    closed_with(&given_back(refused).0, ReplyCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn messages_come_back_when_the_server_closes_the_connection() {
    let (mut peer, _connection, channel, _) = confirming_with(one_in_flight()).await;
    let _first = publish(&channel, "1").await.unwrap();
    let end = async {
        peer.close_connection(ReplyCode::CONNECTION_FORCED, "shutdown")
            .await;
        settle().await;
    };
    let (refused, took) = timed(waiting_in_disorder(&channel, end)).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    for (reason, _) in &refused {
        closed_with(reason, ReplyCode::CONNECTION_FORCED);
    }
}

#[tokio::test(start_paused = true)]
async fn messages_come_back_when_the_connection_breaks() {
    let (peer, _connection, channel, _) = confirming_with(one_in_flight()).await;
    let _first = publish(&channel, "1").await.unwrap();
    let end = async {
        drop(peer);
        settle().await;
    };
    let (refused, took) = timed(waiting_in_disorder(&channel, end)).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    for (reason, _) in &refused {
        closed_with(reason, ReplyCode(0));
    }
}

/// A close of ours waits for the confirms of what was sent, and not for those who have not sent anything yet.
#[tokio::test(start_paused = true)]
async fn messages_come_back_when_we_close_the_connection() {
    let (mut peer, connection, channel, on) = confirming_with(one_in_flight()).await;
    let first = publish(&channel, "1").await.unwrap();
    let mut close = Box::pin(connection.close());
    let end = async {
        assert!(poll_once(close.as_mut()).0.is_pending());
        settle().await;
    };
    let (refused, took) = timed(waiting_in_disorder(&channel, end)).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    for (reason, _) in &refused {
        closed_with(reason, ReplyCode::REPLY_SUCCESS);
    }
    peer.expect_publish().await;
    peer.send_ack(on, 1, false).await;
    assert_eq!(first.await, Outcome::Acked);
    let (closed, _) = tokio::join!(close, peer.accept_close());
    closed.unwrap();
}

#[tokio::test(start_paused = true)]
async fn messages_come_back_when_we_close_the_channel() {
    let (mut peer, _connection, channel, on) = confirming_with(one_in_flight()).await;
    let first = publish(&channel, "1").await.unwrap();
    let other = channel.clone();
    let mut close = Box::pin(other.close());
    let end = async {
        assert!(poll_once(close.as_mut()).0.is_pending());
        settle().await;
    };
    let (refused, took) = timed(waiting_in_disorder(&channel, end)).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    for (reason, _) in &refused {
        assert!(matches!(reason, NotSent::Usage(_)), "{reason:?}");
    }
    peer.expect_publish().await;
    peer.send_ack(on, 1, false).await;
    assert_eq!(first.await, Outcome::Acked);
    let (closed, _) = tokio::join!(close, peer.accept_channel_close(on));
    closed.unwrap();
}
