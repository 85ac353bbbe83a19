//! `amqp://` and `amqps://` URIs, by RabbitMQ's URI specification and its query parameters.
//!
//! ```text
//! amqp[s]://[user[:password]@][host][:port][/vhost][?parameter=value&...]
//! ```
//!
//! What is absent and what is empty are two things: `amqp://host` names no virtual host (a client
//! uses `/`), `amqp://host/` names the one called "", and `amqp://host/%2f` the one called `/`.
//!
//! The `url` crate parses. It was made for the web, though, and folds together what this scheme
//! keeps apart: user and password that are empty or absent, a missing host, and a virtual host
//! called `.` or `..`. Those are read from the text itself.

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::Url;

use crate::auth::Secret;

mod error;
mod parameters;

pub use error::{Part, UriError};
pub use parameters::Parameters;

/// A parsed `amqp://` or `amqps://` URI: what it says, and what it leaves open.
///
/// `Display` and `Debug` never show the password; [`Uri::with_password`] does.
#[derive(Clone, PartialEq, Eq)]
pub struct Uri {
    scheme: Scheme,
    username: Option<String>,
    password: Option<Secret>,
    host: Option<String>,
    port: Option<u16>,
    vhost: Option<String>,
    parameters: Parameters,
}

/// The two schemes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `amqp`: plain TCP, port 5672 unless said.
    Amqp,
    /// `amqps`: TLS from the first byte, port 5671 unless said.
    Amqps,
}

impl Uri {
    /// The scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The user name, if the URI has one (it may be empty).
    pub fn username(&self) -> Option<&str> {
        self.username.as_deref()
    }

    /// The password, if the URI has one (it may be empty).
    pub fn password(&self) -> Option<&Secret> {
        self.password.as_ref()
    }

    /// The host, if the URI has one: a name (an internationalized one in its ASCII form) or an
    /// address, IPv6 without brackets.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// The port, if the URI has one.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The virtual host, if the URI has one: `None` for `amqp://host`, "" for `amqp://host/`.
    pub fn vhost(&self) -> Option<&str> {
        self.vhost.as_deref()
    }

    /// The query parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The whole URI as text, password included. Parsing it gives an equal `Uri`.
    pub fn with_password(&self) -> String {
        let password = self
            .password
            .as_ref()
            .map(|password| encode_bytes(password.reveal()));
        self.text(password.as_deref())
    }

    /// Whether the two say the same but for host and port.
    pub(crate) fn differs_in_address_alone(&self, other: &Uri) -> bool {
        let without_address = |uri: &Uri| Uri {
            host: None,
            port: None,
            ..uri.clone()
        };
        without_address(self) == without_address(other)
    }

    fn text(&self, password: Option<&str>) -> String {
        let mut text = format!("{}://", self.scheme.name());
        if let Some(username) = &self.username {
            text.push_str(&encode(username));
        }
        if let Some(password) = password {
            text.push(':');
            text.push_str(password);
        }
        if self.username.is_some() || password.is_some() {
            text.push('@');
        }
        match &self.host {
            Some(address) if address.contains(':') => text.push_str(&format!("[{address}]")),
            Some(name) => text.push_str(&encode(name)),
            None => {}
        }
        if let Some(port) = self.port {
            text.push_str(&format!(":{port}"));
        }
        if let Some(vhost) = &self.vhost {
            text.push('/');
            text.push_str(&encode(vhost));
        }
        let mut separator = '?';
        for (name, value) in self.parameters.pairs() {
            text.push_str(&format!("{separator}{name}={}", encode(&value)));
            separator = '&';
        }
        text
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(self.password.as_ref().map(|_| "***")))
    }
}

impl fmt::Debug for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uri({self})")
    }
}

impl Scheme {
    /// `amqp` or `amqps`.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Amqp => "amqp",
            Scheme::Amqps => "amqps",
        }
    }

    /// 5672 or 5671.
    pub fn default_port(self) -> u16 {
        match self {
            Scheme::Amqp => 5672,
            Scheme::Amqps => 5671,
        }
    }
}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        // `url` removes these silently; a name or password would change under its owner's eyes.
        if let Some(offset) = text.bytes().position(|byte| byte <= b' ' || byte == 0x7F) {
            return Err(UriError::Character { offset });
        }
        let (scheme, rest) = split_scheme(text)?;
        let components = Components::split(rest);
        if components.looks_like_userinfo_cut_in_two() {
            return Err(UriError::UnescapedUserInfo);
        }
        components.parse(scheme).map_err(|error| {
            if components.may_hide_a_password() {
                UriError::UnescapedUserInfo
            } else {
                error
            }
        })
    }
}

impl TryFrom<&str> for Uri {
    type Error = UriError;

    fn try_from(text: &str) -> Result<Self, UriError> {
        text.parse()
    }
}

fn split_scheme(text: &str) -> Result<(Scheme, &str), UriError> {
    let (name, rest) = text.split_once("://").ok_or(UriError::Scheme)?;
    if name.eq_ignore_ascii_case("amqp") {
        Ok((Scheme::Amqp, rest))
    } else if name.eq_ignore_ascii_case("amqps") {
        Ok((Scheme::Amqps, rest))
    } else {
        Err(UriError::Scheme)
    }
}

