//! A scripted server: a test writes down, frame by frame, what a broker does to the client.
//!
//! ```no_run
//! # async fn example() {
//! use amqp_codec::{ReplyCode, basic};
//! use amqp_tests::peer::{Greeting, Peer};
//!
//! let listener = Peer::listen().await;
//! // ... a client connects to listener.uri() ...
//! let mut peer = listener.accept().await;
//! peer.handshake(Greeting::default()).await;
//! let channel = peer.open_confirm_channel().await;
//! let publish = peer.expect_publish().await;
//! peer.send_return(&publish, ReplyCode::NO_ROUTE, "NO_ROUTE").await;
//! peer.send(channel, basic::Ack { delivery_tag: 1, ..Default::default() }).await;
//! peer.accept_close().await;
//! # }
//! ```

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::{Deref, DerefMut};

use amqp_codec::basic::Properties;
use amqp_codec::{
    LongStr, MethodFields, ProtocolHeader, ReplyCode, ShortStr, Table, basic, channel, confirm,
    connection, queue, table, tx,
};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::wire::{Content, DEADLINE, Typed, Wire};

/// A scripted server. It is a [`Wire`] that knows a server's part of the usual dialogues.
///
/// It is as strict as a broker: a frame above the negotiated frame_max is [`Event::Malformed`](crate::wire::Event).
/// Dropped, it closes the connection.
#[derive(Debug)]
pub struct Peer<S = TcpStream> {
    wire: Wire<S>,
}

/// What a server says of itself in the handshake. The default is RabbitMQ's, with heartbeats off.
#[derive(Debug, Clone)]
pub struct Greeting {
    /// Among them what the server is capable of.
    pub server_properties: Table<'static>,
    /// The mechanisms on offer, separated by spaces.
    pub mechanisms: &'static str,
    /// What the server proposes in connection.tune.
    pub tune: connection::Tune,
}

impl Default for Greeting {
    fn default() -> Self {
        Self {
            server_properties: table! {
                "capabilities" => table! {
                    "publisher_confirms" => true,
                    "exchange_exchange_bindings" => true,
                    "basic.nack" => true,
                    "consumer_cancel_notify" => true,
                    "connection.blocked" => true,
                    "consumer_priorities" => true,
                    "authentication_failure_close" => true,
                    "per_consumer_qos" => true,
                    "direct_reply_to" => true,
                },
                "product" => "Scripted peer",
                "version" => "0.0.0",
            },
            mechanisms: "PLAIN AMQPLAIN",
            tune: connection::Tune {
                channel_max: 2047,
                frame_max: 131_072,
                heartbeat: 0,
            },
        }
    }
}

/// What the client said in the handshake.
#[derive(Debug, Clone)]
pub struct Greeted {
    /// Its properties and its credentials.
    pub start_ok: connection::StartOk<'static>,
    /// What it made of the proposal.
    pub tune_ok: connection::TuneOk,
    /// The virtual host that it wants.
    pub open: connection::Open<'static>,
}

/// A publish as it came.
pub type Publish = Content<basic::Publish<'static>>;

/// Where a scripted server waits for connections, on the loopback address.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
}

impl Listener {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener
            .local_addr()
            .expect("a bound socket has an address")
    }

    /// Where it listens, as `amqp://guest:guest@127.0.0.1:port/%2f`.
    pub fn uri(&self) -> String {
        format!("amqp://guest:guest@{}/%2f", self.address())
    }

    /// The next connection.
    ///
    /// # Panics
    /// None comes within the deadline.
    pub async fn accept(&self) -> Peer {
        let (stream, _) = timeout(DEADLINE, self.listener.accept())
            .await
            .expect("a client connects within the deadline")
            .expect("a listener accepts");
        stream.set_nodelay(true).expect("a socket takes the option");
        Peer::new(stream)
    }
}

impl Peer {
    /// Listens on a free port.
    pub async fn listen() -> Listener {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a port is free");
        Listener { listener }
    }
}

