//! Everything a connection can be told before it is opened.

use std::sync::Arc;
use std::time::Duration;

use amqp_codec::{ShortStr, Table, Value, short, table};

use crate::auth::{Credentials, Mechanism, Sasl, Secret};
use crate::negotiate::{self, Heartbeat, Wanted};

mod limits;
mod tls;

pub use limits::Limits;
#[cfg(feature = "tokio")]
pub(crate) use tls::Pem;
pub use tls::{ServerName, Tls, TlsConfigError, TlsVersion, Verify};

/// Where to connect, as whom, and within which limits. Also made from a URI:
///
/// ```
/// use std::time::Duration;
/// use amqp_client::ConnectOptions;
///
/// # #[cfg(feature = "tokio")]
/// # fn options() -> Result<ConnectOptions, amqp_client::UriError> {
/// let options = ConnectOptions::try_from("amqp://app:secret@rabbit-1/orders?heartbeat=10")?
///     .address("rabbit-2", 5672)
///     .connection_name("order-service")
///     .confirm_deadline(Duration::from_secs(5));
/// # Ok(options)
/// # }
/// ```
///
/// `Debug` never shows the password.
#[derive(Debug, Clone)]
#[must_use]
pub struct ConnectOptions {
    pub(crate) addresses: Vec<(String, u16)>,
    pub(crate) virtual_host: String,
    pub(crate) credentials: Credentials,
    pub(crate) mechanisms: Vec<Arc<dyn Mechanism>>,
    pub(crate) connection_name: Option<String>,
    pub(crate) client_properties: Table<'static>,
    pub(crate) locale: String,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) limits: Limits,
    pub(crate) deadlines: Deadlines,
    pub(crate) tls: Option<Tls>,
}

/// How long each thing may take before it ends with an error. Every call ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// The whole of opening a connection: name resolution, all addresses, TLS, handshake. 30
    /// seconds unless said.
    pub connect: Duration,
    /// The handshake with one address, from the protocol header to open-ok, and as long again for the
    /// one of TLS before it. 10 seconds unless said, which is how long RabbitMQ waits for it.
    pub handshake: Duration,
    /// The reply to a synchronous method. 30 seconds unless said.
    pub rpc: Duration,
    /// The reply to close, for connections and channels. 30 seconds unless said.
    pub close: Duration,
    /// The confirm of a publish, after which its outcome is unknown. 30 seconds unless said.
    pub confirm: Duration,
}

/// Options that cannot work, found before anything is connected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The virtual host does not fit into a short string.
    #[error("the virtual host has {len} bytes, at most 255 are possible")]
    VirtualHostTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The locale does not fit into a short string.
    #[error("the locale has {len} bytes, at most 255 are possible")]
    LocaleTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The largest frame is smaller than the protocol allows.
    #[error("frame_max is {frame_max}, the protocol's minimum is 4096 bytes")]
    FrameMaxTooSmall {
        /// What was asked for, in bytes.
        frame_max: u32,
    },
    /// One of the [`Limits`] is too small for anything to work.
    #[error("the limit {limit} is below its minimum of {minimum}")]
    LimitTooSmall {
        /// Its name.
        limit: &'static str,
        /// The least that it may be.
        minimum: u32,
    },
    /// [`Limits::events`] is none, or more than 65,536.
    #[error("{0} events cannot be kept, 1 to 65536 can")]
    EventsOutOfRange(usize),
    /// No authentication mechanism is left to offer.
    #[error("no authentication mechanism is configured")]
    NoMechanism,
    /// A float in the client properties is infinite or no number, for which RabbitMQ ends the connection.
    #[error("a float in the client properties is not finite")]
    NonFiniteProperty,
    /// The TLS options cannot work.
    #[error(transparent)]
    Tls(#[from] TlsConfigError),
}

impl Default for ConnectOptions {
    fn default() -> Self {
        ConnectOptions {
            addresses: Vec::new(),
            virtual_host: "/".to_owned(),
            credentials: Credentials::default(),
            mechanisms: vec![Arc::new(Sasl::Plain), Arc::new(Sasl::AmqPlain)],
            connection_name: None,
            client_properties: default_client_properties(),
            locale: "en_US".to_owned(),
            heartbeat: Heartbeat::default(),
            limits: Limits::default(),
            deadlines: Deadlines::default(),
            tls: None,
        }
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        let usual = Duration::from_secs(30);
        Deadlines {
            connect: usual,
            handshake: Duration::from_secs(10),
            rpc: usual,
            close: usual,
            confirm: usual,
        }
    }
}

