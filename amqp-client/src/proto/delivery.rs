//! Messages that come to us.

use std::fmt;

use amqp_codec::basic::Properties;
use amqp_codec::content::Content;
use amqp_codec::{DecodeError, Limits, ReplyCode, ShortStr, Table};
use bytes::Bytes;

use super::event::{ChannelId, ConsumerId};

/// Names a delivery for its ack: a number that counts on one incarnation of one channel. Acks through any
/// other channel are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeliveryTag {
    pub(crate) channel: ChannelId,
    pub(crate) tag: u64,
}

impl DeliveryTag {
    /// The channel incarnation it belongs to.
    pub fn channel(&self) -> ChannelId {
        self.channel
    }

    /// The number on the wire.
    pub fn number(&self) -> u64 {
        self.tag
    }
}

/// How a delivery is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settle {
    /// basic.ack
    Ack,
    /// basic.nack, back into the queue or dropped (dead-lettered).
    Nack {
        /// Whether the message goes back into its queue.
        requeue: bool,
    },
    /// basic.reject: the same as nack for one message, known to every broker.
    Reject {
        /// Whether the message goes back into its queue.
        requeue: bool,
    },
}

/// What the method of a delivery says, beside its strings.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeliveryHead {
    pub(super) tag: u64,
    pub(super) redelivered: bool,
    pub(super) origin: Origin,
}

impl DeliveryHead {
    /// Nobody wants what is for this consumer any more.
    pub(super) fn forget_consumer(&mut self, id: ConsumerId) {
        if let Origin::Consumer(consumer) = &mut self.origin {
            consumer.take_if(|wanted| *wanted == id);
        }
    }
}

/// Which method a content belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Origin {
    /// basic.deliver, to this consumer; to none where nobody wants its messages any more.
    Consumer(Option<ConsumerId>),
    /// basic.get-ok, with how many messages are left.
    Get { message_count: u32 },
    /// basic.return, and the number that the next publish would have had when it began: what is published while the
    /// rest of it comes is not what came back.
    Return { code: ReplyCode, before: u64 },
}

/// A message from a queue, with all of its bytes in one allocation.
///
/// It is moved several times on its way to who consumes it: it is kept below the size from which that would be a call.
pub struct Delivery {
    tag: DeliveryTag,
    redelivered: bool,
    content: Content<()>,
}

const _: () = assert!(size_of::<Delivery>() <= 112);

/// Where the strings of a delivery are in its content.
const EXCHANGE: usize = 0;
const ROUTING_KEY: usize = 1;

impl Delivery {
    #[inline]
    pub(super) fn new(tag: DeliveryTag, redelivered: bool, content: Content<()>) -> Self {
        Delivery {
            tag,
            redelivered,
            content,
        }
    }

    /// The same from what was put together on this channel.
    pub(super) fn of_content(channel: ChannelId, content: Content<DeliveryHead>) -> Self {
        let DeliveryHead {
            tag, redelivered, ..
        } = content.method;
        let tag = DeliveryTag { channel, tag };
        Delivery::new(tag, redelivered, content.map(|_| ()))
    }

    /// The tag to ack, nack or reject it by.
    pub fn tag(&self) -> DeliveryTag {
        self.tag
    }

    /// A hint that the message may have been delivered before.
    pub fn redelivered(&self) -> bool {
        self.redelivered
    }

    /// The exchange it was published to; empty for the default exchange.
    pub fn exchange(&self) -> ShortStr<'_> {
        short(self.content.string(EXCHANGE))
    }

    /// The routing key it was published with.
    pub fn routing_key(&self) -> ShortStr<'_> {
        short(self.content.string(ROUTING_KEY))
    }

    /// Its properties, taken apart anew at each call.
    pub fn properties(&self) -> Properties<'_> {
        self.content.properties()
    }

    /// Its headers; empty if it has none.
    ///
    /// # Errors
    /// They are malformed, or beyond the default [`Limits`]: a message can be acked or rejected even so.
    pub fn headers(&self) -> Result<Table<'static>, DecodeError> {
        let headers = self
            .properties()
            .headers(&Limits::default())?
            .map(Table::into_owned);
        Ok(headers.unwrap_or_default())
    }

    /// Whether it says that it comes from a stream. A copy of such a message in another queue says so too.
    pub(super) fn is_of_stream(&self, limits: &Limits) -> bool {
        let properties = self.properties();
        let headers = properties.headers(limits);
        matches!(headers, Ok(Some(headers)) if headers.contains_key("x-stream-offset"))
    }

    /// Its body.
    pub fn body(&self) -> &[u8] {
        self.content.body()
    }

    /// The bytes it takes: its body, its properties and its address.
    pub fn size(&self) -> usize {
        self.content.size()
    }

    /// Its body, without the rest.
    pub fn into_body(self) -> Bytes {
        self.content.into_body()
    }
}

/// Strings of a content came from short strings.
pub(super) fn short(bytes: &[u8]) -> ShortStr<'_> {
    ShortStr::try_from(bytes).unwrap_or_default()
}

/// Shows the address and sizes, never the payload.
impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("tag", &self.tag().number())
            .field("exchange", &self.exchange())
            .field("routing_key", &self.routing_key())
            .field("redelivered", &self.redelivered())
            .field("body_len", &self.body().len())
            .finish()
    }
}
