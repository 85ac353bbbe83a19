use std::time::Duration;

use amqp_codec::{ShortStr, Table, TooLong, Value, queue, short};

use super::{DeadLetterStrategy, LeaderLocator, QueueOverflow, QueueType, Refused, length, millis};
use crate::error::UsageError;

/// A queue to declare (queue.declare): not durable, not exclusive, not deleted automatically unless said.
///
/// What is wrong with it, such as a name that is too long, is remembered, and the call that declares it is refused.
/// The arguments with a setter of their own are RabbitMQ's; which kinds of queues and which versions know them is
/// said with each. The broker refuses (406) a queue that exists with other arguments.
///
/// ```
/// use amqp_client::{QueueDeclare, QueueOverflow, QueueType};
/// use std::time::Duration;
///
/// // Messages wait here for a minute, then go back to the exchange `work`.
/// let retry = QueueDeclare::new("work.retry")
///     .durable()
///     .message_ttl(Duration::from_secs(60))
///     .dead_letter_exchange("work")
///     .dead_letter_routing_key("again");
/// // A bound on what waits: publishers get a nack when it is full.
/// let work = QueueDeclare::new("work")
///     .durable()
///     .queue_type(QueueType::Quorum)
///     .max_length(100_000)
///     .overflow(QueueOverflow::RejectPublish)
///     .delivery_limit(5)
///     .dead_letter_exchange("work.dead");
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct QueueDeclare {
    method: queue::Declare<'static>,
    refused: Refused,
}

impl QueueDeclare {
    /// A queue of this name, of up to 255 bytes; for an empty one the server makes a name, which is in the
    /// [`QueueInfo`].
    pub fn new(name: impl TryInto<ShortStr<'static>, Error: Into<TooLong>>) -> Self {
        let mut refused = Refused::default();
        let method = queue::Declare {
            queue: refused.name(name),
            ..Default::default()
        };
        QueueDeclare { method, refused }
    }

    /// The queue survives a restart of the broker; so do messages in it that are
    /// [persistent](crate::Message::persistent).
    pub fn durable(mut self) -> Self {
        self.method.durable = true;
        self
    }

    /// The queue is this connection's alone, and goes with it.
    pub fn exclusive(mut self) -> Self {
        self.method.exclusive = true;
        self
    }

    /// The queue goes when its last consumer does; not before it had one.
    pub fn auto_delete(mut self) -> Self {
        self.method.auto_delete = true;
        self
    }

    /// Only asks whether the queue exists; what else is said here is not looked at.
    pub fn passive(mut self) -> Self {
        self.method.passive = true;
        self
    }

    /// How the queue keeps its messages (`x-queue-type`). Quorum queues and streams have to be durable and neither
    /// exclusive nor deleted automatically.
    pub fn queue_type(self, kind: QueueType) -> Self {
        self.argument(short!("x-queue-type"), kind.as_str())
    }

    /// How long messages may wait before they expire (`x-message-ttl`, whole milliseconds, at most ten years). With
    /// zero they expire unless they can be delivered at once.
    pub fn message_ttl(self, ttl: Duration) -> Self {
        self.checked(short!("x-message-ttl"), millis(ttl))
    }

    /// The queue goes when it was not used for so long (`x-expires`, whole milliseconds, from one to those of ten
    /// years): no consumers, no declaration, no get.
    pub fn expires(self, unused: Duration) -> Self {
        let millis = millis(unused).filter(|millis| *millis > 0);
        self.checked(short!("x-expires"), millis)
    }

    /// How many messages may be ready in the queue (`x-max-length`). What happens beyond: [`overflow`](Self::overflow).
    pub fn max_length(self, messages: u64) -> Self {
        self.checked(short!("x-max-length"), length(messages))
    }

    /// How many bytes the bodies of the messages that are ready may have (`x-max-length-bytes`); for streams, the size
    /// on disk.
    pub fn max_length_bytes(self, bytes: u64) -> Self {
        self.checked(short!("x-max-length-bytes"), length(bytes))
    }

    /// What happens to messages that a full queue has no room for (`x-overflow`).
    pub fn overflow(self, overflow: QueueOverflow) -> Self {
        self.argument(short!("x-overflow"), overflow.as_str())
    }

    /// Where messages go that are rejected, expire or do not fit (`x-dead-letter-exchange`). The empty name is the
    /// default exchange. It need not exist when the queue is declared; dead letters are dropped while it does not.
    pub fn dead_letter_exchange(
        mut self,
        exchange: impl TryInto<ShortStr<'static>, Error: Into<TooLong>>,
    ) -> Self {
        let exchange = self.refused.name(exchange);
        self.argument(short!("x-dead-letter-exchange"), exchange)
    }

