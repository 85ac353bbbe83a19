//! Deliveries on their way to their consumers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use amqp_codec::ReplyCode;

use super::State;
use crate::api::Overflow;
use crate::error::{CloseCause, Closed};
use crate::proto::{ConsumerId, Delivery};

/// What a delivery that waits takes beside its bytes: its place in the queue, and what an allocation costs. Without it,
/// small messages would take several times the budget.
const DELIVERY_OVERHEAD: usize = size_of::<Delivery>() + 16;

#[derive(Default)]
pub(super) struct ConsumerSlot {
    pub(super) channel: usize,
    pub(super) queue: VecDeque<Delivery>,
    /// The size of what is in `queue`.
    pub(super) buffered: usize,
    /// How much of it there may be.
    pub(super) budget: usize,
    /// The budget was lifted, as the consumer is about to end.
    pub(super) lifted: bool,
    pub(super) overflow: Overflow,
    /// Counted in [`State::stalled`].
    pub(super) stalls: bool,
    pub(super) waker: Option<Waker>,
    pub(super) end: Option<ConsumerEnd>,
}

/// Why a consumer gets nothing more.
#[derive(Debug, Clone)]
pub(crate) enum ConsumerEnd {
    Cancelled,
    CancelledByServer,
    ChannelClosed(Arc<Closed>),
}

impl State {
    /// Registers a consumer before it is asked for: its first message may come with the answer.
    pub(crate) fn add_consumer(
        &mut self,
        slot: usize,
        consumer: ConsumerId,
        budget: Option<usize>,
        overflow: Overflow,
    ) {
        let budget = budget.unwrap_or(self.conn.limits().undelivered_bytes);
        let new = ConsumerSlot {
            channel: slot,
            budget,
            overflow,
            ..ConsumerSlot::default()
        };
        self.consumers.insert(consumer, new);
        self.channels[slot].consumers.push(consumer);
    }

