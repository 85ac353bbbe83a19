//! What can go wrong, in layers: bytes ([`DecodeError`]), what a peer did wrong ([`Violation`]), how a
//! channel or connection ended ([`Closed`]), what a caller did wrong ([`UsageError`]), and the error of
//! the asynchronous handles ([`Error`]) on top. Causes stay typed all the way down.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use amqp_codec::content::ContentError;
use amqp_codec::{
    DecodeError, EncodeError, MethodId, ProtocolHeader, ReplyCode, ShortStr, TooLong,
};

use crate::auth::AuthError;
use crate::message::{Property, Publication};
use crate::negotiate::NegotiateError;

/// What the peer did wrong. The channel, or the connection where the fault is not confined to a channel,
/// is closed with [`Violation::code`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Bytes that are not AMQP, or beyond the limits.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Content frames out of order or of the wrong size.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// A method that the state of its channel does not allow.
    #[error("unexpected {method} on channel {channel}")]
    UnexpectedMethod {
        /// The method.
        method: MethodId,
        /// The channel it came on.
        channel: u16,
    },
    /// A frame on a channel that is not open.
    #[error("frame on channel {0}, which is not open")]
    ChannelNotOpen(u16),
    /// An ack or nack for a publish that was never made.
    #[error("confirm for tag {tag}, the last publish was {last}")]
    UnknownConfirm {
        /// The tag.
        tag: u64,
        /// The last tag that was published.
        last: u64,
    },
    /// A delivery whose tag does not grow.
    #[error("delivery tag {0} is not above the one before")]
    DeliveryTag(u64),
    /// More than [`Limits::handshake_bytes`](crate::Limits::handshake_bytes) before the connection was open.
    #[error("the handshake is longer than {max} bytes")]
    HandshakeTooLong {
        /// The limit.
        max: u32,
    },
    /// Parts of messages beyond [`Limits::assembly_bytes`](crate::Limits::assembly_bytes), on all channels together.
    #[error("more than {max} bytes of incomplete messages")]
    TooMuchInAssembly {
        /// The limit.
        max: usize,
    },
    /// More that calls for an answer than [`Limits::held_answer_bytes`](crate::Limits::held_answer_bytes) allows while
    /// none can be given.
    #[error("more than {max} bytes of answers wait for that to a commit or rollback")]
    TooManyAnswers {
        /// The limit.
        max: usize,
    },
}

impl Violation {
    /// The code to close the channel or connection with.
    pub fn code(&self) -> ReplyCode {
        match self {
            Violation::Decode(error) => error.reply_code(),
            Violation::Content(error) => error.reply_code(),
            Violation::UnexpectedMethod { .. } => ReplyCode::COMMAND_INVALID,
            Violation::ChannelNotOpen(_) => ReplyCode::CHANNEL_ERROR,
            Violation::UnknownConfirm { .. } | Violation::DeliveryTag(_) => {
                ReplyCode::PRECONDITION_FAILED
            }
            Violation::TooMuchInAssembly { .. } => ReplyCode::CONTENT_TOO_LARGE,
            Violation::HandshakeTooLong { .. } | Violation::TooManyAnswers { .. } => {
                ReplyCode::RESOURCE_ERROR
            }
        }
    }
}

/// Who ended a channel or connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Initiator {
    /// This program: it called close, or dropped the last handle.
    Client,
    /// This library, because the peer broke the protocol.
    Library,
    /// The server, by a close method.
    Server,
    /// The transport: end of stream, an I/O error, or silence beyond the heartbeat.
    Transport,
}

impl fmt::Display for Initiator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Initiator::Client => "client",
            Initiator::Library => "client library",
            Initiator::Server => "server",
            Initiator::Transport => "transport",
        })
    }
}

/// How a channel or a connection ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Closed {
    /// Who ended it.
    pub initiator: Initiator,
    /// The reply code of the close method; 0 where there was none.
    pub code: ReplyCode,
    /// The reply text: bytes that are usually UTF-8.
    pub text: ShortStr<'static>,
    /// The method the closing side found fault with, if it named one.
    pub method: Option<MethodId>,
    /// What led to it, where no close method tells.
    pub cause: Option<CloseCause>,
}

