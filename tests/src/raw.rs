//! A client in raw frames: asks a broker directly, and may send it anything.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use amqp_codec::{
    Limits, LongStr, MethodFields, ProtocolHeader, ShortStr, Table, channel, confirm, connection,
    short, table,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::wire::{DEADLINE, Typed, Wire};

/// A raw client. It is a [`Wire`] that knows a client's part of the usual dialogues.
#[derive(Debug)]
pub struct RawClient<S = TcpStream> {
    wire: Wire<S>,
}

/// What a client says in the handshake. The default is guest on the default vhost, all of RabbitMQ's capabilities for
/// clients, and what the server proposes, without heartbeats.
#[derive(Debug, Clone)]
pub struct Login {
    /// The client's properties.
    pub client_properties: Table<'static>,
    /// The mechanism.
    pub mechanism: ShortStr<'static>,
    /// What the mechanism calls for.
    pub response: LongStr<'static>,
    /// The virtual host.
    pub vhost: ShortStr<'static>,
    /// The answer to connection.tune; `None` takes the server's channel_max and frame_max and turns heartbeats off.
    pub tune_ok: Option<connection::TuneOk>,
}

impl Default for Login {
    fn default() -> Self {
        Self {
            client_properties: table! {
                "product" => "raw client",
                "capabilities" => table! {
                    "publisher_confirms" => true,
                    "exchange_exchange_bindings" => true,
                    "basic.nack" => true,
                    "consumer_cancel_notify" => true,
                    "connection.blocked" => true,
                    "authentication_failure_close" => true,
                },
            },
            mechanism: short!("PLAIN"),
            response: LongStr::from("\0guest\0guest"),
            vhost: short!("/"),
            tune_ok: None,
        }
    }
}

/// What the server said in the handshake.
#[derive(Debug, Clone)]
pub struct Greeted {
    /// Its properties and mechanisms.
    pub start: connection::Start<'static>,
    /// What it proposed.
    pub tune: connection::Tune,
    /// What holds.
    pub tune_ok: connection::TuneOk,
}

impl RawClient {
    /// Connects, and says nothing yet.
    ///
    /// # Panics
    /// Nobody listens there.
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = timeout(DEADLINE, TcpStream::connect(address))
            .await
            .expect("a connection within the deadline")
            .unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
        stream.set_nodelay(true).expect("a socket takes the option");
        Self::new(stream)
    }

    /// Connects and logs in as guest.
    ///
    /// # Panics
    /// Nobody listens there, or the server refuses.
    pub async fn open(address: SocketAddr, vhost: &str) -> Self {
        let mut client = Self::connect(address).await;
        let vhost = ShortStr::try_from(vhost)
            .expect("a vhost of at most 255 bytes")
            .into_owned();
        client
            .handshake(Login {
                vhost,
                ..Login::default()
            })
            .await;
        client
    }

    /// Ends the connection with a TCP reset.
    pub fn reset(self) {
        self.wire.reset();
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> RawClient<S> {
    /// The client at this end of a connection.
    pub fn new(stream: S) -> Self {
        let mut wire = Wire::new(stream, false);
        // Brokers differ in what they allow themselves before tune.
        wire.set_frame_max(Limits::default().frame_max);
        Self { wire }
    }

    /// The stream, given up without a word: dropping it ends the connection.
    pub fn into_wire(self) -> Wire<S> {
        self.wire
    }

    /// The whole handshake up to connection.open-ok.
    ///
    /// # Panics
    /// The server refuses, or does not play its part.
    pub async fn handshake(&mut self, login: Login) -> Greeted {
        self.send_protocol(ProtocolHeader::AMQP_0_9_1).await;
        let start: connection::Start = self.expect(0).await;
        let start_ok = connection::StartOk {
            client_properties: login.client_properties,
            mechanism: login.mechanism,
            response: login.response,
            locale: short!("en_US"),
        };
        self.send(0, start_ok).await;
        let tune: connection::Tune = self.expect(0).await;
        let tune_ok = login.tune_ok.unwrap_or(connection::TuneOk {
            channel_max: tune.channel_max,
            frame_max: tune.frame_max,
            heartbeat: 0,
        });
        self.send(0, tune_ok).await;
        self.set_frame_max(tune_ok.frame_max);
        let open = connection::Open {
            virtual_host: login.vhost,
            ..Default::default()
        };
        self.call::<connection::OpenOk>(0, open).await;
        Greeted {
            start,
            tune,
            tune_ok,
        }
    }

    /// Sends a method and expects its answer: `call::<queue::DeclareOk>(1, queue::Declare { .. })`.
    #[track_caller]
    pub fn call<M: Typed>(
        &mut self,
        channel: u16,
        request: impl MethodFields,
    ) -> impl Future<Output = M> {
        let caller = std::panic::Location::caller();
        async move {
            self.send(channel, request).await;
            let event = self.next_on(channel).await;
            match event.method().and_then(M::from_method) {
                Some(answer) => answer,
                None => self.fail(caller, &format!("{} on channel {channel}", M::ID), &event),
            }
        }
    }

    /// Opens a channel.
    ///
    /// # Panics
    /// The server refuses.
    pub async fn open_channel(&mut self, channel: u16) {
        self.call::<channel::OpenOk>(channel, channel::Open::default())
            .await;
    }

    /// Opens a channel and selects confirms.
    ///
    /// # Panics
    /// The server refuses.
    pub async fn open_confirm_channel(&mut self, channel: u16) {
        self.open_channel(channel).await;
        self.call::<confirm::SelectOk>(channel, confirm::Select::default())
            .await;
    }

    /// Closes the connection in good order.
    ///
    /// # Panics
    /// The server does not play its part.
    pub async fn close(mut self) {
        let close = connection::Close {
            reply_code: amqp_codec::ReplyCode::REPLY_SUCCESS,
            ..Default::default()
        };
        self.send(0, close).await;
        self.skip_to::<connection::CloseOk>(0).await;
        // The server waits for the client to end the connection; one that has ended it already is fine, too.
        let _ = self.half_close().await;
        self.set_deadline(Duration::from_secs(5));
        self.expect_end().await;
    }
}

impl<S> Deref for RawClient<S> {
    type Target = Wire<S>;

    fn deref(&self) -> &Wire<S> {
        &self.wire
    }
}

impl<S> DerefMut for RawClient<S> {
    fn deref_mut(&mut self) -> &mut Wire<S> {
        &mut self.wire
    }
}
