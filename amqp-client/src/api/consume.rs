//! Consuming: deliveries, and the acks for them.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use amqp_codec::{MethodId, ShortStr, Table, TooLong, Value, basic, short};
use bytes::Bytes;
use futures_core::Stream;

use super::channel::{ChannelCore, View, pick};
use super::checked;
use super::declare::{Refused, StreamOffset};
use super::request::Call;
use super::trace::process_span;
use crate::driver::ConsumerEnd;
use crate::error::{Closed, Error, Operation, UsageError};
use crate::proto::{self, ConsumerId, DeliveryTag, Settle};

/// Where replies are sent that come straight to the channel that asked, without a queue (RabbitMQ: direct reply-to).
///
/// Consume from it with [`Consume::direct_reply_to`], then publish requests on the same channel with this as
/// [`Message::reply_to`](crate::Message::reply_to). In the request that arrives it is replaced by a name to which the
/// server of the request publishes its reply, through the default exchange. `tests/examples/rpc.rs` is both sides.
pub const DIRECT_REPLY_TO: ShortStr<'static> = short!("amq.rabbitmq.reply-to");

/// What to consume, and how (basic.consume).
///
/// What is wrong with it, such as a name that is too long, is remembered, and the call that starts it is refused.
///
/// ```
/// use amqp_client::{Consume, Overflow};
///
/// // Served before others of the queue, as long as it takes what it gets.
/// let first = Consume::new("orders").priority(10);
/// // Without acks nothing but the budget bounds what waits here.
/// let ticks = Consume::new("ticks").no_ack().budget(1 << 20, Overflow::CloseChannel);
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Consume {
    method: basic::Consume<'static>,
    refused: Refused,
    /// What the connection's limits say, unless it was said.
    budget: Option<usize>,
    overflow: Overflow,
}

/// What happens when a consumer that is not read has more waiting than its budget allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// Its channel is closed, with [`CloseCause::ConsumerOverflow`](crate::error::CloseCause::ConsumerOverflow); the
    /// connection and its other channels are not concerned.
    #[default]
    CloseChannel,
    /// Nothing more is read from the connection until the consumer is: every channel waits, and heartbeats of the
    /// server are not seen, so that the connection ends if this lasts for two heartbeat intervals.
    StallConnection,
}

impl Consume {
    /// The messages of this queue, with acks, not exclusive. The name has up to 255 bytes; the empty one is the queue
    /// declared last on the channel.
    pub fn new(queue: impl TryInto<ShortStr<'static>, Error: Into<TooLong>>) -> Self {
        let mut refused = Refused::default();
        let method = basic::Consume {
            queue: refused.name(queue),
            ..Default::default()
        };
        Consume {
            method,
            refused,
            budget: None,
            overflow: Overflow::default(),
        }
    }

    /// The replies to requests that are published on the same channel: see [`DIRECT_REPLY_TO`]. Without acks, as the
    /// server demands.
    pub fn direct_reply_to() -> Self {
        Consume::new(DIRECT_REPLY_TO).no_ack()
    }

    /// A consumer tag of your own, of up to 255 bytes; it must be unique on the channel. The server makes one otherwise.
    pub fn tag(mut self, tag: impl TryInto<ShortStr<'static>, Error: Into<TooLong>>) -> Self {
        self.method.consumer_tag = self.refused.name(tag);
        self
    }

    /// The server takes deliveries as acked when it has sent them: they may be lost with the connection.
    pub fn no_ack(mut self) -> Self {
        self.method.no_ack = true;
        self
    }

    /// No other consumer may be on the queue.
    pub fn exclusive(mut self) -> Self {
        self.method.exclusive = true;
        self
    }

    /// No messages that were published on this connection. RabbitMQ ignores it.
    pub fn no_local(mut self) -> Self {
        self.method.no_local = true;
        self
    }

    /// Consumers of a higher priority get the messages of the queue as long as they take them: those of a lower one
    /// when the others are at their prefetch limit (RabbitMQ: `x-priority`). 0 unless said; may be negative.
    pub fn priority(self, priority: i32) -> Self {
        self.argument(short!("x-priority"), priority)
    }

