//! From options to an open connection.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tracing::Instrument;

use super::state::Shared;
use super::task::Task;
use crate::api::ConnectionCore;
use crate::config::ConnectOptions;
use crate::error::{ConnectError, Error, Operation};
use crate::proto;

/// Tells the connections of this process apart.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// Connects to the first address that answers, all within the connect deadline.
pub(crate) async fn connect(options: ConnectOptions) -> Result<Arc<ConnectionCore>, Error> {
    options.validate()?;
    if options.tls.is_some() {
        return Err(Error::from(ConnectError::TlsUnavailable));
    }
    let deadline = options.deadlines.connect;
    match tokio::time::timeout(deadline, connect_to_any(options)).await {
        Ok(result) => result,
        Err(_) => Err(Error::timeout(Operation::Connect, deadline)),
    }
}

async fn connect_to_any(options: ConnectOptions) -> Result<Arc<ConnectionCore>, Error> {
    let mut failures = Vec::new();
    for (host, port) in options.addresses_or_default() {
        let addresses = match tokio::net::lookup_host((host.as_str(), port)).await {
            Ok(addresses) => addresses,
            Err(error) => {
                failures.push((format!("{host}:{port}"), error));
                continue;
            }
        };
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(ConnectError::Socket)?;
                    let span = tracing::info_span!(
                        "amqp connection",
                        messaging.system = "rabbitmq",
                        server.address = %host,
                        server.port = port,
                        network.peer.address = %address.ip(),
                        network.peer.port = address.port(),
                    );
                    return open_in(stream, options, span).await;
                }
                Err(error) => failures.push((address.to_string(), error)),
            }
        }
    }
    Err(ConnectError::Unreachable(failures).into())
}

/// Does the handshake over a stream that is connected already.
pub(crate) async fn open_over<T>(transport: T, options: ConnectOptions) -> Result<Arc<ConnectionCore>, Error>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    options.validate()?;
    let span = tracing::info_span!("amqp connection", messaging.system = "rabbitmq");
    open_in(transport, options, span).await
}

async fn open_in<T>(
    transport: T,
    options: ConnectOptions,
    span: tracing::Span,
) -> Result<Arc<ConnectionCore>, Error>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let id = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
    let now = tokio::time::Instant::now().into_std();
    let deadlines = options.deadlines;
    let shared = Arc::new(Shared::new(proto::Connection::new(id, options, now)));
    let task = Task::new(shared.clone(), transport);
    tokio::spawn(task.instrument(span));
    // From here on, dropping this future drops the core, which ends the connection.
    let core = Arc::new(ConnectionCore::new(shared, deadlines));
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
            let _ = core.shared.ended().wait_for(Option::is_some).await;
            Err(error.into())
        }
    }
}
