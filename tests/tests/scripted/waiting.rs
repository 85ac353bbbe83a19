//! Waiting for room and for confirms: who waits is served in turn, told why not at the deadline, and never forgotten.

use std::time::Duration;

use amqp_client::codec::{ReplyCode, connection, short};
use amqp_client::error::{
    CloseCause, Error, ErrorKind, Initiator, NotSent, PublishError, UsageError,
};
use amqp_client::{
    Confirm, ConfirmChannel, ConfirmOptions, Counts, Message, Missed, Outcome, Publication,
    Returned, UnknownReason,
};
use futures_util::StreamExt;
use futures_util::future::{join_all, poll_immediate};
use futures_util::stream::FuturesUnordered;

use super::support::{
    MemoryPeer, confirm_channel, confirming, confirming_with, connected, mandatory, no_task_left,
    poll_once, settle, timed,
};

const MINUTE: Duration = Duration::from_secs(60);

fn one_in_flight() -> ConfirmOptions {
    ConfirmOptions::default().max_in_flight(1).timeout(None)
}

async fn publish(channel: &ConfirmChannel, body: &str) -> Result<Confirm, PublishError> {
    channel.publish("e", "k", mandatory(body)).await
}

/// The message that comes back with an error, which must have this reason.
#[track_caller]
fn given_back(result: Result<Confirm, PublishError>) -> (NotSent, String) {
    let error = result.expect_err("it was not sent");
    let Publication {
        exchange,
        routing_key,
        message,
    } = *error.publication;
    assert_eq!(
        (exchange.as_bytes(), routing_key.as_bytes()),
        (&b"e"[..], &b"k"[..])
    );
    assert!(message.is_mandatory());
    (
        error.reason,
        String::from_utf8(message.body().to_vec()).unwrap(),
    )
}

#[track_caller]
fn closed_with(reason: &NotSent, code: ReplyCode) {
    let NotSent::Usage(UsageError::ChannelClosed(closed) | UsageError::ConnectionClosed(closed)) =
        reason
    else {
        panic!("{reason:?}");
    };
    assert_eq!(closed.code, code);
}

// ----- room -----

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

// ----- what ends the waiting -----

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

// ----- blocked -----

async fn block(peer: &mut MemoryPeer) {
    let reason = short!("low on memory");
    peer.send(0, connection::Blocked { reason }).await;
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn publishes_wait_while_the_broker_blocks_and_go_on_when_it_does_not() {
    let (mut peer, connection, channel, on) = confirming().await;
    block(&mut peer).await;
    assert_eq!(connection.blocked(), Some(short!("low on memory")));
    let waiting = tokio::spawn({
        let channel = channel.clone();
        async move { (publish(&channel, "1").await, publish(&channel, "2").await) }
    });
    peer.expect_silence(Duration::from_secs(20)).await;
    // What is no publish goes on.
    let declare = channel.queue_declare(amqp_client::QueueDeclare::new(short!("q")));
    let (declared, _) = tokio::join!(declare, peer.accept_queue(on));
    assert_eq!(declared.unwrap().name, "q");
    peer.send(0, connection::Unblocked {}).await;
    for body in ["1", "2"] {
        assert_eq!(peer.expect_publish().await.body, body);
    }
    assert_eq!(connection.blocked(), None);
    peer.send_ack(on, 2, true).await;
    let (first, second) = waiting.await.unwrap();
    assert_eq!(first.unwrap().await, Outcome::Acked);
    assert_eq!(second.unwrap().await, Outcome::Acked);
}

#[tokio::test(start_paused = true)]
async fn message_comes_back_when_the_broker_blocks_for_too_long() {
    let wait = Duration::from_secs(3);
    let options = ConfirmOptions::default().wait(wait);
    let (mut peer, _connection, channel, _) = confirming_with(options).await;
    block(&mut peer).await;
    let refused = channel.try_publish("e", "k", mandatory("0"));
    assert_eq!(given_back(refused), (NotSent::Blocked, "0".to_owned()));
    let tried = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        channel.try_publish("e", "k", mandatory("3"))
    };
    let (first, second, third) = tokio::join!(
        timed(publish(&channel, "1")),
        timed(publish(&channel, "2")),
        tried
    );
    for ((result, took), body) in [(first, "1"), (second, "2")] {
        assert_eq!(given_back(result), (NotSent::Blocked, body.to_owned()));
        assert_eq!(took, wait);
    }
    // Though somebody waits, that is not why.
    assert_eq!(given_back(third), (NotSent::Blocked, "3".to_owned()));
    peer.expect_silence(Duration::from_secs(1)).await;
}