    /// Whether reading from the connection has to wait for a consumer.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled > 0
    }

    pub(super) fn hand_out_delivered(&mut self, wakes: &mut Vec<Waker>) {
        if self.delivered.is_empty() {
            return;
        }
        let mut delivered = std::mem::take(&mut self.delivered);
        for (consumer, delivery) in delivered.drain(..) {
            self.delivered(consumer, delivery, wakes);
        }
        self.delivered = delivered;
    }

    pub(super) fn delivered(
        &mut self,
        consumer: ConsumerId,
        delivery: Delivery,
        wakes: &mut Vec<Waker>,
    ) {
        let tag = delivery.tag();
        let Some(slot) = self.consumers.get_mut(&consumer) else {
            // The consumer was dropped and its cancel is on the way: back into the queue.
            if let Ok(mut view) = self.conn.channel(tag.channel()) {
                view.give_back(&delivery);
            }
            return;
        };
        slot.buffered += delivery.size() + DELIVERY_OVERHEAD;
        slot.queue.push_back(delivery);
        wakes.extend(slot.waker.take());
        if slot.buffered <= slot.budget {
            return;
        }
        match slot.overflow {
            Overflow::StallConnection if !slot.stalls => {
                slot.stalls = true;
                self.stalled += 1;
            }
            Overflow::StallConnection => {}
            Overflow::CloseChannel => {
                let cause = CloseCause::ConsumerOverflow {
                    budget: slot.budget,
                };
                if let Ok(mut view) = self.conn.channel(tag.channel()) {
                    view.close_because(ReplyCode::RESOURCE_ERROR, cause);
                }
            }
        }
    }

    /// The consumer's messages were taken, or it is gone: the connection may be read from again.
    pub(super) fn unstall(&mut self, consumer: ConsumerId) {
        if let Some(slot) = self.consumers.get_mut(&consumer)
            && std::mem::take(&mut slot.stalls)
        {
            self.stalled -= 1;
            self.unstalled = true;
        }
    }

    /// The task, if it sleeps and may read again.
    pub(crate) fn take_unstalled(&mut self) -> Option<Waker> {
        if std::mem::take(&mut self.unstalled) {
            self.take_asleep()
        } else {
            None
        }
    }

    /// The consumer is about to end, and the server's answer has to be read past what it still sends: as much more as a
    /// consumer keeps where nothing else is said. Beyond that its channel closes, as to wait would keep the answer out.
    pub(super) fn lift_budget(&mut self, consumer: ConsumerId) {
        let more = self.conn.limits().undelivered_bytes;
        if let Some(slot) = self.consumers.get_mut(&consumer)
            && !std::mem::replace(&mut slot.lifted, true)
        {
            slot.budget = slot.budget.saturating_add(more);
            slot.overflow = Overflow::CloseChannel;
        }
        self.unstall(consumer);
    }

    /// The same for all consumers of a channel that is about to close.
    pub(crate) fn lift_budgets(&mut self, slot: usize) {
        for consumer in self.channels[slot].consumers.clone() {
            self.lift_budget(consumer);
        }
    }

    /// The same for all of a connection that is about to close.
    pub(crate) fn lift_all_budgets(&mut self) {
        let slots: Vec<_> = self.channels.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.lift_budgets(slot);
        }
    }

    /// Whether the consumer is cancelled, by either side.
    pub(crate) fn is_cancelled(&self, consumer: ConsumerId) -> bool {
        use ConsumerEnd::{Cancelled, CancelledByServer};
        let slot = self.consumers.get(&consumer);
        slot.is_none_or(|slot| matches!(slot.end, Some(Cancelled | CancelledByServer)))
    }

    pub(super) fn end_consumer(
        &mut self,
        consumer: ConsumerId,
        end: ConsumerEnd,
        wakes: &mut Vec<Waker>,
    ) {
        self.unstall(consumer);
        if let Some(slot) = self.consumers.get_mut(&consumer) {
            slot.end.get_or_insert(end);
            wakes.extend(slot.waker.take());
        }
    }

    /// Takes all deliveries there are, in exchange for an empty queue. `Some(Err)` when there is none and will be
    /// none any more.
    pub(crate) fn poll_deliveries(
        &mut self,
        consumer: ConsumerId,
        queue: &mut VecDeque<Delivery>,
        waker: &Waker,
    ) -> Option<Result<(), ConsumerEnd>> {
        let Some(slot) = self.consumers.get_mut(&consumer) else {
            return Some(Err(ConsumerEnd::Cancelled));
        };
        if !slot.queue.is_empty() {
            std::mem::swap(&mut slot.queue, queue);
            slot.buffered = 0;
            self.unstall(consumer);
            return Some(Ok(()));
        }
        if let Some(end) = &slot.end {
            return Some(Err(end.clone()));
        }
        self.dead.extend(slot.waker.replace(waker.clone()));
        None
    }

    /// It has said that it is over.
    pub(crate) fn forget_consumer(&mut self, consumer: ConsumerId) {
        if let Some(consumer) = self.consumers.remove(&consumer) {
            self.dead.extend(consumer.waker);
        }
    }

    /// The consumer was dropped: it is cancelled, and what it has not handed out goes back to its queue.
    pub(crate) fn drop_consumer(&mut self, consumer: ConsumerId, taken: &mut VecDeque<Delivery>) {
        self.unstall(consumer);
        let Some(mut dropped) = self.consumers.remove(&consumer) else {
            return;
        };
        self.dead.extend(dropped.waker.take());
        let Some(channel) = self.channels.get_mut(dropped.channel) else {
            return;
        };
        channel.consumers.retain(|other| *other != consumer);
        if let Ok(mut view) = self.conn.channel(channel.id) {
            if dropped.end.is_none() {
                view.forget_consumer(consumer);
            }
            for delivery in taken.drain(..).chain(dropped.queue) {
                view.give_back(&delivery);
            }
        }
    }
}