/// The text after `://`, cut where every URI parser cuts it.
struct Components<'a> {
    userinfo: Option<&'a str>,
    host_and_port: &'a str,
    path: &'a str,
    query_and_fragment: &'a str,
}

impl<'a> Components<'a> {
    fn split(rest: &'a str) -> Self {
        let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (path, query_and_fragment) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
        let (userinfo, host_and_port) = match authority.rsplit_once('@') {
            Some((userinfo, host_and_port)) => (Some(userinfo), host_and_port),
            None => (None, authority),
        };
        Components {
            userinfo,
            host_and_port,
            path,
            query_and_fragment,
        }
    }

    /// Whether an unescaped `/`, `?` or `#` may have cut a password in two: then no error may quote
    /// the rest.
    fn may_hide_a_password(&self) -> bool {
        self.path.contains('@') || self.query_and_fragment.contains('@')
    }

    /// Whether this is rather `user:12/secret@host`, a password with an unescaped `/`, than host, port and a virtual host
    /// that holds an unescaped `@`.
    fn looks_like_userinfo_cut_in_two(&self) -> bool {
        let after_address = self.host_and_port.rsplit(']').next();
        let has_port = after_address.is_some_and(|text| text.contains(':'));
        self.userinfo.is_none() && has_port && self.path.contains('@')
    }

    fn parse(&self, scheme: Scheme) -> Result<Uri, UriError> {
        let url = self.url(scheme)?;
        if url.fragment().is_some() {
            return Err(UriError::Fragment);
        }
        let username = self
            .userinfo
            .map(|_| decode(url.username(), Part::Username))
            .transpose()?;
        let password = self
            .userinfo
            .filter(|userinfo| userinfo.contains(':'))
            .map(|_| decode(url.password().unwrap_or_default(), Part::Password))
            .transpose()?;
        let host = match (self.has_host(), url.host_str()) {
            (true, Some(host)) => Some(parse_host(host)?),
            _ => None,
        };
        if url.port() == Some(0) {
            return Err(UriError::Port);
        }
        Ok(Uri {
            scheme,
            username,
            password: password.map(Secret::from),
            host,
            port: url.port(),
            vhost: self.vhost()?,
            parameters: Parameters::parse(url.query().unwrap_or_default(), scheme)?,
        })
    }

    fn has_host(&self) -> bool {
        !self.host_and_port.is_empty() && !self.host_and_port.starts_with(':')
    }

    /// Everything but the path, with a host where there is none: `url` refuses user information and
    /// ports without.
    fn url(&self, scheme: Scheme) -> Result<Url, UriError> {
        let userinfo = self.userinfo.unwrap_or_default();
        let placeholder = if self.has_host() { "" } else { "placeholder" };
        let text = format!(
            "{}://{userinfo}@{placeholder}{}{}",
            scheme.name(),
            self.host_and_port,
            self.query_and_fragment
        );
        Url::parse(&text).map_err(|error| match error {
            url::ParseError::InvalidPort => UriError::Port,
            _ => UriError::Host,
        })
    }

    fn vhost(&self) -> Result<Option<String>, UriError> {
        let Some(segment) = self.path.strip_prefix('/') else {
            return Ok(None);
        };
        if segment.contains('/') {
            return Err(UriError::PathSegments);
        }
        let vhost = decode(segment, Part::VirtualHost)?;
        if vhost.len() > 255 {
            return Err(UriError::VirtualHostTooLong { len: vhost.len() });
        }
        Ok(Some(vhost))
    }
}

/// A host as `url` leaves it: an address in brackets, or a name still percent-encoded, which can
/// hold anything.
fn parse_host(host: &str) -> Result<String, UriError> {
    if let Some(address) = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        return Ok(address.to_owned());
    }
    let name = decode(host, Part::Host)?;
    let name = if name.is_ascii() {
        name
    } else {
        url::Host::parse(&name)
            .map_err(|_| UriError::Host)?
            .to_string()
    };
    // RFC 3986, reg-name: letters, digits, the unreserved and the sub-delims. What else was
    // percent-encoded would be taken for something else (a second port, an address) further down.
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte);
    if name.bytes().all(allowed) {
        Ok(name)
    } else {
        Err(UriError::Host)
    }
}

/// RFC 3986, unreserved: these mean themselves everywhere.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

fn encode(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

fn encode_bytes(bytes: &[u8]) -> String {
    percent_encoding::percent_encode(bytes, ESCAPED).to_string()
}

/// Percent-decodes; `+` is a plus here, as in every URI that is not an HTML form.
fn decode(text: &str, part: Part) -> Result<String, UriError> {
    let mut after_percent = text.split('%').skip(1).map(str::as_bytes);
    let is_hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    if !after_percent.all(|rest| rest.get(..2).is_some_and(is_hex)) {
        return Err(UriError::PercentEncoding { part });
    }
    match percent_decode_str(text).decode_utf8() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => Err(UriError::Utf8 { part }),
    }
}

#[cfg(test)]
mod tests;
