//! Deadlines: of the handshake, of confirms, of closes, and the heartbeat.

use std::sync::Arc;
use std::time::Instant;

use amqp_codec::frame;

use super::{Connection, State, index};
use crate::error::{CloseCause, Closed};
use crate::proto::channel::{Mode, Shared};
use crate::proto::event::Keep;

impl<P: Keep> Connection<P> {
    /// Gives the publishes since the last turn their deadlines. [`poll_transmit`](Self::poll_transmit) does
    /// it too; while the transport takes nothing, the owner has to.
    pub fn stamp(&mut self, now: Instant) {
        for number in self.unstamped.drain(..) {
            let Some(Some(channel)) = self.channels.get_mut(index(number)) else {
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
                #[expect(clippy::expect_used, reason = "no peer has a say in it")]
                self.outgoing.write_last(|buf| {
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
            let Some(Some(channel)) = self.channels.get_mut(index(number)) else {
                continue;
            };
            channel.timer = None;
            let Mode::Confirm(tracker) = &mut channel.mode else {
                continue;
            };
            let events = &mut self.events;
            let id = channel.id;
            tracker.expire(now, |seq, keep, outcome| {
                events.settled(id, seq, keep, outcome);
            });
            if let Some(at) = tracker.next_deadline() {
                channel.timer = Some(at);
                self.timers.insert((at, number));
            }
            let mut shared = Shared {
                outgoing: &mut self.outgoing,
                events: &mut self.events,
                bounds: &mut self.bounds,
            };
            channel.close_if_settled(&mut shared);
        }
    }
}
