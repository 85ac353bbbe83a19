use amqp_codec::{LongStr, ProtocolHeader, ShortStr, Table, connection, short};

use super::Connection;
use crate::failure::Failure;

/// What a client says in the handshake. [`Context::login`](crate::Context::login) makes one.
#[derive(Debug, Clone)]
pub struct Login {
    /// The client's properties.
    pub client_properties: Table<'static>,
    /// The mechanism.
    pub mechanism: ShortStr<'static>,
    /// What the mechanism calls for.
    pub response: LongStr<'static>,
    /// The locale.
    pub locale: ShortStr<'static>,
    /// The virtual host.
    pub vhost: ShortStr<'static>,
    /// The answer to connection.tune; `None` takes the server's channel_max and frame_max and turns heartbeats off.
    pub tune_ok: Option<connection::TuneOk>,
}

/// What was said in the handshake.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The server's properties and mechanisms.
    pub start: connection::Start<'static>,
    /// What it proposed.
    pub tune: connection::Tune,
    /// What holds.
    pub tune_ok: connection::TuneOk,
}

impl Connection {
    /// The handshake's first step: the protocol header, answered by connection.start.
    ///
    /// # Errors
    /// The server does not play its part.
    pub async fn greet(&mut self) -> Result<connection::Start<'static>, Failure> {
        self.send_protocol(ProtocolHeader::AMQP_0_9_1).await?;
        self.expect(0).await
    }

    /// The second step: connection.start-ok, without waiting for its answer.
    ///
    /// # Errors
    /// The server does not read it.
    pub async fn send_start_ok(&mut self, login: &Login) -> Result<(), Failure> {
        let start_ok = connection::StartOk {
            client_properties: login.client_properties.clone(),
            mechanism: login.mechanism.clone(),
            response: login.response.clone(),
            locale: login.locale.clone(),
        };
        self.send(0, start_ok).await
    }

    /// The third step: connection.tune-ok, which has no answer. `None` takes what the server proposed, without
    /// heartbeats.
    ///
    /// # Errors
    /// The server does not read it.
    pub async fn send_tune_ok(
        &mut self,
        tune: connection::Tune,
        tune_ok: Option<connection::TuneOk>,
    ) -> Result<connection::TuneOk, Failure> {
        let tune_ok = tune_ok.unwrap_or(connection::TuneOk {
            channel_max: tune.channel_max,
            frame_max: tune.frame_max,
            heartbeat: 0,
        });
        self.send(0, tune_ok).await?;
        // No limit is no reason for frames of gigabytes.
        self.frame_max = match tune_ok.frame_max {
            0 => 131_072,
            frame_max => frame_max,
        };
        self.wire().set_frame_max(tune_ok.frame_max);
        Ok(tune_ok)
    }

    /// The fourth step: connection.open, answered by open-ok.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn open_vhost(&mut self, vhost: &ShortStr<'_>) -> Result<(), Failure> {
        let open = connection::Open {
            virtual_host: vhost.as_borrowed(),
            ..Default::default()
        };
        self.call::<connection::OpenOk>(0, open).await?;
        self.open = true;
        Ok(())
    }

    /// The whole handshake up to connection.open-ok.
    ///
    /// # Errors
    /// The server refuses, or does not play its part.
    pub async fn handshake(&mut self, login: &Login) -> Result<Opened, Failure> {
        let start = self.greet().await?;
        self.send_start_ok(login).await?;
        let tune: connection::Tune = self.expect(0).await?;
        let tune_ok = self.send_tune_ok(tune, login.tune_ok).await?;
        self.open_vhost(&login.vhost).await?;
        let opened = Opened {
            start,
            tune,
            tune_ok,
        };
        self.opened = Some(opened.clone());
        Ok(opened)
    }

    /// What was said in the [`handshake`](Self::handshake), once it is done.
    pub fn opened(&self) -> Option<&Opened> {
        self.opened.as_ref()
    }

    /// Ends a check of an extension as unimplemented when the server does not announce it.
    ///
    /// # Errors
    /// The capability is not in the server's properties.
    pub fn require_capability(&self, capability: &str) -> Result<(), Failure> {
        let announced = self.opened.as_ref().and_then(|opened| {
            let properties = &opened.start.server_properties;
            properties.get_table("capabilities")?.get_bool(capability)
        });
        match announced {
            Some(true) => Ok(()),
            _ => Err(Failure::unimplemented(
                format_args!("the capability {capability}"),
                "capability not announced",
            )),
        }
    }
}

/// What clients of RabbitMQ say that they can do.
pub(crate) fn client_properties() -> Table<'static> {
    amqp_codec::table! {
        "product" => "amqp-conformance",
        "capabilities" => amqp_codec::table! {
            "publisher_confirms" => true,
            "exchange_exchange_bindings" => true,
            "basic.nack" => true,
            "consumer_cancel_notify" => true,
            "connection.blocked" => true,
            "authentication_failure_close" => true,
        },
    }
}

impl Login {
    /// PLAIN, with what a well-behaved client says besides.
    pub(crate) fn plain(user: &str, password: &str, vhost: ShortStr<'static>) -> Self {
        Self {
            client_properties: client_properties(),
            mechanism: short!("PLAIN"),
            response: LongStr::from(format!("\0{user}\0{password}")),
            locale: short!("en_US"),
            vhost,
            tune_ok: None,
        }
    }
}
