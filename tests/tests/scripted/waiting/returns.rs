//! Messages that come back without a confirm that waits for them, and events.

use std::time::Duration;

use amqp_client::codec::{ReplyCode, connection};
use amqp_client::error::Initiator;
use amqp_client::{ConfirmOptions, Missed, Outcome, Returned};
use futures_util::StreamExt;
use futures_util::future::{join_all, poll_immediate};

use crate::support::{confirm_channel, confirming, confirming_with, settle};

use super::{MINUTE, block, publish};

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
