//! Synchronous methods of one channel: one on the wire at a time, answered in the order they were asked.

use std::collections::VecDeque;

use amqp_codec::{MethodId, ShortStr};

/// Names a request of the caller's until its [`Reply`](super::Event::Reply) event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A synchronous method that waits for its turn or for its reply.
#[derive(Debug)]
pub(super) struct Rpc {
    /// Who waits for the reply. `None`: nobody, or nobody any more. The reply is awaited all the same, so
    /// that it goes to nobody else, and what it brings is undone.
    pub(super) request: Option<RequestId>,
    /// The method, for its replies and for errors.
    pub(super) method: MethodId,
    /// For consume and get: what comes needs no ack.
    pub(super) no_ack: bool,
    /// For consume and cancel: the consumer tag; empty where the server makes one.
    pub(super) consumer_tag: ShortStr<'static>,
    /// The whole method frame; taken when it is sent.
    pub(super) frame: Vec<u8>,
}

/// What became of a request whose caller gave up.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Abandoned {
    /// It was not sent, and never will be.
    Unsent(MethodId),
    /// It is on the wire, and its reply will go to nobody.
    Unanswered(MethodId),
}

/// RabbitMQ may answer pipelined methods of one channel out of order (queue.delete-ok before consume-ok),
/// so a method is sent when the one before it has been answered.
#[derive(Debug, Default)]
pub(super) struct RpcQueue {
    /// The front is on the wire if `in_flight`.
    queue: VecDeque<Rpc>,
    in_flight: bool,
}

impl RpcQueue {
    /// Adds a method. The caller then sends [`next_frame`](Self::next_frame).
    pub(super) fn push(&mut self, rpc: Rpc) {
        self.queue.push_back(rpc);
    }

    /// Adds a method that undoes what a reply has just brought, before all that wait.
    pub(super) fn push_first(&mut self, rpc: Rpc) {
        debug_assert!(!self.in_flight, "a reply has just come");
        self.queue.push_front(rpc);
    }

    /// The frame that may be sent now: none while an earlier method is unanswered.
    pub(super) fn next_frame(&mut self) -> Option<(MethodId, Vec<u8>)> {
        if self.in_flight {
            return None;
        }
        let front = self.queue.front_mut()?;
        self.in_flight = true;
        Some((front.method, std::mem::take(&mut front.frame)))
    }

    /// The method that is on the wire.
    pub(super) fn awaited(&self) -> Option<&Rpc> {
        self.queue.front().filter(|_| self.in_flight)
    }

    /// The last method of those that wait which starts or cancels the consumer of this tag.
    pub(super) fn last_about(&self, consumer_tag: &ShortStr<'_>) -> Option<&Rpc> {
        let about = |rpc: &&Rpc| rpc.consumer_tag == *consumer_tag;
        self.queue.iter().rev().find(about)
    }

    /// Whether a method that waits cancels the consumer of this tag.
    pub(super) fn cancels(&self, consumer_tag: &ShortStr<'_>) -> bool {
        let cancel = |rpc: &Rpc| rpc.method == MethodId::BASIC_CANCEL;
        self.queue
            .iter()
            .any(|rpc| cancel(rpc) && rpc.consumer_tag == *consumer_tag)
    }

    /// The reply to the method on the wire has come, if this is one.
    pub(super) fn recv_reply(&mut self, reply: MethodId) -> Option<Rpc> {
        let expected = self.awaited()?.method.replies().contains(&reply);
        if !expected {
            return None;
        }
        self.in_flight = false;
        self.queue.pop_front()
    }

    /// The caller gave up.
    pub(super) fn abandon(&mut self, request: RequestId) -> Option<Abandoned> {
        let index = self
            .queue
            .iter()
            .position(|rpc| rpc.request == Some(request))?;
        if index == 0 && self.in_flight {
            let rpc = self.queue.front_mut()?;
            rpc.request = None;
            return Some(Abandoned::Unanswered(rpc.method));
        }
        let rpc = self.queue.remove(index)?;
        Some(Abandoned::Unsent(rpc.method))
    }

    /// Everybody whose request will not be answered any more, and the request's method.
    pub(super) fn fail_all(&mut self) -> impl Iterator<Item = (RequestId, MethodId)> + use<> {
        self.in_flight = false;
        std::mem::take(&mut self.queue)
            .into_iter()
            .filter_map(|rpc| Some((rpc.request?, rpc.method)))
    }
}
