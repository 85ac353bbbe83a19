//! The connection as a pure state machine: input and time are arguments, output, events and deadlines are
//! polled. It knows no clock, no socket, no lock and no runtime, and builds without any
//! (`--no-default-features`).
//!
//! Names carry the direction: what the peer does wrong is a [`Violation`](crate::error::Violation), what
//! the caller does wrong a [`UsageError`](crate::error::UsageError).

use std::time::{Duration, Instant};

mod channel;
mod confirm;
mod connection;
mod consumers;
mod delivery;
mod event;
mod handshake;
mod heartbeat;
mod input;
mod methods;
mod outgoing;
mod returns;
mod ring;
mod rpc;
mod tags;
mod trace;
mod transaction;
mod view;

pub use confirm::{ConfirmOptions, DEFAULT_WAIT, PublishSeq};
pub use connection::Connection;
pub use delivery::{Delivery, DeliveryTag, Settle};
pub use event::{ChannelId, ConsumerId, Event, Keep, PublishId, Reply, RequestError};
pub use handshake::ServerInfo;
pub use input::{Input, InputError, InputFrame};
pub use outgoing::Batch;
pub use returns::RETURN_TAG;
pub use rpc::RequestId;
pub use view::{ChannelView, ConfirmStatus};

/// Longer than any program runs.
const NEVER: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);

/// The deadline so long after `now`. One beyond what an [`Instant`] can say is one that is never reached.
fn after(now: Instant, delay: Duration) -> Instant {
    let at = now.checked_add(delay.min(NEVER));
    at.unwrap_or(now)
}

#[cfg(test)]
mod tests;
