//! What may be asked of one channel.

use amqp_codec::frame::{FRAME_OVERHEAD, method_frame_len};
use amqp_codec::{EncodeError, MethodFields, ReplyCode, ShortStr, basic, tx};

use super::ConfirmOptions;
use super::channel::{Channel, Mode, Settle, Shared, State};
use super::confirm::PublishSeq;
use super::delivery::DeliveryTag;
use super::event::{ChannelId, ConsumerId};
use super::rpc::RequestId;
use crate::error::{NotSent, UsageError};
use crate::message::{Message, Publication};
use crate::outcome::Counts;

/// The class, weight and size of a content header's payload, before the properties.
const CONTENT_HEADER_FIXED: usize = 12;

/// One channel, borrowed from its [`Connection`](super::Connection). What is asked for here is in the
/// outgoing buffer, whole, when the call returns `Ok`, and nothing of it is otherwise.
pub struct ChannelView<'a, P> {
    pub(super) channel: &'a mut Channel<P>,
    pub(super) shared: Shared<'a, P>,
    pub(super) frame_max: u32,
    pub(super) blocked: bool,
    pub(super) unstamped: &'a mut Vec<u16>,
}

/// Leave to publish one message. Made by [`ChannelView::admit`], so that the message is moved only when
/// nothing can go wrong any more.
pub struct Admitted<'a, P>(ChannelView<'a, P>);

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

impl<'a, P> ChannelView<'a, P> {
    /// The channel.
    pub fn id(&self) -> ChannelId {
        self.channel.id
    }

    fn check_open(&self) -> Result<(), UsageError> {
        match &self.channel.state {
            State::Closing { closed, .. } => Err(UsageError::ChannelClosed(closed.clone())),
            State::Open if self.channel.is_open() => Ok(()),
            State::Open | State::Opening { .. } => Err(UsageError::NoChannel),
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

    /// Whether this message may be published now. Nothing is sent yet.
    ///
    /// # Errors
    /// Why not. What cannot be sent at all comes before what has to wait.
    pub fn admit(self, message: &Message) -> Result<Admitted<'a, P>, NotSent> {
        self.check_open()?;
        if let Some(property) = message.invalid_property() {
            return Err(UsageError::InvalidProperty(property).into());
        }
        let properties = message.properties();
        self.check_fits(FRAME_OVERHEAD + CONTENT_HEADER_FIXED + properties.encoded_len())?;
        properties
            .headers(self.shared.limits)
            .map_err(UsageError::InvalidHeaders)?;
        self.room_for(message.body().len())?;
        Ok(Admitted(self))
    }

    /// Whether a message with a body of this many bytes would have to wait.
    ///
    /// # Errors
    /// [`NotSent::Blocked`] or [`NotSent::Full`].
    pub fn room_for(&self, body_len: usize) -> Result<(), NotSent> {
        if self.blocked {
            return Err(NotSent::Blocked);
        }
        let room_in_flight = match &self.channel.mode {
            Mode::Confirm(tracker) => tracker.has_room(body_len),
            Mode::Plain | Mode::Tx(_) => true,
        };
        if !room_in_flight || !self.channel.flow || !self.shared.outgoing.has_room() {
            return Err(NotSent::Full);
        }
        Ok(())
    }

    /// How the publishes of a channel in confirm mode stand; `None` in another mode.
    pub fn confirm_status(&self) -> Option<ConfirmStatus> {
        let Mode::Confirm(tracker) = &self.channel.mode else {
            return None;
        };
        Some(ConfirmStatus {
            in_flight: tracker.in_flight(),
            bytes_in_flight: tracker.bytes_in_flight(),
            last: tracker.next_seq().0 - 1,
            counts: tracker.counts(),
        })
    }

    /// Whether every publish up to this one has its outcome.
    pub fn settled_through(&self, seq: PublishSeq) -> bool {
        match &self.channel.mode {
            Mode::Confirm(tracker) => tracker.settled_through(seq),
            Mode::Plain | Mode::Tx(_) => true,
        }
    }

    // ----- synchronous methods -----

    /// Sends a synchronous method, when those before it on the channel have been answered. The answer is
    /// an [`Event::Reply`](super::Event::Reply). For consume, get, select, commit, rollback and close there
    /// are calls of their own.
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

    /// Starts a consumer, which is named by this request from then on.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn consume(
        &mut self,
        request: RequestId,
        consume: &basic::Consume<'_>,
    ) -> Result<(), UsageError> {
        self.check(consume)?;
        self.channel.consume(request, consume, &mut self.shared);
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

    /// Puts the channel in confirm mode. Publishes are numbered from the answer on.
    ///
    /// # Errors
    /// As [`call`](Self::call); the channel has a mode already.
    pub fn select_confirms(
        &mut self,
        request: RequestId,
        options: ConfirmOptions,
    ) -> Result<(), UsageError> {
        self.check_open()?;
        let Mode::Plain = self.channel.mode else {
            return Err(UsageError::WrongMode);
        };
        self.channel
            .select_confirms(request, options, &mut self.shared);
        Ok(())
    }

    /// Puts the channel in transaction mode.
    ///
    /// # Errors
    /// As [`call`](Self::call); the channel has a mode already.
    pub fn select_tx(&mut self, request: RequestId) -> Result<(), UsageError> {
        let Mode::Plain = self.channel.mode else {
            return Err(UsageError::WrongMode);
        };
        self.call(request, &tx::Select {})
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
    /// undone. Giving up on a select, commit or rollback closes the channel.
    pub fn abandon(&mut self, request: RequestId) {
        self.channel.abandon(request, &mut self.shared);
    }

    // ----- consuming -----

    /// Acks, nacks or rejects a delivery, or with `multiple` all outstanding ones up to it. Each delivery
    /// can be settled once.
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
        self.channel.settle(tag, multiple, how, &mut self.shared)
    }

    /// Cancels a consumer without waiting for the answer. What is under way to it goes back to its queue.
    pub fn forget_consumer(&mut self, consumer: ConsumerId) {
        if self.check_open().is_ok() {
            self.channel.forget_consumer(consumer, &mut self.shared);
        }
    }

    // ----- closing -----

    /// Closes the channel at once. Publishes without a confirm become unknown.
    pub fn close(&mut self, request: Option<RequestId>, code: ReplyCode, text: ShortStr<'static>) {
        match self.channel.state {
            State::Open => self
                .channel
                .start_close(request, code, text, &mut self.shared),
            State::Opening { ref mut close } => *close = true,
            State::Closing { .. } => {}
        }
    }

    /// Closes the channel when every publish has its outcome; nothing more can be asked of it.
    pub fn close_when_settled(&mut self, request: Option<RequestId>) {
        let (code, text) = (ReplyCode::REPLY_SUCCESS, ShortStr::default());
        self.channel
            .close_when_settled(request, code, text, &mut self.shared);
    }
}

impl<P> Admitted<'_, P> {
    /// Puts the message into the outgoing buffer, whole, and in confirm mode registers it in the same step:
    /// no confirm can come before. `keep` comes back with its outcome; outside confirm mode it is dropped.
    pub fn publish(mut self, publication: Publication, keep: P) -> Option<PublishSeq> {
        let view = &mut self.0;
        let seq = view.channel.publish(publication, keep, &mut view.shared);
        if seq.is_some() && !view.channel.unstamped {
            view.channel.unstamped = true;
            view.unstamped.push(view.channel.id.number);
        }
        seq
    }
}
