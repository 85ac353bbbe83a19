//! What can come over a connection, and the short stable words for it.

use std::fmt;
use std::io;
use std::time::Duration;

use amqp_codec::basic::Properties;
use amqp_codec::{DecodeError, Frame, Limits, Method, MethodFields, ProtocolHeader, RawFrame};
use bytes::Bytes;

/// A method's struct, got out of the enum that holds any method.
pub trait Typed: MethodFields + TryFrom<Method<'static>> + 'static {}

impl<M: MethodFields + TryFrom<Method<'static>> + 'static> Typed for M {}

/// What can come over a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A frame with a sound envelope; what is in it may be nonsense.
    Frame(OwnedFrame),
    /// A protocol header instead of a frame.
    Protocol(ProtocolHeader),
    /// No frame; how it begins. What comes after it is not told, but its end is.
    Malformed(DecodeError, Bytes),
    /// The end of the stream: the other side has closed its half.
    End,
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

    /// The method, if it is this one.
    pub fn typed<M: Typed>(&self) -> Option<M> {
        self.method().and_then(|method| M::try_from(method).ok())
    }

    /// Whether the connection is over, whichever way.
    pub fn is_end(&self) -> bool {
        matches!(self, Self::End | Self::Reset(_))
    }

    /// Whether this is a heartbeat.
    pub fn is_heartbeat(&self) -> bool {
        matches!(self, Self::Frame(frame) if frame.kind == amqp_codec::frame::HEARTBEAT)
    }

    /// The short, stable form that profiles compare: `connection.close 541`, `basic.ack 1 multiple`, `silence`.
    pub fn found(&self) -> String {
        match self {
            Self::Frame(frame) => frame.found(),
            Self::Protocol(it) => format!(
                "protocol header {} {} {} {}",
                it.id, it.major, it.minor, it.revision
            ),
            Self::Malformed(..) => "no frame".to_owned(),
            Self::End => "end of stream".to_owned(),
            Self::Reset(_) => "reset".to_owned(),
            Self::Silence(_) => "silence".to_owned(),
        }
    }
}

/// With all there is to know about it.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(frame) => write!(f, "{frame}"),
            Self::Malformed(error, start) => {
                write!(f, "no frame ({error}): \"{}\"", start.escape_ascii())
            }
            Self::Reset(kind) => write!(f, "failure of the connection: {kind}"),
            Self::Silence(patience) => write!(f, "nothing for {patience:?}"),
            Self::Protocol(_) | Self::End => f.write_str(&self.found()),
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

/// What brokers send may be as bad as it likes here; a check says what is too bad.
pub const LIMITS: Limits = Limits {
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

    fn found(&self) -> String {
        match self.decode() {
            Ok(Frame::Method { method, .. }) => found_method(&method),
            Ok(Frame::Header { .. }) => "content header".to_owned(),
            Ok(Frame::Body { .. }) => "content body".to_owned(),
            Ok(Frame::Heartbeat) => "heartbeat".to_owned(),
            Err(_) => format!("frame of type {} that does not decode", self.kind),
        }
    }
}

/// A method's name, and what makes the difference between two of them.
fn found_method(method: &Method<'_>) -> String {
    let name = method.id();
    let tagged = |tag: u64, multiple: bool| {
        format!("{name} {tag}{}", if multiple { " multiple" } else { "" })
    };
    match method {
        Method::ConnectionClose(close) => format!("{name} {}", close.reply_code.0),
        Method::ChannelClose(close) => format!("{name} {}", close.reply_code.0),
        Method::BasicReturn(it) => format!("{name} {}", it.reply_code.0),
        Method::BasicAck(ack) => tagged(ack.delivery_tag, ack.multiple),
        Method::BasicNack(nack) => tagged(nack.delivery_tag, nack.multiple),
        Method::BasicDeliver(it) => format!("{name} {}", it.delivery_tag),
        Method::BasicGetOk(it) => format!("{name} {}", it.delivery_tag),
        _ => name.to_string(),
    }
}

impl fmt::Display for OwnedFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let channel = self.channel;
        match self.decode() {
            Ok(Frame::Method { method, .. }) => {
                let fields = fields(&format!("{method:?}"));
                write!(f, "[{channel}] {}{fields}", method.id())
            }
            Ok(Frame::Header { header, .. }) => {
                let fields = fields(&format!("{:?}", header.properties));
                let (class, size) = (header.class_id, header.body_size);
                write!(
                    f,
                    "[{channel}] content header of class {class}, body of {size} bytes,{fields}"
                )
            }
            Ok(Frame::Body { payload, .. }) => {
                let shown = &payload[..payload.len().min(32)];
                let len = payload.len();
                write!(
                    f,
                    "[{channel}] body of {len} bytes \"{}\"",
                    shown.escape_ascii()
                )
            }
            Ok(Frame::Heartbeat) => f.write_str("heartbeat"),
            Err(error) => {
                let shown = &self.payload[..self.payload.len().min(64)];
                write!(
                    f,
                    "[{channel}] frame of type {} with {} bytes that do not decode ({error}) \"{}\"",
                    self.kind,
                    self.payload.len(),
                    shown.escape_ascii()
                )
            }
        }
    }
}

/// What is between the outermost braces of a struct's debug form, without what says nothing.
fn fields(debug: &str) -> String {
    const NOTHING: [&str; 5] = [
        "reserved_1: 0",
        "reserved_1: \"\"",
        "reserved_2: \"\"",
        "reserved_2: false",
        "undefined_bits: 0",
    ];
    let (Some(start), Some(end)) = (debug.find('{'), debug.rfind('}')) else {
        return String::new();
    };
    let said: Vec<&str> = debug[start + 1..end]
        .split(", ")
        .map(str::trim)
        .filter(|field| !NOTHING.contains(field) && !field.ends_with(": None"))
        .collect();
    match said.is_empty() {
        true => String::new(),
        false => format!(" {}", said.join(", ")),
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