    /// Where in a stream to begin (RabbitMQ: `x-stream-offset`). Streams are consumed with acks, and with a prefetch
    /// limit set before.
    pub fn stream_offset(mut self, offset: StreamOffset) -> Self {
        self.refused.set_checked(
            &mut self.method.arguments,
            short!("x-stream-offset"),
            offset.value(),
        );
        self
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

    /// How many bytes (of bodies, what comes with them, and what each costs to keep) may wait for the consumer to be
    /// read, and what happens when there are more; twice as many may be held for a moment. Default:
    /// [`Limits::undelivered_bytes`](crate::Limits::undelivered_bytes), and the channel is closed.
    ///
    /// With acks and a prefetch limit ([`Methods::qos`](super::Methods::qos)) it is the broker that waits, long before.
    pub fn budget(mut self, bytes: usize, overflow: Overflow) -> Self {
        self.budget = Some(bytes);
        self.overflow = overflow;
        self
    }

    /// The method, unless something cannot be sent.
    pub(super) fn method(&self) -> Result<&basic::Consume<'static>, UsageError> {
        self.refused.check()?;
        Ok(&self.method)
    }
}

/// The deliveries of one consumer. It ends after what has arrived was handed out, when the consumer
/// [is cancelled](Self::cancel), or the server cancels it, and with an error when the channel closes.
///
/// Dropping it cancels the consumer in the background; deliveries it has not handed out go back to their
/// queue; those that need no ack are gone. Those it has handed out are untouched: ack, nack or reject them as usual,
/// those of a stream only by an ack (RabbitMQ before 4.0 ends the connection otherwise).
pub struct Consumer {
    core: Arc<ChannelCore>,
    id: ConsumerId,
    tag: ShortStr<'static>,
    queue: ShortStr<'static>,
    /// Deliveries that were taken from the shared state.
    taken: VecDeque<proto::Delivery>,
    cancelled_by_server: bool,
}

/// Why a consumer's stream broke off.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the consumer's channel: {0}")]
pub struct ConsumerError(#[source] pub Arc<Closed>);

impl Consumer {
    pub(super) async fn start(core: &Arc<ChannelCore>, consume: Consume) -> Result<Self, Error> {
        let method = checked::consume(&consume)?;
        let send = |view: &mut View<'_>, request| view.consume(request, method);
        let mut id = None;
        let call = core.start_call(send, |state, request| {
            state.add_consumer(
                core.slot,
                ConsumerId(request),
                consume.budget,
                consume.overflow,
            );
            id = Some(ConsumerId(request));
        })?;
        // Set by the call that was sent.
        let id = id.ok_or(UsageError::NoChannel)?;
        let operation = Operation::Reply(MethodId::BASIC_CONSUME);
        let mut consumer = Consumer {
            core: core.clone(),
            id,
            tag: ShortStr::default(),
            queue: method.queue.clone(),
            taken: VecDeque::new(),
            cancelled_by_server: false,
        };
        // If this fails, or is dropped, the consumer is forgotten with its handle.
        let ok = call
            .within(core.deadlines().rpc, operation, pick!(BasicConsumeOk))
            .await?;
        consumer.tag = ok.consumer_tag;
        Ok(consumer)
    }

    pub(super) fn start_no_wait(
        core: &Arc<ChannelCore>,
        consume: Consume,
    ) -> Result<Self, UsageError> {
        let method = checked::consume(&consume)?;
        let id = core.shared().with(|state| {
            let id = ConsumerId(state.conn.next_request());
            let sent = state
                .conn
                .channel(core.id)
                .and_then(|mut view| view.consume_no_wait(id, method));
            match sent {
                Ok(()) => {
                    state.add_consumer(core.slot, id, consume.budget, consume.overflow);
                    Ok(id)
                }
                Err(error) => Err(state.explain(core.slot, error)),
            }
        })?;
        Ok(Consumer {
            core: core.clone(),
            id,
            tag: method.consumer_tag.clone(),
            queue: method.queue.clone(),
            taken: VecDeque::new(),
            cancelled_by_server: false,
        })
    }

    /// The consumer tag.
    pub fn tag(&self) -> &ShortStr<'static> {
        &self.tag
    }

    /// The next delivery; `None` after the last one. A `Consumer` is a [`Stream`] too, for those who combine it with
    /// others.
    ///
    /// # Errors
    /// The channel has closed; nothing follows.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    #[expect(
        clippy::should_implement_trait,
        reason = "it is a stream's next, to be awaited"
    )]
    pub fn next(
        &mut self,
    ) -> impl Future<Output = Option<Result<Delivery, ConsumerError>>> + Send + Unpin {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx))
    }

    /// A span for the processing of a delivery, by the names of OpenTelemetry's messaging conventions; to be entered, or to
    /// instrument a future with.
    pub fn process_span(&self, delivery: &Delivery) -> tracing::Span {
        process_span(delivery, &self.queue)
    }

    /// Whether the server ended the consumer, as it does when the queue is deleted.
    pub fn is_cancelled_by_server(&self) -> bool {
        self.cancelled_by_server
    }

    /// Stops the consumer (basic.cancel). What has arrived before the answer is still in the stream, which then ends. Does
    /// nothing where it is cancelled already, by either side: another one may have its tag by now.
    ///
    /// # Errors
    /// The channel or connection ends; no answer within the RPC deadline.
    ///
    /// # Cancel safety
    /// The cancel is sent even if the future is dropped once it was polled.
    pub async fn cancel(&mut self) -> Result<(), Error> {
        let Some(call) = self.start_cancel()? else {
            return Ok(());
        };
        let operation = Operation::Reply(MethodId::BASIC_CANCEL);
        call.within(self.core.deadlines().rpc, operation, pick!(BasicCancelOk))
            .await?;
        Ok(())
    }

    /// [`cancel`](Self::cancel), without waiting for the answer. The stream ends when that comes; until then deliveries
    /// may arrive. The protocol's own no-wait is not used for it, because without an answer nobody knows when the last
    /// delivery has come.
    ///
    /// It is sent in its turn, behind calls that wait for their answer or their turn.
    ///
    /// # Errors
    /// The channel is not open.
    pub fn cancel_no_wait(&mut self) -> Result<(), UsageError> {
        // What was sent takes effect whoever waits for it.
        self.start_cancel().map(drop)
    }

    /// `None` where it is cancelled already.
    fn start_cancel(&mut self) -> Result<Option<Call>, UsageError> {
        if self.core.shared().lock().is_cancelled(self.id) {
            return Ok(None);
        }
        let tag = self.tag.clone();
        let send = |view: &mut View<'_>, request| view.cancel(request, tag);
        self.core
            .start_call(send, |state, request| state.add_cancel(request, self.id))
            .map(Some)
    }
}

