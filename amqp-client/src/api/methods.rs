//! What a channel can do in any mode.

use std::fmt;
use std::sync::Arc;

use amqp_codec::{
    MethodFields, MethodId, ReplyCode, ShortStr, Table, TooLong, basic, exchange, queue,
};

use super::channel::{ChannelCore, pick};
use super::{
    Consume, Consumer, Delivery, ExchangeDeclare, Got, QueueDeclare, QueueDelete, QueueInfo,
    Returns,
};
use crate::error::{Closed, Error, UsageError};
use crate::proto::{ChannelId, ChannelView, DeliveryTag, Reply, Settle};

/// The calls that [`Channel`](super::Channel), [`ConfirmChannel`](super::ConfirmChannel) and
/// [`TxChannel`](super::TxChannel) have in common.
///
/// Synchronous methods go out one at a time and are answered in order; each ends within the RPC deadline (30 s
/// unless said). A refusal by the server closes the channel: the error tells its code and text
/// ([`Error::closed`]).
///
/// # Cancel safety
/// Dropping the future of any call here leaves the channel usable: the answer goes to nobody else. What the answer
/// brings is undone where it would stay behind (a consumer is cancelled, a message is requeued); a declare, bind or
/// delete that was sent takes effect.
#[derive(Clone)]
pub struct Methods {
    core: Arc<ChannelCore>,
}

/// A synchronous method with a reply of its own type.
macro_rules! call {
    ($self:ident, $method:expr, $reply:ident) => {{
        let method = $method;
        let send = |view: &mut ChannelView<'_, usize>, request| view.call(request, &method);
        $self.core.call(id_of(&method), send, pick!($reply)).await
    }};
}

fn id_of<M: MethodFields>(_: &M) -> MethodId {
    M::ID
}

fn short<'a, S>(name: S) -> Result<ShortStr<'a>, UsageError>
where
    S: TryInto<ShortStr<'a>>,
    TooLong: From<S::Error>,
{
    name.try_into()
        .map_err(|error| UsageError::StringTooLong(error.into()))
}

impl Methods {
    pub(super) fn new(core: Arc<ChannelCore>) -> Self {
        Methods { core }
    }

    pub(super) fn core(&self) -> &Arc<ChannelCore> {
        &self.core
    }

    /// This incarnation of the channel.
    pub fn id(&self) -> ChannelId {
        self.core.id
    }

    /// How the channel ended, if it has.
    pub fn closed(&self) -> Option<Arc<Closed>> {
        self.core.closed()
    }

    /// Closes the channel (channel.close), after the publishes on it that wait for their confirm are settled.
    ///
    /// # Errors
    /// The channel or connection ended otherwise before; no answer within the close deadline.
    pub async fn close(&self) -> Result<(), Error> {
        self.core.close().await
    }

    /// Closes the channel at once, with a reply code and a text for the server's log. Publishes without a confirm
    /// become unknown.
    ///
    /// # Errors
    /// As [`close`](Self::close); a text of more than 255 bytes.
    pub async fn close_with<S>(&self, code: ReplyCode, text: S) -> Result<(), Error>
    where
        S: TryInto<ShortStr<'static>>,
        TooLong: From<S::Error>,
    {
        self.core.close_with(code, short(text)?).await
    }

    // ----- exchanges -----

    /// Declares an exchange (exchange.declare).
    ///
    /// # Errors
    /// 403 for a reserved name, 406 if it exists and is different, 404 if asked passively and it does not exist.
    pub async fn exchange_declare(&self, declare: ExchangeDeclare) -> Result<(), Error> {
        call!(self, declare.method, ExchangeDeclareOk)?;
        Ok(())
    }

    /// Deletes an exchange (exchange.delete); one that does not exist is deleted already.
    ///
    /// # Errors
    /// 406 if `if_unused` and something is bound to it.
    pub async fn exchange_delete<'a, E>(&self, name: E, if_unused: bool) -> Result<(), Error>
    where
        E: TryInto<ShortStr<'a>>,
        TooLong: From<E::Error>,
    {
        let exchange = short(name)?;
        call!(
            self,
            exchange::Delete {
                exchange,
                if_unused,
                ..Default::default()
            },
            ExchangeDeleteOk
        )?;
        Ok(())
    }

