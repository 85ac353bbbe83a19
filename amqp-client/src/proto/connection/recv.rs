//! What comes from the peer, and who it is for.

use std::sync::Arc;
use std::time::Instant;

use amqp_codec::{Method, MethodId, connection};
use bytes::Bytes;

use super::{Connection, FRAMES, State, index};
use crate::error::{CloseCause, Closed, HandshakeError, Violation};
use crate::proto::channel::{Next, Shared};
use crate::proto::event::{Event, Keep, Reply};
use crate::proto::handshake::Handshake;
use crate::proto::input::{Input, InputError, InputFrame};
use crate::proto::methods::{plain_replies, sent_by_clients, sent_by_servers};

impl<P: Keep> Connection<P> {
    /// Handles all that has been received by `now`, if only a part of a frame: that is a sign of life too.
    pub fn handle_input(&mut self, now: Instant, input: &mut Input) {
        while self.handle_some_input(now, input, usize::MAX) {}
    }

    /// The same for at most so many frames or whole deliveries, so that a lock on this state need not be held for
    /// long. Whether there may be more.
    pub fn handle_some_input(&mut self, now: Instant, input: &mut Input, frames: usize) -> bool {
        self.heartbeat.received(now);
        let result = input.decode(frames, |frame, source| {
            self.handle_frame(now, frame, source)
        });
        if let Some(negotiated) = self.negotiated {
            input.set_frame_max(negotiated.frame_max);
        }
        self.check_handshake(now, input.received());
        let more = result.unwrap_or_else(|error| {
            self.handle_input_error(now, error);
            false
        });
        self.close_if_drained(now);
        more
    }

    /// A server says little before the connection is open.
    fn check_handshake(&mut self, now: Instant, received: u64) {
        let max = self.bounds.limits.handshake_bytes;
        if let State::Handshake { .. } = &self.state
            && received > u64::from(max)
        {
            self.fail(now, Violation::HandshakeTooLong { max });
        }
    }

    /// What was received is not AMQP.
    fn handle_input_error(&mut self, now: Instant, error: InputError) {
        match (&self.state, error) {
            (State::Handshake { .. }, InputError::Protocol(header)) => {
                self.fail_handshake(HandshakeError::Protocol(header));
            }
            (State::Handshake { .. }, InputError::Tls) => {
                self.fail_handshake(HandshakeError::TlsExpected);
            }
            // Only the first bytes of a connection are looked at as a protocol header, or as TLS.
            (_, InputError::Protocol(_) | InputError::Tls) => {}
            (
                State::Handshake {
                    step: Handshake::Start,
                    ..
                },
                InputError::Decode(error),
            ) if matches!(error.kind, amqp_codec::DecodeErrorKind::UnknownFrameType(_)) => {
                self.fail_handshake(HandshakeError::NotAmqp(error));
            }
            (_, InputError::Decode(error)) => {
                self.fail(now, error.into());
                self.stop_listening();
            }
        }
    }

    /// Nothing that the peer sends can be told apart any more, a close-ok included: the connection is over
    /// when our close is written.
    fn stop_listening(&mut self) {
        if let State::Closing { closed, .. } = &self.state {
            let closed = closed.clone();
            self.events.push_back(Event::Closed(closed.clone()));
            self.state = State::Closed(closed);
        }
    }

    /// The peer ended the stream, or the transport failed, after `written` bytes in all had been given to it.
    pub fn handle_transport_end(&mut self, written: u64, cause: CloseCause) {
        let closed = match &self.state {
            // The close-ok may never come; that the stream ends says as much.
            State::Closing {
                closed, sent: true, ..
            } => closed.clone(),
            State::Handshake { .. }
            | State::Open
            | State::Draining { .. }
            | State::Closing { sent: false, .. }
            | State::Closed(_) => Arc::new(Closed::by_transport(cause)),
        };
        self.terminate_after(written, closed);
    }

