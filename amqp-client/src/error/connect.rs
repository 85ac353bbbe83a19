use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::{HandshakeError, TlsError};

/// No address led to an open connection.
#[derive(Debug, thiserror::Error)]
#[error("{}", list(.attempts))]
pub struct ConnectError {
    pub(super) attempts: Vec<Attempt>,
}

/// One address that was tried, and what came of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// The host as it was configured.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The address that the host stands for. `None` if it did not come to that.
    pub address: Option<SocketAddr>,
    /// Why it did not lead to an open connection.
    pub error: AttemptError,
}

/// Why an address did not lead to an open connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttemptError {
    /// The host's name was not resolved.
    #[error("the name cannot be resolved: {0}")]
    Resolve(#[source] io::Error),
    /// The host's name stands for no address.
    #[error("the name has no address")]
    NoAddress,
    /// The address was not reached.
    #[error("{0}")]
    Connect(#[source] io::Error),
    /// It was reached, but TLS did not come about.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// It was reached, but the AMQP handshake failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// It took longer than its share of the connect deadline, or than the handshake may.
    #[error("{phase} took longer than {after:?}")]
    Timeout {
        /// How far it had got.
        phase: Phase,
        /// The time it had.
        after: Duration,
    },
}

/// A step on the way to an open connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Finding out the addresses of the host.
    Resolve,
    /// Connecting the socket.
    Connect,
    /// The handshake of TLS.
    Tls,
    /// The handshake of AMQP.
    Handshake,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Resolve => "resolving the name",
            Phase::Connect => "connecting",
            Phase::Tls => "the TLS handshake",
            Phase::Handshake => "the AMQP handshake",
        })
    }
}

impl ConnectError {
    /// What was tried, in order.
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Attempt {
            host,
            port,
            address,
            error,
        } = self;
        match address {
            Some(address) if address.ip().to_string() != *host => {
                write!(f, "{host} ({address}): {error}")
            }
            Some(address) => write!(f, "{address}: {error}"),
            None if host.contains(':') => write!(f, "[{host}]:{port}: {error}"),
            None => write!(f, "{host}:{port}: {error}"),
        }
    }
}

pub(super) fn list(attempts: &[Attempt]) -> String {
    let attempts: Vec<_> = attempts.iter().map(Attempt::to_string).collect();
    attempts.join("; ")
}