    /// Binds an exchange to another: messages go from `source` to `destination` (RabbitMQ: exchange.bind).
    ///
    /// # Errors
    /// 404 if either does not exist, 403 for the default exchange.
    pub async fn exchange_bind<'a, D, S, K>(
        &self,
        destination: D,
        source: S,
        routing_key: K,
        arguments: Table<'_>,
    ) -> Result<(), Error>
    where
        D: TryInto<ShortStr<'a>>,
        S: TryInto<ShortStr<'a>>,
        K: TryInto<ShortStr<'a>>,
        TooLong: From<D::Error> + From<S::Error> + From<K::Error>,
    {
        let (destination, source, routing_key) =
            (short(destination)?, short(source)?, short(routing_key)?);
        let bind = exchange::Bind {
            destination,
            source,
            routing_key,
            arguments,
            ..Default::default()
        };
        call!(self, bind, ExchangeBindOk)?;
        Ok(())
    }

    /// Removes such a binding (RabbitMQ: exchange.unbind); one that does not exist is removed already.
    ///
    /// # Errors
    /// 403 for the default exchange.
    pub async fn exchange_unbind<'a, D, S, K>(
        &self,
        destination: D,
        source: S,
        routing_key: K,
        arguments: Table<'_>,
    ) -> Result<(), Error>
    where
        D: TryInto<ShortStr<'a>>,
        S: TryInto<ShortStr<'a>>,
        K: TryInto<ShortStr<'a>>,
        TooLong: From<D::Error> + From<S::Error> + From<K::Error>,
    {
        let (destination, source, routing_key) =
            (short(destination)?, short(source)?, short(routing_key)?);
        let unbind = exchange::Unbind {
            destination,
            source,
            routing_key,
            arguments,
            ..Default::default()
        };
        call!(self, unbind, ExchangeUnbindOk)?;
        Ok(())
    }

    // ----- queues -----

    /// Declares a queue (queue.declare), and tells its name and what is in it.
    ///
    /// # Errors
    /// 403 for a reserved name, 405 if it is another connection's, 406 if it exists and is different, 404 if asked
    /// passively and it does not exist.
    pub async fn queue_declare(&self, declare: QueueDeclare) -> Result<QueueInfo, Error> {
        let ok = call!(self, declare.method, QueueDeclareOk)?;
        Ok(QueueInfo {
            name: ok.queue,
            message_count: ok.message_count,
            consumer_count: ok.consumer_count,
        })
    }

    /// Binds a queue to an exchange (queue.bind).
    ///
    /// # Errors
    /// 404 if either does not exist, 403 for the default exchange.
    pub async fn queue_bind<'a, Q, E, K>(
        &self,
        queue: Q,
        exchange: E,
        routing_key: K,
        arguments: Table<'_>,
    ) -> Result<(), Error>
    where
        Q: TryInto<ShortStr<'a>>,
        E: TryInto<ShortStr<'a>>,
        K: TryInto<ShortStr<'a>>,
        TooLong: From<Q::Error> + From<E::Error> + From<K::Error>,
    {
        let (queue, exchange, routing_key) = (short(queue)?, short(exchange)?, short(routing_key)?);
        call!(
            self,
            queue::Bind {
                queue,
                exchange,
                routing_key,
                arguments,
                ..Default::default()
            },
            QueueBindOk
        )?;
        Ok(())
    }

    /// Removes a binding of a queue (queue.unbind); one that does not exist is removed already.
    ///
    /// # Errors
    /// 403 for the default exchange.
    pub async fn queue_unbind<'a, Q, E, K>(
        &self,
        queue: Q,
        exchange: E,
        routing_key: K,
        arguments: Table<'_>,
    ) -> Result<(), Error>
    where
        Q: TryInto<ShortStr<'a>>,
        E: TryInto<ShortStr<'a>>,
        K: TryInto<ShortStr<'a>>,
        TooLong: From<Q::Error> + From<E::Error> + From<K::Error>,
    {
        let (queue, exchange, routing_key) = (short(queue)?, short(exchange)?, short(routing_key)?);
        let unbind = queue::Unbind {
            queue,
            exchange,
            routing_key,
            arguments,
            ..Default::default()
        };
        call!(self, unbind, QueueUnbindOk)?;
        Ok(())
    }

    /// Removes all messages that are ready in a queue (queue.purge), and tells how many they were.
    ///
    /// # Errors
    /// 404 if it does not exist, 405 if it is another connection's.
    pub async fn queue_purge<'a, Q>(&self, queue: Q) -> Result<u32, Error>
    where
        Q: TryInto<ShortStr<'a>>,
        TooLong: From<Q::Error>,
    {
        let queue = short(queue)?;
        Ok(call!(
            self,
            queue::Purge {
                queue,
                ..Default::default()
            },
            QueuePurgeOk
        )?
        .message_count)
    }

    /// Deletes a queue (queue.delete), and tells how many messages were in it; one that does not exist is deleted
    /// already.
    ///
    /// # Errors
    /// 405 if it is another connection's, 406 if it is in use, or not empty, where that was asked.
    pub async fn queue_delete(&self, delete: QueueDelete) -> Result<u32, Error> {
        Ok(call!(self, delete.method, QueueDeleteOk)?.message_count)
    }

    // ----- consuming -----

    /// How many deliveries may be unacked (basic.qos): for each consumer started from now on, or with `global` for
    /// the channel as a whole. 0 is no limit.
    ///
    /// # Errors
    /// The connection ends with 540 on RabbitMQ 3.10 and 4.0 if a quorum queue is consumed under a global limit.
    pub async fn qos(&self, prefetch_count: u16, global: bool) -> Result<(), Error> {
        call!(
            self,
            basic::Qos {
                prefetch_count,
                global,
                ..Default::default()
            },
            BasicQosOk
        )?;
        Ok(())
    }

    /// Starts a consumer (basic.consume).
    ///
    /// # Errors
    /// 404 if the queue does not exist, 403 if it is exclusively consumed.
    pub async fn consume(&self, consume: Consume) -> Result<Consumer, Error> {
        Consumer::start(&self.core, consume).await
    }

    /// Takes one message from a queue (basic.get); `None` if it is empty. With `no_ack` the server takes it as acked
    /// when it has sent it: should the future be dropped, it is lost.
    ///
    /// # Errors
    /// 404 if the queue does not exist.
    pub async fn get<'a, Q>(&self, queue: Q, no_ack: bool) -> Result<Option<Got>, Error>
    where
        Q: TryInto<ShortStr<'a>>,
        TooLong: From<Q::Error>,
    {
        let get = basic::Get {
            queue: short(queue)?,
            no_ack,
            ..Default::default()
        };
        let send = |view: &mut ChannelView<'_, usize>, request| view.get(request, &get);
        let pick = |reply| match reply {
            Reply::Got(got) => Some(got),
            _ => None,
        };
        let got = self.core.call(MethodId::BASIC_GET, send, pick).await?;
        Ok(got.map(|(message, message_count)| Got {
            delivery: Delivery::new(self.core.clone(), message),
            message_count,
        }))
    }

    /// Has all unacked deliveries of the channel delivered again (basic.recover, requeue).
    ///
    /// # Errors
    /// The channel or connection ends.
    pub async fn recover(&self) -> Result<(), Error> {
        call!(
            self,
            basic::Recover {
                requeue: true,
                ..Default::default()
            },
            BasicRecoverOk
        )?;
        Ok(())
    }

    /// Acks, nacks or rejects by tag. [`Delivery`] and [`Acker`](super::Acker) have calls for it.
    ///
    /// # Errors
    /// The tag is of another channel or an earlier opening of this one, or not outstanding; the channel is not open
    /// any more. Nothing is sent.
    pub fn settle(&self, tag: DeliveryTag, multiple: bool, how: Settle) -> Result<(), UsageError> {
        self.core.with(|view| view.settle(tag, multiple, how))
    }

    // ----- returns -----

    /// The messages of this channel that came back and belong to no confirm.
    pub fn returns(&self) -> Returns {
        Returns {
            core: self.core.clone(),
        }
    }
}

impl fmt::Debug for Methods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Methods")
            .field(&self.core.id.number)
            .finish()
    }
}
