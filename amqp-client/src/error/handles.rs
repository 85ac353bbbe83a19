use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use amqp_codec::{MethodId, TooLong};

use super::connect::list;
use super::{
    Attempt, AttemptError, Closed, ConnectError, HandshakeError, Initiator, NotSent, PublishError,
    TlsError, UsageError,
};
use crate::config::ConfigError;
use crate::message::Publication;
use crate::proto::RequestError;
use crate::uri::UriError;

/// Any error of this crate's handles. [`kind`](Error::kind) says what happened; the typed cause is its
/// [`source`](std::error::Error::source).
pub struct Error(Box<Repr>);

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The options or the URI cannot work. Source: `UriError` or `ConfigError`.
    Config,
    /// No address could be connected to. Source: [`ConnectError`].
    Connect,
    /// A server was reached, but TLS with it did not come about. Source: [`ConnectError`]; see [`Error::tls`].
    Tls,
    /// A server was reached, but the connection was not opened. Source: [`HandshakeError`].
    Handshake,
    /// The connection is not open any more. See [`Error::closed`].
    ConnectionClosed,
    /// The channel is not open any more. See [`Error::closed`].
    ChannelClosed,
    /// A deadline has passed. Source, if it was for connecting: [`ConnectError`].
    Timeout,
    /// What was asked for cannot be; nothing was sent. Source: [`UsageError`].
    Usage,
    /// A message was not sent. Source: [`PublishError`]; the message is in [`Error::into_publication`].
    NotSent,
    /// A transaction was not committed, or nobody knows. Source: [`CommitError`].
    Commit,
}

