//! Methods that the server does not answer.

use std::sync::Arc;

use amqp_codec::{MethodFields, ShortStr, Table, TooLong, exchange, queue};

use super::channel::ChannelCore;
use super::{Consume, Consumer, ExchangeDeclare, QueueDeclare, QueueDelete, checked};
use crate::error::UsageError;

/// The calls of a channel in the form that the server does not answer (the protocol's no-wait); made by
/// [`Methods::no_wait`](super::Methods::no_wait).
///
/// queue.unbind has no such form in the protocol; neither has basic.qos. They are no futures. A call that returns `Ok` has put its method into the outgoing buffer, whole. What is certain
/// then:
///
/// - It goes to the server behind everything that was sent on the channel before, publishes and acks included, and
///   before everything that is sent on it later, and the server takes it up in that order. A call with an answer that
///   still waits for its turn behind another one, unanswered, is sent when its turn comes: later.
/// - Nothing comes back. That it has taken effect is certain when a later call of the same channel is answered.
/// - A refusal by the server closes the channel, as with the call that is answered, but at some later time:
///   [`Methods::closed`](super::Methods::closed) and the errors of later calls tell, and name the method. Publishes
///   whose confirm is open become unknown.
///
/// ```no_run
/// use amqp_client::{Connection, QueueDeclare, codec::table};
///
/// # async fn example(connection: Connection) -> Result<(), amqp_client::error::Error> {
/// let channel = connection.open_channel().await?;
/// // A thousand bindings in one round trip.
/// channel.queue_declare(QueueDeclare::new("orders")).await?;
/// for customer in 0..1000 {
///     let key = format!("order.{customer}");
///     channel.no_wait().queue_bind("orders", "amq.topic", key, table! {})?;
/// }
/// // When this is answered all are there, or it tells which one was refused.
/// channel.queue_declare(QueueDeclare::new("orders").passive()).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// All calls here refuse the same as those that are answered; nothing is sent then: [`UsageError`].
#[derive(Clone, Copy)]
pub struct NoWait<'c> {
    core: &'c Arc<ChannelCore>,
}

impl<'c> NoWait<'c> {
    pub(super) fn new(core: &'c Arc<ChannelCore>) -> Self {
        NoWait { core }
    }

    fn send(self, method: &impl MethodFields) -> Result<(), UsageError> {
        self.core.with(|view| view.send(method))
    }

    /// [`Methods::exchange_declare`](super::Methods::exchange_declare) without an answer. A passive one that finds
    /// nothing closes the channel.
    ///
    /// # Errors
    /// A reserved or too long name, the default exchange, an argument that cannot be sent; the channel is not open.
    pub fn exchange_declare(self, declare: ExchangeDeclare) -> Result<(), UsageError> {
        self.send(&exchange::Declare {
            no_wait: true,
            ..checked::exchange_declare(&declare)?
        })
    }

    /// [`Methods::exchange_delete`](super::Methods::exchange_delete) without an answer.
    ///
    /// # Errors
    /// A reserved or too long name, the default exchange; the channel is not open.
    pub fn exchange_delete<'a>(
        self,
        name: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        if_unused: bool,
    ) -> Result<(), UsageError> {
        self.send(&exchange::Delete {
            no_wait: true,
            ..checked::exchange_delete(name, if_unused)?
        })
    }

    /// [`Methods::exchange_bind`](super::Methods::exchange_bind) without an answer.
    ///
    /// # Errors
    /// A name or key that is too long, the default exchange, an argument that cannot be sent; the channel is not open.
    pub fn exchange_bind<'a>(
        self,
        destination: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        source: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        routing_key: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        arguments: Table<'a>,
    ) -> Result<(), UsageError> {
        self.send(&exchange::Bind {
            no_wait: true,
            ..checked::exchange_bind(destination, source, routing_key, arguments)?
        })
    }

    /// [`Methods::exchange_unbind`](super::Methods::exchange_unbind) without an answer.
    ///
    /// # Errors
    /// As [`exchange_bind`](Self::exchange_bind).
    pub fn exchange_unbind<'a>(
        self,
        destination: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        source: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        routing_key: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        arguments: Table<'a>,
    ) -> Result<(), UsageError> {
        self.send(&exchange::Unbind {
            no_wait: true,
            ..checked::exchange_unbind(destination, source, routing_key, arguments)?
        })
    }

    /// [`Methods::queue_declare`](super::Methods::queue_declare) without an answer. With an empty name the server makes
    /// one that is not told: such a queue can only be called by the empty name, as the one declared last on the
    /// channel.
    ///
    /// # Errors
    /// A reserved or too long name, an argument that cannot be sent; the channel is not open.
    pub fn queue_declare(self, declare: QueueDeclare) -> Result<(), UsageError> {
        self.send(&queue::Declare {
            no_wait: true,
            ..checked::queue_declare(&declare)?
        })
    }

    /// [`Methods::queue_bind`](super::Methods::queue_bind) without an answer.
    ///
    /// # Errors
    /// A name or key that is too long, the default exchange, an argument that cannot be sent; the channel is not open.
    pub fn queue_bind<'a>(
        self,
        queue: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        exchange: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        routing_key: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        arguments: Table<'a>,
    ) -> Result<(), UsageError> {
        self.send(&queue::Bind {
            no_wait: true,
            ..checked::queue_bind(queue, exchange, routing_key, arguments)?
        })
    }

    /// [`Methods::queue_purge`](super::Methods::queue_purge) without an answer.
    ///
    /// # Errors
    /// A name that is too long; the channel is not open.
    pub fn queue_purge<'a>(
        self,
        queue: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
    ) -> Result<(), UsageError> {
        self.send(&queue::Purge {
            no_wait: true,
            ..checked::queue_purge(queue)?
        })
    }

    /// [`Methods::queue_delete`](super::Methods::queue_delete) without an answer.
    ///
    /// # Errors
    /// A name that is too long; the channel is not open.
    pub fn queue_delete(self, delete: QueueDelete) -> Result<(), UsageError> {
        self.send(&queue::Delete {
            no_wait: true,
            ..delete.method()?.clone()
        })
    }

    /// [`Methods::consume`](super::Methods::consume) without an answer. It needs a [tag](Consume::tag) of your own. If
    /// the server refuses it the channel closes, and the consumer's stream ends with that error.
    ///
    /// [`Consumer::cancel_no_wait`] is the way back.
    ///
    /// # Errors
    /// No tag, or one that is in use on the channel or whose consumer is being started or cancelled; a name that is
    /// too long, an argument that cannot be sent; the channel is not open.
    pub fn consume(self, consume: Consume) -> Result<Consumer, UsageError> {
        Consumer::start_no_wait(self.core, consume)
    }
}
