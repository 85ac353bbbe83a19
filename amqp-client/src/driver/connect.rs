//! From options to an open connection.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tracing::Instrument;

use super::state::Shared;
use super::task::Task;
use super::tls::{self, Connector, Name, Secured};
use crate::api::ConnectionCore;
use crate::config::{ConfigError, ConnectOptions};
use crate::error::{Attempt, AttemptError, Error, HandshakeError, Phase, Step};
use crate::proto;
use amqp_codec::ReplyCode;

/// Tells the connections of this process apart.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// What an address gets of the time left at least.
const MIN_SHARE: Duration = Duration::from_secs(1);

/// Opens a connection to the first address that lets us, all within the connect deadline.
pub(crate) async fn connect(options: ConnectOptions) -> Result<Arc<ConnectionCore>, Error> {
    connect_by(options, async |host: String, port| {
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    })
    .await
}

/// The same, with `resolve` to find out the addresses of a host.
async fn connect_by<F>(
    options: ConnectOptions,
    resolve: impl Fn(String, u16) -> F,
) -> Result<Arc<ConnectionCore>, Error>
where
    F: Future<Output = io::Result<Vec<SocketAddr>>>,
{
    options.validate()?;
    let mut search = Search::new(options.deadlines.countable().connect);
    let hosts = options.addresses_or_default();
    let opener = match tokio::time::timeout_at(search.until, Opener::new(options)).await {
        Ok(opener) => opener?,
        Err(_) => return Err(search.out_of_time()),
    };
    let names = hosts.iter().map(|(host, _)| opener.name(host));
    let names = names.collect::<Result<Vec<_>, _>>()?;

    for (index, ((host, port), name)) in hosts.iter().zip(names).enumerate() {
        if search.is_over() {
            break;
        }
        let hosts_after = hosts.len() - index - 1;
        let share = search.share(hosts_after + 1);
        let addresses = match share.resolve(resolve(host.clone(), *port)).await {
            Ok(addresses) => addresses,
            Err(error) => {
                search.failed(host, *port, None, error);
                continue;
            }
        };
        for (index, &address) in addresses.iter().enumerate() {
            if search.is_over() {
                break;
            }
            let share = search.share(addresses.len() - index + hosts_after);
            match opener.open_tcp(host, address, name.clone(), share).await {
                Ok(core) => return Ok(core),
                Err(error) if is_final(&error) => {
                    search.failed(host, *port, Some(address), error);
                    return Err(Error::not_connected(search.failures, None));
                }
                Err(error) => search.failed(host, *port, Some(address), error),
            }
        }
    }
    Err(search.end())
}

/// Does the handshake over a stream that is connected already.
pub(crate) async fn open_over<T>(
    transport: T,
    options: ConnectOptions,
) -> Result<Arc<ConnectionCore>, Error>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    options.validate()?;
    let mut hosts = options.addresses_or_default();
    let (host, port) = hosts.swap_remove(0);
    let opener = Opener::new(options).await?;
    let name = opener.name(&host)?;
    let span = tracing::info_span!("amqp connection", messaging.system = "rabbitmq");
    match opener.open(transport, name, Share::unlimited(), span).await {
        Ok(core) => Ok(core),
        Err(AttemptError::Handshake(error)) => Err(error.into()),
        Err(error) => {
            let attempt = Attempt {
                host,
                port,
                address: None,
                error,
            };
            Err(Error::not_connected(vec![attempt], None))
        }
    }
}

/// Whether other addresses of the same broker would say the same, so that asking them is of no use or even
/// does harm: who tries refused credentials everywhere gets locked out.
fn is_final(error: &AttemptError) -> bool {
    let AttemptError::Handshake(error) = error else {
        return false;
    };
    match error {
        HandshakeError::CredentialsRefused(_)
        | HandshakeError::VirtualHostRefused(_)
        | HandshakeError::Authentication(_)
        | HandshakeError::Tune(_)
        | HandshakeError::StartOk(_) => true,
        HandshakeError::Closed { closed, .. } => {
            matches!(
                closed.code,
                ReplyCode::ACCESS_REFUSED | ReplyCode::NOT_ALLOWED
            )
        }
        // A server that breaks off may have died just then: servers that refuse credentials say so.
        HandshakeError::CredentialsProbablyRefused(_)
        | HandshakeError::Protocol(_)
        | HandshakeError::TlsExpected
        | HandshakeError::NotAmqp(_)
        | HandshakeError::Version { .. } => false,
    }
}

/// The way through the addresses, and the time it may take.
struct Search {
    connect: Duration,
    until: Instant,
    failures: Vec<Attempt>,
}

impl Search {
    fn new(connect: Duration) -> Self {
        let until = Instant::now() + connect;
        Search {
            connect,
            until,
            failures: Vec::new(),
        }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// What one gets where `left` are left, itself included.
    fn share(&self, left: usize) -> Share {
        let now = Instant::now();
        let rest = self.until - now;
        let left = u32::try_from(left).unwrap_or(u32::MAX).max(1);
        let length = (rest / left).max(MIN_SHARE).min(rest);
        Share {
            length,
            until: Some(now + length),
        }
    }

    fn failed(&mut self, host: &str, port: u16, address: Option<SocketAddr>, error: AttemptError) {
        let host = host.to_owned();
        let attempt = Attempt {
            host,
            port,
            address,
            error,
        };
        tracing::info!(%attempt, "cannot open a connection");
        self.failures.push(attempt);
    }

    fn end(self) -> Error {
        if self.is_over() {
            self.out_of_time()
        } else {
            Error::not_connected(self.failures, None)
        }
    }

    fn out_of_time(self) -> Error {
        Error::not_connected(self.failures, Some(self.connect))
    }
}

/// The time that one address has.
#[derive(Clone, Copy)]
struct Share {
    length: Duration,
    until: Option<Instant>,
}

impl Share {
    fn unlimited() -> Self {
        Share {
            length: Duration::MAX,
            until: None,
        }
    }