    fn handle_frame(&mut self, now: Instant, input: InputFrame<'_>, source: Option<&Bytes>) {
        if tracing::enabled!(target: FRAMES, tracing::Level::TRACE) {
            trace_frame("received", input);
        }
        if let InputFrame::Heartbeat = input {
            return;
        }
        match &self.state {
            State::Closed(_) => {}
            State::Handshake { .. } => self.handle_handshake(now, input),
            State::Open | State::Draining { .. } | State::Closing { .. } => {
                let result = match input {
                    InputFrame::Method { channel: 0, method } => self.recv_method(method),
                    input => self.recv_channel_frame(input.channel(), input, source),
                };
                if let Err(violation) = result {
                    self.fail(now, violation);
                }
            }
        }
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

    pub(super) fn recv_close(&mut self, close: &connection::Close<'_>) {
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
        let said_hello = self.outgoing.handed_out() > 0;
        self.terminate(closed);
        // Without our protocol header before it, an answer would be none.
        if said_hello {
            self.send(&connection::CloseOk {});
        }
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
        input: InputFrame<'_>,
        source: Option<&Bytes>,
    ) -> Result<(), Violation> {
        let slot = self.channels.get_mut(index(number));
        let was_open = slot.is_some();
        let Some(channel) = slot.and_then(Option::as_deref_mut) else {
            // After a fault of the peer's, frames that were under way are of no interest.
            let closing = matches!(self.state, State::Closing { .. });
            // RabbitMQ may repeat channel.close until it sees the close-ok, and one is all it wants.
            let repeated = was_open && is_channel_close(input);
            return if closing || repeated {
                Ok(())
            } else {
                Err(Violation::ChannelNotOpen(number))
            };
        };
        let mut shared = Shared {
            outgoing: &mut self.outgoing,
            events: &mut self.events,
            bounds: &mut self.bounds,
        };
        let next = match input {
            InputFrame::Ack { tag, multiple, .. } => channel.recv_ack(tag, multiple, &mut shared),
            input => channel.recv_frame(input, source, &mut shared),
        };
        match next {
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
        if let Some(mut channel) = self.channels.get_mut(index(number)).and_then(Option::take) {
            self.outgoing.drop_backlog(number, &mut channel.backlog);
            if let Some(at) = channel.timer {
                self.timers.remove(&(at, number));
            }
            self.free.push_back(number);
        }
    }
}

pub(super) fn unexpected(method: MethodId) -> Violation {
    Violation::UnexpectedMethod { method, channel: 0 }
}

fn is_channel_close(frame: InputFrame<'_>) -> bool {
    matches!(
        frame,
        InputFrame::Method {
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

/// Type, channel and size of a frame; never what is in it.
#[cold]
fn trace_frame(direction: &'static str, frame: InputFrame<'_>) {
    let channel = frame.channel();
    match frame {
        InputFrame::Method { method, .. } => {
            tracing::trace!(target: FRAMES, channel, method = %method.id(), direction);
        }
        InputFrame::Ack { .. } => {
            let method = MethodId::BASIC_ACK;
            tracing::trace!(target: FRAMES, channel, %method, direction);
        }
        InputFrame::Header { payload, .. } => trace_header(direction, channel, payload.len()),
        InputFrame::Body { payload, .. } => trace_body(direction, channel, payload.len()),
        InputFrame::Delivery { content, .. } => {
            let method = MethodId::BASIC_DELIVER;
            tracing::trace!(target: FRAMES, channel, %method, direction);
            trace_header(direction, channel, content.header_len());
            trace_body(direction, channel, content.body().len());
        }
        InputFrame::Heartbeat => tracing::trace!(target: FRAMES, "{direction} heartbeat"),
    }
}

fn trace_header(direction: &'static str, channel: u16, len: usize) {
    tracing::trace!(target: FRAMES, channel, len, "{direction} header");
}

fn trace_body(direction: &'static str, channel: u16, len: usize) {
    tracing::trace!(target: FRAMES, channel, len, "{direction} body");
}
