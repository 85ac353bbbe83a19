//! Connections.

use std::sync::Arc;

use amqp_codec::{MethodId, ReplyCode, ShortStr, TooLong};
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::Span;

use super::channel::ChannelCore;
use super::request::{Call, closing};
use super::{Channel, Events};
use crate::auth::Secret;
use crate::config::{ConnectOptions, Deadlines};
use crate::driver::{self, Shared};
use crate::error::{Closed, Error, Operation};
use crate::negotiate::Negotiated;
use crate::proto::{Reply, ServerInfo};

/// An open connection to a broker.
///
/// Clones are the same connection. It stays open while any handle of it, of its channels, consumers or
/// confirms is left. When the last one is dropped, the connection closes politely in the background: publishes
/// get their confirms, within half of the close deadline, and connection.close is sent.
///
/// The background is a task on the runtime. A program that ends, or drops its runtime, ends the task too, and with it
/// what was published and not written yet: await outcomes, and [`close`](Self::close), before `main` returns.
#[derive(Clone)]
pub struct Connection {
    core: Arc<ConnectionCore>,
}

/// What all handles of a connection hold on to.
pub(crate) struct ConnectionCore {
    pub(crate) shared: Arc<Shared>,
    pub(crate) deadlines: Deadlines,
    pub(crate) span: Span,
}

impl ConnectionCore {
    pub(crate) fn new(shared: Arc<Shared>, deadlines: Deadlines, span: Span) -> Self {
        ConnectionCore {
            shared,
            deadlines,
            span,
        }
    }

    fn start_close(&self, code: ReplyCode, text: ShortStr<'static>) {
        let now = tokio::time::Instant::now().into_std();
        self.shared.with(|state| {
            state.lift_all_budgets();
            state.conn.close(now, code, text);
        });
    }
}

impl Drop for ConnectionCore {
    fn drop(&mut self) {
        self.start_close(ReplyCode::REPLY_SUCCESS, ShortStr::default());
    }
}

impl Connection {
    /// Connects, by an `amqp://` URI or by [`ConnectOptions`], and does the handshake.
    ///
    /// Needs a tokio runtime with I/O and time enabled; the connection's task is spawned on it.
    ///
    /// # Errors
    /// Within the connect deadline (30 s unless said), one that says how far it got:
    /// [`ErrorKind::Config`](crate::error::ErrorKind::Config), `Connect`, `Tls`, `Handshake` or `Timeout`, with every
    /// address that was tried in [`Error::attempts`]. Which failures lead to the next address is said at
    /// [`ConnectOptions::address`].
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt; nothing stays behind.
    pub async fn open<O>(options: O) -> Result<Connection, Error>
    where
        O: TryInto<ConnectOptions>,
        Error: From<O::Error>,
    {
        let options = options.try_into()?;
        Ok(Connection {
            core: driver::connect(options).await?,
        })
    }