impl Stream for Consumer {
    type Item = Result<Delivery, ConsumerError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Consumer {
            core,
            id,
            taken,
            cancelled_by_server,
            ..
        } = self.get_mut();
        if taken.is_empty() {
            let shared = core.shared();
            let mut state = shared.lock();
            let polled = state.poll_deliveries(*id, taken, cx.waker());
            let task = state.take_unstalled();
            drop(state);
            if let Some(task) = task {
                task.wake();
            }
            match polled {
                None => return Poll::Pending,
                Some(Ok(())) => {}
                Some(Err(ConsumerEnd::Cancelled)) => return Poll::Ready(None),
                Some(Err(ConsumerEnd::CancelledByServer)) => {
                    *cancelled_by_server = true;
                    return Poll::Ready(None);
                }
                Some(Err(ConsumerEnd::ChannelClosed(closed))) => {
                    shared.lock().forget_consumer(*id);
                    return Poll::Ready(Some(Err(ConsumerError(closed))));
                }
            }
        }
        let next = taken.pop_front();
        Poll::Ready(next.map(|message| Ok(Delivery::new(core.clone(), message))))
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.core
            .shared()
            .with(|state| state.drop_consumer(self.id, &mut self.taken));
    }
}

/// A message from a queue. It derefs to [`proto::Delivery`] for what is in it.
///
/// Unless it was asked for without acks, it must be acked, nacked or rejected. Dropping it does none of that:
/// the broker keeps it for this channel, and delivers it anew when the channel closes.
#[must_use = "a delivery stays with this channel until it is acked, nacked or rejected"]
pub struct Delivery {
    message: proto::Delivery,
    core: Arc<ChannelCore>,
}

impl Delivery {
    pub(super) fn new(core: Arc<ChannelCore>, message: proto::Delivery) -> Self {
        Delivery { message, core }
    }

