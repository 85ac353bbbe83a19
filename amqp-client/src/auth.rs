//! Who we are: credentials, and the SASL mechanisms that turn them into what the server wants to
//! hear.

use std::fmt;
use std::sync::Arc;

use amqp_codec::{LongStr, Table, short};
use zeroize::Zeroize;

/// Bytes that are never shown and are overwritten with zeros when dropped.
///
/// Copies are another matter: a `Secret` in a URI stays in the URI's text, and what is sent stands
/// in the outgoing buffer until that is reused.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// The bytes themselves.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl From<Vec<u8>> for Secret {
    fn from(bytes: Vec<u8>) -> Self {
        Secret(bytes)
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Secret(text.into_bytes())
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Secret(text.as_bytes().to_vec())
    }
}

/// A user name and a password. `Debug` shows the name alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: Secret,
}

/// RabbitMQ's `guest` with the password `guest`, whom it lets in from the loopback interface only.
impl Default for Credentials {
    fn default() -> Self {
        Credentials {
            username: "guest".to_owned(),
            password: Secret::from("guest"),
        }
    }
}

/// A SASL mechanism: a name, and a login for each connection that uses it.
///
/// [`Sasl`] has the usual ones. One of your own, with as many rounds as it takes:
///
/// ```
/// use amqp_client::{AuthError, Credentials, Login, Mechanism, Secret};
///
/// /// RabbitMQ's demonstration of a mechanism with a challenge.
/// #[derive(Debug)]
/// struct CrDemo;
///
/// impl Mechanism for CrDemo {
///     fn name(&self) -> &str {
///         "RABBIT-CR-DEMO"
///     }
///
///     fn login(&self, credentials: &Credentials) -> Result<Box<dyn Login>, AuthError> {
///         Ok(Box::new(CrDemoLogin(credentials.clone())))
///     }
/// }
///
/// struct CrDemoLogin(Credentials);
///
/// impl Login for CrDemoLogin {
///     fn initial_response(&mut self) -> Result<Secret, AuthError> {
///         Ok(Secret::from(self.0.username.as_str()))
///     }
///
///     fn respond(&mut self, _challenge: &[u8]) -> Result<Secret, AuthError> {
///         Ok(Secret::from([b"My password is ", self.0.password.reveal()].concat()))
///     }
/// }
/// ```
pub trait Mechanism: fmt::Debug + Send + Sync {
    /// The name as servers announce it, for example `PLAIN`: 1 to 20 of `A-Z 0-9 - _` by RFC 4422.
    fn name(&self) -> &str;

    /// Begins one login.
    ///
    /// # Errors
    /// When these credentials cannot be expressed in this mechanism; nothing is sent then.
    fn login(&self, credentials: &Credentials) -> Result<Box<dyn Login>, AuthError>;
}

/// One login under way: answers the server's challenges until it is satisfied or ends the
/// connection.
pub trait Login: Send {
    /// What start-ok carries.
    ///
    /// # Errors
    /// When there is nothing to say; the connection is given up.
    fn initial_response(&mut self) -> Result<Secret, AuthError>;

    /// The answer (secure-ok) to one challenge (secure).
    ///
    /// # Errors
    /// When there is no answer; the connection is given up. By default there never is one.
    fn respond(&mut self, challenge: &[u8]) -> Result<Secret, AuthError> {
        let _ = challenge;
        Err(AuthError::UnexpectedChallenge)
    }
}

/// The mechanisms that come with this crate, each with one response and no further round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sasl {
    /// `PLAIN`: user name and password as they are.
    Plain,
    /// `AMQPLAIN`: the same in a field table.
    AmqPlain,
    /// `EXTERNAL`: whoever the TLS client certificate says we are.
    External,
    /// `ANONYMOUS`: nobody in particular (RabbitMQ since 4.0).
    Anonymous,
}