impl Deadlines {
    /// The same, with none so long that a clock cannot count it: as good as never.
    #[cfg(feature = "tokio")]
    pub(crate) fn countable(self) -> Self {
        let never = Duration::from_secs(30 * 365 * 24 * 3600);
        Deadlines {
            connect: self.connect.min(never),
            handshake: self.handshake.min(never),
            rpc: self.rpc.min(never),
            close: self.close.min(never),
            confirm: self.confirm.min(never),
        }
    }
}

impl From<&ConnectOptions> for ConnectOptions {
    fn from(options: &ConnectOptions) -> Self {
        options.clone()
    }
}

impl ConnectOptions {
    /// `guest` at localhost, virtual host `/`, no limits below the server's.
    pub fn new() -> Self {
        ConnectOptions::default()
    }

    /// Adds an address to try after those already there: a host name or an IP address (IPv6 without
    /// brackets). Without any, it is localhost with the usual port. A name that stands for several
    /// addresses stands for all of them, in the resolver's order.
    ///
    /// They are tried in order until one leads to an open connection, all within the connect deadline. What
    /// is left of it is shared out evenly among the addresses left, so that one that does not answer cannot
    /// use it up; none gets less than a second, even if the last ones are then not tried.
    ///
    /// The next one is tried after everything that may be this one's own fault: its name is not resolved,
    /// it is not reached, its TLS fails, it speaks something else, is silent, breaks off, breaks the protocol
    /// or closes the connection with a code such as 320 or 541. The search ends where the others would say the
    /// same: the credentials (403) or the virtual host (530) are refused, there is no common mechanism,
    /// negotiation fails.
    pub fn address(mut self, host: impl Into<String>, port: u16) -> Self {
        self.addresses.push((host.into(), port));
        self
    }

    /// The virtual host, `/` unless said. The empty name is a name too.
    pub fn virtual_host(mut self, name: impl Into<String>) -> Self {
        self.virtual_host = name.into();
        self
    }

    /// User name and password, `guest` and `guest` unless said.
    pub fn credentials(mut self, username: impl Into<String>, password: impl Into<Secret>) -> Self {
        self.credentials = Credentials {
            username: username.into(),
            password: password.into(),
        };
        self
    }

    /// The only authentication mechanism to use, instead of PLAIN or else AMQPLAIN.
    pub fn mechanism(self, mechanism: impl Mechanism + 'static) -> Self {
        self.mechanisms([Arc::new(mechanism) as Arc<dyn Mechanism>])
    }

    /// The authentication mechanisms to use, best first: the first that the server offers is taken.
    pub fn mechanisms(mut self, mechanisms: impl IntoIterator<Item = Arc<dyn Mechanism>>) -> Self {
        self.mechanisms = mechanisms.into_iter().collect();
        self
    }

    /// A name for people who look at the broker's list of connections.
    pub fn connection_name(mut self, name: impl Into<String>) -> Self {
        self.connection_name = Some(name.into());
        self
    }

    /// Adds client properties; one of a name that is already there (`product`, `version`,
    /// `platform`, `capabilities`) takes its place. They are sent in one frame of at most 4096
    /// bytes: keep them short.
    ///
    /// A `capabilities` table of yours replaces the whole one of this crate: what is not announced
    /// any more, the broker no longer does.
    pub fn client_properties(mut self, properties: Table<'static>) -> Self {
        for (name, value) in &properties {
            set(&mut self.client_properties, name, value);
        }
        self
    }

    /// The locale for texts of the broker, `en_US` unless said, the only one that brokers have.
    pub fn locale(mut self, locale: impl Into<String>) -> Self {
        self.locale = locale.into();
        self
    }

    /// The heartbeat interval; a number is seconds, 0 is none. What the server proposes unless
    /// said.
    pub fn heartbeat(mut self, heartbeat: impl Into<Heartbeat>) -> Self {
        self.heartbeat = heartbeat.into();
        self
    }

