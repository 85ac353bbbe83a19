//! Publishes, and where their outcomes are waited for.

use std::task::Waker;

use super::{PublishKey, State};
use crate::error::NotSent;
use crate::message::Publication;
use crate::outcome::Outcome;
use crate::proto::{ChannelId, PublishSeq};

/// What becomes of one publish.
pub(super) enum PublishSlot {
    /// No outcome yet; who waits for it, if somebody does by now.
    Waiting(Option<Waker>),
    Settled(Outcome),
    /// Nobody waits for the outcome any more; should the message come back, this is its channel.
    Dropped(ChannelId),
}

impl State {
    /// Publishes a message that is to be confirmed. It is taken when it was sent, and stays where it is otherwise.
    #[inline]
    pub(crate) fn publish(
        &mut self,
        slot: usize,
        unsent: &mut Option<Publication>,
    ) -> Result<(PublishKey, PublishSeq), NotSent> {
        let key = self.publishes.vacant_key();
        let seq = self.send(slot, unsent, key)?;
        self.publishes.insert(PublishSlot::Waiting(None));
        // A channel of this type is in confirm mode: its publishes have numbers.
        Ok((key, seq.unwrap_or(PublishSeq(0))))
    }

    /// Publishes a message that is not confirmed. It is taken when it was sent, and stays where it is otherwise.
    pub(crate) fn publish_unconfirmed(
        &mut self,
        slot: usize,
        unsent: &mut Option<Publication>,
    ) -> Result<(), NotSent> {
        self.send(slot, unsent, PublishKey::MAX).map(|_| ())
    }

    #[inline]
    pub(super) fn send(
        &mut self,
        slot: usize,
        unsent: &mut Option<Publication>,
        key: PublishKey,
    ) -> Result<Option<PublishSeq>, NotSent> {
        let sent = match self.conn.channel(self.channels[slot].id) {
            Ok(mut view) => view.publish(unsent, key),
            Err(error) => Err(error.into()),
        };
        sent.map_err(|reason| self.explain_not_sent(slot, reason))
    }

    #[cold]
    pub(super) fn explain_not_sent(&self, slot: usize, reason: NotSent) -> NotSent {
        match reason {
            NotSent::Usage(error) => NotSent::Usage(self.explain(slot, error)),
            NotSent::Full | NotSent::Blocked => reason,
        }
    }

    pub(super) fn hand_out_settled(&mut self, wakes: &mut Vec<Waker>) {
        let mut settled = std::mem::take(&mut self.settled);
        for (key, outcome) in settled.drain(..) {
            self.settled(key, outcome, wakes);
        }
        self.settled = settled;
    }

    #[inline]
    pub(super) fn settled(&mut self, key: PublishKey, outcome: Outcome, wakes: &mut Vec<Waker>) {
        let Some(slot) = self.publishes.get_mut(key) else {
            return;
        };
        match slot {
            PublishSlot::Waiting(waker) => {
                if let Some(waker) = waker.take() {
                    wakes.push(waker);
                }
                *slot = PublishSlot::Settled(outcome);
            }
            PublishSlot::Dropped(channel) => {
                let channel = *channel;
                self.publishes.remove(key);
                if let Outcome::Returned(returned) = outcome {
                    self.returned(channel, *returned, wakes);
                }
            }
            // proto settles each publish once.
            PublishSlot::Settled(_) => {}
        }
    }

    #[inline]
    pub(crate) fn poll_outcome(&mut self, key: PublishKey, waker: &Waker) -> Option<Outcome> {
        match self.publishes.get_mut(key)? {
            PublishSlot::Settled(_) => match self.publishes.remove(key) {
                PublishSlot::Settled(outcome) => Some(outcome),
                PublishSlot::Waiting(_) | PublishSlot::Dropped(_) => None,
            },
            PublishSlot::Waiting(known) => {
                if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
                    self.dead.extend(known.replace(waker.clone()));
                }
                None
            }
            PublishSlot::Dropped(_) => None,
        }
    }

    /// Nobody waits for the outcome any more. Should the message come back, it goes to the returns stream.
    /// Who waits for that is to be woken.
    pub(crate) fn drop_confirm(&mut self, key: PublishKey, channel: ChannelId) -> Vec<Waker> {
        let mut wakes = Vec::new();
        let Some(slot) = self.publishes.get_mut(key) else {
            return wakes;
        };
        if let PublishSlot::Waiting(waker) = slot {
            self.dead.extend(waker.take());
            *slot = PublishSlot::Dropped(channel);
            return wakes;
        }
        if let PublishSlot::Settled(Outcome::Returned(returned)) = self.publishes.remove(key) {
            self.returned(channel, *returned, &mut wakes);
        }
        wakes
    }
}