    /// The routing key of dead letters, in place of their own (`x-dead-letter-routing-key`).
    pub fn dead_letter_routing_key(
        mut self,
        routing_key: impl TryInto<ShortStr<'static>, Error: Into<TooLong>>,
    ) -> Self {
        let routing_key = self.refused.name(routing_key);
        self.argument(short!("x-dead-letter-routing-key"), routing_key)
    }

    /// Whether dead letters may be lost on their way (`x-dead-letter-strategy`; quorum queues).
    pub fn dead_letter_strategy(self, strategy: DeadLetterStrategy) -> Self {
        self.argument(short!("x-dead-letter-strategy"), strategy.as_str())
    }

    /// The queue tells so many priorities of messages apart (`x-max-priority`; classic queues), 1 to 255; above 10
    /// costs more than it brings.
    pub fn max_priority(self, priorities: u8) -> Self {
        let priorities = Some(priorities).filter(|priorities| *priorities > 0);
        self.checked(short!("x-max-priority"), priorities)
    }

    /// One consumer at a time gets all deliveries, in order; the next takes over when it goes
    /// (`x-single-active-consumer`).
    pub fn single_active_consumer(self) -> Self {
        self.argument(short!("x-single-active-consumer"), true)
    }

    /// How many times a message may be delivered and come back before it is dropped or dead-lettered
    /// (`x-delivery-limit`; quorum queues, where it is 20 unless said on RabbitMQ 4).
    pub fn delivery_limit(self, deliveries: u32) -> Self {
        self.argument(short!("x-delivery-limit"), i64::from(deliveries))
    }

    /// How long a delivery may wait for its ack (`x-consumer-timeout`, whole milliseconds; RabbitMQ since 3.12).
    pub fn consumer_timeout(self, timeout: Duration) -> Self {
        self.checked(short!("x-consumer-timeout"), millis(timeout))
    }

    /// Messages are kept on disk rather than in memory (`x-queue-mode`; classic queues before RabbitMQ 3.12, which
    /// then do so anyway).
    pub fn lazy(self) -> Self {
        self.argument(short!("x-queue-mode"), "lazy")
    }

    /// On which node of a cluster the queue's leader starts (`x-queue-leader-locator`).
    pub fn leader_locator(self, locator: LeaderLocator) -> Self {
        self.argument(short!("x-queue-leader-locator"), locator.as_str())
    }

    /// How old the messages of a stream may become (`x-max-age`, whole seconds, at least one).
    pub fn max_age(self, age: Duration) -> Self {
        let age = Some(age.as_secs()).filter(|seconds| *seconds > 0);
        self.checked(
            short!("x-max-age"),
            age.map(|seconds| format!("{seconds}s")),
        )
    }

    /// Any other argument. Replaces one of the same name.
    pub fn argument<'v>(
        mut self,
        name: impl TryInto<ShortStr<'static>, Error: Into<TooLong>>,
        value: impl Into<Value<'v>>,
    ) -> Self {
        self.refused.set(&mut self.method.arguments, name, value);
        self
    }

    /// All arguments at once, in place of those set before.
    pub fn arguments(mut self, arguments: Table<'static>) -> Self {
        self.method.arguments = arguments;
        self
    }

    fn checked<'v>(mut self, name: ShortStr<'static>, value: Option<impl Into<Value<'v>>>) -> Self {
        self.refused
            .set_checked(&mut self.method.arguments, name, value);
        self
    }

    /// The method, unless something cannot be sent.
    pub(in crate::api) fn method(&self) -> Result<&queue::Declare<'static>, UsageError> {
        self.refused.check()?;
        Ok(&self.method)
    }
}

/// What queue.declare-ok says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueInfo {
    /// The queue's name, which the server may have made.
    pub name: ShortStr<'static>,
    /// Messages that are ready in it; those that wait for their ack are not counted.
    pub message_count: u32,
    /// Its consumers.
    pub consumer_count: u32,
}

/// A queue to delete (queue.delete), whatever is in it and whoever consumes from it unless said.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct QueueDelete {
    method: queue::Delete<'static>,
    refused: Refused,
}

impl QueueDelete {
    /// The queue of this name, of up to 255 bytes. The empty one is the queue declared last on the channel.
    pub fn new(name: impl TryInto<ShortStr<'static>, Error: Into<TooLong>>) -> Self {
        let mut refused = Refused::default();
        let method = queue::Delete {
            queue: refused.name(name),
            ..Default::default()
        };
        QueueDelete { method, refused }
    }

    /// Only if it has no consumers.
    pub fn if_unused(mut self) -> Self {
        self.method.if_unused = true;
        self
    }

    /// Only if no message is ready in it.
    pub fn if_empty(mut self) -> Self {
        self.method.if_empty = true;
        self
    }

    /// The method, unless something cannot be sent.
    pub(in crate::api) fn method(&self) -> Result<&queue::Delete<'static>, UsageError> {
        self.refused.check()?;
        Ok(&self.method)
    }
}
