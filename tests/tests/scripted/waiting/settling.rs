//! Waiting for what was published: `wait_for_confirms`, counts, and confirms that come too late.

use std::time::Duration;

use amqp_client::codec::{ReplyCode, connection};
use amqp_client::error::{ErrorKind, NotSent};
use amqp_client::{ConfirmOptions, Counts, Message, Outcome, UnknownReason};
use futures_util::future::{join_all, poll_immediate};

use crate::support::{confirming, confirming_with, mandatory, poll_once, settle, timed};

use super::{MINUTE, acked, given_back, publish, publish_all};

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

/// The counts stay right while the connection closes, though nothing can be asked of the channel any more.
/// The close is sent after 15 s, and its answer awaited for another 15 s.
#[tokio::test(start_paused = true)]
async fn wait_ends_with_the_last_outcome_though_the_connection_still_closes() {
    let timeout = Duration::from_secs(20);
    let (mut peer, connection, channel, _) =
        confirming_with(ConfirmOptions::default().timeout(timeout)).await;
    let _confirms = publish_all(&mut peer, &channel, &["1", "2"]).await;
    let close = tokio::spawn(async move { connection.close().await });
    let (counts, took) = timed(channel.wait_for_confirms(MINUTE)).await;
    assert_eq!((counts.unwrap().unknown, took), (2, timeout));
    // And at once where all have their outcomes.
    let (counts, took) = timed(channel.wait_for_confirms(MINUTE)).await;
    assert_eq!((counts.unwrap(), took), (Counts::default(), Duration::ZERO));
    assert!(close.await.unwrap().is_err());
}

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