/// Plain publishes wait too, as long as is documented.
#[tokio::test(start_paused = true)]
async fn plain_message_comes_back_when_the_broker_blocks_for_too_long() {
    let (mut peer, connection) = connected().await;
    let (channel, _) = super::support::plain_channel(&mut peer, &connection).await;
    block(&mut peer).await;
    let (result, took) = timed(channel.publish("e", "k", Message::new("x"))).await;
    let error = result.unwrap_err();
    assert_eq!(
        (error.reason, took),
        (NotSent::Blocked, Duration::from_secs(30))
    );
    assert_eq!(error.publication.message.body(), "x".as_bytes());
}

/// The server reads nothing while it blocks: every call of ours ends at its deadline all the same.
#[tokio::test(start_paused = true)]
async fn every_call_ends_while_the_broker_blocks_and_answers_nothing() {
    let (mut peer, connection, channel, _) = confirming().await;
    let confirm = publish(&channel, "sent before").await.unwrap();
    peer.expect_publish().await;
    block(&mut peer).await;
    let half_a_minute = Duration::from_secs(30);
    let qos = async { channel.qos(1, false).await };
    let (rpc, took) = timed(qos).await;
    assert_eq!(
        (rpc.unwrap_err().kind(), took),
        (ErrorKind::Timeout, half_a_minute)
    );
    let Outcome::Unknown { reason, .. } = confirm.await else {
        panic!("nobody confirmed it")
    };
    assert_eq!(reason, UnknownReason::TimedOut);
    let (closed, took) = timed(connection.close()).await;
    let closed = closed.unwrap_err();
    assert_eq!(
        closed.closed().unwrap().cause,
        Some(CloseCause::CloseTimeout)
    );
    assert!(took <= half_a_minute + Duration::from_secs(1), "{took:?}");
    drop((connection, channel));
    no_task_left().await;
}

// ----- wait_for_confirms -----

async fn publish_all(
    peer: &mut MemoryPeer,
    channel: &ConfirmChannel,
    bodies: &[&str],
) -> Vec<Confirm> {
    let mut confirms = Vec::new();
    for body in bodies {
        confirms.push(publish(channel, body).await.unwrap());
        peer.expect_publish().await;
    }
    confirms
}

fn acked(acked: u64) -> Counts {
    Counts {
        acked,
        ..Counts::default()
    }
}

#[tokio::test(start_paused = true)]
async fn wait_is_for_what_was_published_before_while_others_publish() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let confirms = publish_all(&mut peer, &channel, &["1", "2", "3"]).await;
    let mut wait = Box::pin(channel.wait_for_confirms(MINUTE));
    assert!(poll_immediate(wait.as_mut()).await.is_none());
    let later = publish_all(&mut peer, &channel, &["4", "5", "6"]).await;
    // Neither a higher tag nor some of the lower ones are enough.
    peer.send_ack(on, 4, false).await;
    peer.send_ack(on, 3, false).await;
    peer.send_ack(on, 1, false).await;
    settle().await;
    assert!(poll_immediate(wait.as_mut()).await.is_none());
    peer.send_ack(on, 2, false).await;
    let (counts, took) = timed(wait).await;
    assert_eq!(counts.unwrap(), acked(4));
    assert_eq!(took, Duration::ZERO);
    assert_eq!(channel.status().in_flight, 2);
    for confirm in confirms {
        assert_eq!(confirm.await, Outcome::Acked);
    }
    drop(later);
}