/// Why a connection or channel ended without, or before, a close method of the server.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseCause {
    /// The peer broke the protocol.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The peer ended the stream without closing the connection.
    #[error("the peer ended the stream")]
    EndOfStream,
    /// The transport failed.
    #[error("the transport failed: {0}")]
    Io(IoError),
    /// Nothing came for two heartbeat intervals.
    #[error("nothing was heard for {0:?}")]
    HeartbeatTimeout(Duration),
    /// The handshake took longer than it may.
    #[error("the handshake was not complete after {0:?}")]
    HandshakeTimeout(Duration),
    /// The peer did not answer a close in time.
    #[error("the peer did not answer the close in time")]
    CloseTimeout,
    /// A consumer was not read, and what was delivered to it is more than it may keep.
    #[error("a consumer that is not read has more than {budget} bytes waiting")]
    ConsumerOverflow {
        /// How much it may keep, in bytes.
        budget: usize,
    },
    /// The task of the connection was dropped, as happens when its runtime shuts down.
    #[error("the connection's task was dropped")]
    Abandoned,
    /// The connection ended, and the channel with it.
    #[error("the connection ended: {0}")]
    Connection(Arc<Closed>),
}

/// An I/O error that can be cloned into every outcome it ends.
#[derive(Debug, Clone)]
pub struct IoError(Arc<std::io::Error>);

impl IoError {
    /// The kind of the error.
    pub fn kind(&self) -> std::io::ErrorKind {
        self.0.kind()
    }

    /// The error itself.
    pub fn inner(&self) -> &std::io::Error {
        &self.0
    }
}

impl From<std::io::Error> for IoError {
    fn from(error: std::io::Error) -> Self {
        IoError(Arc::new(error))
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for IoError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// The same error object; two that only look alike are not equal.
impl PartialEq for IoError {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Closed {
    /// Closed by this program without a fault.
    pub(crate) fn by_client(code: ReplyCode, text: ShortStr<'static>) -> Self {
        Closed {
            initiator: Initiator::Client,
            code,
            text,
            method: None,
            cause: None,
        }
    }

    /// Closed by this library because of something that is not the caller's fault.
    pub(crate) fn by_library(code: ReplyCode, cause: CloseCause) -> Self {
        let text = short_text(&cause.to_string());
        Closed {
            initiator: Initiator::Library,
            code,
            text,
            method: None,
            cause: Some(cause),
        }
    }

    pub(crate) fn by_violation(violation: Violation) -> Self {
        Closed::by_library(violation.code(), CloseCause::Violation(violation))
    }

    pub(crate) fn by_server(code: ReplyCode, text: &ShortStr<'_>, method: MethodId) -> Self {
        let method = (method.class != 0 || method.method != 0).then_some(method);
        let text = text.clone().into_owned();
        Closed {
            initiator: Initiator::Server,
            code,
            text,
            method,
            cause: None,
        }
    }

    pub(crate) fn by_transport(cause: CloseCause) -> Self {
        Closed {
            initiator: Initiator::Transport,
            code: ReplyCode(0),
            text: ShortStr::default(),
            method: None,
            cause: Some(cause),
        }
    }

    /// The end of a channel that ends because its connection did.
    pub(crate) fn with_connection(connection: &Arc<Closed>) -> Self {
        Closed {
            cause: Some(CloseCause::Connection(connection.clone())),
            ..Closed::clone(connection)
        }
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(CloseCause::Connection(closed)) = &self.cause {
            return write!(f, "ended with its connection, {closed}");
        }
        write!(f, "closed by the {}", self.initiator)?;
        match self.code.name() {
            _ if self.text.is_empty() && self.code == ReplyCode::REPLY_SUCCESS => {}
            // RabbitMQ begins its texts with the code's name.
            Some(name) if self.text.as_bytes().starts_with(name.as_bytes()) => {
                write!(f, ": {} {}", self.code.0, OneLine(&self.text))?;
            }
            _ if self.code == ReplyCode(0) && self.text.is_empty() => {}
            _ => write!(f, ": {} {}", self.code, OneLine(&self.text))?,
        }
        match (&self.method, &self.cause) {
            (Some(method), _) => write!(f, " (at {method})"),
            (None, Some(cause)) if self.initiator == Initiator::Transport => write!(f, ": {cause}"),
            (None, _) => Ok(()),
        }
    }
}

impl Closed {
    /// Whether the same request would only meet the same end: the server found fault with it (404, 403, 406 and so
    /// on), and it is the request, or what it is about, that has to change.
    pub fn is_refusal(&self) -> bool {
        self.initiator == Initiator::Server
            && self.code != ReplyCode::CONNECTION_FORCED
            && self.code != ReplyCode::INTERNAL_ERROR
            && self.code != ReplyCode::REPLY_SUCCESS
    }
}

impl std::error::Error for Closed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

/// A text of the peer's as one line that does nothing to a terminal or a log: control characters and others that do not
/// print are escaped.
pub(crate) struct OneLine<'a>(pub(crate) &'a ShortStr<'a>);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .to_string_lossy()
            .chars()
            .try_for_each(|char| match char {
                '\'' | '"' => write!(f, "{char}"),
                _ => write!(f, "{}", char.escape_debug()),
            })
    }
}

/// As much of a text as a short string holds, cut between characters.
pub(crate) fn short_text(text: &str) -> ShortStr<'static> {
    let longest = text.len().min(ShortStr::MAX_LEN);
    let cut = (0..=longest).rev().find_map(|end| text.get(..end));
    ShortStr::try_from(cut.unwrap_or_default().to_owned()).unwrap_or_default()
}

