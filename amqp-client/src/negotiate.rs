//! What tune and tune-ok settle: how many channels, how large a frame, how often a heartbeat.
//!
//! RabbitMQ answers a tune-ok that it does not like with silence and then a reset, so what is sent
//! has to be right.

use std::fmt;
use std::num::NonZeroU16;
use std::time::Duration;

use amqp_codec::frame::FRAME_MIN_SIZE;

/// The frame size in bytes that is used when the server, or nobody, sets a limit above it and the
/// user said nothing: whoever is sent large frames must be ready to keep one in memory.
pub const FRAME_MAX_CAP: u32 = 1024 * 1024;

/// What the server proposes in connection.tune; 0 is "no limit of mine" or "no heartbeats of mine".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tune {
    /// How many channels may be open.
    pub channel_max: u16,
    /// The largest frame in bytes, envelope included.
    pub frame_max: u32,
    /// The heartbeat interval in seconds.
    pub heartbeat: u16,
}

/// What we would like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// How many channels may be open; 0 is no limit of ours.
    pub channel_max: u16,
    /// The largest frame in bytes, envelope included: at least 4096, or 0, which is no limit of
    /// ours below [`FRAME_MAX_CAP`].
    pub frame_max: u32,
    /// The heartbeat interval.
    pub heartbeat: Heartbeat,
}

/// The heartbeat a client wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Heartbeat {
    /// What the server proposes (RabbitMQ: 60 seconds).
    #[default]
    ServerChoice,
    /// None, whatever the server proposes.
    Off,
    /// An interval in seconds; a shorter one that the server proposes wins.
    Seconds(NonZeroU16),
}

/// What both sides keep to from now on; the content of tune-ok.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negotiated {
    /// How many channels may be open, 1 to 65535.
    pub channel_max: u16,
    /// The largest frame in bytes, envelope included, at least 4096.
    pub frame_max: u32,
    /// The heartbeat interval in seconds, 0 for none.
    pub heartbeat: u16,
}

/// Why there is no agreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NegotiateError {
    /// The server proposes frames smaller than the protocol's minimum, in which not even a
    /// handshake has to fit.
    #[error("the server's frame_max {frame_max} is below the minimum of {FRAME_MIN_SIZE} bytes")]
    ServerFrameMax {
        /// What it proposes, in bytes.
        frame_max: u32,
    },
    /// The same fault on our side.
    #[error("the wanted frame_max {frame_max} is below the minimum of {FRAME_MIN_SIZE} bytes")]
    WantedFrameMax {
        /// What is wanted, in bytes.
        frame_max: u32,
    },
}

/// Settles each of the three values.
///
/// Limits: 0 means "no limit of mine" and takes the other side's; else the smaller one. Heartbeat:
/// see [`Heartbeat`].
///
/// ```text
/// server 2047, wanted 0   -> 2047     server 0, wanted 100 -> 100
/// server 2047, wanted 100 -> 100      server 0, wanted 0   -> 65535, or FRAME_MAX_CAP bytes
/// ```
pub fn negotiate(server: Tune, ours: Wanted) -> Result<Negotiated, NegotiateError> {
    check_frame_max(server.frame_max)
        .map_err(|frame_max| NegotiateError::ServerFrameMax { frame_max })?;
    check_frame_max(ours.frame_max)
        .map_err(|frame_max| NegotiateError::WantedFrameMax { frame_max })?;
    Ok(Negotiated {
        channel_max: smaller_limit(server.channel_max, ours.channel_max, u16::MAX),
        frame_max: smaller_limit(server.frame_max, ours.frame_max, FRAME_MAX_CAP),
        heartbeat: heartbeat(server.heartbeat, ours.heartbeat),
    })
}

/// `Err` with the value itself when it is a limit no frame can keep to.
pub(crate) fn check_frame_max(frame_max: u32) -> Result<(), u32> {
    if frame_max == 0 || frame_max >= FRAME_MIN_SIZE {
        Ok(())
    } else {
        Err(frame_max)
    }
}

/// The smaller of two limits, of which 0 is none; `cap` stands in for ours.
fn smaller_limit<T: Ord + Default>(server: T, ours: T, cap: T) -> T {
    let none = T::default();
    let ours = if ours == none { cap } else { ours };
    if server == none {
        ours
    } else {
        server.min(ours)
    }
}

fn heartbeat(server: u16, ours: Heartbeat) -> u16 {
    match ours {
        Heartbeat::ServerChoice => server,
        Heartbeat::Off => 0,
        Heartbeat::Seconds(ours) if server == 0 => ours.get(),
        Heartbeat::Seconds(ours) => server.min(ours.get()),
    }
}

impl Negotiated {
    /// After how much silence of ours a heartbeat is sent: half the interval. `None`: never.
    #[expect(clippy::arithmetic_side_effects, reason = "two is not zero")]
    pub fn send_heartbeat_after(&self) -> Option<Duration> {
        self.interval().map(|interval| interval / 2)
    }

    /// After how much silence of the peer it counts as gone: two intervals. `None`: never.
    pub fn peer_gone_after(&self) -> Option<Duration> {
        self.interval().map(|interval| interval.saturating_mul(2))
    }

    fn interval(&self) -> Option<Duration> {
        (self.heartbeat != 0).then(|| Duration::from_secs(self.heartbeat.into()))
    }
}

/// Seconds; 0 is off, as in a URI.
impl From<u16> for Heartbeat {
    fn from(seconds: u16) -> Self {
        NonZeroU16::new(seconds).map_or(Heartbeat::Off, Heartbeat::Seconds)
    }
}

impl fmt::Display for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Heartbeat::ServerChoice => f.write_str("as the server proposes"),
            Heartbeat::Off => f.write_str("off"),
            Heartbeat::Seconds(seconds) => write!(f, "{seconds} s"),
        }
    }
}

#[cfg(test)]
mod tests;