#[tokio::test(start_paused = true)]
async fn wait_with_nothing_outstanding_is_over_at_once() {
    let (_peer, _connection, channel, _) = confirming().await;
    let (counts, took) = timed(channel.wait_for_confirms(Duration::ZERO)).await;
    assert_eq!((counts.unwrap(), took), (Counts::default(), Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn wait_reports_nacks_and_returns() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let _confirms = publish_all(&mut peer, &channel, &["1", "2"]).await;
    let third = publish(&channel, "3").await.unwrap();
    let publish_3 = peer.expect_publish().await;
    peer.send_nack(on, 1, false).await;
    peer.send_return(&publish_3, ReplyCode::NO_ROUTE, "NO_ROUTE")
        .await;
    peer.send_ack(on, 3, true).await;
    let counts = channel.wait_for_confirms(MINUTE).await.unwrap();
    let expected = Counts {
        acked: 1,
        nacked: 1,
        returned: 1,
        ..Counts::default()
    };
    assert_eq!(counts, expected);
    assert!(!counts.all_acked());
    // The outcome stays with its confirm.
    assert!(matches!(third.await, Outcome::Returned(_)));
}

#[tokio::test(start_paused = true)]
async fn wait_has_a_deadline_and_tells_the_counts_next_time() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let _confirms = publish_all(&mut peer, &channel, &["1", "2"]).await;
    peer.send_ack(on, 1, false).await;
    let deadline = Duration::from_secs(5);
    let (result, took) = timed(channel.wait_for_confirms(deadline)).await;
    assert_eq!(
        (result.unwrap_err().kind(), took),
        (ErrorKind::Timeout, deadline)
    );
    peer.send_ack(on, 2, false).await;
    assert_eq!(channel.wait_for_confirms(deadline).await.unwrap(), acked(2));
    assert_eq!(channel.wait_for_confirms(deadline).await.unwrap(), acked(0));
}

#[tokio::test(start_paused = true)]
async fn each_handle_counts_for_itself() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let other = channel.clone();
    let _one = publish_all(&mut peer, &channel, &["1", "2"]).await;
    peer.send_ack(on, 2, true).await;
    assert_eq!(channel.wait_for_confirms(MINUTE).await.unwrap(), acked(2));
    let late = channel.clone();
    let _three = publish_all(&mut peer, &other, &["3"]).await;
    peer.send_ack(on, 3, false).await;
    assert_eq!(other.wait_for_confirms(MINUTE).await.unwrap(), acked(3));
    assert_eq!(channel.wait_for_confirms(MINUTE).await.unwrap(), acked(1));
    assert_eq!(late.wait_for_confirms(MINUTE).await.unwrap(), acked(1));
}

#[tokio::test(start_paused = true)]
async fn wait_ends_with_the_channel_and_tells_what_is_unknown() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let _confirms = publish_all(&mut peer, &channel, &["1", "2", "3"]).await;
    peer.send_ack(on, 1, false).await;
    let end = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        peer.close_channel(on, ReplyCode::NOT_FOUND, "gone").await;
    };
    let ((result, took), ()) = tokio::join!(timed(channel.wait_for_confirms(MINUTE)), end);
    let expected = Counts {
        acked: 1,
        unknown: 2,
        ..Counts::default()
    };
    assert_eq!(result.unwrap(), expected);
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// The connection closes while somebody waits: before, during and after half of the close deadline.
#[tokio::test(start_paused = true)]
async fn wait_ends_with_the_connection() {
    let (mut peer, connection, channel, _) =
        confirming_with(ConfirmOptions::default().timeout(None)).await;
    let _confirms = publish_all(&mut peer, &channel, &["1"]).await;
    // Each on a handle of its own, which tells the counts once.
    let wait_from = async |seconds| {
        let handle = channel.clone();
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        handle.wait_for_confirms(Duration::from_secs(300)).await
    };
    let began = tokio::time::Instant::now();
    // The peer never answers the close: the connection is over after 30 s.
    let (before, draining, closing, closed) = tokio::join!(
        wait_from(0),
        wait_from(10),
        wait_from(20),
        connection.close()
    );
    assert!(closed.is_err());
    for counts in [before, draining, closing] {
        assert_eq!(counts.unwrap().unknown, 1);
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(33), "{took:?}");
}

