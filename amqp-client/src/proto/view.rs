//! What may be asked of one channel.

use std::sync::Arc;

use amqp_codec::basic::Properties;
use amqp_codec::frame::{FRAME_OVERHEAD, method_frame_len};
use amqp_codec::{EncodeError, Limits, MethodFields, ReplyCode, ShortStr, basic, tx};

use super::ConfirmOptions;
use super::channel::{Channel, Mode, Select, Shared};
use super::confirm::PublishSeq;
use super::delivery::{Delivery, DeliveryTag, Settle};
use super::event::{ChannelId, ConsumerId, Keep};
use super::returns::RETURN_TAG;
use super::rpc::RequestId;
use crate::error::{CloseCause, Closed, NotSent, UsageError};
use crate::message::{Message, Property, Publication};
use crate::outcome::Counts;

/// The class, weight and size of a content header's payload, before the properties.
const CONTENT_HEADER_FIXED: usize = 12;
/// One channel, borrowed from its [`Connection`](super::Connection). What is asked for here is in the
/// outgoing buffer, whole, when the call returns `Ok`, and nothing of it is otherwise.
pub struct ChannelView<'a, P> {
    pub(super) channel: &'a mut Channel<P>,
    pub(super) shared: Shared<'a, P>,
    pub(super) frame_max: u32,
    /// Why the connection takes no publishes now, though it does take the rest.
    pub(super) refusal: Refusal<'a>,
    pub(super) unstamped: &'a mut Vec<u16>,
}

/// What is wrong with the headers of these properties.
fn check_headers(properties: &Properties<'_>, limits: &Limits) -> Result<(), UsageError> {
    let headers = properties
        .headers(limits)
        .map_err(UsageError::InvalidHeaders)?;
    // RabbitMQ ends the connection for infinities and what is not a number.
    if headers.is_some_and(|headers| headers.has_non_finite()) {
        return Err(UsageError::InvalidProperty(Property::Headers));
    }
    Ok(())
}

/// Why the connection takes no publishes.
pub(super) enum Refusal<'a> {
    /// It does.
    None,
    Blocked,
    Closing(&'a Arc<Closed>),
}

/// How a confirm channel stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConfirmStatus {
    /// Publishes that hold a place in flight.
    pub in_flight: usize,
    /// Body bytes in flight.
    pub bytes_in_flight: usize,
    /// The number of the last publish; 0 before the first.
    pub last: u64,
    /// What became of the publishes that are settled.
    pub counts: Counts,
}