/// What a call asked for that cannot be: nothing was sent.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// The handshake is not complete.
    #[error("the connection is not open yet")]
    NotConnected,
    /// The connection is not open any more.
    #[error("the connection is {0}")]
    ConnectionClosed(Arc<Closed>),
    /// The channel is not open: it is closing, or was closed and forgotten.
    #[error("the channel is not open")]
    NoChannel,
    /// The channel is not open any more.
    #[error("the channel is {0}")]
    ChannelClosed(Arc<Closed>),
    /// The channel is in a mode that does not allow the call.
    #[error("the channel's mode does not allow this")]
    WrongMode,
    /// As many channels are open as the connection allows.
    #[error("all {max} channels of the connection are open")]
    TooManyChannels {
        /// The negotiated `channel_max`.
        max: u16,
    },
    /// A message's property was given a value it cannot hold.
    #[error("the message's {0} cannot be sent")]
    InvalidProperty(Property),
    /// The message's headers are not a table that brokers accept.
    #[error("the message's headers cannot be sent: {0}")]
    InvalidHeaders(DecodeError),
    /// A name, key or text of more than 255 bytes.
    #[error(transparent)]
    StringTooLong(#[from] TooLong),
    /// A method or content header that does not fit a frame.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// An argument that brokers refuse: a duration or length beyond what can be sent, or a float that is infinite or
    /// not a number.
    #[error("the argument {0:?} cannot be sent")]
    InvalidArgument(ShortStr<'static>),
    /// A name that begins with `amq.`: the server alone gives such names, and deletes what bears them.
    #[error("the name {0:?} is reserved to the server")]
    ReservedName(ShortStr<'static>),
    /// The default exchange, which has the empty name: it is there, every queue is bound to it, and neither can be
    /// changed.
    #[error("the default exchange cannot be declared, deleted, bound or unbound")]
    DefaultExchange,
    /// The channel has a consumer of this tag.
    #[error("the channel has a consumer of the tag {0:?}")]
    ConsumerTagInUse(ShortStr<'static>),
    /// A consumer that is started without an answer needs a tag given by the caller, who would not learn the server's.
    #[error("a consumer started without an answer needs a tag")]
    NoConsumerTag,
    /// `amq.rabbitmq.reply-to` is consumed from without acks only.
    #[error("replies at amq.rabbitmq.reply-to come without acks only")]
    ReplyToWithAcks,
    /// The delivery tag is of another channel, or of an earlier opening of the same number.
    #[error("the delivery tag belongs to another channel")]
    ForeignDeliveryTag,
    /// The delivery was acked, nacked or rejected before, or never needed it.
    #[error("delivery tag {0} is not outstanding")]
    UnknownDeliveryTag(u64),
}

/// Why a publish was not sent. The message is given back: see [`PublishError`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotSent {
    /// As many publishes, or as many bytes, are in flight as the channel's options allow, or the outgoing
    /// buffer is full.
    #[error("too much is in flight")]
    Full,
    /// The broker has blocked the connection (connection.blocked).
    #[error("the broker has blocked the connection")]
    Blocked,
    /// What was asked for cannot be.
    #[error(transparent)]
    Usage(#[from] UsageError),
}

/// A publish that was not sent: nothing reached the broker, and the message is here.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("not sent: {reason}")]
pub struct PublishError {
    /// Why.
    #[source]
    pub reason: NotSent,
    /// The message and where it was to go. The address is empty where the address was what could not be sent.
    pub publication: Box<Publication>,
}

impl NotSent {
    /// How the channel or connection ended, where that is why.
    pub fn closed(&self) -> Option<&Closed> {
        match self {
            NotSent::Usage(
                UsageError::ConnectionClosed(closed) | UsageError::ChannelClosed(closed),
            ) => Some(closed),
            NotSent::Usage(_) | NotSent::Full | NotSent::Blocked => None,
        }
    }
}

#[cfg(feature = "tokio")]
impl PublishError {
    /// The publication is there: it is only taken when it was sent.
    #[cold]
    #[expect(clippy::expect_used, reason = "no peer has a say in it")]
    pub(crate) fn new(reason: NotSent, unsent: Option<Publication>) -> Self {
        let publication = unsent.expect("what was not sent was not taken");
        PublishError {
            reason,
            publication: Box::new(publication),
        }
    }
}

/// A step of the handshake, for errors that must say how far it got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The protocol header is sent; connection.start is to come.
    Start,
    /// start-ok is sent: the server checks the credentials; secure or tune is to come.
    Credentials,
    /// tune-ok and open are sent; open-ok is to come.
    Open,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Start => "before connection.start",
            Step::Credentials => "after connection.start-ok",
            Step::Open => "after connection.open",
        })
    }
}

