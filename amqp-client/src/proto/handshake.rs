//! From the protocol header to open-ok: one state for each thing that is expected.

use std::fmt;
use std::sync::Arc;

use amqp_codec::frame::{FRAME_MIN_SIZE, method_frame_len};
use amqp_codec::{EncodeError, LongStr, ReplyCode, ShortStr, Table, connection};

use crate::auth::{self, Login};
use crate::config::ConnectOptions;
use crate::error::{CloseCause, Closed, HandshakeError, Step};
use crate::negotiate::{self, Negotiated, Tune};

/// What the handshake waits for.
pub(super) enum Handshake {
    Start,
    /// Challenges, then tune.
    Tune {
        login: Box<dyn Login>,
    },
    OpenOk,
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.step().fmt(f)
    }
}

/// What the server says of itself in connection.start.
#[derive(Debug, Clone, Default)]
pub struct ServerInfo {
    /// Its properties: product, version, capabilities and whatever else it tells.
    pub properties: Table<'static>,
    /// The SASL mechanisms it offers, separated by spaces.
    pub mechanisms: LongStr<'static>,
    /// The locales it offers, separated by spaces.
    pub locales: LongStr<'static>,
}

impl ServerInfo {
    /// Whether the server announces a capability, such as `basic.nack`.
    pub fn has_capability(&self, name: &str) -> bool {
        let capabilities = self.properties.get_table("capabilities");
        capabilities.is_some_and(|capabilities| capabilities.get_bool(name) == Some(true))
    }
}

impl Handshake {
    pub(super) fn step(&self) -> Step {
        match self {
            Handshake::Start => Step::Start,
            Handshake::Tune { .. } => Step::Credentials,
            Handshake::OpenOk => Step::Open,
        }
    }

    /// What it means that the connection ended in this state.
    pub(super) fn failure(&self, closed: Arc<Closed>) -> HandshakeError {
        let by_stream_end = matches!(
            closed.cause,
            Some(CloseCause::EndOfStream | CloseCause::Io(_))
        );
        match self {
            Handshake::Tune { .. } if closed.code == ReplyCode::ACCESS_REFUSED => {
                HandshakeError::CredentialsRefused(closed)
            }
            // RabbitMQ says it like that to clients that do not announce authentication_failure_close.
            Handshake::Tune { .. } if by_stream_end => {
                HandshakeError::CredentialsProbablyRefused(closed)
            }
            Handshake::OpenOk if closed.code == ReplyCode::NOT_ALLOWED => {
                HandshakeError::VirtualHostRefused(closed)
            }
            Handshake::Start | Handshake::Tune { .. } | Handshake::OpenOk => {
                HandshakeError::Closed {
                    step: self.step(),
                    closed,
                }
            }
        }
    }
}

/// Answers connection.start.
pub(super) fn recv_start(
    start: &connection::Start<'_>,
    options: &ConnectOptions,
) -> Result<(connection::StartOk<'static>, Box<dyn Login>), HandshakeError> {
    let (major, minor) = (start.version_major, start.version_minor);
    if (major, minor) != (0, 9) {
        return Err(HandshakeError::Version { major, minor });
    }
    let mechanism = auth::choose(&options.mechanisms, start.mechanisms.as_bytes())?;
    let mut login = mechanism.login(&options.credentials)?;
    let response = login.initial_response()?;
    let start_ok = connection::StartOk {
        client_properties: options.start_ok_properties(),
        mechanism: crate::error::short_text(mechanism.name()),
        response: LongStr::from(response.reveal()).into_owned(),
        locale: crate::error::short_text(&options.locale),
    };
    // RabbitMQ drops the connection without a word for a larger frame before tune.
    let size = method_frame_len(&start_ok);
    if size > FRAME_MIN_SIZE as usize {
        let error = EncodeError::FrameTooLarge {
            size: size as u64,
            frame_max: FRAME_MIN_SIZE,
        };
        return Err(HandshakeError::StartOk(error));
    }
    Ok((start_ok, login))
}

/// Answers connection.tune, and asks for the virtual host.
pub(super) fn recv_tune(
    tune: &connection::Tune,
    options: &ConnectOptions,
) -> Result<(Negotiated, connection::TuneOk, connection::Open<'static>), HandshakeError> {
    let server = Tune {
        channel_max: tune.channel_max,
        frame_max: tune.frame_max,
        heartbeat: tune.heartbeat,
    };
    let negotiated = negotiate::negotiate(server, options.wanted())?;
    let tune_ok = connection::TuneOk {
        channel_max: negotiated.channel_max,
        frame_max: negotiated.frame_max,
        heartbeat: negotiated.heartbeat,
    };
    let virtual_host = ShortStr::try_from(options.virtual_host.clone()).unwrap_or_default();
    Ok((
        negotiated,
        tune_ok,
        connection::Open {
            virtual_host,
            ..Default::default()
        },
    ))
}