impl<P: Keep> ChannelView<'_, P> {
    /// The channel.
    pub fn id(&self) -> ChannelId {
        self.channel.id
    }

    /// Whether anything can be asked of the channel.
    ///
    /// # Errors
    /// How it ended, or that it is closing.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<(), UsageError> {
        match self.channel.is_open() {
            true => Ok(()),
            false => Err(self.channel.not_open()),
        }
    }

    fn check_fits(&self, frame: usize) -> Result<(), UsageError> {
        if frame as u64 > u64::from(self.frame_max) {
            let (size, frame_max) = (frame as u64, self.frame_max);
            return Err(EncodeError::FrameTooLarge { size, frame_max }.into());
        }
        Ok(())
    }

    fn check<M: MethodFields>(&self, method: &M) -> Result<(), UsageError> {
        self.check_open()?;
        self.check_fits(method_frame_len(method))
    }

    // ----- publishing -----

    /// Puts the message into the outgoing buffer, whole, and in confirm mode registers it in the same step: no
    /// confirm can come before. `keep` comes back with its outcome; outside confirm mode it is dropped.
    ///
    /// A message that is sent is taken. Where there is none, nothing is sent.
    ///
    /// # Errors
    /// It stays where it is, and why. What cannot be sent at all comes before what has to wait.
    #[inline]
    pub fn publish(
        &mut self,
        unsent: &mut Option<Publication>,
        keep: P,
    ) -> Result<Option<PublishSeq>, NotSent> {
        let Some(publication) = unsent else {
            return Ok(None);
        };
        self.check_message(&publication.message)?;
        let seq = self.channel.publish(unsent, keep, &mut self.shared);
        if seq.is_some() && !self.channel.unstamped {
            self.channel.unstamped = true;
            self.unstamped.push(self.channel.id.number);
        }
        Ok(seq)
    }

    /// Whether this message may be published now.
    #[inline]
    fn check_message(&self, message: &Message) -> Result<(), NotSent> {
        self.check_open()?;
        if let Some(property) = message.invalid_property() {
            return Err(UsageError::InvalidProperty(property).into());
        }
        if let Some(properties) = message.set_properties() {
            #[expect(
                clippy::arithmetic_side_effects,
                reason = "a length of what is in memory, and some bytes"
            )]
            let len = FRAME_OVERHEAD
                + CONTENT_HEADER_FIXED
                + properties.encoded_len()
                + self.return_tag_len(message);
            self.check_fits(len)?;
            check_headers(properties, &self.shared.bounds.decoding)?;
        }
        self.room_for(message.body().len())
    }

    /// How many bytes the tag for returns may add to the message's properties.
    #[expect(clippy::arithmetic_side_effects, reason = "the name is short")]
    fn return_tag_len(&self, message: &Message) -> usize {
        match &self.channel.mode {
            Mode::Confirm(tracker) if tracker.options().tag_returns && message.is_mandatory() => {
                // The table's length, the name, and as a long string a number of up to 20 digits.
                4 + (1 + RETURN_TAG.len()) + (1 + 4 + 20)
            }
            Mode::Plain | Mode::Selecting(_) | Mode::Confirm(_) | Mode::Tx(_) => 0,
        }
    }

    /// Whether a message with a body of this many bytes would have to wait.
    ///
    /// # Errors
    /// [`NotSent::Blocked`] or [`NotSent::Full`]; or the connection is closing, and waiting is in vain.
    #[inline]
    pub fn room_for(&self, body_len: usize) -> Result<(), NotSent> {
        match self.refusal {
            Refusal::None => {}
            Refusal::Blocked => return Err(NotSent::Blocked),
            Refusal::Closing(closed) => {
                return Err(UsageError::ConnectionClosed(closed.clone()).into());
            }
        }
        let room_in_channel = if let Mode::Confirm(tracker) = &self.channel.mode {
            tracker.has_room(body_len)
        } else {
            self.channel.takes_unconfirmed()
        };
        let outgoing = &self.shared.outgoing;
        if !room_in_channel
            || !self.channel.flow
            || !outgoing.has_room(&self.channel.backlog, body_len)
        {
            return Err(NotSent::Full);
        }
        Ok(())
    }

    /// How the publishes of a channel in confirm mode stand; `None` in another mode.
    pub fn confirm_status(&self) -> Option<ConfirmStatus> {
        self.channel.confirm_status()
    }

    /// How many entries are kept for what waits for confirms, for tests of what must not grow.
    #[cfg(test)]
    pub(super) fn tracker_footprint(&self) -> usize {
        match &self.channel.mode {
            Mode::Confirm(tracker) => tracker.footprint(),
            Mode::Plain | Mode::Selecting(_) | Mode::Tx(_) => 0,
        }
    }

    // ----- synchronous methods -----

    /// Sends a synchronous method, when those before it on the channel have been answered. The answer is
    /// an [`Event::Reply`](super::Event::Reply); a method with `no_wait` has none and is for
    /// [`send`](Self::send). For consume, get, select, commit, rollback and close there are calls of their
    /// own.
    ///
    /// # Errors
    /// The channel is not open, or the method does not fit a frame.
    pub fn call(
        &mut self,
        request: RequestId,
        method: &impl MethodFields,
    ) -> Result<(), UsageError> {
        self.check(method)?;
        self.channel.call(request, method, &mut self.shared);
        Ok(())
    }

    /// Sends a method that is not answered, such as one with `no_wait`.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn send(&mut self, method: &impl MethodFields) -> Result<(), UsageError> {
        self.check(method)?;
        self.channel.send(method, &mut self.shared);
        Ok(())
    }

    /// Starts a consumer, which is named by this request from then on. Its answer is always waited for,
    /// whatever `no_wait` says.
    ///
    /// # Errors
    /// As [`call`](Self::call); the channel has a consumer of this tag.
    pub fn consume(
        &mut self,
        request: RequestId,
        consume: &basic::Consume<'_>,
    ) -> Result<(), UsageError> {
        let consume = basic::Consume {
            no_wait: false,
            ..consume.clone()
        };
        self.check(&consume)?;
        self.check_consumer_tag(&consume, true)?;
        self.channel.consume(request, &consume, &mut self.shared);
        Ok(())
    }

    /// Starts a consumer at once and without an answer, whatever `no_wait` says. Messages for it may come from now
    /// on; should the server refuse it, it closes the channel.
    ///
    /// # Errors
    /// As [`call`](Self::call); no tag is given, or the channel has a consumer of this tag, or starts or cancels one.
    pub fn consume_no_wait(
        &mut self,
        consumer: ConsumerId,
        consume: &basic::Consume<'_>,
    ) -> Result<(), UsageError> {
        let consume = basic::Consume {
            no_wait: true,
            ..consume.clone()
        };
        self.check(&consume)?;
        if consume.consumer_tag.is_empty() {
            return Err(UsageError::NoConsumerTag);
        }
        self.check_consumer_tag(&consume, false)?;
        self.channel
            .consume_no_wait(consumer, &consume, &mut self.shared);
        Ok(())
    }

    /// RabbitMQ ends the connection (530) for a second consumer of the same tag.
    fn check_consumer_tag(
        &self,
        consume: &basic::Consume<'_>,
        behind_waiting: bool,
    ) -> Result<(), UsageError> {
        let tag = &consume.consumer_tag;
        if self.channel.has_consumer(tag, behind_waiting) {
            return Err(UsageError::ConsumerTagInUse(tag.clone().into_owned()));
        }
        Ok(())
    }

    /// Cancels a consumer. The answer is always waited for: only then is it known that nothing more comes for it.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn cancel(
        &mut self,
        request: RequestId,
        consumer_tag: ShortStr<'static>,
    ) -> Result<(), UsageError> {
        self.check_open()?;
        self.channel.cancel(request, consumer_tag, &mut self.shared);
        Ok(())
    }

    /// Asks for one message: [`Reply::Got`](super::Reply::Got).
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn get(&mut self, request: RequestId, get: &basic::Get<'_>) -> Result<(), UsageError> {
        self.check(get)?;
        self.channel.get(request, get, &mut self.shared);
        Ok(())
    }

    /// Puts the channel in confirm mode. Publishes are numbered from the answer on; until it comes there can
    /// be none.
    ///
    /// # Errors
    /// As [`call`](Self::call); the channel has a mode already.
    pub fn select_confirms(
        &mut self,
        request: RequestId,
        options: ConfirmOptions,
    ) -> Result<(), UsageError> {
        self.select(request, Select::Confirm(options))
    }

    /// Puts the channel in transaction mode.
    ///
    /// # Errors
    /// As [`call`](Self::call); the channel has a mode already.
    pub fn select_tx(&mut self, request: RequestId) -> Result<(), UsageError> {
        self.select(request, Select::Tx)
    }

    fn select(&mut self, request: RequestId, select: Select) -> Result<(), UsageError> {
        self.check_open()?;
        let Mode::Plain = self.channel.mode else {
            return Err(UsageError::WrongMode);
        };
        self.channel.select(request, select, &mut self.shared);
        Ok(())
    }

    /// Commits what was published and acked since the last commit or rollback. What else is sent on the
    /// channel before the answer waits for it.
    ///
    /// # Errors
    /// As [`call`](Self::call); the channel is not in transaction mode.
    pub fn commit(&mut self, request: RequestId) -> Result<(), UsageError> {
        self.check_open()?;
        let Mode::Tx(_) = self.channel.mode else {
            return Err(UsageError::WrongMode);
        };
        self.call(request, &tx::Commit {})
    }

    /// Undoes what was published and acked since the last commit or rollback.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn rollback(&mut self, request: RequestId) -> Result<(), UsageError> {
        self.check_open()?;
        let Mode::Tx(_) = self.channel.mode else {
            return Err(UsageError::WrongMode);
        };
        self.call(request, &tx::Rollback {})
    }

    /// Nobody waits for the answer to this request any more: it will go to nobody, and what it brings is
    /// undone. Giving up on a select, commit or rollback that was sent closes the channel.
    pub fn abandon(&mut self, request: RequestId) {
        self.channel.abandon(request, &mut self.shared);
    }

    // ----- consuming -----

    /// Acks, nacks or rejects a delivery, or with `multiple` all outstanding ones up to it; reject knows no
    /// `multiple`. Each delivery can be settled once.
    ///
    /// # Errors
    /// The tag is another channel's, or not outstanding; the channel is not open. Nothing is sent.
    pub fn settle(
        &mut self,
        tag: DeliveryTag,
        multiple: bool,
        how: Settle,
    ) -> Result<(), UsageError> {
        self.check_open()?;
        if tag.channel != self.channel.id {
            return Err(UsageError::ForeignDeliveryTag);
        }
        let DeliveryTag { tag, .. } = tag;
        if !self.channel.consumers.is_unsettled(tag) {
            return Err(UsageError::UnknownDeliveryTag(tag));
        }
        let multiple = multiple && !matches!(how, Settle::Reject { .. });
        self.channel.settle(tag, multiple, how, &mut self.shared);
        Ok(())
    }

    /// Puts a delivery that nobody wants back into its queue, if it is unsettled. The message of a stream is left
    /// unsettled instead: it is still there, and RabbitMQ before 4.0 ends the connection for such a nack. So is one that
    /// only has the header `x-stream-offset`, until the channel closes.
    pub fn give_back(&mut self, delivery: &Delivery) {
        if self.check_open().is_ok() && delivery.tag().channel == self.channel.id {
            self.channel.give_back(delivery, &mut self.shared);
        }
    }

    /// Cancels a consumer that nobody reads from any more. What is under way to it goes back to its queue.
    pub fn forget_consumer(&mut self, consumer: ConsumerId) {
        if self.check_open().is_ok() {
            self.channel.forget_consumer(consumer, &mut self.shared);
        }
    }

    // ----- closing -----

    /// Closes the channel at once. Publishes without a confirm become unknown.
    pub fn close(&mut self, request: Option<RequestId>, code: ReplyCode, text: ShortStr<'static>) {
        self.channel
            .close(request, true, code, text, &mut self.shared);
    }

    /// Closes the channel at once because this side cannot go on with it; the code and the cause's text are told to
    /// the server.
    pub fn close_because(&mut self, code: ReplyCode, cause: CloseCause) {
        self.channel.close_because(code, cause, &mut self.shared);
    }

    /// Closes the channel when every publish has its outcome; nothing more can be asked of it.
    pub fn close_when_settled(&mut self, request: Option<RequestId>) {
        let (code, text) = (ReplyCode::REPLY_SUCCESS, ShortStr::default());
        self.channel
            .close(request, false, code, text, &mut self.shared);
    }
}
