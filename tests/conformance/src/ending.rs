//! How connections and channels ended: a verdict of its own, beside the check's.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a connection or a channel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// In the way the check asked for: close and close-ok, or an end of the stream that was called for.
    AsAsked,
    /// Closed by the broker with the code that was called for.
    RightCode(u16),
    /// Closed by the broker with another code, or although nothing called for it.
    WrongCode(u16),
    /// The stream ended without a close.
    Unclean,
    /// The connection was reset, without a close.
    Reset,
    /// It was asked to end, and did not.
    NotEnded,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsAsked => f.write_str("as asked"),
            Self::RightCode(code) => write!(f, "right code {code}"),
            Self::WrongCode(code) => write!(f, "wrong code {code}"),
            Self::Unclean => f.write_str("unclean"),
            Self::Reset => f.write_str("reset"),
            Self::NotEnded => f.write_str("not ended"),
        }
    }
}

/// The ending of one connection or channel of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Which of the check's connections, 1 for the first.
    pub connection: usize,
    /// Which channel; 0 for the connection itself.
    pub channel: u16,
    /// How.
    pub ending: Ending,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}", self.connection)?;
        if self.channel != 0 {
            write!(f, " channel {}", self.channel)?;
        }
        write!(f, ": {}", self.ending)
    }
}
