//! A URI fills in what it names; everything else stays as it is by default, each part for itself: a
//! user name without a password keeps the default password, as with RabbitMQ's own clients.

use super::{ConnectOptions, Pem, Tls};
use crate::auth::Mechanism;
use crate::uri::{Parameters, Scheme, Uri, UriError};
use std::sync::Arc;

impl From<Uri> for ConnectOptions {
    fn from(uri: Uri) -> Self {
        ConnectOptions::from(&uri)
    }
}

impl From<&Uri> for ConnectOptions {
    fn from(uri: &Uri) -> Self {
        let mut options = ConnectOptions::default();
        if uri.host().is_some() || uri.port().is_some() {
            let port = uri.port().unwrap_or(uri.scheme().default_port());
            options = options.address(uri.host().unwrap_or("localhost"), port);
        }
        if let Some(username) = uri.username() {
            options.credentials.username = username.to_owned();
        }
        if let Some(password) = uri.password() {
            options.credentials.password = password.clone();
        }
        if let Some(vhost) = uri.vhost() {
            options = options.virtual_host(vhost);
        }
        let parameters = uri.parameters();
        if let Some(seconds) = parameters.heartbeat {
            options = options.heartbeat(seconds);
        }
        if let Some(timeout) = parameters.connection_timeout {
            options = options.connect_deadline(timeout);
        }
        if !parameters.auth_mechanisms.is_empty() {
            let mechanisms = parameters.auth_mechanisms.iter();
            options =
                options.mechanisms(mechanisms.map(|sasl| Arc::new(*sasl) as Arc<dyn Mechanism>));
        }
        options.tls = match uri.scheme() {
            Scheme::Amqp => None,
            Scheme::Amqps => Some(tls(parameters)),
        };
        options
            .channel_max(parameters.channel_max.unwrap_or_default())
            .frame_max(parameters.frame_max.unwrap_or_default())
    }
}

impl ConnectOptions {
    /// From several URIs, which name the addresses to try, in order. All else must be the same in all of
    /// them.
    ///
    /// [`Connection::open`](crate::Connection::open) takes an array of URIs too.
    ///
    /// # Errors
    /// One of them is no URI or differs in more than host and port; there is none.
    ///
    /// ```
    /// use amqp_client::ConnectOptions;
    ///
    /// let nodes = ["rabbit-1", "rabbit-2", "rabbit-3"];
    /// let uris = nodes.map(|node| format!("amqps://app:secret@{node}/orders"));
    /// let options = ConnectOptions::from_uris(&uris)?;
    /// assert_eq!(options.addresses_or_default().len(), 3);
    /// # Ok::<(), amqp_client::UriError>(())
    /// ```
    pub fn from_uris<U: AsRef<str>>(uris: impl IntoIterator<Item = U>) -> Result<Self, UriError> {
        let mut uris = uris.into_iter();
        let first: Uri = uris.next().ok_or(UriError::None)?.as_ref().parse()?;
        let mut options = ConnectOptions::from(&first);
        options.addresses = options.addresses_or_default();
        for (index, uri) in uris.enumerate() {
            let uri: Uri = uri.as_ref().parse()?;
            if !uri.differs_in_address_alone(&first) {
                return Err(UriError::Differs {
                    number: index.saturating_add(2),
                });
            }
            options
                .addresses
                .extend(ConnectOptions::from(&uri).addresses_or_default());
        }
        Ok(options)
    }
}

fn tls(parameters: &Parameters) -> Tls {
    // Certificate and key may be in one file: whichever parameter names it.
    let certificate = parameters.certfile.as_ref();
    Tls {
        roots: parameters.cacertfile.iter().map(Pem::file).collect(),
        certificate: certificate.map(Pem::file),
        key: parameters.keyfile.as_ref().or(certificate).map(Pem::file),
        verify: parameters.verify.unwrap_or_default(),
        server_name: parameters.server_name_indication.clone(),
        ..Tls::new()
    }
}

impl TryFrom<&str> for ConnectOptions {
    type Error = UriError;

    fn try_from(uri: &str) -> Result<Self, UriError> {
        uri.parse().map(|uri: Uri| uri.into())
    }
}

impl TryFrom<&String> for ConnectOptions {
    type Error = UriError;

    fn try_from(uri: &String) -> Result<Self, UriError> {
        ConnectOptions::try_from(uri.as_str())
    }
}

impl TryFrom<String> for ConnectOptions {
    type Error = UriError;

    fn try_from(uri: String) -> Result<Self, UriError> {
        ConnectOptions::try_from(uri.as_str())
    }
}

/// See [`ConnectOptions::from_uris`].
impl<const N: usize> TryFrom<[&str; N]> for ConnectOptions {
    type Error = UriError;

    fn try_from(uris: [&str; N]) -> Result<Self, UriError> {
        ConnectOptions::from_uris(uris)
    }
}

/// See [`ConnectOptions::from_uris`].
impl TryFrom<&[String]> for ConnectOptions {
    type Error = UriError;

    fn try_from(uris: &[String]) -> Result<Self, UriError> {
        ConnectOptions::from_uris(uris)
    }
}
