//! The query of a URI.

use std::str::FromStr;
use std::time::Duration;

use super::{Part, Scheme, UriError, decode};
use crate::auth::Sasl;
use crate::config::{ServerName, Verify};

/// The query parameters. `None`, or an empty list, is a parameter that was not given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameters {
    /// `heartbeat`, in seconds; 0 turns heartbeats off.
    pub heartbeat: Option<u16>,
    /// `connection_timeout`, given in milliseconds, at least 1.
    pub connection_timeout: Option<Duration>,
    /// `channel_max`; 0 is no limit of the client's.
    pub channel_max: Option<u16>,
    /// `frame_max`, in bytes: 0 (no limit of the client's) or at least 4096.
    pub frame_max: Option<u32>,
    /// `auth_mechanism`, in the order given; the one parameter that may be repeated.
    pub auth_mechanisms: Vec<Sasl>,
    /// `cacertfile`: a PEM file of the authorities to trust. `amqps` only, like all below.
    pub cacertfile: Option<String>,
    /// `certfile`: a PEM file with the client's certificate chain.
    pub certfile: Option<String>,
    /// `keyfile`: a PEM file with the client's private key.
    pub keyfile: Option<String>,
    /// `verify`: `verify_peer` or `verify_none`.
    pub verify: Option<Verify>,
    /// `server_name_indication`: a name, or `disable`.
    pub server_name_indication: Option<ServerName>,
}

impl Parameters {
    pub(super) fn parse(query: &str, scheme: Scheme) -> Result<Self, UriError> {
        let mut parameters = Parameters::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name, Part::Query)?;
            let value = decode(value, Part::Query)?;
            parameters.set(&name, value, scheme)?;
        }
        Ok(parameters)
    }

    fn set(&mut self, name: &str, value: String, scheme: Scheme) -> Result<(), UriError> {
        let tls = |name| match scheme {
            Scheme::Amqp => Err(UriError::TlsParameter { name }),
            Scheme::Amqps => Ok(name),
        };
        match name {
            "heartbeat" => once("heartbeat", &mut self.heartbeat, || {
                number(&value).ok_or("a number of seconds from 0 to 65535")
            }),
            "connection_timeout" => {
                once("connection_timeout", &mut self.connection_timeout, || {
                    let milliseconds =
                        number::<u32>(&value).filter(|milliseconds| *milliseconds > 0);
                    milliseconds
                        .map(|milliseconds| Duration::from_millis(milliseconds.into()))
                        .ok_or("a number of milliseconds from 1 to 4294967295")
                })
            }
            "channel_max" => once("channel_max", &mut self.channel_max, || {
                number(&value).ok_or("a number from 0 to 65535")
            }),
            "frame_max" => once("frame_max", &mut self.frame_max, || {
                number::<u32>(&value)
                    .filter(|bytes| *bytes == 0 || *bytes >= amqp_codec::frame::FRAME_MIN_SIZE)
                    .ok_or("0 or a number of bytes from 4096 to 4294967295")
            }),
            "auth_mechanism" => {
                let mechanism = Sasl::from_uri_name(&value).ok_or(UriError::ParameterValue {
                    name: "auth_mechanism",
                    expected: "plain, amqplain, external or anonymous",
                })?;
                if self.auth_mechanisms.contains(&mechanism) {
                    return Err(UriError::RepeatedParameter {
                        name: "auth_mechanism",
                    });
                }
                self.auth_mechanisms.push(mechanism);
                Ok(())
            }
            "cacertfile" => once(tls("cacertfile")?, &mut self.cacertfile, || path(value)),
            "certfile" => once(tls("certfile")?, &mut self.certfile, || path(value)),
            "keyfile" => once(tls("keyfile")?, &mut self.keyfile, || path(value)),
            "verify" => once(tls("verify")?, &mut self.verify, || match value.as_str() {
                "verify_peer" => Ok(Verify::Peer),
                "verify_none" => Ok(Verify::None),
                _ => Err("verify_peer or verify_none"),
            }),
            "server_name_indication" => once(
                tls("server_name_indication")?,
                &mut self.server_name_indication,
                || match value.as_str() {
                    "" => Err("a host name, or disable"),
                    "disable" => Ok(ServerName::Disabled),
                    _ => Ok(ServerName::Name(value)),
                },
            ),
            _ => Err(UriError::UnknownParameter {
                name: name.to_owned(),
            }),
        }
    }

    pub(super) fn pairs(&self) -> Vec<(&'static str, String)> {
        let verify = self.verify.map(|verify| match verify {
            Verify::Peer => "verify_peer".to_owned(),
            Verify::None => "verify_none".to_owned(),
        });
        let server_name = self.server_name_indication.as_ref().map(|name| match name {
            ServerName::Disabled => "disable".to_owned(),
            ServerName::Name(name) => name.clone(),
        });
        let timeout = self
            .connection_timeout
            .map(|timeout| timeout.as_millis().to_string());
        let mut pairs = vec![
            (
                "heartbeat",
                self.heartbeat.map(|seconds| seconds.to_string()),
            ),
            ("connection_timeout", timeout),
            (
                "channel_max",
                self.channel_max.map(|channels| channels.to_string()),
            ),
            ("frame_max", self.frame_max.map(|bytes| bytes.to_string())),
            ("cacertfile", self.cacertfile.clone()),
            ("certfile", self.certfile.clone()),
            ("keyfile", self.keyfile.clone()),
            ("verify", verify),
            ("server_name_indication", server_name),
        ];
        let mechanisms = self.auth_mechanisms.iter();
        pairs.extend(mechanisms.map(|sasl| ("auth_mechanism", Some(sasl.uri_name().to_owned()))));
        pairs
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }
}

fn once<T>(
    name: &'static str,
    slot: &mut Option<T>,
    parse: impl FnOnce() -> Result<T, &'static str>,
) -> Result<(), UriError> {
    if slot.is_some() {
        return Err(UriError::RepeatedParameter { name });
    }
    *slot = Some(parse().map_err(|expected| UriError::ParameterValue { name, expected })?);
    Ok(())
}

/// Digits only: `str::parse` alone would take a sign.
fn number<T: FromStr>(value: &str) -> Option<T> {
    if value.bytes().all(|byte| byte.is_ascii_digit()) {
        value.parse().ok()
    } else {
        None
    }
}

fn path(value: String) -> Result<String, &'static str> {
    if value.is_empty() {
        Err("the path of a PEM file")
    } else {
        Ok(value)
    }
}
