//! The consumers of one channel, and the deliveries that wait to be settled.

use std::collections::BTreeMap;

use amqp_codec::{ShortStr, basic};

use super::event::ConsumerId;
use super::tags::TagRing;
use crate::error::Violation;

/// Who gets what is delivered on a channel, and which of it is unsettled.
#[derive(Debug)]
pub(super) struct Consumers {
    /// Channels have few consumers: comparing costs less than hashing.
    by_tag: BTreeMap<ShortStr<'static>, Consumer>,
    /// Deliveries that wait for their ack, nack or reject.
    unsettled: TagRing<()>,
    /// basic.recover is on the wire: what still comes before its answer goes back to its queue with the rest.
    recovering: bool,
}

#[derive(Debug)]
struct Consumer {
    /// `None` once nobody wants its messages any more, until its cancel is answered.
    id: Option<ConsumerId>,
    no_ack: bool,
}

impl Consumers {
    pub(super) fn new() -> Self {
        Consumers {
            by_tag: BTreeMap::new(),
            unsettled: TagRing::new(),
            recovering: false,
        }
    }

    /// The server has started a consumer; without an id, nobody wants it any more.
    pub(super) fn start(&mut self, tag: ShortStr<'static>, id: Option<ConsumerId>, no_ack: bool) {
        self.by_tag.insert(tag, Consumer { id, no_ack });
    }

    /// Whether the server has a consumer of this tag.
    pub(super) fn has(&self, tag: &[u8]) -> bool {
        self.by_tag.contains_key(tag)
    }

    /// Nobody wants the consumer's messages any more. Its tag, to cancel it by.
    pub(super) fn forget(&mut self, id: ConsumerId) -> Option<ShortStr<'static>> {
        let (tag, consumer) = self
            .by_tag
            .iter_mut()
            .find(|(_, consumer)| consumer.id == Some(id))?;
        consumer.id = None;
        Some(tag.clone())
    }

    /// The consumer is cancelled, by either side: nothing more comes for it.
    pub(super) fn end(&mut self, tag: &[u8]) -> Option<ConsumerId> {
        self.by_tag.remove(tag)?.id
    }

    /// basic.deliver: whose it is, if anybody wants it.
    #[inline]
    pub(super) fn recv_deliver(
        &mut self,
        deliver: &basic::Deliver<'_>,
    ) -> Result<Option<ConsumerId>, Violation> {
        // RabbitMQ 4.3 redelivers to a tag that it has cancelled: a consumer that acks.
        let consumer = self.by_tag.get(deliver.consumer_tag.as_bytes());
        let no_ack = consumer.is_some_and(|consumer| consumer.no_ack);
        let id = consumer.and_then(|consumer| consumer.id);
        self.recv_delivery(deliver.delivery_tag, no_ack)?;
        Ok(id)
    }

    /// A message came under this tag.
    pub(super) fn recv_delivery(&mut self, delivery: u64, no_ack: bool) -> Result<(), Violation> {
        let unsettled = !no_ack && !self.recovering;
        if unsettled && !self.unsettled.insert(delivery, ()) {
            return Err(Violation::DeliveryTag(delivery));
        }
        Ok(())
    }

    pub(super) fn is_unsettled(&self, delivery: u64) -> bool {
        self.unsettled.contains(delivery)
    }

    /// Settles an unsettled delivery, or with `multiple` all up to it, and names each.
    pub(super) fn settle(&mut self, delivery: u64, multiple: bool, mut each: impl FnMut(u64)) {
        if multiple {
            self.unsettled.remove_through(delivery, |tag, ()| each(tag));
        } else if self.unsettled.remove(delivery).is_some() {
            each(delivery);
        }
    }

    /// A rollback has undone that the delivery was settled.
    pub(super) fn restore(&mut self, delivery: u64) {
        self.unsettled.restore(delivery, ());
    }

    /// basic.recover has been sent: all that is unsettled will be delivered anew, under other tags.
    pub(super) fn start_recover(&mut self) {
        self.unsettled.remove_all(|_, ()| {});
        self.recovering = true;
    }

    pub(super) fn recovered(&mut self) {
        self.recovering = false;
    }
}
