//! Waiting for room and for confirms: who waits is served in turn, told why not at the deadline, and never forgotten.

mod blocked;
mod returns;
mod room;
mod settling;

use std::time::Duration;

use amqp_client::codec::{ReplyCode, connection, short};
use amqp_client::error::{NotSent, PublishError, UsageError};
use amqp_client::{Confirm, ConfirmChannel, ConfirmOptions, Counts, Publication};

use super::support::{MemoryPeer, mandatory, settle};

pub(super) const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn one_in_flight() -> ConfirmOptions {
    ConfirmOptions::default().max_in_flight(1).timeout(None)
}

pub(super) async fn publish(channel: &ConfirmChannel, body: &str) -> Result<Confirm, PublishError> {
    channel.publish("e", "k", mandatory(body)).await
}

/// The message that comes back with an error, which must have this reason.
#[track_caller]
pub(super) fn given_back(result: Result<Confirm, PublishError>) -> (NotSent, String) {
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
pub(super) fn closed_with(reason: &NotSent, code: ReplyCode) {
    let NotSent::Usage(UsageError::ChannelClosed(closed) | UsageError::ConnectionClosed(closed)) =
        reason
    else {
        panic!("{reason:?}");
    };
    assert_eq!(closed.code, code);
}

pub(super) async fn publish_all(
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

pub(super) fn acked(acked: u64) -> Counts {
    Counts {
        acked,
        ..Counts::default()
    }
}

pub(super) async fn block(peer: &mut MemoryPeer) {
    let reason = short!("low on memory");
    peer.send(0, connection::Blocked { reason }).await;
    settle().await;
}