    async fn bound<T>(
        &self,
        phase: Phase,
        work: impl Future<Output = T>,
    ) -> Result<T, AttemptError> {
        match self.until {
            None => Ok(work.await),
            Some(until) => match tokio::time::timeout_at(until, work).await {
                Ok(result) => Ok(result),
                Err(_) => Err(AttemptError::Timeout {
                    phase,
                    after: self.length,
                }),
            },
        }
    }

    async fn resolve<F>(&self, resolve: F) -> Result<Vec<SocketAddr>, AttemptError>
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>>,
    {
        match self.bound(Phase::Resolve, resolve).await? {
            Ok(addresses) if addresses.is_empty() => Err(AttemptError::NoAddress),
            Ok(addresses) => Ok(addresses),
            Err(error) => Err(AttemptError::Resolve(error)),
        }
    }
}

/// Opens connections by one set of options.
struct Opener {
    /// Without what is of use only here.
    options: ConnectOptions,
    tls: Option<Connector>,
}

impl Opener {
    async fn new(mut options: ConnectOptions) -> Result<Self, Error> {
        options.addresses = Vec::new();
        options.deadlines = options.deadlines.countable();
        let tls = match options.tls.take() {
            Some(tls) => Some(Connector::new(tls).await.map_err(ConfigError::from)?),
            None => None,
        };
        Ok(Opener { options, tls })
    }

    /// The name the server must have a certificate for, with TLS.
    fn name(&self, host: &str) -> Result<Option<Name>, ConfigError> {
        let name = self.tls.as_ref().map(|tls| tls.server_name(host));
        Ok(name.transpose()?)
    }

    async fn open_tcp(
        &self,
        host: &str,
        address: SocketAddr,
        name: Option<Name>,
        share: Share,
    ) -> Result<Arc<ConnectionCore>, AttemptError> {
        let stream = share
            .bound(Phase::Connect, TcpStream::connect(address))
            .await?;
        let stream = stream.map_err(AttemptError::Connect)?;
        stream.set_nodelay(true).map_err(AttemptError::Connect)?;
        let span = tracing::info_span!(
            "amqp connection",
            messaging.system = "rabbitmq",
            server.address = %host,
            server.port = address.port(),
            network.peer.address = %address.ip(),
            network.peer.port = address.port(),
        );
        self.open(stream, name, share, span).await
    }

    async fn open<T>(
        &self,
        transport: T,
        name: Option<Name>,
        share: Share,
        span: tracing::Span,
    ) -> Result<Arc<ConnectionCore>, AttemptError>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (Some(tls), Some(name)) = (&self.tls, name) else {
            let open = open_in(transport, self.options.clone(), span);
            return Ok(share.bound(Phase::Handshake, open).await??);
        };
        let after = self.options.deadlines.handshake;
        let handshake = tokio::time::timeout(after, tls.connect(transport, name));
        let Secured { stream, hints } = match share.bound(Phase::Tls, handshake).await? {
            Ok(secured) => secured?,
            Err(_) => {
                return Err(AttemptError::Timeout {
                    phase: Phase::Tls,
                    after,
                });
            }
        };
        let open = open_in(stream, self.options.clone(), span);
        match share.bound(Phase::Handshake, open).await? {
            Ok(core) => Ok(core),
            Err(error) => Err(match late_tls_error(&error, hints) {
                Some(tls) => tls.into(),
                None => error.into(),
            }),
        }
    }
}

/// What TLS has to do with a handshake that failed.
fn late_tls_error(error: &HandshakeError, hints: tls::Hints) -> Option<crate::error::TlsError> {
    match error {
        HandshakeError::Closed {
            step: Step::Start,
            closed,
        } => tls::late_error(closed.cause.as_ref()?, hints),
        _ => None,
    }
}

async fn open_in<T>(
    transport: T,
    options: ConnectOptions,
    span: tracing::Span,
) -> Result<Arc<ConnectionCore>, HandshakeError>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let id = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
    let now = Instant::now().into_std();
    let deadlines = options.deadlines;
    let shared = Arc::new(Shared::new(proto::Connection::new(id, options, now)));
    let task = Task::new(shared.clone(), transport);
    tokio::spawn(task.instrument(span.clone()));
    // From here on, dropping this future drops the core, which ends the connection.
    let core = Arc::new(ConnectionCore::new(shared, deadlines, span));
    let handshake = poll_fn(|cx| match core.shared.lock().poll_handshake(cx.waker()) {
        Some(result) => Poll::Ready(result),
        None => Poll::Pending,
    });
    match handshake.await {
        Ok(()) => {
            tracing::debug!(connection = id, "connection open");
            Ok(core)
        }
        Err(error) => {
            core.shared.ended().await;
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests;