impl Peer<DuplexStream> {
    /// A connection in memory that holds up to `capacity` bytes in each direction, and the client's end of it. Under
    /// tokio's paused clock time passes when everybody waits.
    pub fn in_memory(capacity: usize) -> (Self, DuplexStream) {
        let (server, client) = tokio::io::duplex(capacity);
        (Self::new(server), client)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    /// The server at this end of a connection.
    pub fn new(stream: S) -> Self {
        Self {
            wire: Wire::new(stream, true),
        }
    }

    /// The stream, given up without a word: dropping it ends the connection.
    pub fn into_wire(self) -> Wire<S> {
        self.wire
    }

    /// The whole handshake up to connection.open-ok. What was agreed on bounds the frames from then on.
    ///
    /// # Panics
    /// The client does not play its part.
    pub async fn handshake(&mut self, greeting: Greeting) -> Greeted {
        let start_ok = self.greet(&greeting).await;
        let tune_ok = self.tune(greeting.tune).await;
        let open = self.reply(0, connection::OpenOk::default()).await;
        Greeted {
            start_ok,
            tune_ok,
            open,
        }
    }

    /// The handshake's first step: protocol header, start, start-ok.
    ///
    /// # Panics
    /// The client does not play its part.
    pub async fn greet(&mut self, greeting: &Greeting) -> connection::StartOk<'static> {
        let header = self.expect_protocol().await;
        assert_eq!(
            header,
            ProtocolHeader::AMQP_0_9_1,
            "the client's protocol header"
        );
        let start = connection::Start {
            version_minor: 9,
            server_properties: greeting.server_properties.clone(),
            mechanisms: LongStr::from(greeting.mechanisms),
            locales: LongStr::from("en_US"),
            ..Default::default()
        };
        self.send(0, start).await;
        self.expect(0).await
    }

    /// The second step: tune, tune-ok.
    ///
    /// # Panics
    /// The client does not play its part.
    pub async fn tune(&mut self, tune: connection::Tune) -> connection::TuneOk {
        self.send(0, tune).await;
        let tune_ok: connection::TuneOk = self.expect(0).await;
        if tune_ok.frame_max > 0 {
            self.set_frame_max(tune_ok.frame_max);
        }
        tune_ok
    }

    /// Expects a method and answers it: `let declare: queue::Declare = peer.reply(1, queue::DeclareOk { .. })`.
    ///
    /// # Panics
    /// Something else comes.
    pub async fn reply<M: Typed>(&mut self, channel: u16, answer: impl MethodFields) -> M {
        let request = self.expect(channel).await;
        self.send(channel, answer).await;
        request
    }

    /// Expects channel.open, answers it and tells the channel's number.
    ///
    /// # Panics
    /// Something else comes.
    pub async fn open_channel(&mut self) -> u16 {
        let (channel, _) = self.expect_any::<channel::Open>().await;
        self.send(channel, channel::OpenOk::default()).await;
        channel
    }

    /// Expects channel.open and confirm.select and answers both.
    ///
    /// # Panics
    /// Something else comes.
    pub async fn open_confirm_channel(&mut self) -> u16 {
        let channel = self.open_channel().await;
        self.reply::<confirm::Select>(channel, confirm::SelectOk {})
            .await;
        channel
    }

    /// Expects channel.open and tx.select and answers both.
    ///
    /// # Panics
    /// Something else comes.
    pub async fn open_tx_channel(&mut self) -> u16 {
        let channel = self.open_channel().await;
        self.reply::<tx::Select>(channel, tx::SelectOk {}).await;
        channel
    }

    /// The next publish, on any channel, with its content.
    #[track_caller]
    pub fn expect_publish(&mut self) -> impl Future<Output = Publish> {
        self.wire.expect_any_content()
    }

    /// Acks one publish, or all up to it.
    pub async fn send_ack(&mut self, channel: u16, delivery_tag: u64, multiple: bool) {
        self.send(
            channel,
            basic::Ack {
                delivery_tag,
                multiple,
                ..Default::default()
            },
        )
        .await;
    }

