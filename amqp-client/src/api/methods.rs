//! What a channel can do in any mode.

use std::fmt;
use std::sync::Arc;

use amqp_codec::{MethodFields, MethodId, ReplyCode, ShortStr, Table, TooLong, basic};

use super::channel::{ChannelCore, View, pick};
use super::checked::{self, short};
use super::{
    Consume, Consumer, Delivery, ExchangeDeclare, Got, NoWait, QueueDeclare, QueueDelete,
    QueueInfo, Returns,
};
use crate::error::{Closed, Error, UsageError};
use crate::proto::{ChannelId, DeliveryTag, Reply, Settle};

/// The calls that [`Channel`](super::Channel), [`ConfirmChannel`](super::ConfirmChannel) and
/// [`TxChannel`](super::TxChannel) have in common.
///
/// Synchronous methods go out one at a time and are answered in order; each ends within the RPC deadline (30 s
/// unless said). A refusal by the server closes the channel: the error tells its code and text
/// ([`Error::closed`]). What every server would refuse is refused here, with a [`UsageError`], and nothing is sent:
/// names of more than 255 bytes, names that are reserved, what does not fit a frame, the default exchange where it
/// cannot be used. [`proto`](crate::proto) and the codec send such things, for those who test brokers.
///
/// Of what the protocol has, these are not offered, because RabbitMQ refuses them and ends the connection (540):
/// `immediate` of basic.publish, `prefetch_size` of basic.qos, basic.recover without requeue, and channel.flow sent by
/// the client to stop its deliveries (a prefetch limit does that). channel.flow sent by the server is obeyed.
///
/// Where the protocol has a form without an answer, that is in [`no_wait`](Self::no_wait).
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
        let send = |view: &mut View<'_>, request| view.call(request, &method);
        $self.core.call(id_of(&method), send, pick!($reply)).await
    }};
}