/// Why a login does not come about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// The server offers none of the wanted mechanisms.
    #[error("the server offers the authentication mechanisms {offered:?}, none of {wanted:?}")]
    NoCommonMechanism {
        /// The ones that were configured, in order of preference.
        wanted: Vec<String>,
        /// The server's list, separated by spaces.
        offered: String,
    },
    /// The mechanism separates its parts by NUL, so that none can contain one.
    #[error("the {0} contains a NUL byte, which PLAIN cannot express")]
    Nul(&'static str),
    /// The server asks for more, but the mechanism has nothing more to say.
    #[error("the server sent a challenge that the authentication mechanism does not have")]
    UnexpectedChallenge,
    /// A mechanism of the user's own has its own reason.
    #[error("authentication mechanism failed: {0}")]
    Mechanism(String),
}

/// The first of `wanted` that is in the server's space-separated list `offered`.
pub(crate) fn choose<'a>(
    wanted: &'a [Arc<dyn Mechanism>],
    offered: &[u8],
) -> Result<&'a Arc<dyn Mechanism>, AuthError> {
    let is_offered = |name: &str| {
        offered
            .split(|byte| *byte == b' ')
            .any(|o| o == name.as_bytes())
    };
    wanted
        .iter()
        .find(|mechanism| is_offered(mechanism.name()))
        .ok_or_else(|| AuthError::NoCommonMechanism {
            wanted: wanted
                .iter()
                .map(|mechanism| mechanism.name().to_owned())
                .collect(),
            offered: String::from_utf8_lossy(offered).into_owned(),
        })
}

impl Sasl {
    const ALL: [Sasl; 4] = [Sasl::Plain, Sasl::AmqPlain, Sasl::External, Sasl::Anonymous];

    fn wire_name(self) -> &'static str {
        match self {
            Sasl::Plain => "PLAIN",
            Sasl::AmqPlain => "AMQPLAIN",
            Sasl::External => "EXTERNAL",
            Sasl::Anonymous => "ANONYMOUS",
        }
    }

    /// The name in a URI's `auth_mechanism`: lower case, though any case is understood.
    pub fn uri_name(self) -> &'static str {
        match self {
            Sasl::Plain => "plain",
            Sasl::AmqPlain => "amqplain",
            Sasl::External => "external",
            Sasl::Anonymous => "anonymous",
        }
    }

    /// The inverse of [`Sasl::uri_name`].
    pub fn from_uri_name(name: &str) -> Option<Sasl> {
        Sasl::ALL
            .into_iter()
            .find(|sasl| sasl.uri_name().eq_ignore_ascii_case(name))
    }
}

impl Mechanism for Sasl {
    fn name(&self) -> &str {
        self.wire_name()
    }

    fn login(&self, credentials: &Credentials) -> Result<Box<dyn Login>, AuthError> {
        let response = match self {
            Sasl::Plain => plain(credentials)?,
            Sasl::AmqPlain => amqplain(credentials),
            // RabbitMQ looks at neither response: the certificate decides, or nothing does.
            Sasl::External | Sasl::Anonymous => Secret::default(),
        };
        Ok(Box::new(OneResponse(response)))
    }
}

/// RFC 4616: authorization identity (none), NUL, user name, NUL, password.
fn plain(credentials: &Credentials) -> Result<Secret, AuthError> {
    let (username, password) = (
        credentials.username.as_bytes(),
        credentials.password.reveal(),
    );
    if username.contains(&0) {
        return Err(AuthError::Nul("user name"));
    }
    if password.contains(&0) {
        return Err(AuthError::Nul("password"));
    }
    Ok(Secret([&[0], username, &[0], password].concat()))
}

/// The entries of a field table, without the length in front.
fn amqplain(credentials: &Credentials) -> Secret {
    let table = Table::from([
        (
            short!("LOGIN"),
            LongStr::from(credentials.username.as_str()),
        ),
        (
            short!("PASSWORD"),
            LongStr::from(credentials.password.reveal()),
        ),
    ]);
    Secret(table.as_bytes().to_vec())
}

struct OneResponse(Secret);

impl Login for OneResponse {
    fn initial_response(&mut self) -> Result<Secret, AuthError> {
        Ok(std::mem::take(&mut self.0))
    }
}

#[cfg(test)]
mod tests;