/// What a deadline was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Opening a connection.
    Connect,
    /// The reply to this method.
    Reply(MethodId),
    /// The confirms of publishes.
    Confirms,
    /// Closing the connection.
    Close,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Connect => f.write_str("connecting"),
            Operation::Reply(method) => write!(f, "the reply to {method}"),
            Operation::Confirms => f.write_str("the confirms"),
            Operation::Close => f.write_str("closing"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Repr {
    #[error("the URI cannot be used")]
    Uri(#[source] UriError),
    #[error("the options cannot be used")]
    Config(#[source] ConfigError),
    #[error("cannot connect")]
    Connect(#[source] ConnectError),
    #[error("connecting took longer than {after:?}")]
    ConnectTimeout {
        after: Duration,
        #[source]
        error: ConnectError,
    },
    #[error("the connection was not opened")]
    Handshake {
        #[source]
        error: HandshakeError,
        /// Empty if the transport was given by the caller.
        attempts: Vec<Attempt>,
    },
    #[error("the connection is not open")]
    ConnectionClosed(#[source] Arc<Closed>),
    #[error("the channel is not open")]
    ChannelClosed(#[source] Arc<Closed>),
    #[error("{operation} took longer than {after:?}")]
    Timeout {
        operation: Operation,
        after: Duration,
    },
    #[error("the call cannot be made")]
    Usage(#[source] UsageError),
    #[error("the message was not sent")]
    NotSent(#[source] PublishError),
    #[error("the transaction was not committed")]
    Commit(#[source] CommitError),
}

/// Why a commit did not succeed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The channel had ended before the commit was asked for, or ended for another reason before the broker
    /// came to it: nothing of the transaction is in effect.
    #[error("not committed: {0}")]
    NotCommitted(#[source] UsageError),
    /// The broker refused the commit. RabbitMQ promises no atomicity here: where one queue refuses a message
    /// (`x-overflow=reject-publish`), others may have theirs.
    #[error("the broker refused the commit: {0}")]
    Refused(#[source] Arc<Closed>),
    /// The connection or channel went, or the deadline passed, after the commit was sent: the transaction may or
    /// may not be in effect, and nobody knows.
    #[error("it is unknown whether the transaction was committed: {0}")]
    Unknown(String),
}

impl CommitError {
    /// What the end of the channel or connection, before commit-ok, says about the commit.
    pub(crate) fn from_request(error: RequestError) -> Self {
        match error {
            RequestError::ChannelClosed { closed, .. } if closed.initiator == Initiator::Server => {
                match closed.method {
                    Some(MethodId::TX_COMMIT) => CommitError::Refused(closed),
                    // The fault came before the commit, which was then ignored.
                    Some(method) if method.name().is_some() => {
                        CommitError::NotCommitted(UsageError::ChannelClosed(closed))
                    }
                    Some(_) | None => CommitError::Unknown(closed.to_string()),
                }
            }
            RequestError::ChannelClosed { closed, .. }
            | RequestError::ConnectionClosed { closed, .. } => {
                CommitError::Unknown(closed.to_string())
            }
            RequestError::Usage(error) => CommitError::NotCommitted(error),
        }
    }
}

impl Error {
    pub(crate) fn timeout(operation: Operation, after: Duration) -> Self {
        Repr::Timeout { operation, after }.into()
    }

    /// None of these addresses led to an open connection; or it was not known in time whether the last would.
    pub(crate) fn not_connected(attempts: Vec<Attempt>, out_of_time: Option<Duration>) -> Self {
        let handshake = attempts
            .iter()
            .rev()
            .find_map(|attempt| match &attempt.error {
                AttemptError::Handshake(error) => Some(error.clone()),
                _ => None,
            });
        match (out_of_time, handshake) {
            (Some(after), _) => Repr::ConnectTimeout {
                after,
                error: ConnectError { attempts },
            },
            (None, Some(error)) => Repr::Handshake { error, attempts },
            (None, None) => Repr::Connect(ConnectError { attempts }),
        }
        .into()
    }

    /// What happened.
    pub fn kind(&self) -> ErrorKind {
        match &*self.0 {
            Repr::Uri(_) | Repr::Config(_) => ErrorKind::Config,
            Repr::Connect(_) if self.tls().is_some() => ErrorKind::Tls,
            Repr::Connect(_) => ErrorKind::Connect,
            Repr::Handshake { .. } => ErrorKind::Handshake,
            Repr::ConnectionClosed(_) => ErrorKind::ConnectionClosed,
            Repr::ChannelClosed(_) => ErrorKind::ChannelClosed,
            Repr::ConnectTimeout { .. } | Repr::Timeout { .. } => ErrorKind::Timeout,
            Repr::Usage(_) => ErrorKind::Usage,
            Repr::NotSent(_) => ErrorKind::NotSent,
            Repr::Commit(_) => ErrorKind::Commit,
        }
    }

    /// What the deadline was for, where one has passed.
    pub fn operation(&self) -> Option<Operation> {
        match &*self.0 {
            Repr::ConnectTimeout { .. } => Some(Operation::Connect),
            Repr::Timeout { operation, .. } => Some(*operation),
            _ => None,
        }
    }

    /// How the channel or connection ended, where that is what happened.
    pub fn closed(&self) -> Option<&Closed> {
        match &*self.0 {
            Repr::ConnectionClosed(closed)
            | Repr::ChannelClosed(closed)
            | Repr::Commit(CommitError::Refused(closed)) => Some(closed),
            Repr::NotSent(error) => match &error.reason {
                NotSent::Usage(
                    UsageError::ConnectionClosed(closed) | UsageError::ChannelClosed(closed),
                ) => Some(closed),
                _ => None,
            },
            Repr::Handshake { error, .. } => error.closed(),
            Repr::Uri(_)
            | Repr::Config(_)
            | Repr::Connect(_)
            | Repr::ConnectTimeout { .. }
            | Repr::Timeout { .. }
            | Repr::Usage(_)
            | Repr::Commit(_) => None,
        }
    }

    /// Why the handshake failed, where that is what happened.
    pub fn handshake(&self) -> Option<&HandshakeError> {
        match &*self.0 {
            Repr::Handshake { error, .. } => Some(error),
            _ => None,
        }
    }

    /// The addresses that were tried, in order, where none led to an open connection, and why each did not.
    pub fn attempts(&self) -> &[Attempt] {
        match &*self.0 {
            Repr::Connect(error) | Repr::ConnectTimeout { error, .. } => error.attempts(),
            Repr::Handshake { attempts, .. } => attempts,
            _ => &[],
        }
    }

    /// Why TLS did not come about, with the last server where that is what happened.
    pub fn tls(&self) -> Option<&TlsError> {
        self.attempts()
            .iter()
            .rev()
            .find_map(|attempt| match &attempt.error {
                AttemptError::Tls(error) => Some(error),
                _ => None,
            })
    }

    /// The message that was not sent, where that is what happened.
    pub fn into_publication(self) -> Option<Publication> {
        match *self.0 {
            Repr::NotSent(error) => Some(*error.publication),
            _ => None,
        }
    }
}

/// What happened and every cause of it, as the chain of sources has it.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        if let Some(source) = std::error::Error::source(&*self.0) {
            write!(f, ": {source}")?;
        }
        match &*self.0 {
            Repr::Handshake { attempts, .. } if attempts.len() > 1 => {
                write!(f, " (all that was tried: {})", list(attempts))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl From<Repr> for Error {
    fn from(repr: Repr) -> Self {
        Error(Box::new(repr))
    }
}

impl From<UriError> for Error {
    fn from(error: UriError) -> Self {
        Repr::Uri(error).into()
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Repr::Config(error).into()
    }
}

impl From<HandshakeError> for Error {
    fn from(error: HandshakeError) -> Self {
        Repr::Handshake {
            error,
            attempts: Vec::new(),
        }
        .into()
    }
}

impl From<PublishError> for Error {
    fn from(error: PublishError) -> Self {
        Repr::NotSent(error).into()
    }
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        Repr::Commit(error).into()
    }
}

impl From<TooLong> for Error {
    fn from(error: TooLong) -> Self {
        UsageError::from(error).into()
    }
}

impl From<UsageError> for Error {
    fn from(error: UsageError) -> Self {
        match error {
            UsageError::ConnectionClosed(closed) => Repr::ConnectionClosed(closed),
            UsageError::ChannelClosed(closed) => Repr::ChannelClosed(closed),
            error => Repr::Usage(error),
        }
        .into()
    }
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::ConnectionClosed { closed, .. } => Repr::ConnectionClosed(closed).into(),
            RequestError::ChannelClosed { closed, .. } => Repr::ChannelClosed(closed).into(),
            RequestError::Usage(error) => error.into(),
        }
    }
}
