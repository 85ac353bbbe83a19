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
        budget: usize,
        overflow: Overflow,
    ) {
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
        }
    }

    pub(super) fn end_consumer(
        &mut self,
        consumer: ConsumerId,
        end: ConsumerEnd,
        wakes: &mut Vec<Waker>,
    ) {
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
        slot.waker = Some(waker.clone());
        None
    }

    /// It has said that it is over.
    pub(crate) fn forget_consumer(&mut self, consumer: ConsumerId) {
        self.consumers.remove(&consumer);
    }

    /// The consumer was dropped: it is cancelled, and what it has not handed out goes back to its queue.
    pub(crate) fn drop_consumer(&mut self, consumer: ConsumerId, taken: &mut VecDeque<Delivery>) {
        self.unstall(consumer);
        let Some(dropped) = self.consumers.remove(&consumer) else {
            return;
        };
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