fn id_of<M: MethodFields>(_: &M) -> MethodId {
    M::ID
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
    ///
    /// # Cancel safety
    /// The channel closes all the same, once the future was polled.
    pub async fn close(&self) -> Result<(), Error> {
        self.core.close().await
    }

    /// Closes the channel at once, with a reply code and a text for the server's log. Publishes without a confirm
    /// become unknown.
    ///
    /// # Errors
    /// As [`close`](Self::close); a text of more than 255 bytes.
    ///
    /// # Cancel safety
    /// The channel closes all the same, once the future was polled.
    pub async fn close_with(
        &self,
        code: ReplyCode,
        text: impl TryInto<ShortStr<'static>, Error: Into<TooLong>>,
    ) -> Result<(), Error> {
        self.core.close_with(code, short(text)?).await
    }

    /// The same calls without an answer, where the protocol has that: see there for what is certain then.
    pub fn no_wait(&self) -> NoWait<'_> {
        NoWait::new(&self.core)
    }

    // ----- exchanges -----

    /// Declares an exchange (exchange.declare). One that exists is left as it is.
    ///
    /// # Errors
    /// Refused here: a name that begins with `amq.`, unless asked passively or predefined; the default exchange.
    /// By the server: 406 if it exists and is different, 404 if asked passively and it does not exist, 406 for an
    /// unknown type (before RabbitMQ 4.0 the connection ends with 503).
    ///
    /// # Cancel safety
    /// Once sent it takes effect; dropped while it waits for its turn, it is not sent.
    ///
    /// ```no_run
    /// use amqp_client::{Channel, ExchangeDeclare, ExchangeKind};
    ///
    /// # async fn example(channel: Channel) -> Result<(), amqp_client::error::Error> {
    /// let unrouted = ExchangeDeclare::new("unrouted", ExchangeKind::Fanout).durable();
    /// channel.exchange_declare(unrouted).await?;
    /// let orders = ExchangeDeclare::new("orders", ExchangeKind::Topic)
    ///     .durable()
    ///     .alternate_exchange("unrouted");
    /// channel.exchange_declare(orders).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn exchange_declare(&self, declare: ExchangeDeclare) -> Result<(), Error> {
        call!(
            self,
            checked::exchange_declare(&declare)?,
            ExchangeDeclareOk
        )?;
        Ok(())
    }

    /// Deletes an exchange (exchange.delete) and the bindings from and to it; one that does not exist is deleted
    /// already.
    ///
    /// # Errors
    /// Refused here: a name that begins with `amq.`; the default exchange. By the server: 406 if `if_unused` and
    /// something is bound to it.
    ///
    /// # Cancel safety
    /// Once sent it takes effect; dropped while it waits for its turn, it is not sent.
    pub async fn exchange_delete<'a>(
        &self,
        name: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        if_unused: bool,
    ) -> Result<(), Error> {
        call!(
            self,
            checked::exchange_delete(name, if_unused)?,
            ExchangeDeleteOk
        )?;
        Ok(())
    }

    /// Binds an exchange to another: messages go from `source` to `destination` (RabbitMQ: exchange.bind). The same
    /// binding twice is one.
    ///
    /// # Errors
    /// Refused here: the default exchange. By the server: 404 if either does not exist.
    ///
    /// # Cancel safety
    /// Once sent it takes effect; dropped while it waits for its turn, it is not sent.
    ///
    /// ```no_run
    /// use amqp_client::{Channel, codec::table};
    ///
    /// # async fn example(channel: Channel) -> Result<(), amqp_client::error::Error> {
    /// // What is published to `orders` for Europe goes to `audit` too.
    /// channel.exchange_bind("audit", "orders", "order.eu.#", table! {}).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn exchange_bind<'a>(
        &self,
        destination: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        source: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        routing_key: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        arguments: Table<'a>,
    ) -> Result<(), Error> {
        let bind = checked::exchange_bind(destination, source, routing_key, arguments)?;
        call!(self, bind, ExchangeBindOk)?;
        Ok(())
    }

    /// Removes such a binding (RabbitMQ: exchange.unbind), told by its key and its arguments; one that does not exist
    /// is removed already.
    ///
    /// # Errors
    /// Refused here: the default exchange.
    ///
    /// # Cancel safety
    /// Once sent it takes effect; dropped while it waits for its turn, it is not sent.
    pub async fn exchange_unbind<'a>(
        &self,
        destination: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        source: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        routing_key: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        arguments: Table<'a>,
    ) -> Result<(), Error> {
        let unbind = checked::exchange_unbind(destination, source, routing_key, arguments)?;
        call!(self, unbind, ExchangeUnbindOk)?;
        Ok(())
    }

    // ----- queues -----

    /// Declares a queue (queue.declare), and tells its name and what is in it. One that exists is left as it is.
    ///
    /// # Errors
    /// Refused here: a name that begins with `amq.`, unless asked passively; an argument that cannot be sent. By the
    /// server: 405 if it is another connection's, 406 if it exists and is different, 404 if asked passively and it
    /// does not exist.
    ///
    /// # Cancel safety
    /// Once sent it takes effect; dropped while it waits for its turn, it is not sent.
    ///
    /// ```no_run
    /// use amqp_client::{Channel, QueueDeclare, codec::table};
    ///
    /// # async fn example(channel: Channel) -> Result<(), amqp_client::error::Error> {
    /// // A queue of our own, named by the server.
    /// let mine = channel.queue_declare(QueueDeclare::new("").exclusive()).await?;
    /// channel.queue_bind(mine.name, "orders", "order.#", table! {}).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn queue_declare(&self, declare: QueueDeclare) -> Result<QueueInfo, Error> {
        let ok = call!(self, checked::queue_declare(&declare)?, QueueDeclareOk)?;
        Ok(QueueInfo {
            name: ok.queue,
            message_count: ok.message_count,
            consumer_count: ok.consumer_count,
        })
    }

    /// Binds a queue to an exchange (queue.bind). The same binding twice is one. An empty name is the queue declared
    /// last on the channel. For an exchange of type `headers`, [`HeadersMatch`](super::HeadersMatch) makes the
    /// arguments; others look at the routing key.
    ///
    /// # Errors
    /// Refused here: the default exchange, to which every queue is bound by its name. By the server: 404 if either does
    /// not exist.
    ///
    /// # Cancel safety
    /// Once sent it takes effect; dropped while it waits for its turn, it is not sent.
    pub async fn queue_bind<'a>(
        &self,
        queue: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        exchange: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        routing_key: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        arguments: Table<'a>,
    ) -> Result<(), Error> {
        let bind = checked::queue_bind(queue, exchange, routing_key, arguments)?;
        call!(self, bind, QueueBindOk)?;
        Ok(())
    }

    /// Removes a binding of a queue (queue.unbind), told by its key and its arguments; one that does not exist is
    /// removed already.
    ///
    /// # Errors
    /// Refused here: the default exchange. By the server: 405 if the queue is another connection's.
    ///
    /// # Cancel safety
    /// Once sent it takes effect; dropped while it waits for its turn, it is not sent.
    pub async fn queue_unbind<'a>(
        &self,
        queue: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        exchange: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        routing_key: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        arguments: Table<'a>,
    ) -> Result<(), Error> {
        let unbind = checked::queue_unbind(queue, exchange, routing_key, arguments)?;
        call!(self, unbind, QueueUnbindOk)?;
        Ok(())
    }

    /// Removes all messages that are ready in a queue (queue.purge), and tells how many they were. Those that wait for
    /// their ack stay.
    ///
    /// # Errors
    /// 404 if it does not exist, 405 if it is another connection's.
    ///
    /// # Cancel safety
    /// Once sent it takes effect; dropped while it waits for its turn, it is not sent.
    pub async fn queue_purge<'a>(
        &self,
        queue: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
    ) -> Result<u32, Error> {
        Ok(call!(self, checked::queue_purge(queue)?, QueuePurgeOk)?.message_count)
    }

    /// Deletes a queue (queue.delete), and tells how many messages were ready in it; one that does not exist is deleted
    /// already.
    ///
    /// # Errors
    /// 405 if it is another connection's, 406 if it is in use, or not empty, where that was asked.
    ///
    /// # Cancel safety
    /// Once sent it takes effect; dropped while it waits for its turn, it is not sent.
    pub async fn queue_delete(&self, delete: QueueDelete) -> Result<u32, Error> {
        Ok(call!(self, delete.method()?.clone(), QueueDeleteOk)?.message_count)
    }

    // ----- consuming -----

    /// How many deliveries may be unacked (basic.qos), 0 to 65,535; 0 is no limit. Without `global` that is for each
    /// consumer started from now on, with it for the channel as a whole, consumers that there are included
    /// (RabbitMQ's reading of the flag; RabbitMQ 4.3 takes both for the former). Both limits can be set. Consumers
    /// without acks know none.
    ///
    /// # Errors
    /// The channel or connection ends. It does later, with 540, on RabbitMQ 3.10 and 4.0 if a quorum queue is
    /// consumed under a global limit.
    ///
    /// # Cancel safety
    /// Once sent it takes effect; dropped while it waits for its turn, it is not sent.
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

    /// Starts a consumer (basic.consume), which is a stream of deliveries.
    ///
    /// # Errors
    /// Refused here: a tag that the channel has a consumer of, an argument that cannot be sent. By the server: 404 if
    /// the queue does not exist, 403 if it is exclusively consumed, 405 if it is another connection's.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the consumer when the answer comes; what was delivered to it goes back.
    ///
    /// ```no_run
    /// use amqp_client::{Channel, Consume};
    /// use futures_util::StreamExt;
    ///
    /// # async fn example(channel: Channel) -> Result<(), Box<dyn std::error::Error>> {
    /// channel.qos(100, false).await?;
    /// let mut orders = channel.consume(Consume::new("orders").priority(10)).await?;
    /// while let Some(delivery) = orders.next().await {
    ///     let delivery = delivery?;
    ///     println!("{} bytes", delivery.body().len());
    ///     delivery.ack()?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn consume(&self, consume: Consume) -> Result<Consumer, Error> {
        Consumer::start(&self.core, consume).await
    }

    /// Takes one message from a queue (basic.get); `None` if it is empty. With `no_ack` the server takes it as acked
    /// when it has sent it: should the future be dropped, it is lost.
    ///
    /// # Errors
    /// 404 if the queue does not exist.
    ///
    /// # Cancel safety
    /// The message that the answer brings goes back to its queue; with `no_ack` it is lost.
    pub async fn get<'a>(
        &self,
        queue: impl TryInto<ShortStr<'a>, Error: Into<TooLong>>,
        no_ack: bool,
    ) -> Result<Option<Got>, Error> {
        let get = basic::Get {
            queue: short(queue)?,
            no_ack,
            ..Default::default()
        };
        let send = |view: &mut View<'_>, request| view.get(request, &get);
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

    /// Gives all unacked deliveries of the channel back to their queues (basic.recover with requeue): they are delivered
    /// again, to any consumer. Their tags cannot be settled any more once this is sent.
    ///
    /// basic.recover-async does the same without an answer; the specification says not to use it.
    ///
    /// # Errors
    /// The channel or connection ends.
    ///
    /// # Cancel safety
    /// Once sent it takes effect; dropped while it waits for its turn, it is not sent.
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
