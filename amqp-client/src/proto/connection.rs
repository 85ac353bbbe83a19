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
    EncodeError, Frame, Limits, LongStr, Method, MethodFields, MethodId, ProtocolHeader, ReplyCode,
    ShortStr, connection, frame,
};
use bytes::Bytes;

use super::channel::{Channel, Mode, Next, Shared};
use super::event::{ChannelId, Event, Reply, RequestError};
use super::handshake::{self, Handshake, ServerInfo};
use super::heartbeat::Heartbeat;
use super::input::{Input, InputError, InputFrame};
use super::methods::{plain_replies, sent_by_clients, sent_by_servers};
use super::outgoing::{Batch, Outgoing};
use super::rpc::{RequestId, Rpc, RpcQueue};
use super::view::ChannelView;
use crate::config::ConnectOptions;
use crate::error::{CloseCause, Closed, HandshakeError, Initiator, NotSent, UsageError, Violation};
use crate::negotiate::Negotiated;

/// One connection as a state machine without a clock, a socket or a lock.
///
/// Its owner gives it what the peer sent ([`handle_frames`](Self::handle_frames), with an [`Input`] in
/// front of it) and the time, and takes bytes to send ([`poll_transmit`](Self::poll_transmit)), events
/// ([`poll_event`](Self::poll_event)) and the next deadline ([`poll_timeout`](Self::poll_timeout)) out.
/// `P` is what the owner keeps for each publish in confirm mode and gets back with its outcome.
pub struct Connection<P> {
    id: u64,
    options: ConnectOptions,
    state: State,
    server: ServerInfo,
    negotiated: Option<Negotiated>,
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
    events: VecDeque<Event<P>>,
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

impl<P> Connection<P> {
    /// A connection that begins its handshake at `now`. `id` is unique among the connections of the process.
    ///
    /// The options must have passed [`ConnectOptions::validate`].
    pub fn new(id: u64, options: ConnectOptions, now: Instant) -> Self {
        let mut outgoing = Outgoing::new(options.outgoing_bytes);
        outgoing.write(|buf| ProtocolHeader::AMQP_0_9_1.encode(buf));
        let deadline = now + options.deadlines.handshake;
        Connection {
            id,
            state: State::Handshake {
                step: Handshake::Start,
                deadline,
            },
            server: ServerInfo::default(),
            negotiated: None,
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
            events: VecDeque::new(),
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

    /// The limits on what the peer may send.
    pub fn limits(&self) -> &Limits {
        &self.options.limits
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

    /// Whether the peer makes us owe it more than it takes. It is not to be read from while that is so.
    pub fn is_overfull(&self) -> bool {
        self.outgoing.is_overfull()
    }

    /// A name for a request to come.
    pub fn next_request(&mut self) -> RequestId {
        self.requests += 1;
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
                // The length is at most channel_max, a 16-bit number.
                self.channels.len() as u16
            }
            None => return Err(UsageError::TooManyChannels { max }),
        };
        self.incarnations += 1;
        let id = ChannelId {
            connection: self.id,
            incarnation: self.incarnations,
            number,
        };
        let mut shared = Shared {
            outgoing: &mut self.outgoing,
            events: &mut self.events,
            limits: &self.options.limits,
        };
        let channel = Channel::open(id, request, &mut shared);
        self.channels[usize::from(number) - 1] = Some(Box::new(channel));
        Ok(id)
    }

    /// One channel.
    ///
    /// # Errors
    /// The channel, or the connection, is not open any more.
    pub fn channel(&mut self, id: ChannelId) -> Result<ChannelView<'_, P>, UsageError> {
        if let State::Handshake { .. } | State::Closing { .. } | State::Closed(_) = self.state {
            self.check_open()?;
        }
        let refusal = match &self.state {
            State::Draining { closed, .. } => {
                Some(UsageError::ConnectionClosed(closed.clone()).into())
            }
            State::Handshake { .. } | State::Open | State::Closing { .. } | State::Closed(_) => {
                self.blocked.as_ref().map(|_| NotSent::Blocked)
            }
        };
        let slot = self
            .channels
            .get_mut(usize::from(id.number).wrapping_sub(1));
        match slot
            .and_then(Option::as_deref_mut)
            .filter(|channel| channel.id == id)
        {
            Some(channel) => Ok(ChannelView {
                channel,
                shared: Shared {
                    outgoing: &mut self.outgoing,
                    events: &mut self.events,
                    limits: &self.options.limits,
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
        let (until, deadline) = (
            now + self.options.deadlines.close / 2,
            now + self.options.deadlines.close,
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

    // ----- what comes from the peer -----

    /// Handles frames that were received at `now`. `source` is the memory they lie in, where it may be
    /// shared with the messages they carry.
    pub fn handle_frames<'f>(
        &mut self,
        now: Instant,
        frames: &mut dyn Iterator<Item = InputFrame<'f>>,
        source: Option<&Bytes>,
    ) {
        self.heartbeat.received(now);
        for input in frames {
            self.handle_frame(now, &input, source);
        }
        self.close_if_drained(now);
    }

    /// Decodes and handles what has been received: [`Input::decode`] and [`handle_frames`](Self::handle_frames)
    /// in one, for owners without a lock to keep short.
    pub fn handle_input(&mut self, now: Instant, input: &mut Input) {
        let result = input.decode(|frames, source| self.handle_frames(now, frames, source));
        if let Some(negotiated) = self.negotiated {
            input.set_frame_max(negotiated.frame_max);
        }
        if let Err(error) = result {
            self.handle_input_error(now, error);
        }
    }

    /// What was received is not AMQP.
    pub fn handle_input_error(&mut self, now: Instant, error: InputError) {
        match (&self.state, error) {
            (State::Handshake { .. }, InputError::Protocol(header)) => {
                self.fail_handshake(HandshakeError::Protocol(header));
            }
            (State::Handshake { .. }, InputError::Tls) => {
                self.fail_handshake(HandshakeError::TlsExpected);
            }
            // Only the first bytes of a connection are looked at as a protocol header, or as TLS.
            (_, InputError::Protocol(_) | InputError::Tls) => {}
            (_, InputError::Decode(error)) => self.fail(now, error.into()),
        }
    }

    /// The peer ended the stream, or the transport failed, after `written` bytes in all had been given to it.
    pub fn handle_transport_end(&mut self, written: u64, cause: CloseCause) {
        let closed = match &self.state {
            // The close-ok may never come; that the stream ends says as much.
            State::Closing { closed, .. } => closed.clone(),
            State::Handshake { .. } | State::Open | State::Draining { .. } | State::Closed(_) => {
                Arc::new(Closed::by_transport(cause))
            }
        };
        self.terminate_after(written, closed);
    }

    fn handle_frame(&mut self, now: Instant, input: &InputFrame<'_>, source: Option<&Bytes>) {
        trace_frame("received", &input.frame);
        if let Frame::Heartbeat = input.frame {
            return;
        }
        match &self.state {
            State::Closed(_) => {}
            State::Handshake { .. } => self.handle_handshake(now, &input.frame),
            State::Open | State::Draining { .. } | State::Closing { .. } => {
                let result = match &input.frame {
                    Frame::Method { channel: 0, method } => self.recv_method(method),
                    frame => self.recv_channel_frame(frame.channel(), input, source),
                };
                if let Err(violation) = result {
                    self.fail(now, violation);
                }
            }
        }
    }

    fn handle_handshake(&mut self, now: Instant, frame: &Frame<'_>) {
        let State::Handshake { step, .. } = &mut self.state else {
            return;
        };
        let Frame::Method { channel: 0, method } = frame else {
            return self.fail(now, Violation::ChannelNotOpen(frame.channel()));
        };
        let result = match (&mut *step, method) {
            (Handshake::Start, Method::ConnectionStart(start)) => self.recv_start(start),
            (Handshake::Tune { login }, Method::ConnectionSecure(secure)) => {
                match login.respond(secure.challenge.as_bytes()) {
                    Ok(response) => {
                        let response = LongStr::from(response.reveal());
                        self.send(&connection::SecureOk { response });
                        Ok(())
                    }
                    Err(error) => Err(error.into()),
                }
            }
            (Handshake::Tune { .. }, Method::ConnectionTune(tune)) => self.recv_tune(tune),
            (Handshake::OpenOk, Method::ConnectionOpenOk(_)) => {
                self.recv_open_ok(now);
                Ok(())
            }
            (
                Handshake::Start | Handshake::Tune { .. } | Handshake::OpenOk,
                Method::ConnectionClose(close),
            ) => return self.recv_close(close),
            (Handshake::Start | Handshake::Tune { .. } | Handshake::OpenOk, method) => {
                return self.fail(now, unexpected(method.id()));
            }
        };
        if let Err(error) = result {
            self.fail_handshake(error);
        }
    }

    fn recv_start(&mut self, start: &connection::Start<'_>) -> Result<(), HandshakeError> {
        let (start_ok, login) = handshake::recv_start(start, &self.options)?;
        let connection::Start {
            server_properties,
            mechanisms,
            locales,
            ..
        } = start.clone().into_owned();
        self.server = ServerInfo {
            properties: server_properties,
            mechanisms,
            locales,
        };
        self.send(&start_ok);
        self.set_step(Handshake::Tune { login });
        Ok(())
    }

    fn recv_tune(&mut self, tune: &connection::Tune) -> Result<(), HandshakeError> {
        let (negotiated, tune_ok, open) = handshake::recv_tune(tune, &self.options)?;
        self.negotiated = Some(negotiated);
        self.outgoing.set_frame_max(negotiated.frame_max);
        self.send(&tune_ok);
        self.send(&open);
        self.set_step(Handshake::OpenOk);
        Ok(())
    }

    fn recv_open_ok(&mut self, now: Instant) {
        self.state = State::Open;
        if let Some(negotiated) = &self.negotiated {
            let (send_after, gone_after) = (
                negotiated.send_heartbeat_after(),
                negotiated.peer_gone_after(),
            );
            self.heartbeat.start(now, send_after, gone_after);
        }
        self.events.push_back(Event::Opened);
    }

    fn set_step(&mut self, next: Handshake) {
        if let State::Handshake { step, .. } = &mut self.state {
            *step = next;
        }
    }

    fn handshake_failure(&self, closed: Arc<Closed>) -> HandshakeError {
        match &self.state {
            State::Handshake { step, .. } => step.failure(closed),
            State::Open | State::Draining { .. } | State::Closing { .. } | State::Closed(_) => {
                HandshakeError::Closed {
                    step: crate::error::Step::Open,
                    closed,
                }
            }
        }
    }

    fn fail_handshake(&mut self, error: HandshakeError) {
        let closed = match &error {
            HandshakeError::CredentialsRefused(closed)
            | HandshakeError::CredentialsProbablyRefused(closed)
            | HandshakeError::VirtualHostRefused(closed)
            | HandshakeError::Closed { closed, .. } => closed.clone(),
            HandshakeError::Protocol(_)
            | HandshakeError::TlsExpected
            | HandshakeError::Version { .. }
            | HandshakeError::Authentication(_)
            | HandshakeError::Tune(_)
            | HandshakeError::StartOk(_) => {
                let text = crate::error::short_text(&error.to_string());
                Arc::new(Closed {
                    initiator: Initiator::Library,
                    ..Closed::by_client(ReplyCode(0), text)
                })
            }
        };
        self.state = State::Closed(closed);
        self.events.push_back(Event::HandshakeFailed(error));
    }

    /// A method on channel 0 after the handshake.
    fn recv_method(&mut self, method: &Method<'_>) -> Result<(), Violation> {
        match method {
            Method::ConnectionClose(close) => self.recv_close(close),
            Method::ConnectionCloseOk(_) => return self.recv_close_ok(),
            Method::ConnectionBlocked(blocked) => {
                let reason = blocked.reason.clone().into_owned();
                self.blocked = Some(reason.clone());
                self.events.push_back(Event::Blocked(reason));
            }
            Method::ConnectionUnblocked(_) => {
                self.blocked = None;
                self.events.push_back(Event::Unblocked);
            }
            Method::ConnectionUpdateSecretOk(ok) => {
                let rpc = self.rpcs.recv_reply(method.id());
                let rpc = rpc.ok_or_else(|| unexpected(method.id()))?;
                if let Some(request) = rpc.request {
                    let reply = Reply::Method((*ok).into());
                    self.events.push_back(Event::Reply(request, Ok(reply)));
                }
                self.send_next_rpc();
            }
            // What only clients send, what belongs to the handshake or on another channel.
            Method::ConnectionStart(_)
            | Method::ConnectionStartOk(_)
            | Method::ConnectionSecure(_)
            | Method::ConnectionSecureOk(_)
            | Method::ConnectionTune(_)
            | Method::ConnectionTuneOk(_)
            | Method::ConnectionOpen(_)
            | Method::ConnectionOpenOk(_)
            | Method::ConnectionUpdateSecret(_)
            | sent_by_clients!()
            | sent_by_servers!() => return Err(unexpected(method.id())),
        }
        Ok(())
    }

    fn recv_close(&mut self, close: &connection::Close<'_>) {
        let closed = match &self.state {
            // Both sides closed at once: ours was first, and its close-ok may never come.
            State::Closing {
                closed, sent: true, ..
            } => closed.clone(),
            State::Handshake { .. }
            | State::Open
            | State::Draining { .. }
            | State::Closing { sent: false, .. }
            | State::Closed(_) => Arc::new(closed_by_server(close)),
        };
        self.terminate(closed);
        self.send(&connection::CloseOk {});
    }

    fn recv_close_ok(&mut self) -> Result<(), Violation> {
        match &self.state {
            State::Closing {
                closed, sent: true, ..
            } => {
                let closed = closed.clone();
                self.terminate(closed);
                Ok(())
            }
            State::Handshake { .. }
            | State::Open
            | State::Draining { .. }
            | State::Closing { sent: false, .. }
            | State::Closed(_) => Err(unexpected(MethodId::CONNECTION_CLOSE_OK)),
        }
    }

    fn recv_channel_frame(
        &mut self,
        number: u16,
        input: &InputFrame<'_>,
        source: Option<&Bytes>,
    ) -> Result<(), Violation> {
        let slot = self.channels.get_mut(usize::from(number).wrapping_sub(1));
        let was_open = slot.is_some();
        let Some(channel) = slot.and_then(Option::as_deref_mut) else {
            // After a fault of the peer's, frames that were under way are of no interest.
            let closing = matches!(self.state, State::Closing { .. });
            // RabbitMQ may repeat channel.close until it sees the close-ok, and one is all it wants.
            let repeated = was_open && is_channel_close(&input.frame);
            return if closing || repeated {
                Ok(())
            } else {
                Err(Violation::ChannelNotOpen(number))
            };
        };
        let mut shared = Shared {
            outgoing: &mut self.outgoing,
            events: &mut self.events,
            limits: &self.options.limits,
        };
        match channel.recv_frame(input, source, &mut shared) {
            Ok(Next::Stays) => Ok(()),
            Ok(Next::Free) => {
                self.free_channel(number);
                Ok(())
            }
            // A fault that the specification calls soft is the channel's alone.
            Err(violation) if violation.code().is_soft() => {
                tracing::warn!(channel = number, %violation, "closing the channel");
                channel.close_for_violation(violation, &mut shared);
                Ok(())
            }
            Err(violation) => Err(violation),
        }
    }

    fn free_channel(&mut self, number: u16) {
        if let Some(mut channel) = self.channels[usize::from(number) - 1].take() {
            self.outgoing.drop_backlog(number, &mut channel.backlog);
            if let Some(at) = channel.timer {
                self.timers.remove(&(at, number));
            }
            self.free.push_back(number);
        }
    }

    /// The peer broke the protocol: the connection is closed with the code for that.
    fn fail(&mut self, now: Instant, violation: Violation) {
        tracing::warn!(%violation, "closing the connection");
        let closed = Arc::new(Closed::by_violation(violation));
        match &self.state {
            State::Handshake { .. } => {
                self.send_close(&closed);
                let error = self.handshake_failure(closed);
                self.fail_handshake(error);
            }
            State::Open | State::Draining { .. } => {
                // What was not handed out is not sent any more, so that it is known not to have been.
                self.close_channels(&closed, self.outgoing.handed_out());
                self.outgoing.discard();
                self.send_close(&closed);
                let deadline = now + self.options.deadlines.close;
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
                    limits: &self.options.limits,
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

    fn send<M: MethodFields>(&mut self, method: &M) {
        tracing::trace!(target: FRAMES, channel = 0, method = %M::ID, "sent");
        self.outgoing.write(|buf| {
            frame::encode_method(0, method, buf).expect("methods of channel 0 are short");
        });
    }

    fn send_close(&mut self, closed: &Closed) {
        let reply_text = closed.text.as_borrowed();
        self.send(&connection::Close {
            reply_code: closed.code,
            reply_text,
            ..Default::default()
        });
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

    /// Has no effect: what is handed out counts as written, until
    /// [`handle_transport_end`](Self::handle_transport_end) says how much was.
    pub fn set_written(&mut self, _written: u64) {}

    /// Moves what waits in the channels' backlogs.
    fn pump(&mut self) {
        while let Some(number) = self.outgoing.next_turn() {
            if let Some(Some(channel)) = self.channels.get_mut(usize::from(number) - 1) {
                let Channel { mode, backlog, .. } = &mut **channel;
                self.outgoing.pump(number, backlog, |mark, start| {
                    if let Mode::Confirm(tracker) = mode {
                        tracker.set_start(super::PublishSeq(mark), start);
                    }
                });
            }
        }
    }

    // ----- time -----

    /// Gives the publishes since the last turn their deadlines. [`poll_transmit`](Self::poll_transmit) does
    /// it too; while the transport takes nothing, the owner has to.
    pub fn stamp(&mut self, now: Instant) {
        for number in self.unstamped.drain(..) {
            let Some(Some(channel)) = self.channels.get_mut(usize::from(number) - 1) else {
                continue;
            };
            channel.unstamped = false;
            if let Mode::Confirm(tracker) = &mut channel.mode {
                tracker.stamp(now);
                if channel.timer.is_none()
                    && let Some(at) = tracker.next_deadline()
                {
                    channel.timer = Some(at);
                    self.timers.insert((at, number));
                }
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let of_state = match &self.state {
            State::Handshake { deadline, .. } | State::Closing { deadline, .. } => Some(*deadline),
            State::Draining { until, .. } => Some(*until),
            State::Open => None,
            State::Closed(_) => return None,
        };
        let of_confirms = self.timers.first().map(|(at, _)| *at);
        [of_state, of_confirms, self.heartbeat.next()]
            .into_iter()
            .flatten()
            .min()
    }

    /// It is `now`: does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let State::Closed(_) = self.state {
            return;
        }
        if let Some(silence) = self.heartbeat.peer_gone(now) {
            return self.terminate(self.closed_for(CloseCause::HeartbeatTimeout(silence)));
        }
        if self.heartbeat.is_due(now) {
            // Bytes that wait already will do as well, when the transport takes them.
            if self.outgoing.is_empty() {
                self.outgoing.write(|buf| {
                    frame::encode_heartbeat(buf).expect("a vector has room");
                });
            }
            self.heartbeat.sent(now);
        }
        self.expire_confirms(now);
        self.close_if_drained(now);
        match &self.state {
            State::Handshake { deadline, .. } if now >= *deadline => {
                let cause = CloseCause::HandshakeTimeout(self.options.deadlines.handshake);
                self.terminate(self.closed_for(cause));
            }
            State::Closing { deadline, .. } if now >= *deadline => {
                self.terminate(self.closed_for(CloseCause::CloseTimeout));
            }
            State::Handshake { .. }
            | State::Open
            | State::Draining { .. }
            | State::Closing { .. }
            | State::Closed(_) => {}
        }
    }

    /// How the connection ended when the peer was silent for too long. A close that was under way stays what
    /// ended it.
    fn closed_for(&self, cause: CloseCause) -> Arc<Closed> {
        Arc::new(match &self.state {
            State::Closing { closed, .. } => Closed {
                cause: closed.cause.clone().or(Some(cause)),
                ..Closed::clone(closed)
            },
            State::Handshake { .. } | State::Open | State::Draining { .. } | State::Closed(_) => {
                Closed::by_transport(cause)
            }
        })
    }

    fn expire_confirms(&mut self, now: Instant) {
        while let Some(&(at, number)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            let Some(Some(channel)) = self.channels.get_mut(usize::from(number) - 1) else {
                continue;
            };
            channel.timer = None;
            let Mode::Confirm(tracker) = &mut channel.mode else {
                continue;
            };
            let events = &mut self.events;
            tracker.expire(now, |keep, outcome| {
                events.push_back(Event::Settled(keep, outcome))
            });
            if let Some(at) = tracker.next_deadline() {
                channel.timer = Some(at);
                self.timers.insert((at, number));
            }
            let mut shared = Shared {
                outgoing: &mut self.outgoing,
                events: &mut self.events,
                limits: &self.options.limits,
            };
            channel.close_if_settled(&mut shared);
        }
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event<P>> {
        self.events.pop_front()
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

fn unexpected(method: MethodId) -> Violation {
    Violation::UnexpectedMethod { method, channel: 0 }
}

fn is_channel_close(frame: &Frame<'_>) -> bool {
    matches!(
        frame,
        Frame::Method {
            method: Method::ChannelClose(_),
            ..
        }
    )
}

fn closed_by_server(close: &connection::Close<'_>) -> Closed {
    let method = MethodId {
        class: close.class_id,
        method: close.method_id,
    };
    Closed::by_server(close.reply_code, &close.reply_text, method)
}

/// The target of one trace event for each frame.
const FRAMES: &str = "amqp_client::frames";

/// Type, channel and size of a frame; never what is in it.
fn trace_frame(direction: &'static str, frame: &Frame<'_>) {
    if !tracing::enabled!(target: FRAMES, tracing::Level::TRACE) {
        return;
    }
    let channel = frame.channel();
    match frame {
        Frame::Method { method, .. } => {
            tracing::trace!(target: FRAMES, channel, method = %method.id(), direction);
        }
        Frame::Header { header, .. } => {
            tracing::trace!(target: FRAMES, channel, body_size = header.body_size, "{direction} header");
        }
        Frame::Body { payload, .. } => {
            tracing::trace!(target: FRAMES, channel, len = payload.len(), "{direction} body");
        }
        Frame::Heartbeat => tracing::trace!(target: FRAMES, "{direction} heartbeat"),
    }
}