    /// Does the handshake over a stream that is connected already: a Unix socket, a tunnel, one end of a
    /// [`tokio::io::duplex`]. Options with TLS have it spoken over the stream; of the addresses, nothing is used but the
    /// first one's host, as the name that the server must have a certificate for.
    ///
    /// ```no_run
    /// use amqp_client::{ConnectOptions, Connection};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # #[cfg(unix)] {
    /// let socket = tokio::net::UnixStream::connect("/run/rabbitmq/amqp.sock").await?;
    /// let connection = Connection::open_over(socket, ConnectOptions::new()).await?;
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`open`](Self::open), within the handshake deadline, which TLS has for itself once more.
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt and drops the stream.
    pub async fn open_over<T>(transport: T, options: ConnectOptions) -> Result<Connection, Error>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        Ok(Connection {
            core: driver::open_over(transport, options).await?,
        })
    }

    /// Opens a channel (channel.open).
    ///
    /// # Errors
    /// All channels the connection may have are open; the connection ends; no answer within the RPC deadline.
    ///
    /// # Cancel safety
    /// Dropping the future closes the channel again.
    pub async fn open_channel(&self) -> Result<Channel, Error> {
        let core = &self.core;
        // The channel is registered with its request: it may be closed before its opening was noticed.
        let (request, id, slot) = core.shared.with(|state| {
            let request = state.new_request();
            match state.conn.open_channel(request) {
                Ok(id) => Ok((request, id, state.add_channel(id))),
                Err(error) => {
                    state.forget_request(request);
                    Err(error)
                }
            }
        })?;
        let channel = ChannelCore::new(core.clone(), id, slot);
        let call = Call::new(core.shared.clone(), request, id);
        let operation = Operation::Reply(MethodId::CHANNEL_OPEN);
        let opened = |reply| matches!(reply, Reply::Channel(_)).then_some(());
        call.within(core.deadlines.rpc, operation, opened).await?;
        Ok(Channel::new(channel))
    }

    /// Replaces the secret of the connection, usually an OAuth token that would expire (RabbitMQ's
    /// connection.update-secret). `reason` is for the server's log.
    ///
    /// For a user who logged in with a password there is nothing to replace: RabbitMQ says yes, and forgets
    /// about it.
    ///
    /// # Errors
    /// The secret does not fit a frame, or the reason has more than 255 bytes; the connection ends; no answer
    /// within the RPC deadline. RabbitMQ closes the connection with 530 (`NOT_ALLOWED`) when it does not accept
    /// the secret.
    ///
    /// # Cancel safety
    /// Once polled, the secret is on its way. Dropping the future loses the answer, no more.
    pub async fn update_secret<S>(&self, secret: impl Into<Secret>, reason: S) -> Result<(), Error>
    where
        S: TryInto<ShortStr<'static>>,
        TooLong: From<S::Error>,
    {
        let secret = secret.into();
        let reason = reason.try_into().map_err(TooLong::from)?;
        let core = &self.core;
        let request = core.shared.with(|state| {
            let request = state.new_request();
            match state.conn.update_secret(request, secret.reveal(), reason) {
                Ok(()) => Ok(request),
                Err(error) => {
                    state.forget_request(request);
                    Err(error)
                }
            }
        })?;
        let call = Call::of_connection(core.shared.clone(), request);
        let operation = Operation::Reply(MethodId::CONNECTION_UPDATE_SECRET);
        let updated = |reply| matches!(reply, Reply::Method(_)).then_some(());
        call.within(core.deadlines.rpc, operation, updated).await
    }

    /// Closes the connection (connection.close, reply code 200) and waits until it is closed.
    ///
    /// Nothing new is taken from now on. Publishes that wait for their confirm get half of the close deadline
    /// to be settled; the rest of it is the server's to answer. Everything else that is pending on the
    /// connection fails with how it was closed.
    ///
    /// # Errors
    /// The connection ended otherwise: the server closed it first, it broke, or the server did not answer in time.
    /// It is over in any case.
    ///
    /// # Cancel safety
    /// The connection closes even if the future is dropped once it was polled.
    pub async fn close(&self) -> Result<(), Error> {
        self.close_saying(ReplyCode::REPLY_SUCCESS, ShortStr::default())
            .await
    }

    /// [`close`](Self::close) with a reply code and a text for the server's log.
    ///
    /// # Errors
    /// As [`close`](Self::close); a text of more than 255 bytes.
    ///
    /// # Cancel safety
    /// As [`close`](Self::close).
    pub async fn close_with<S>(&self, code: ReplyCode, text: S) -> Result<(), Error>
    where
        S: TryInto<ShortStr<'static>>,
        TooLong: From<S::Error>,
    {
        let text = text.try_into().map_err(TooLong::from)?;
        self.close_saying(code, text).await
    }

    async fn close_saying(&self, code: ReplyCode, text: ShortStr<'static>) -> Result<(), Error> {
        self.core.start_close(code, text);
        closing(self.closed().await)
    }

    /// Waits until the connection has ended, in whichever way, and its task is gone.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn closed(&self) -> Arc<Closed> {
        self.core.shared.ended().await
    }

    /// Subscribes to what happens on the connection from now on; nothing, where it has ended. A subscriber that does not
    /// read in time is told how many events it lost. Its waker is called while the connection's state is locked, and must
    /// not call into the connection itself; those of executors do not.
    pub fn events(&self) -> Events {
        let state = self.core.shared.lock();
        Events::new(state.subscribe(), state.conn.closed().is_some())
    }

    /// Whether the connection takes requests.
    pub fn is_open(&self) -> bool {
        self.core.shared.lock().conn.is_open()
    }

    /// The broker's reason for not taking publishes at the moment (connection.blocked), if it does not. RabbitMQ says so
    /// at the first publish after an alarm, not at the alarm.
    pub fn blocked(&self) -> Option<ShortStr<'static>> {
        self.core.shared.lock().conn.blocked().cloned()
    }

    /// What the server says of itself.
    pub fn server(&self) -> ServerInfo {
        self.core.shared.lock().conn.server().clone()
    }

    /// What was agreed on with the server.
    pub fn negotiated(&self) -> Option<Negotiated> {
        self.core.shared.lock().conn.negotiated()
    }

    /// How many channels hold a number, those that are closing included.
    pub fn open_channels(&self) -> usize {
        self.core.shared.lock().conn.open_channels()
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("open", &self.is_open())
            .finish_non_exhaustive()
    }
}
