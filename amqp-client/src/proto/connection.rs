//! The connection: the handshake, channel 0, and everything that concerns all channels.
//!
//! ```text
//!   Handshake --open-ok--> Open --close (by us)--> Draining --settled--> Closing --close-ok--> Closed
//!       |                   |                                                                     ^
//!       +-------------------+---- close (by the server), violation, end of stream, silence -------+
//! ```

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use amqp_codec::{
    EncodeError, LongStr, MethodFields, ProtocolHeader, ReplyCode, ShortStr, connection, frame,
};

use super::after;
use super::channel::{Bounds, Channel, Mode, Shared};
use super::confirm::PublishSeq;
use super::delivery::Delivery;
use super::event::{ChannelId, ConsumerId, Event, Events, Keep, PublishId, RequestError};
use super::handshake::{Handshake, ServerInfo};
use super::heartbeat::Heartbeat;
use super::outgoing::{Batch, Outgoing};
use super::rpc::{RequestId, Rpc, RpcQueue};
use super::view::{ChannelView, ConfirmStatus, Refusal};
use crate::config::{ConnectOptions, Limits};
use crate::error::{Closed, UsageError, Violation};
use crate::negotiate::Negotiated;
use crate::outcome::Outcome;

mod opening;
mod recv;
mod time;

/// The target of one trace event for each frame.
const FRAMES: &str = super::trace::FRAMES;

/// One connection as a state machine without a clock, a socket or a lock.
///
/// Its owner gives it what the peer sent ([`handle_input`](Self::handle_input)) and the time, and takes bytes to send ([`poll_transmit`](Self::poll_transmit)), events
/// ([`poll_event`](Self::poll_event)) and the next deadline ([`poll_timeout`](Self::poll_timeout)) out.
/// `P` is what the owner keeps for each publish in confirm mode and gets back with its outcome.
pub struct Connection<P> {
    id: u64,
    options: ConnectOptions,
    state: State,
    server: ServerInfo,
    negotiated: Option<Negotiated>,
    bounds: Bounds,
    outgoing: Outgoing,
    /// By number, from 1 on.
    channels: Vec<Option<Box<Channel<P>>>>,
    /// Numbers that were used and are free again, in the order they came free.
    free: VecDeque<u16>,
    incarnations: u64,
    requests: u64,
    /// Synchronous methods on channel 0 after the handshake.
    rpcs: RpcQueue,
    blocked: Option<ShortStr<'static>>,
    heartbeat: Heartbeat,
    /// When the confirms of which channel time out.
    timers: BTreeSet<(Instant, u16)>,
    /// Channels that published since the last turn: their publishes have no deadline yet.
    unstamped: Vec<u16>,
    events: Events<P>,
}

#[derive(Debug)]
enum State {
    Handshake {
        step: Handshake,
        deadline: Instant,
    },
    Open,
    /// A close of ours waits for publishes to be settled.
    Draining {
        closed: Arc<Closed>,
        until: Instant,
        deadline: Instant,
    },
    /// connection.close is sent, or will be when all bodies are on their way.
    Closing {
        closed: Arc<Closed>,
        sent: bool,
        deadline: Instant,
    },
    Closed(Arc<Closed>),
}

impl<P: Keep> Connection<P> {
    /// A connection that begins its handshake at `now`. `id` is unique among the connections of the process.
    ///
    /// The options must have passed [`ConnectOptions::validate`].
    pub fn new(id: u64, options: ConnectOptions, now: Instant) -> Self {
        let mut outgoing = Outgoing::new(options.limits.outgoing_bytes, options.limits.owed_bytes);
        outgoing.write(|buf| ProtocolHeader::AMQP_0_9_1.encode(buf));
        let deadline = after(now, options.deadlines.handshake);
        Connection {
            id,
            state: State::Handshake {
                step: Handshake::Start,
                deadline,
            },
            server: ServerInfo::default(),
            negotiated: None,
            bounds: Bounds {
                limits: options.limits,
                decoding: options.limits.before_tune(),
                assembling: 0,
            },
            outgoing,
            channels: Vec::new(),
            free: VecDeque::new(),
            incarnations: 0,
            requests: 0,
            rpcs: RpcQueue::default(),
            blocked: None,
            heartbeat: Heartbeat::off(now),
            timers: BTreeSet::new(),
            unstamped: Vec::new(),
            events: Events::new(),
            options,
        }
    }