/// On several threads at once, each count is told once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn counts_add_up_when_many_wait_on_one_handle() {
    let (mut peer, _connection, channel, on) = confirming().await;
    const PUBLISHES: u64 = 3000;
    let channel = std::sync::Arc::new(channel);
    let acking = tokio::spawn(async move {
        for tag in 1..=PUBLISHES {
            peer.expect_publish().await;
            peer.send_ack(on, tag, false).await;
        }
        peer
    });
    let publishing = tokio::spawn({
        let channel = channel.clone();
        async move {
            for _ in 0..PUBLISHES {
                drop(channel.publish("", "q", Message::new("x")).await.unwrap());
            }
        }
    });
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            let channel = channel.clone();
            tokio::spawn(async move {
                let mut told = 0;
                for _ in 0..500 {
                    told += channel.wait_for_confirms(MINUTE).await.unwrap().acked;
                }
                told
            })
        })
        .collect();
    let mut told: u64 = 0;
    for one in waiting {
        told += one.await.unwrap();
    }
    publishing.await.unwrap();
    let _peer = acking.await.unwrap();
    told += channel.wait_for_confirms(MINUTE).await.unwrap().acked;
    assert_eq!(told, PUBLISHES);
}

// ----- timeouts and returns -----

#[tokio::test(start_paused = true)]
async fn confirm_that_does_not_come_in_time_is_unknown_and_counted_when_it_is_late() {
    let timeout = Duration::from_secs(4);
    let options = ConfirmOptions::default().timeout(timeout).max_in_flight(2);
    let (mut peer, _connection, channel, on) = confirming_with(options).await;
    let confirms = publish_all(&mut peer, &channel, &["1", "2"]).await;
    let (outcomes, took) = timed(join_all(confirms)).await;
    assert_eq!(took, timeout);
    for (outcome, body) in outcomes.into_iter().zip(["1", "2"]) {
        let Outcome::Unknown {
            publication,
            reason,
        } = outcome
        else {
            panic!("{outcome:?}")
        };
        assert_eq!(reason, UnknownReason::TimedOut);
        assert_eq!(publication.message, mandatory(body));
    }
    // They keep their places, and give back their bytes.
    let status = channel.status();
    assert_eq!(
        (
            status.in_flight,
            status.bytes_in_flight,
            status.counts.unknown
        ),
        (2, 0, 2)
    );
    assert_eq!(
        given_back(channel.try_publish("e", "k", mandatory("3"))).0,
        NotSent::Full
    );
    // All have their outcome, so there is nothing to wait for.
    assert_eq!(channel.wait_for_confirms(MINUTE).await.unwrap().unknown, 2);
    peer.send_ack(on, 2, true).await;
    settle().await;
    let status = channel.status();
    assert_eq!(
        (status.in_flight, status.counts.late, status.counts.acked),
        (0, 2, 0)
    );
    // The connection is none the worse for it.
    let third = publish(&channel, "3").await.unwrap();
    peer.expect_publish().await;
    peer.send_ack(on, 3, false).await;
    assert_eq!(third.await, Outcome::Acked);
}

#[tokio::test(start_paused = true)]
async fn deadlines_of_confirms_are_each_their_own() {
    let options = ConfirmOptions::default().timeout(Duration::from_secs(10));
    let (mut peer, _connection, channel, on) = confirming_with(options).await;
    let first = publish(&channel, "1").await.unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let second = publish(&channel, "2").await.unwrap();
    let (outcome, took) = timed(first).await;
    assert!(matches!(outcome, Outcome::Unknown { .. }));
    assert_eq!(took, Duration::from_secs(4));
    tokio::time::sleep(Duration::from_millis(5990)).await;
    peer.send_ack(on, 2, false).await;
    assert_eq!(second.await, Outcome::Acked);
}