    /// Nacks one publish, or all up to it.
    pub async fn send_nack(&mut self, channel: u16, delivery_tag: u64, multiple: bool) {
        self.send(
            channel,
            basic::Nack {
                delivery_tag,
                multiple,
                ..Default::default()
            },
        )
        .await;
    }

    /// Returns a publish, its properties and body as they came.
    ///
    /// # Panics
    /// `text` has more than 255 bytes.
    pub async fn send_return(&mut self, publish: &Publish, code: ReplyCode, text: &str) {
        let method = basic::Return {
            reply_code: code,
            reply_text: short(text),
            exchange: publish.method.exchange.clone(),
            routing_key: publish.method.routing_key.clone(),
        };
        self.send_content(publish.channel, method, &publish.properties, &publish.body)
            .await;
    }

    /// Delivers a message to a consumer.
    ///
    /// # Panics
    /// `consumer_tag` has more than 255 bytes.
    pub async fn send_deliver(
        &mut self,
        channel: u16,
        consumer_tag: &str,
        delivery_tag: u64,
        properties: &Properties<'_>,
        body: &[u8],
    ) {
        let method = basic::Deliver {
            consumer_tag: short(consumer_tag),
            delivery_tag,
            ..Default::default()
        };
        self.send_content(channel, method, properties, body).await;
    }

    /// Expects queue.declare and answers it with the name that was asked for, or `amq.gen-scripted`.
    ///
    /// # Panics
    /// Something else comes.
    pub async fn accept_queue(&mut self, channel: u16) -> queue::Declare<'static> {
        let declare: queue::Declare = self.expect(channel).await;
        let queue = match declare.queue.is_empty() {
            true => short("amq.gen-scripted"),
            false => declare.queue.clone(),
        };
        self.send(
            channel,
            queue::DeclareOk {
                queue,
                ..Default::default()
            },
        )
        .await;
        declare
    }

    /// Expects the client to close the connection: connection.close, answered, then the end of the stream.
    ///
    /// # Panics
    /// Something else comes.
    pub async fn accept_close(&mut self) -> connection::Close<'static> {
        let close = self.reply(0, connection::CloseOk {}).await;
        self.expect_end().await;
        close
    }

    /// Expects the client to close a channel, and answers.
    ///
    /// # Panics
    /// Something else comes.
    pub async fn accept_channel_close(&mut self, channel: u16) -> channel::Close<'static> {
        self.reply(channel, channel::CloseOk {}).await
    }

    /// Closes a channel with an error. The client's close-ok is not waited for.
    ///
    /// # Panics
    /// `text` has more than 255 bytes.
    pub async fn close_channel(&mut self, channel: u16, code: ReplyCode, text: &str) {
        let close = channel::Close {
            reply_code: code,
            reply_text: short(text),
            ..Default::default()
        };
        self.send(channel, close).await;
    }

    /// Closes the connection with an error. The client's close-ok is not waited for.
    ///
    /// # Panics
    /// `text` has more than 255 bytes.
    pub async fn close_connection(&mut self, code: ReplyCode, text: &str) {
        let close = connection::Close {
            reply_code: code,
            reply_text: short(text),
            ..Default::default()
        };
        self.send(0, close).await;
    }
}

impl Peer<TcpStream> {
    /// Ends the connection with a TCP reset.
    pub fn reset(self) {
        self.wire.reset();
    }
}

impl<S> Deref for Peer<S> {
    type Target = Wire<S>;

    fn deref(&self) -> &Wire<S> {
        &self.wire
    }
}

impl<S> DerefMut for Peer<S> {
    fn deref_mut(&mut self) -> &mut Wire<S> {
        &mut self.wire
    }
}

fn short(text: &str) -> ShortStr<'_> {
    ShortStr::try_from(text).expect("a text of at most 255 bytes")
}