    // ----- what the owner asks -----

    /// What the server said of itself; empty before connection.start.
    pub fn server(&self) -> &ServerInfo {
        &self.server
    }

    /// What tune and tune-ok settled; `None` before them.
    pub fn negotiated(&self) -> Option<Negotiated> {
        self.negotiated
    }

    /// The limits on what the peer may make us accept, keep or owe.
    pub fn limits(&self) -> &Limits {
        &self.bounds.limits
    }

    /// The reason the broker gave for blocking the connection, while it does.
    pub fn blocked(&self) -> Option<&ShortStr<'static>> {
        self.blocked.as_ref()
    }

    /// How the connection ended, if it has.
    pub fn closed(&self) -> Option<&Arc<Closed>> {
        match &self.state {
            State::Closed(closed) => Some(closed),
            State::Handshake { .. }
            | State::Open
            | State::Draining { .. }
            | State::Closing { .. } => None,
        }
    }

    /// Whether the connection takes requests.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// How many channels hold a number.
    pub fn open_channels(&self) -> usize {
        self.channels.iter().flatten().count()
    }

    /// How the publishes of a channel in confirm mode stand, also while the connection closes; `None` in
    /// another mode, and once the channel is over.
    pub fn confirm_status(&self, id: ChannelId) -> Option<ConfirmStatus> {
        self.any_channel(id)?.confirm_status()
    }

    /// Whether every publish of a channel up to this one has its outcome, also while the connection closes.
    pub fn settled_through(&self, id: ChannelId, seq: PublishSeq) -> bool {
        self.any_channel(id)
            .is_none_or(|channel| channel.settled_through(seq))
    }

    /// A channel that holds its number, whatever may be asked of it.
    fn any_channel(&self, id: ChannelId) -> Option<&Channel<P>> {
        let slot = self.channels.get(index(id.number))?;
        slot.as_deref().filter(|channel| channel.id == id)
    }

    /// What is kept for a publish in confirm mode. `None` once it has its outcome, which is [`Outcome::Acked`] unless
    /// there was an event that says otherwise.
    #[inline]
    pub fn kept(&mut self, id: &ChannelId, seq: PublishSeq) -> Option<&mut P> {
        let channel = self.channels.get_mut(index(id.number))?.as_deref_mut()?;
        match &mut channel.mode {
            Mode::Confirm(tracker) if channel.id == *id => tracker.kept(seq),
            Mode::Plain | Mode::Selecting(_) | Mode::Confirm(_) | Mode::Tx(_) => None,
        }
    }

    /// Whether the peer makes us owe it more than it takes. It is not to be read from while that is so.
    pub fn is_overfull(&self) -> bool {
        self.outgoing.is_overfull()
    }

    /// A name for a request to come.
    pub fn next_request(&mut self) -> RequestId {
        self.requests = self.requests.wrapping_add(1);
        RequestId(self.requests)
    }

    fn frame_max(&self) -> u32 {
        self.negotiated
            .map_or(frame::FRAME_MIN_SIZE, |negotiated| negotiated.frame_max)
    }

    fn check_open(&self) -> Result<(), UsageError> {
        match &self.state {
            State::Open => Ok(()),
            State::Draining { closed, .. }
            | State::Closing { closed, .. }
            | State::Closed(closed) => Err(UsageError::ConnectionClosed(closed.clone())),
            State::Handshake { .. } => Err(UsageError::NotConnected),
        }
    }

    /// Opens a channel. It is usable when the reply has come; until then the returned id only serves to
    /// [`abandon`](ChannelView::abandon) the request.
    ///
    /// # Errors
    /// The connection is not open; all channels are in use.
    pub fn open_channel(&mut self, request: RequestId) -> Result<ChannelId, UsageError> {
        self.check_open()?;
        let max = self
            .negotiated
            .map_or(0, |negotiated| negotiated.channel_max);
        let number = match self.free.pop_front() {
            Some(number) => number,
            None if self.channels.len() < usize::from(max) => {
                self.channels.push(None);
                #[expect(clippy::cast_possible_truncation, reason = "it is at most channel_max")]
                let number = self.channels.len() as u16;
                number
            }
            None => return Err(UsageError::TooManyChannels { max }),
        };
        self.incarnations = self.incarnations.wrapping_add(1);
        let id = ChannelId {
            connection: self.id,
            incarnation: self.incarnations,
            number,
        };
        let mut shared = Shared {
            outgoing: &mut self.outgoing,
            events: &mut self.events,
            bounds: &mut self.bounds,
        };
        let channel = Channel::open(id, request, &mut shared);
        if let Some(slot) = self.channels.get_mut(index(number)) {
            *slot = Some(Box::new(channel));
        }
        Ok(id)
    }

    /// One channel.
    ///
    /// # Errors
    /// The channel, or the connection, is not open any more.
    #[inline]
    pub fn channel(&mut self, id: ChannelId) -> Result<ChannelView<'_, P>, UsageError> {
        let refusal = if let State::Open = self.state {
            match self.blocked {
                None => Refusal::None,
                Some(_) => Refusal::Blocked,
            }
        } else {
            Self::closing(&self.state)?
        };
        let slot = self.channels.get_mut(index(id.number));
        match slot
            .and_then(Option::as_deref_mut)
            .filter(|channel| channel.id == id)
        {
            Some(channel) => Ok(ChannelView {
                channel,
                shared: Shared {
                    outgoing: &mut self.outgoing,
                    events: &mut self.events,
                    bounds: &mut self.bounds,
                },
                frame_max: self
                    .negotiated
                    .map_or(frame::FRAME_MIN_SIZE, |negotiated| negotiated.frame_max),
                refusal,
                unstamped: &mut self.unstamped,
            }),
            None => Err(UsageError::NoChannel),
        }
    }

    /// Why there are no publishes, where there may still be other requests.
    #[cold]
    fn closing(state: &State) -> Result<Refusal<'_>, UsageError> {
        match state {
            State::Draining { closed, .. } => Ok(Refusal::Closing(closed)),
            State::Handshake { .. } | State::Open => Err(UsageError::NotConnected),
            State::Closing { closed, .. } | State::Closed(closed) => {
                Err(UsageError::ConnectionClosed(closed.clone()))
            }
        }
    }

    /// Replaces the secret of the connection, such as an OAuth token (RabbitMQ: connection.update-secret).
    ///
    /// # Errors
    /// The connection is not open, or the secret does not fit a frame.
    pub fn update_secret(
        &mut self,
        request: RequestId,
        secret: &[u8],
        reason: ShortStr<'_>,
    ) -> Result<(), UsageError> {
        self.check_open()?;
        let update = connection::UpdateSecret {
            new_secret: LongStr::from(secret),
            reason,
        };
        let (size, frame_max) = (frame::method_frame_len(&update), self.frame_max());
        if size > frame_max as usize {
            let size = size as u64;
            return Err(EncodeError::FrameTooLarge { size, frame_max }.into());
        }
        let mut bytes = Vec::new();
        frame::encode_method(0, &update, &mut bytes)?;
        self.rpcs.push(Rpc {
            request: Some(request),
            method: connection::UpdateSecret::ID,
            no_ack: false,
            consumer_tag: ShortStr::EMPTY,
            frame: bytes,
        });
        self.send_next_rpc();
        Ok(())
    }

    /// Closes the connection politely: publishes without a confirm get half of the close deadline to be
    /// settled, then connection.close is sent, and the rest of the deadline is the server's. Ends with
    /// [`Event::Closed`]. A second call changes nothing.
    pub fn close(&mut self, now: Instant, code: ReplyCode, text: ShortStr<'static>) {
        let closed = Arc::new(Closed::by_client(code, text));
        #[expect(clippy::arithmetic_side_effects, reason = "two is not zero")]
        let (until, deadline) = (
            after(now, self.options.deadlines.close / 2),
            after(now, self.options.deadlines.close),
        );
        match self.state {
            State::Handshake { .. } => self.terminate(closed),
            State::Open => {
                self.state = State::Draining {
                    closed,
                    until,
                    deadline,
                };
                self.close_if_drained(now);
            }
            State::Draining { .. } | State::Closing { .. } | State::Closed(_) => {}
        }
    }

    fn close_if_drained(&mut self, now: Instant) {
        let State::Draining {
            closed,
            until,
            deadline,
        } = &self.state
        else {
            return;
        };
        if now >= *until
            || !self
                .channels
                .iter()
                .flatten()
                .any(|channel| channel.has_unsettled())
        {
            let (closed, deadline) = (closed.clone(), *deadline);
            self.state = State::Closing {
                closed,
                sent: false,
                deadline,
            };
        }
    }

    // ----- the end -----

    /// The peer broke the protocol: the connection is closed with the code for that.
    fn fail(&mut self, now: Instant, violation: Violation) {
        tracing::warn!(%violation, "closing the connection");
        let closed = Arc::new(Closed::by_violation(violation));
        match &self.state {
            State::Handshake { step, .. } => {
                // spec 2.2.4: before open, who detects an error closes the socket without sending anything.
                if let Handshake::OpenOk = step {
                    self.send_close(&closed);
                }
                let error = self.handshake_failure(closed);
                self.fail_handshake(error);
            }
            State::Open | State::Draining { .. } => {
                // What was not handed out is not sent any more, so that it is known not to have been.
                self.close_channels(&closed, self.outgoing.handed_out());
                self.outgoing.discard();
                self.send_close(&closed);
                let deadline = after(now, self.options.deadlines.close);
                self.state = State::Closing {
                    closed,
                    sent: true,
                    deadline,
                };
            }
            // There is nobody left to complain to.
            State::Closing { closed, .. } => {
                let closed = closed.clone();
                self.terminate(closed);
            }
            State::Closed(_) => {}
        }
    }

    fn close_channels(&mut self, closed: &Arc<Closed>, written: u64) {
        for slot in &mut self.channels {
            if let Some(channel) = slot.take() {
                let mut shared = Shared {
                    outgoing: &mut self.outgoing,
                    events: &mut self.events,
                    bounds: &mut self.bounds,
                };
                channel.connection_closed(closed, written, &mut shared);
            }
        }
        self.timers.clear();
        for (request, method) in self.rpcs.fail_all() {
            let closed = closed.clone();
            let error = RequestError::ConnectionClosed { method, closed };
            self.events.push_back(Event::Reply(request, Err(error)));
        }
    }

    /// The connection is over. What was handed out counts as written: all of it may still be.
    fn terminate(&mut self, closed: Arc<Closed>) {
        self.terminate_after(self.outgoing.handed_out(), closed);
    }

    /// The connection is over after `written` bytes of the outgoing stream; the rest is not sent any more.
    fn terminate_after(&mut self, written: u64, closed: Arc<Closed>) {
        self.outgoing.discard();
        match &self.state {
            State::Closed(_) => {}
            State::Handshake { .. } => {
                let error = self.handshake_failure(closed);
                self.fail_handshake(error);
            }
            State::Open | State::Draining { .. } | State::Closing { .. } => {
                self.close_channels(&closed, written);
                self.events.push_back(Event::Closed(closed.clone()));
                self.state = State::Closed(closed);
            }
        }
    }

    // ----- what goes to the peer -----

    #[expect(clippy::expect_used, reason = "only what we make up is sent")]
    fn send<M: MethodFields>(&mut self, method: &M) {
        self.outgoing.write_last(|buf| {
            frame::encode_method(0, method, buf).expect("methods of channel 0 are short");
        });
    }

    /// The last method but for the answer to the peer's own close: channels go on receiving, and answer no more.
    fn send_close(&mut self, closed: &Closed) {
        let reply_text = closed.text.as_borrowed();
        self.send(&connection::Close {
            reply_code: closed.code,
            reply_text,
            ..Default::default()
        });
        self.outgoing.seal();
    }

    fn send_next_rpc(&mut self) {
        if let Some((_, bytes)) = self.rpcs.next_frame() {
            self.outgoing.write(|buf| buf.extend_from_slice(&bytes));
        }
    }

    /// Takes what is to be sent, in exchange for a batch that has been sent. `false` if there is nothing.
    pub fn poll_transmit(&mut self, now: Instant, batch: &mut Batch) -> bool {
        self.stamp(now);
        self.pump();
        if let State::Closing {
            closed,
            sent: sent @ false,
            ..
        } = &mut self.state
            && self.outgoing.is_idle()
        {
            *sent = true;
            let closed = closed.clone();
            self.send_close(&closed);
        }
        if self.outgoing.is_empty() {
            return false;
        }
        self.heartbeat.sent(now);
        self.outgoing.hand_out(batch);
        true
    }

    /// Moves what waits in the channels' backlogs.
    fn pump(&mut self) {
        let mut first = true;
        while let Some(number) = self.outgoing.next_turn(std::mem::take(&mut first)) {
            if let Some(Some(channel)) = self.channels.get_mut(index(number)) {
                let Channel { mode, backlog, .. } = &mut **channel;
                self.outgoing.pump(number, backlog, |mark, start| {
                    if let Mode::Confirm(tracker) = mode {
                        tracker.set_start(PublishSeq(mark), start);
                    }
                });
            }
        }
    }

    /// The next thing that happened.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event<P>> {
        self.events.pop_front()
    }

    /// Whether [`poll_event`](Self::poll_event) has something.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The publishes that have their outcome, in exchange for an empty vector: what
    /// [`poll_event`](Self::poll_event) gives as [`Event::Settled`], before everything else, at less cost.
    pub fn take_settled(&mut self, taken: &mut Vec<(PublishId, P, Outcome)>) {
        self.events.take_settled(taken);
    }

    /// The messages for consumers, in exchange for an empty queue: what [`poll_event`](Self::poll_event) gives as
    /// [`Event::Delivered`], before everything else, at less cost.
    pub fn take_delivered(&mut self, taken: &mut VecDeque<(ConsumerId, Delivery)>) {
        self.events.take_delivered(taken);
    }

    /// How much is kept, for tests of what must not grow.
    #[cfg(test)]
    pub(super) fn footprint(&self) -> Footprint {
        Footprint {
            numbers: self.channels.len(),
            channels: self.open_channels(),
            timers: self.timers.len(),
            unstamped: self.unstamped.len(),
            waiting: self.outgoing.waiting(),
            events: self.events.len(),
        }
    }
}

/// Where the channel with this number is among [`Connection::channels`]; channel 0 is nowhere.
fn index(number: u16) -> usize {
    usize::from(number).wrapping_sub(1)
}

/// How much a connection keeps of each thing.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Footprint {
    pub(super) numbers: usize,
    pub(super) channels: usize,
    pub(super) timers: usize,
    pub(super) unstamped: usize,
    pub(super) waiting: usize,
    pub(super) events: usize,
}