async fn next_return(
    returns: &mut (impl futures_util::Stream<Item = Result<Returned, Missed>> + Unpin),
) -> String {
    let next = tokio::time::timeout(Duration::from_secs(1), returns.next()).await;
    let returned = next.expect("a return within a second").unwrap().unwrap();
    String::from_utf8(returned.publication.message.into_body().to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn message_that_comes_back_without_a_confirm_is_in_the_stream_of_returns() {
    let options = ConfirmOptions::default().timeout(Duration::from_secs(5));
    let (mut peer, _connection, channel, on) = confirming_with(options).await;
    let mut returns = channel.returns();
    // Dropped before its return came.
    drop(publish(&channel, "1").await.unwrap());
    let first = peer.expect_publish().await;
    peer.send_return(&first, ReplyCode::NO_ROUTE, "NO_ROUTE")
        .await;
    peer.send_ack(on, 1, false).await;
    assert_eq!(next_return(&mut returns).await, "1");
    // Dropped after its outcome came, which nobody has taken.
    let confirm = publish(&channel, "2").await.unwrap();
    let second = peer.expect_publish().await;
    peer.send_return(&second, ReplyCode::NO_ROUTE, "NO_ROUTE")
        .await;
    peer.send_ack(on, 2, false).await;
    settle().await;
    drop(confirm);
    assert_eq!(next_return(&mut returns).await, "2");
    // Timed out before its return came.
    let confirm = publish(&channel, "3").await.unwrap();
    let third = peer.expect_publish().await;
    assert!(matches!(confirm.await, Outcome::Unknown { .. }));
    peer.send_return(&third, ReplyCode::NO_ROUTE, "NO_ROUTE")
        .await;
    peer.send_ack(on, 3, false).await;
    assert_eq!(next_return(&mut returns).await, "3");
    let counts = channel.status().counts;
    assert_eq!((counts.returned, counts.unknown, counts.late), (2, 1, 1));
    // One whose confirm is awaited is not in the stream.
    let confirm = publish(&channel, "4").await.unwrap();
    let fourth = peer.expect_publish().await;
    peer.send_return(&fourth, ReplyCode::NO_ROUTE, "NO_ROUTE")
        .await;
    peer.send_ack(on, 4, false).await;
    assert!(matches!(confirm.await, Outcome::Returned(_)));
    assert!(poll_immediate(returns.next()).await.is_none());
}

/// The confirm and its channel are dropped; the channel that is opened next does not get what comes back.
#[tokio::test(start_paused = true)]
async fn return_of_a_channel_that_is_gone_goes_to_no_other() {
    let (mut peer, connection, channel, on) = confirming().await;
    drop(publish(&channel, "of the first").await.unwrap());
    let first = peer.expect_publish().await;
    drop(channel);
    let (second, other) = confirm_channel(&mut peer, &connection, ConfirmOptions::default()).await;
    assert_ne!(on, other);
    let mut returns = second.returns();
    peer.send_return(&first, ReplyCode::NO_ROUTE, "NO_ROUTE")
        .await;
    peer.send_ack(on, 1, false).await;
    peer.accept_channel_close(on).await;
    settle().await;
    assert!(poll_immediate(returns.next()).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn every_stream_of_returns_ends_with_the_channel() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let mut returns = channel.returns();
            tokio::spawn(async move { returns.next().await.is_none() })
        })
        .collect();
    settle().await;
    peer.close_channel(on, ReplyCode::NOT_FOUND, "gone").await;
    let all = tokio::time::timeout(MINUTE, join_all(waiting)).await;
    for ended in all.expect("each of them is told") {
        assert!(ended.unwrap());
    }
}

/// Several read the stream: each return goes to one of them.
#[tokio::test(start_paused = true)]
async fn returns_are_shared_among_who_reads_them() {
    let (mut peer, _connection, channel, on) = confirming().await;
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let mut returns = channel.returns();
            tokio::spawn(async move {
                let mut count = 0;
                while returns.next().await.is_some() {
                    count += 1;
                }
                count
            })
        })
        .collect();
    for tag in 1..=10 {
        drop(publish(&channel, "back").await.unwrap());
        let publish = peer.expect_publish().await;
        peer.send_return(&publish, ReplyCode::NO_ROUTE, "NO_ROUTE")
            .await;
        peer.send_ack(on, tag, false).await;
    }
    settle().await;
    peer.close_channel(on, ReplyCode::NOT_FOUND, "gone").await;
    let all = tokio::time::timeout(MINUTE, join_all(readers))
        .await
        .unwrap();
    assert_eq!(all.into_iter().map(Result::unwrap).sum::<i32>(), 10);
}