/// Why a connection could not be opened.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The server answered with another protocol's header.
    #[error("the server speaks AMQP {}.{}.{} (protocol id {})", .0.major, .0.minor, .0.revision, .0.id)]
    Protocol(ProtocolHeader),
    /// The server answered as one that expects TLS: probably the port is the wrong one, or it is to be
    /// amqps.
    #[error("the server expects TLS on this port (amqps)")]
    TlsExpected,
    /// The first bytes from the server are no frame and no protocol header: it is another kind of
    /// server.
    #[error("the server does not speak AMQP: {0}")]
    NotAmqp(DecodeError),
    /// The server speaks AMQP of a version this library does not.
    #[error("the server speaks AMQP {major}-{minor}")]
    Version {
        /// Major version in connection.start.
        major: u8,
        /// Minor version in connection.start.
        minor: u8,
    },
    /// No login came about: no common mechanism, or the mechanism gave up.
    #[error(transparent)]
    Authentication(#[from] AuthError),
    /// The server refused the credentials.
    #[error("the server refused the credentials: {0}")]
    CredentialsRefused(Arc<Closed>),
    /// The server ended the stream after it had the credentials: probably it refused them. Servers that
    /// do not know `authentication_failure_close` say it that way.
    #[error("the stream ended after the credentials were sent: probably the server refused them")]
    CredentialsProbablyRefused(#[source] Arc<Closed>),
    /// The virtual host is missing, or the user may not use it.
    #[error("the server refused the virtual host: {0}")]
    VirtualHostRefused(Arc<Closed>),
    /// What the server wants to agree on cannot be agreed on.
    #[error(transparent)]
    Tune(#[from] NegotiateError),
    /// start-ok does not fit the frames allowed before tune.
    #[error("connection.start-ok cannot be sent: {0}")]
    StartOk(EncodeError),
    /// The connection ended.
    #[error("{step}: {closed}")]
    Closed {
        /// How far the handshake had got.
        step: Step,
        /// How it ended.
        #[source]
        closed: Arc<Closed>,
    },
}

impl HandshakeError {
    /// How the connection ended, where that is why.
    pub fn closed(&self) -> Option<&Closed> {
        match self {
            HandshakeError::CredentialsRefused(closed)
            | HandshakeError::CredentialsProbablyRefused(closed)
            | HandshakeError::VirtualHostRefused(closed)
            | HandshakeError::Closed { closed, .. } => Some(closed),
            HandshakeError::Protocol(_)
            | HandshakeError::TlsExpected
            | HandshakeError::NotAmqp(_)
            | HandshakeError::Version { .. }
            | HandshakeError::Authentication(_)
            | HandshakeError::Tune(_)
            | HandshakeError::StartOk(_) => None,
        }
    }
}

#[cfg(feature = "tokio")]
pub use connect::{Attempt, AttemptError, ConnectError, Phase};
#[cfg(feature = "tokio")]
pub use handles::{CommitError, Error, ErrorKind, Operation};
#[cfg(feature = "tokio")]
pub use tls::{TlsError, TlsReason};

#[cfg(feature = "tokio")]
mod connect;
/// The errors of the asynchronous handles.
#[cfg(feature = "tokio")]
mod handles;
#[cfg(feature = "tokio")]
mod tls;

#[cfg(test)]
mod tests {
    use super::*;

    /// What a peer wrote is read by people and terminals.
    #[test]
    fn texts_are_one_line_and_do_nothing() {
        let shown = |text: &'static [u8]| {
            let text = ShortStr::try_from(text).expect("short");
            Closed::by_server(ReplyCode::NOT_FOUND, &text, MethodId::BASIC_PUBLISH).to_string()
        };
        assert_eq!(
            shown("NOT_FOUND - no exchange 'd\u{f6}ner'".as_bytes()),
            "closed by the server: 404 NOT_FOUND - no exchange 'd\u{f6}ner' (at basic.publish)"
        );
        assert_eq!(
            shown(b"NOT_FOUND\r\n2026 ERROR all is lost\x1b[2J\0\xff"),
            "closed by the server: 404 NOT_FOUND\\r\\n2026 ERROR all is lost\\u{1b}[2J\\0\u{fffd} (at basic.publish)"
        );
    }
}
