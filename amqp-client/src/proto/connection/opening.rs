//! The connection while its handshake lasts.

use std::sync::Arc;
use std::time::Instant;

use amqp_codec::{LongStr, Method, ReplyCode, connection};

use super::recv::unexpected;
use super::{Connection, State};
use crate::error::{Closed, HandshakeError, Initiator, Step, Violation, short_text};
use crate::proto::event::{Event, Keep};
use crate::proto::handshake::{self, Handshake, ServerInfo};
use crate::proto::input::InputFrame;

impl<P: Keep> Connection<P> {
    pub(super) fn handle_handshake(&mut self, now: Instant, frame: InputFrame<'_>) {
        let State::Handshake { step, .. } = &mut self.state else {
            return;
        };
        let InputFrame::Method { channel: 0, method } = frame else {
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
        self.bounds.decoding = self.bounds.limits.after_tune(negotiated.frame_max);
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

    pub(super) fn handshake_failure(&self, closed: Arc<Closed>) -> HandshakeError {
        match &self.state {
            State::Handshake { step, .. } => step.failure(closed),
            State::Open | State::Draining { .. } | State::Closing { .. } | State::Closed(_) => {
                HandshakeError::Closed {
                    step: Step::Open,
                    closed,
                }
            }
        }
    }

    pub(super) fn fail_handshake(&mut self, error: HandshakeError) {
        let closed = match &error {
            HandshakeError::CredentialsRefused(closed)
            | HandshakeError::CredentialsProbablyRefused(closed)
            | HandshakeError::VirtualHostRefused(closed)
            | HandshakeError::Closed { closed, .. } => closed.clone(),
            HandshakeError::Protocol(_)
            | HandshakeError::TlsExpected
            | HandshakeError::NotAmqp(_)
            | HandshakeError::Version { .. }
            | HandshakeError::Authentication(_)
            | HandshakeError::Tune(_)
            | HandshakeError::StartOk(_) => {
                let text = short_text(&error.to_string());
                Arc::new(Closed {
                    initiator: Initiator::Library,
                    ..Closed::by_client(ReplyCode(0), text)
                })
            }
        };
        self.state = State::Closed(closed);
        self.events.push_back(Event::HandshakeFailed(error));
    }
}