#[tokio::test(start_paused = true)]
async fn events_end_with_the_connection() {
    use amqp_client::Event;
    let (mut peer, connection, channel, on) = confirming().await;
    let mut events = connection.events();
    block(&mut peer).await;
    peer.send(0, connection::Unblocked {}).await;
    peer.close_channel(on, ReplyCode::NOT_FOUND, "gone").await;
    settle().await;
    peer.close_connection(ReplyCode::CONNECTION_FORCED, "shutdown")
        .await;
    let mut seen = Vec::new();
    let all = async {
        while let Some(event) = events.next().await {
            seen.push(match event {
                Event::Blocked(_) => "blocked",
                Event::Unblocked => "unblocked",
                Event::ChannelClosed { closed, .. } => {
                    assert_eq!(closed.initiator, Initiator::Server);
                    "channel closed"
                }
                Event::Closed(_) => "closed",
                _ => "other",
            });
        }
    };
    tokio::time::timeout(MINUTE, all)
        .await
        .expect("nothing follows the end");
    assert_eq!(seen, ["blocked", "unblocked", "channel closed", "closed"]);
    // A subscription that comes too late ends too.
    let mut late = connection.events();
    let next = tokio::time::timeout(MINUTE, late.next()).await;
    assert!(matches!(next, Ok(None | Some(Event::Closed(_)))));
    drop(channel);
}

#[allow(
    dead_code,
    reason = "an error of publish becomes the client's error with its message"
)]
async fn question_mark_keeps_the_message(channel: &ConfirmChannel) -> Result<Outcome, Error> {
    Ok(channel.publish("e", "k", mandatory("1")).await?.await)
}

/// The counts stay right while the connection closes, though nothing can be asked of the channel any more.
#[tokio::test(start_paused = true)]
async fn counts_are_told_while_the_connection_closes() {
    let (mut peer, connection, channel, on) = confirming().await;
    let confirms = publish_all(&mut peer, &channel, &["1", "2"]).await;
    peer.send_ack(on, 2, true).await;
    join_all(confirms).await;
    let mut close = Box::pin(connection.close());
    assert!(poll_once(close.as_mut()).0.is_pending());
    peer.expect::<connection::Close>(0).await;
    let status = channel.status();
    assert_eq!((status.counts.acked, status.last), (2, 2));
    let other = channel.clone();
    let closing = async {
        peer.send(0, connection::CloseOk {}).await;
        peer.expect_end().await;
    };
    let (counts, closed, ()) = tokio::join!(other.wait_for_confirms(MINUTE), close, closing);
    closed.unwrap();
    assert_eq!(counts.unwrap(), acked(2));
    assert_eq!(channel.status().counts.acked, 2);
}

/// channel.flow: the server asks for a pause on one channel.
#[tokio::test(start_paused = true)]
async fn publishes_wait_while_the_server_stops_the_flow() {
    let (mut peer, connection, channel, on) = confirming().await;
    let (other, other_on) =
        confirm_channel(&mut peer, &connection, ConfirmOptions::default()).await;
    let flow = |active| amqp_client::codec::channel::Flow {
        active,
        ..Default::default()
    };
    peer.send(on, flow(false)).await;
    let ok: amqp_client::codec::channel::FlowOk = peer.expect(on).await;
    assert!(!ok.active);
    assert_eq!(
        given_back(channel.try_publish("e", "k", mandatory("0"))).0,
        NotSent::Full
    );
    let waiting = tokio::spawn({
        let channel = channel.clone();
        async move { publish(&channel, "1").await.unwrap().await }
    });
    // Others are not concerned.
    let kept = publish(&other, "other").await.unwrap();
    assert_eq!(peer.expect_publish().await.channel, other_on);
    peer.send_ack(other_on, 1, false).await;
    assert_eq!(kept.await, Outcome::Acked);
    peer.expect_silence(Duration::from_secs(10)).await;
    peer.send(on, flow(true)).await;
    let ok: amqp_client::codec::channel::FlowOk = peer.expect(on).await;
    assert!(ok.active);
    assert_eq!(peer.expect_publish().await.body, "1");
    peer.send_ack(on, 1, false).await;
    assert_eq!(waiting.await.unwrap(), Outcome::Acked);
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
