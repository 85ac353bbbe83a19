//! Where the broker is, and who asks it.

use std::net::{SocketAddr, ToSocketAddrs as _};

use amqp_codec::ShortStr;
use percent_encoding::percent_decode_str;
use url::{Host, Url};

use crate::connection::Login;

/// Where the broker is, and who asks it.
#[derive(Clone)]
pub struct Target {
    address: SocketAddr,
    /// As it was given: host and port.
    pub(crate) shown: String,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) vhost: ShortStr<'static>,
}

/// Why an address cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// No URL.
    #[error("not a URL: {0}")]
    Url(#[from] url::ParseError),
    /// `amqps`.
    #[error(
        "amqps is not spoken here: the checks need every byte in their hands; aim at the port without TLS"
    )]
    Tls,
    /// Some other scheme.
    #[error("the scheme is {0}, not amqp")]
    Scheme(String),
    /// Not UTF-8 when percent-decoded.
    #[error("the {0} is not UTF-8")]
    NotUtf8(&'static str),
    /// A path of more than one segment, or a name above 255 bytes.
    #[error(
        "the virtual host {0:?} is not one segment of at most 255 bytes; write a slash in it as %2f"
    )]
    Vhost(String),
    /// The host has no address.
    #[error("the host {host} has no address: {error}")]
    Host {
        /// The host.
        host: String,
        /// What the system says.
        error: String,
    },
}

impl Target {
    /// Takes `amqp://user:password@host:port/vhost` apart, with RabbitMQ's defaults for what is missing: guest, guest,
    /// localhost, 5672, `/`.
    ///
    /// # Errors
    /// It is no such URL, or its host has no address.
    pub fn parse(url: &str) -> Result<Self, TargetError> {
        let url = Url::parse(url)?;
        match url.scheme() {
            "amqp" => {}
            "amqps" => return Err(TargetError::Tls),
            other => return Err(TargetError::Scheme(other.to_owned())),
        }
        let decode = |text: &str, what| {
            percent_decode_str(text)
                .decode_utf8()
                .map(String::from)
                .map_err(|_| TargetError::NotUtf8(what))
        };
        let user = match url.username() {
            "" => "guest".to_owned(),
            user => decode(user, "user")?,
        };
        let password = match url.password() {
            None => "guest".to_owned(),
            Some(password) => decode(password, "password")?,
        };
        let vhost = match url.path().strip_prefix('/') {
            None | Some("") => "/".to_owned(),
            Some(path) if path.contains('/') => return Err(TargetError::Vhost(path.to_owned())),
            Some(path) => decode(path, "virtual host")?,
        };
        let vhost = ShortStr::try_from(vhost.clone()).map_err(|_| TargetError::Vhost(vhost))?;
        let port = url.port().unwrap_or(5672);
        let host = match url.host() {
            None => "localhost".to_owned(),
            Some(Host::Ipv6(address)) => address.to_string(),
            Some(host) => host.to_string(),
        };
        let no_address = |error: String| TargetError::Host {
            host: host.clone(),
            error,
        };
        let address = (host.as_str(), port)
            .to_socket_addrs()
            .map_err(|error| no_address(error.to_string()))?
            .next()
            .ok_or_else(|| no_address("none".to_owned()))?;
        Ok(Self {
            address,
            shown: format!("{host}:{port}"),
            user,
            password,
            vhost,
        })
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What a well-behaved client says in the handshake.
    pub(crate) fn login(&self) -> Login {
        Login::plain(&self.user, &self.password, self.vhost.clone())
    }
}

/// Without the password.
impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{} {}", self.user, self.shown, self.vhost)
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Target({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> (String, String, String, String) {
        let target = Target::parse(url).expect("a URL");
        (
            target.address.to_string(),
            target.user,
            target.password,
            target.vhost.to_string(),
        )
    }

    #[test]
    fn parts_and_their_defaults() {
        for (url, address, user, password, vhost) in [
            ("amqp://127.0.0.1", "127.0.0.1:5672", "guest", "guest", "/"),
            ("amqp://127.0.0.1/", "127.0.0.1:5672", "guest", "guest", "/"),
            (
                "amqp://127.0.0.1:1234/v",
                "127.0.0.1:1234",
                "guest",
                "guest",
                "v",
            ),
            (
                "amqp://a%40b:c%3Ad@127.0.0.1/%2fx%2F",
                "127.0.0.1:5672",
                "a@b",
                "c:d",
                "/x/",
            ),
            ("amqp://a@[::1]:1/%2f", "[::1]:1", "a", "guest", "/"),
        ] {
            let expected = [address, user, password, vhost].map(str::to_owned);
            assert_eq!(<[String; 4]>::from(parsed(url)), expected, "{url}");
        }
    }

    #[test]
    fn what_is_no_target() {
        let error = |url: &str| Target::parse(url).expect_err(url);
        assert!(matches!(error("127.0.0.1:5672"), TargetError::Url(_)));
        assert!(matches!(error("amqps://127.0.0.1"), TargetError::Tls));
        assert!(matches!(
            error("amqp+ssl://127.0.0.1"),
            TargetError::Scheme(_)
        ));
        assert!(matches!(
            error("amqp://127.0.0.1/a/b"),
            TargetError::Vhost(_)
        ));
        assert!(matches!(
            error("amqp://127.0.0.1/%ff"),
            TargetError::NotUtf8("virtual host")
        ));
        let long = format!("amqp://127.0.0.1/{}", "v".repeat(256));
        assert!(matches!(error(&long), TargetError::Vhost(_)));
    }

    #[test]
    fn the_password_is_not_shown() {
        let target = Target::parse("amqp://user:secret@127.0.0.1/v").expect("a URL");
        assert_eq!(target.to_string(), "user@127.0.0.1:5672 v");
        assert!(!format!("{target:?}").contains("secret"));
    }
}
