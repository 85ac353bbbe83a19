//! What the state machine tells its owner.

use std::collections::VecDeque;
use std::sync::Arc;

use amqp_codec::{Method, MethodId, ShortStr};

use super::confirm::PublishSeq;
use super::delivery::Delivery;
use super::rpc::RequestId;
use crate::error::{Closed, HandshakeError, UsageError};
use crate::outcome::{Counts, Outcome, Returned};

/// One opening of a channel number on one connection. The number is reused after the channel has closed;
/// the incarnation never is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChannelId {
    /// The connection, by a number that is unique in the process.
    pub connection: u64,
    /// Counts the channels opened on the connection.
    pub incarnation: u64,
    /// The channel number on the wire.
    pub number: u16,
}

/// One publish on a channel in confirm mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublishId {
    /// Its channel.
    pub channel: ChannelId,
    /// Its number on the channel.
    pub seq: PublishSeq,
}

/// What the owner of a connection keeps for a publish in confirm mode until that has its outcome.
pub trait Keep {
    /// Whether the owner is to be told, by an [`Event::Settled`], should the publish be acked; of every other outcome it
    /// is told anyway. Where many are in flight it costs less to look, by
    /// [`Connection::kept`](super::Connection::kept), once somebody wants to know.
    fn wants_ack(&self) -> bool {
        true
    }
}

/// Names a consumer: the request that started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId(pub RequestId);

/// Something that happened on the connection.
#[derive(Debug)]
pub enum Event<P> {
    /// The handshake is complete: the connection is open.
    Opened,
    /// The handshake failed: the connection is over.
    HandshakeFailed(HandshakeError),
    /// The connection is over. Every publish, request and channel has had its event before this one.
    Closed(Arc<Closed>),
    /// The broker has blocked the connection (connection.blocked): publishes are refused until it unblocks.
    Blocked(ShortStr<'static>),
    /// The broker takes publishes again.
    Unblocked,
    /// A channel ended, by either side. Its publishes and requests have had their events before; the counts
    /// say what became of all its publishes in confirm mode.
    ChannelClosed(ChannelId, Arc<Closed>, Counts),
    /// A request got its answer, or will get none.
    Reply(RequestId, Result<Reply, RequestError>),
    /// A publish in confirm mode has its outcome. What was kept for it comes back.
    Settled(PublishId, P, Outcome),
    /// A message came back that is tied to no publish in confirm mode.
    Returned(ChannelId, Box<Returned>),
    /// A message for a consumer. Messages are told of before what else came with them, also before the answer that the
    /// consumer was started.
    Delivered(ConsumerId, Delivery),
    /// The server cancelled a consumer, of this tag: its queue is gone, or it moved.
    ConsumerCancelled(ChannelId, ConsumerId, ShortStr<'static>),
}

/// What has happened and was not asked for yet.
#[derive(Debug)]
pub(super) struct Events<P> {
    /// Publishes with their outcomes, apart from the rest: they are many, and small. They go before it, so that
    /// the end of a channel comes after the outcomes of its publishes.
    settled: Vec<(PublishId, P, Outcome)>,
    /// Messages for consumers, apart from the rest for the same reason: the end of a consumer comes after all of its
    /// messages.
    delivered: VecDeque<(ConsumerId, Delivery)>,
    other: VecDeque<Event<P>>,
}

impl<P> Events<P> {
    pub(super) fn new() -> Self {
        Events {
            settled: Vec::new(),
            delivered: VecDeque::new(),
            other: VecDeque::new(),
        }
    }

    pub(super) fn settled(
        &mut self,
        channel: ChannelId,
        seq: PublishSeq,
        keep: P,
        outcome: Outcome,
    ) {
        let id = PublishId { channel, seq };
        self.settled.push((id, keep, outcome));
    }

    #[inline]
    pub(super) fn delivered(&mut self, consumer: ConsumerId, delivery: Delivery) {
        self.delivered.push_back((consumer, delivery));
    }

    pub(super) fn push_back(&mut self, event: Event<P>) {
        self.other.push_back(event);
    }

    pub(super) fn extend(&mut self, events: impl IntoIterator<Item = Event<P>>) {
        self.other.extend(events);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.settled.is_empty() && self.delivered.is_empty() && self.other.is_empty()
    }

    /// Exchanges the settled publishes for an empty vector.
    pub(super) fn take_settled(&mut self, taken: &mut Vec<(PublishId, P, Outcome)>) {
        debug_assert!(taken.is_empty(), "what was taken before is handed out");
        std::mem::swap(&mut self.settled, taken);
    }

    /// Exchanges the messages for consumers for an empty queue.
    pub(super) fn take_delivered(&mut self, taken: &mut VecDeque<(ConsumerId, Delivery)>) {
        debug_assert!(taken.is_empty(), "what was taken before is handed out");
        std::mem::swap(&mut self.delivered, taken);
    }

    #[inline]
    pub(super) fn pop_front(&mut self) -> Option<Event<P>> {
        if !self.settled.is_empty() {
            self.put_settled_first();
        }
        match self.delivered.pop_front() {
            Some((consumer, delivery)) => Some(Event::Delivered(consumer, delivery)),
            None => self.other.pop_front(),
        }
    }

    #[cold]
    fn put_settled_first(&mut self) {
        let settled = self.settled.drain(..).rev();
        settled.for_each(|(id, keep, outcome)| {
            self.other.push_front(Event::Settled(id, keep, outcome));
        });
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.settled.len() + self.delivered.len() + self.other.len()
    }
}

/// The answer to a request.
#[derive(Debug)]
pub enum Reply {
    /// The synchronous reply.
    Method(Method<'static>),
    /// The channel a [`open_channel`](super::Connection::open_channel) asked for.
    Channel(ChannelId),
    /// The transaction is committed; these messages of it came back unroutable.
    Committed(Vec<Returned>),
    /// The transaction is undone; these messages of it had come back unroutable.
    RolledBack(Vec<Returned>),
    /// What basic.get brought: `None` if the queue was empty, else the message and how many are left.
    Got(Option<(Delivery, u32)>),
}

/// Why a request got no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// Its channel closed.
    #[error("{method}: channel {closed}")]
    ChannelClosed {
        /// The request's method.
        method: MethodId,
        /// How the channel ended.
        #[source]
        closed: Arc<Closed>,
    },
    /// The connection went.
    #[error("{method}: connection {closed}")]
    ConnectionClosed {
        /// The request's method.
        method: MethodId,
        /// How the connection ended.
        #[source]
        closed: Arc<Closed>,
    },
    /// It cannot be sent.
    #[error(transparent)]
    Usage(#[from] UsageError),
}
