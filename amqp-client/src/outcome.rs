//! What became of a publish.

use std::sync::Arc;

use amqp_codec::{ReplyCode, ShortStr};

use crate::error::Closed;
use crate::message::Publication;

/// What became of one publish on a channel in confirm mode. Every publish ends in exactly one of these.
///
/// The message comes back with every outcome other than [`Acked`](Outcome::Acked), so that it can be
/// retried, parked or reported without keeping a copy.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "only the outcome says whether the broker has the message"]
pub enum Outcome {
    /// The broker took responsibility for the message. For a message that was not mandatory this
    /// includes dropping it where no queue was bound.
    Acked,
    /// The message was mandatory and no queue took it. Retrying changes nothing until the topology does.
    Returned(Box<Returned>),
    /// The broker refused responsibility: a failure on its side, or a full queue that rejects publishes.
    /// Retry after a delay.
    Nacked(Box<Publication>),
    /// Nobody knows: the message may or may not be in its queues. Retry with the same message id, and
    /// expect a duplicate. Where [`UnknownReason::is_refusal`] says so, something under way on the channel has to be
    /// mended first; unless it timed out, a new channel is needed.
    Unknown {
        /// The message and its address.
        publication: Box<Publication>,
        /// Why nothing is known.
        reason: UnknownReason,
    },
}

impl Outcome {
    /// Whether the broker took responsibility for the message.
    pub fn is_acked(&self) -> bool {
        matches!(self, Outcome::Acked)
    }

    /// The message and its address, for every outcome but [`Acked`](Outcome::Acked).
    pub fn into_publication(self) -> Option<Publication> {
        match self {
            Outcome::Acked => None,
            Outcome::Returned(returned) => Some(returned.publication),
            Outcome::Nacked(publication) | Outcome::Unknown { publication, .. } => {
                Some(*publication)
            }
        }
    }
}

/// Why the outcome of a publish is unknown.
#[derive(Debug, Clone, PartialEq)]
pub enum UnknownReason {
    /// No confirm came within the channel's confirm timeout. A late one is counted, not reported.
    TimedOut,
    /// The channel closed before the confirm came.
    ChannelClosed(Arc<Closed>),
    /// The connection went before the confirm came.
    ConnectionClosed {
        /// How it went.
        closed: Arc<Closed>,
        /// Whether any byte of the publish had been given to the socket. Where none was, the broker cannot
        /// have the message.
        written: bool,
    },
}

impl UnknownReason {
    /// How the channel or connection ended, where that is why.
    pub fn closed(&self) -> Option<&Closed> {
        match self {
            UnknownReason::TimedOut => None,
            UnknownReason::ChannelClosed(closed)
            | UnknownReason::ConnectionClosed { closed, .. } => Some(closed),
        }
    }

    /// Whether the server closed the channel or connection because it found fault with a request on it, such as a
    /// publish to an exchange that does not exist: this one, or another that was under way. Publishing the faulty
    /// one again meets the same end.
    pub fn is_refusal(&self) -> bool {
        self.closed().is_some_and(Closed::is_refusal)
    }
}

/// A message the broker returned because no queue took it.
#[derive(Debug, Clone, PartialEq)]
pub struct Returned {
    /// Why: [`ReplyCode::NO_ROUTE`] from RabbitMQ.
    pub code: ReplyCode,
    /// The reason in the broker's words; bytes that are usually UTF-8.
    pub text: ShortStr<'static>,
    /// The message and its address. In confirm mode as it was given to `publish`, else as it came back.
    pub publication: Publication,
    /// What the broker said of the publish after returning it.
    pub followed: Followed,
    /// Which rule tied the return to its publish; a return carries no tag.
    pub matched: Match,
}

/// What followed a return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Followed {
    /// An ack, as RabbitMQ does.
    Ack,
    /// A nack, as other brokers may do.
    Nack,
    /// Nothing: the confirm timed out, the channel or the connection went first, or there was none to
    /// come because the channel is not in confirm mode.
    Nothing,
}

/// Which rule tied a return to its publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// The header that [`ConfirmOptions::tag_returns`](crate::ConfirmOptions::tag_returns) asks for: exact.
    Header,
    /// Exchange, routing key, body and properties are equal to those of one outstanding publish only.
    Unique,
    /// Several outstanding publishes are equal in all of these; returns come in publish order, so the
    /// first of them after the last returned one was taken.
    Order,
    /// The return was not tied to a publish: the channel is not in confirm mode, or nothing outstanding
    /// is equal to it (its confirm timed out before).
    None,
}

/// How many publishes ended in which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Settled as [`Outcome::Acked`].
    pub acked: u64,
    /// Settled as [`Outcome::Returned`].
    pub returned: u64,
    /// Settled as [`Outcome::Nacked`].
    pub nacked: u64,
    /// Settled as [`Outcome::Unknown`].
    pub unknown: u64,
    /// Confirms that came after their publish had timed out; not part of the sum.
    pub late: u64,
}

impl Counts {
    /// How many publishes were settled.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "nobody lives to see 2^64 publishes"
    )]
    pub fn settled(&self) -> u64 {
        self.acked + self.returned + self.nacked + self.unknown
    }

    /// Whether every settled publish was acked.
    pub fn all_acked(&self) -> bool {
        self.settled() == self.acked
    }

    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts {
            acked: self.acked.saturating_sub(earlier.acked),
            returned: self.returned.saturating_sub(earlier.returned),
            nacked: self.nacked.saturating_sub(earlier.nacked),
            unknown: self.unknown.saturating_sub(earlier.unknown),
            late: self.late.saturating_sub(earlier.late),
        }
    }
}
