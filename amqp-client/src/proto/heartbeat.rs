//! When to say something, and when the peer has said nothing for too long.

use std::time::{Duration, Instant};

use super::after;

/// Both directions of the heartbeat. Any byte counts as a sign of life.
#[derive(Debug)]
pub(super) struct Heartbeat {
    intervals: Option<Intervals>,
    last_sent: Instant,
    last_received: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Intervals {
    send_after: Duration,
    gone_after: Duration,
}

impl Heartbeat {
    /// None yet: the interval is part of what is negotiated.
    pub(super) fn off(now: Instant) -> Self {
        Heartbeat {
            intervals: None,
            last_sent: now,
            last_received: now,
        }
    }

    /// From `now` on, something is sent after `send_after` of our silence, and the peer is gone after
    /// `gone_after` of its own. Without both, there is no heartbeat.
    pub(super) fn start(
        &mut self,
        now: Instant,
        send_after: Option<Duration>,
        gone_after: Option<Duration>,
    ) {
        self.intervals = send_after
            .zip(gone_after)
            .map(|(send_after, gone_after)| Intervals {
                send_after,
                gone_after,
            });
        self.sent(now);
        self.received(now);
    }

    pub(super) fn sent(&mut self, now: Instant) {
        self.last_sent = now;
    }

    pub(super) fn received(&mut self, now: Instant) {
        self.last_received = now;
    }

    /// Whether it is time for a heartbeat of ours.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.intervals
            .is_some_and(|intervals| now >= after(self.last_sent, intervals.send_after))
    }

    /// How long the peer has been silent, if that is too long.
    pub(super) fn peer_gone(&self, now: Instant) -> Option<Duration> {
        let intervals = self.intervals?;
        (now >= after(self.last_received, intervals.gone_after))
            .then(|| now.saturating_duration_since(self.last_received))
    }

    /// When either becomes true.
    pub(super) fn next(&self) -> Option<Instant> {
        let intervals = self.intervals?;
        let send_at = after(self.last_sent, intervals.send_after);
        Some(send_at.min(after(self.last_received, intervals.gone_after)))
    }
}
