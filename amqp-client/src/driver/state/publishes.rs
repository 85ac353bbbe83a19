//! Publishes, and where their outcomes are waited for.
//!
//! A publish is in its channel's books until it has its outcome, with who waits for it. Afterwards nothing is kept of one
//! that was acked, which costs nothing and is what becomes of nearly all; every other outcome is kept until it is taken.

use std::task::{Poll, Waker};

use super::State;
use crate::error::NotSent;
use crate::message::Publication;
use crate::outcome::Outcome;
use crate::proto::{ChannelId, Keep, PublishId, PublishSeq};

/// Who waits for the outcome of a publish that has none yet.
#[derive(Debug)]
pub(crate) enum Interest {
    /// Nobody yet.
    Unasked,
    Awaited(Waker),
    /// Nobody any more. Should the message come back, it goes to the returns of its channel.
    Dropped,
}

impl Interest {
    /// It is awaited by this one now. Whom to forget for it.
    fn await_by(&mut self, waker: &Waker) -> Option<Waker> {
        match self {
            Interest::Awaited(known) if known.will_wake(waker) => None,
            Interest::Awaited(known) => Some(std::mem::replace(known, waker.clone())),
            Interest::Unasked | Interest::Dropped => {
                *self = Interest::Awaited(waker.clone());
                None
            }
        }
    }
}

impl Keep for Interest {
    #[inline]
    fn wants_ack(&self) -> bool {
        matches!(self, Interest::Awaited(_))
    }
}

impl State {
    /// Publishes a message that is to be confirmed. It is taken when it was sent, and stays where it is otherwise.
    #[inline]
    pub(crate) fn publish(
        &mut self,
        id: ChannelId,
        slot: usize,
        unsent: &mut Option<Publication>,
    ) -> Result<PublishSeq, NotSent> {
        let seq = self.send(id, slot, unsent, Interest::Unasked)?;
        // A channel of this type is in confirm mode: its publishes have numbers.
        Ok(seq.unwrap_or(PublishSeq(0)))
    }

    /// Publishes a message that is not confirmed. It is taken when it was sent, and stays where it is otherwise.
    pub(crate) fn publish_unconfirmed(
        &mut self,
        id: ChannelId,
        slot: usize,
        unsent: &mut Option<Publication>,
    ) -> Result<(), NotSent> {
        self.send(id, slot, unsent, Interest::Dropped).map(|_| ())
    }

    #[inline]
    fn send(
        &mut self,
        id: ChannelId,
        slot: usize,
        unsent: &mut Option<Publication>,
        interest: Interest,
    ) -> Result<Option<PublishSeq>, NotSent> {
        let sent = match self.conn.channel(id) {
            Ok(mut view) => view.publish(unsent, interest),
            Err(error) => Err(error.into()),
        };
        sent.map_err(|reason| self.explain_not_sent(slot, reason))
    }

    #[cold]
    fn explain_not_sent(&self, slot: usize, reason: NotSent) -> NotSent {
        match reason {
            NotSent::Usage(error) => NotSent::Usage(self.explain(slot, error)),
            NotSent::Full | NotSent::Blocked => reason,
        }
    }

    pub(super) fn hand_out_settled(&mut self, wakes: &mut Vec<Waker>) {
        if self.settled.is_empty() {
            return;
        }
        let mut settled = std::mem::take(&mut self.settled);
        for (id, interest, outcome) in settled.drain(..) {
            self.settled(id, interest, outcome, wakes);
        }
        self.settled = settled;
    }

    pub(super) fn settled(
        &mut self,
        id: PublishId,
        interest: Interest,
        outcome: Outcome,
        wakes: &mut Vec<Waker>,
    ) {
        match interest {
            Interest::Unasked => {}
            Interest::Awaited(waker) => wakes.push(waker),
            Interest::Dropped => {
                if let Outcome::Returned(returned) = outcome {
                    self.returned(id.channel, *returned, wakes);
                }
                return;
            }
        }
        if !outcome.is_acked() {
            self.outcomes.insert(id, outcome);
        }
    }

    /// The outcome of a publish, to be taken once.
    #[inline]
    pub(crate) fn poll_outcome(
        &mut self,
        channel: &ChannelId,
        seq: PublishSeq,
        waker: &Waker,
    ) -> Poll<Outcome> {
        if let Some(interest) = self.conn.kept(channel, seq) {
            self.dead.extend(interest.await_by(waker));
            return Poll::Pending;
        }
        if self.outcomes.is_empty() {
            return Poll::Ready(Outcome::Acked);
        }
        let channel = *channel;
        Poll::Ready(self.take_outcome(PublishId { channel, seq }))
    }

    #[cold]
    fn take_outcome(&mut self, id: PublishId) -> Outcome {
        self.outcomes.remove(&id).unwrap_or(Outcome::Acked)
    }

    /// Nobody waits for the outcome any more. Should the message come back, it goes to the returns stream.
    /// Who waits for that is to be woken.
    pub(crate) fn drop_confirm(&mut self, id: PublishId) -> Vec<Waker> {
        let mut wakes = Vec::new();
        if let Some(interest) = self.conn.kept(&id.channel, id.seq) {
            if let Interest::Awaited(waker) = std::mem::replace(interest, Interest::Dropped) {
                self.dead.push(waker);
            }
        } else if let Some(Outcome::Returned(returned)) = self.outcomes.remove(&id) {
            self.returned(id.channel, *returned, &mut wakes);
        }
        wakes
    }
}
