//! What the client was told.

use std::collections::{BTreeMap, BTreeSet};

use amqp_client::proto::Settle;
use amqp_client::{Counts, Followed};

#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) publishes: Vec<Published>,
    /// What was received, in its order, by the channel's token and the consumer's tag.
    pub(crate) received: BTreeMap<(u64, String), Vec<Received>>,
    /// What the client asked to be done with a delivery, by the channel's token and the tag.
    pub(crate) settled: BTreeMap<(u64, u64), Settle>,
    /// The same with `multiple`: all that were outstanding up to the tag.
    pub(crate) settled_through: BTreeMap<u64, Vec<(u64, Settle)>>,
    /// What was to be settled behind a commit or rollback that was never answered.
    pub(crate) held_for_ever: BTreeSet<(u64, u64)>,
    /// Channels that this side closed, or dropped.
    pub(crate) closing: BTreeSet<u64>,
    /// Connections that this side closed, or dropped.
    pub(crate) connections_closing: BTreeSet<usize>,
    /// Channels with a consumer that may be given more than it keeps.
    pub(crate) overflowing: BTreeSet<u64>,
    /// How much a channel in confirm mode may have in flight: so many publishes, so many bytes of bodies.
    pub(crate) bounds: BTreeMap<u64, (usize, usize)>,
    /// basic.get whose future was dropped, by the channel's token and the number in the queue's name.
    pub(crate) given_up: BTreeSet<(u64, u64)>,
    /// What became of the publishes of a channel, by the client's own count.
    pub(crate) counts: BTreeMap<u64, Counts>,
    /// Numbers of messages from the stream of returns, by token.
    pub(crate) returns: BTreeMap<u64, Vec<u64>>,
    /// Channels of which all that came back was read, after each publish was settled.
    pub(crate) returns_read: BTreeSet<u64>,
    pub(crate) transactions: Vec<Transacted>,
}

/// What became of one publish in the client's words.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) connection: usize,
    /// The channel.
    pub(crate) token: u64,
    /// What is in the body; `None` where that is empty.
    pub(crate) id: Option<u64>,
    pub(crate) end: PublishEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PublishEnd {
    /// An error of publish, or its future was dropped before it was ready.
    NotSent,
    /// Outside confirm mode.
    Unconfirmed,
    Confirmed {
        seq: u64,
        end: ConfirmEnd,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfirmEnd {
    Acked,
    Nacked,
    Returned(Followed),
    TimedOut,
    Unknown {
        written: bool,
    },
    /// The confirm was dropped.
    Dropped,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Received {
    pub(crate) tag: u64,
    pub(crate) id: u64,
    pub(crate) redelivered: bool,
}

/// What became of one transaction.
#[derive(Debug)]
pub(crate) struct Transacted {
    pub(crate) token: u64,
    pub(crate) ids: Vec<u64>,
    /// Mandatory ones that no queue takes.
    pub(crate) unroutable: Vec<u64>,
    pub(crate) end: TxEnd,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TxEnd {
    Committed { returned: Vec<u64> },
    RolledBack { returned: Vec<u64> },
    NotCommitted,
    Unknown,
}
