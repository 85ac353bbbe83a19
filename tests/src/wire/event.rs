use std::fmt;
use std::io;
use std::time::Duration;

use amqp_codec::basic::Properties;
use amqp_codec::{DecodeError, Frame, Limits, Method, ProtocolHeader, RawFrame};
use bytes::Bytes;

/// What can come over a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A frame with a sound envelope; what is in it may be nonsense.
    Frame(OwnedFrame),
    /// A protocol header instead of a frame.
    Protocol(ProtocolHeader),
    /// No frame. What comes after it is not told, but its end is.
    Malformed(DecodeError),
    /// The end of the stream: the other side has closed its half.
    Eof,
    /// The connection was reset, or failed otherwise.
    Reset(io::ErrorKind),
    /// Nothing, for this long.
    Silence(Duration),
}

impl Event {
    /// The method, if this is a frame with one.
    pub fn method(&self) -> Option<Method<'static>> {
        match self {
            Self::Frame(frame) => frame.method(),
            _ => None,
        }
    }

    /// Whether the connection is over, whichever way.
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Eof | Self::Reset(_))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(frame) => write!(f, "{frame}"),
            Self::Protocol(header) => write!(
                f,
                "protocol header {} {} {} {}",
                header.id, header.major, header.minor, header.revision
            ),
            Self::Malformed(error) => write!(f, "no frame: {error}"),
            Self::Eof => f.write_str("end of the stream"),
            Self::Reset(kind) => write!(f, "failure of the connection: {kind}"),
            Self::Silence(patience) => write!(f, "nothing for {patience:?}"),
        }
    }
}

/// A frame as it came, with its own payload.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnedFrame {
    /// The frame type.
    pub kind: u8,
    /// The channel.
    pub channel: u16,
    /// What is between the header and the frame-end octet.
    pub payload: Bytes,
}

/// Tables in a test may be as bad as they like.
const LIMITS: Limits = Limits {
    frame_max: u32::MAX,
    method_frame_max: u32::MAX,
    table_depth: u16::MAX,
    table_entries: u32::MAX,
    body_max: u64::MAX,
};

impl OwnedFrame {
    /// Takes the payload apart.
    ///
    /// # Errors
    /// It is not what the type calls for.
    pub fn decode(&self) -> Result<Frame<'_>, DecodeError> {
        RawFrame {
            kind: self.kind,
            channel: self.channel,
            payload: &self.payload,
        }
        .decode(&LIMITS)
    }

    /// The method, if that is what the frame has.
    pub fn method(&self) -> Option<Method<'static>> {
        match self.decode() {
            Ok(Frame::Method { method, .. }) => Some(method.into_owned()),
            _ => None,
        }
    }
}

impl fmt::Display for OwnedFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decode() {
            Ok(Frame::Method { channel, method }) => {
                write!(f, "{} on channel {channel} {method:?}", method.id())
            }
            Ok(Frame::Header { channel, header }) => {
                write!(f, "header on channel {channel} {header:?}")
            }
            Ok(Frame::Body { channel, payload }) => {
                let shown = &payload[..payload.len().min(32)];
                write!(
                    f,
                    "body on channel {channel}, {} bytes \"{}\"",
                    payload.len(),
                    shown.escape_ascii()
                )
            }
            Ok(Frame::Heartbeat) => f.write_str("heartbeat"),
            Err(error) => write!(
                f,
                "frame of type {} on channel {} with {} bytes that do not decode: {error}",
                self.kind,
                self.channel,
                self.payload.len()
            ),
        }
    }
}

impl fmt::Debug for OwnedFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A method with its content, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content<M> {
    /// The channel.
    pub channel: u16,
    /// The method before the content.
    pub method: M,
    /// The properties.
    pub properties: Properties<'static>,
    /// The body, all frames of it.
    pub body: Bytes,
}