    /// What settles the delivery, to be kept or sent elsewhere without the message.
    pub fn acker(&self) -> Acker {
        Acker {
            core: self.core.clone(),
            tag: self.tag(),
        }
    }

    /// The body, and what settles the delivery.
    pub fn into_parts(self) -> (Bytes, Acker) {
        let (core, tag) = (self.core, self.message.tag());
        (self.message.into_body(), Acker { core, tag })
    }

    /// See [`Acker::ack`].
    ///
    /// # Errors
    /// As there.
    pub fn ack(&self) -> Result<(), UsageError> {
        self.settle(false, Settle::Ack)
    }

    /// See [`Acker::ack_multiple`].
    ///
    /// # Errors
    /// As there.
    pub fn ack_multiple(&self) -> Result<(), UsageError> {
        self.settle(true, Settle::Ack)
    }

    /// See [`Acker::nack`].
    ///
    /// # Errors
    /// As there.
    pub fn nack(&self, requeue: bool) -> Result<(), UsageError> {
        self.settle(false, Settle::Nack { requeue })
    }

    /// See [`Acker::nack_multiple`].
    ///
    /// # Errors
    /// As there.
    pub fn nack_multiple(&self, requeue: bool) -> Result<(), UsageError> {
        self.settle(true, Settle::Nack { requeue })
    }

    /// See [`Acker::reject`].
    ///
    /// # Errors
    /// As there.
    pub fn reject(&self, requeue: bool) -> Result<(), UsageError> {
        self.settle(false, Settle::Reject { requeue })
    }

    fn settle(&self, multiple: bool, how: Settle) -> Result<(), UsageError> {
        settle(&self.core, self.tag(), multiple, how)
    }
}

impl Deref for Delivery {
    type Target = proto::Delivery;

    fn deref(&self) -> &proto::Delivery {
        &self.message
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)
    }
}

/// What acks, nacks or rejects one delivery, from whichever task. Its calls put a method into the outgoing
/// buffer and do not wait.
///
/// It knows its channel incarnation: an ack through a channel that was closed, or twice, is refused here, and
/// nothing is sent.
#[derive(Clone)]
pub struct Acker {
    core: Arc<ChannelCore>,
    tag: DeliveryTag,
}

impl Acker {
    /// The delivery's tag.
    pub fn tag(&self) -> DeliveryTag {
        self.tag
    }

    /// The message was taken care of (basic.ack).
    ///
    /// # Errors
    /// The delivery was settled before or needs no ack; the channel is not open any more. Nothing is sent.
    pub fn ack(&self) -> Result<(), UsageError> {
        self.settle(false, Settle::Ack)
    }

    /// This message and all outstanding ones before it on the channel were taken care of (basic.ack, multiple).
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    pub fn ack_multiple(&self) -> Result<(), UsageError> {
        self.settle(true, Settle::Ack)
    }

    /// The message was not taken care of (basic.nack): back into its queue, or else dropped or dead-lettered.
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    pub fn nack(&self, requeue: bool) -> Result<(), UsageError> {
        self.settle(false, Settle::Nack { requeue })
    }

    /// [`nack`](Self::nack) for this message and all outstanding ones before it on the channel.
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    pub fn nack_multiple(&self, requeue: bool) -> Result<(), UsageError> {
        self.settle(true, Settle::Nack { requeue })
    }

    /// The message was not taken care of (basic.reject, which every broker knows).
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    pub fn reject(&self, requeue: bool) -> Result<(), UsageError> {
        self.settle(false, Settle::Reject { requeue })
    }

    fn settle(&self, multiple: bool, how: Settle) -> Result<(), UsageError> {
        settle(&self.core, self.tag, multiple, how)
    }
}

fn settle(
    core: &ChannelCore,
    tag: DeliveryTag,
    multiple: bool,
    how: Settle,
) -> Result<(), UsageError> {
    core.with(|view| view.settle(tag, multiple, how))
}

impl fmt::Debug for Acker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Acker").field(&self.tag.number()).finish()
    }
}

/// A message that basic.get brought.
#[derive(Debug)]
pub struct Got {
    /// The message.
    pub delivery: Delivery,
    /// How many messages are left in the queue.
    pub message_count: u32,
}