    /// See [`Limits::channels`].
    pub fn channel_max(mut self, channels: u16) -> Self {
        self.limits.channels = channels;
        self
    }

    /// See [`Limits::frame_bytes`]. RabbitMQ since 4.1 refuses anything below 8192, without a word.
    pub fn frame_max(mut self, bytes: u32) -> Self {
        self.limits.frame_bytes = bytes;
        self
    }

    /// What the broker may make us accept, keep or owe: all bounds at once, in place of what was said of each before.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// All deadlines at once.
    pub fn deadlines(mut self, deadlines: Deadlines) -> Self {
        self.deadlines = deadlines;
        self
    }

    /// See [`Deadlines::connect`].
    pub fn connect_deadline(mut self, deadline: Duration) -> Self {
        self.deadlines.connect = deadline;
        self
    }

    /// See [`Deadlines::handshake`].
    pub fn handshake_deadline(mut self, deadline: Duration) -> Self {
        self.deadlines.handshake = deadline;
        self
    }

    /// See [`Deadlines::rpc`].
    pub fn rpc_deadline(mut self, deadline: Duration) -> Self {
        self.deadlines.rpc = deadline;
        self
    }

    /// See [`Deadlines::close`].
    pub fn close_deadline(mut self, deadline: Duration) -> Self {
        self.deadlines.close = deadline;
        self
    }

    /// See [`Deadlines::confirm`].
    pub fn confirm_deadline(mut self, deadline: Duration) -> Self {
        self.deadlines.confirm = deadline;
        self
    }

    /// See [`Limits::outgoing_bytes`].
    pub fn outgoing_buffer(mut self, bytes: usize) -> Self {
        self.limits.outgoing_bytes = bytes;
        self
    }

    /// Asks for TLS, which needs the feature `rustls`.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Whether these options can work at all.
    ///
    /// # Errors
    /// Names the first that cannot.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.virtual_host.len() > ShortStr::MAX_LEN {
            return Err(ConfigError::VirtualHostTooLong {
                len: self.virtual_host.len(),
            });
        }
        if self.locale.len() > ShortStr::MAX_LEN {
            return Err(ConfigError::LocaleTooLong {
                len: self.locale.len(),
            });
        }
        if self.mechanisms.is_empty() {
            return Err(ConfigError::NoMechanism);
        }
        if self.client_properties.has_non_finite() {
            return Err(ConfigError::NonFiniteProperty);
        }
        if let Some(tls) = &self.tls {
            tls.validate()?;
        }
        self.limits.validate()?;
        negotiate::check_frame_max(self.limits.frame_bytes)
            .map_err(|frame_max| ConfigError::FrameMaxTooSmall { frame_max })
    }

    /// What is wanted of tune.
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted {
            channel_max: self.limits.channels,
            frame_max: self.limits.frame_bytes,
            heartbeat: self.heartbeat,
        }
    }

    /// The addresses to try, in order; never empty.
    pub fn addresses_or_default(&self) -> Vec<(String, u16)> {
        if self.addresses.is_empty() {
            vec![(
                "localhost".to_owned(),
                if self.tls.is_some() { 5671 } else { 5672 },
            )]
        } else {
            self.addresses.clone()
        }
    }

    /// The client properties as sent: with the connection's name.
    pub(crate) fn start_ok_properties(&self) -> Table<'static> {
        let mut properties = self.client_properties.clone();
        if let Some(name) = &self.connection_name {
            set(
                &mut properties,
                short!("connection_name"),
                Value::from(name.as_str()),
            );
        }
        properties
    }
}

fn set(table: &mut Table<'static>, name: ShortStr<'_>, value: Value<'_>) {
    table.remove(name.as_bytes());
    table.extend([(name, value)]);
}

fn default_client_properties() -> Table<'static> {
    table! {
        "product" => env!("CARGO_PKG_NAME"),
        "version" => env!("CARGO_PKG_VERSION"),
        "platform" => "Rust",
        "capabilities" => table! {
            "publisher_confirms" => true,
            "exchange_exchange_bindings" => true,
            "basic.nack" => true,
            "consumer_cancel_notify" => true,
            "connection.blocked" => true,
            "authentication_failure_close" => true,
        },
    }
}

#[cfg(feature = "tokio")]
mod from_uri;
#[cfg(test)]
mod tests;
