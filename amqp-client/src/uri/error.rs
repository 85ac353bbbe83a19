//! What can be wrong with a URI.

use std::fmt;

/// Why a text is not a usable URI. Never contains anything that could be part of a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UriError {
    /// Neither `amqp://` nor `amqps://`.
    #[error("the URI does not begin with amqp:// or amqps://")]
    Scheme,
    /// White space and control characters must be percent-encoded.
    #[error("space or control character at byte {offset} of the URI")]
    Character {
        /// Where, in bytes from the start of the text.
        offset: usize,
    },
    /// The host is neither a name, an IPv4 address nor an IPv6 address in brackets.
    #[error(
        "the host of the URI is neither a name nor an address (an IPv6 address needs brackets)"
    )]
    Host,
    /// The port is not a number from 1 to 65535.
    #[error("the port of the URI is not a number from 1 to 65535")]
    Port,
    /// A `%` is not followed by two hexadecimal digits.
    #[error("malformed percent-encoding in the {part} of the URI")]
    PercentEncoding {
        /// Which part of the URI.
        part: Part,
    },
    /// The percent-decoded bytes are not UTF-8.
    #[error("the {part} of the URI is not UTF-8 after percent-decoding")]
    Utf8 {
        /// Which part of the URI.
        part: Part,
    },
    /// The path has more than one segment.
    #[error(
        "the path of the URI has more than one segment: a `/` in a virtual host is written %2F"
    )]
    PathSegments,
    /// The virtual host does not fit into a short string.
    #[error("the virtual host of the URI has {len} bytes, at most 255 are possible")]
    VirtualHostTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The URI has a fragment, which means nothing here.
    #[error("the URI has a fragment: a `#` is written %23")]
    Fragment,
    /// There is an `@` outside the user information, and the URI is faulty besides or has a port and
    /// no user information, so that any part of it may belong to a password: which part is faulty is
    /// not said. An `@` of a virtual host is written %40.
    #[error("faulty URI: `/`, `?` and `#` in a user name or password are written %2F, %3F and %23")]
    UnescapedUserInfo,
    /// A query parameter nobody knows.
    #[error("unknown URI parameter `{name}`")]
    UnknownParameter {
        /// Its name.
        name: String,
    },
    /// A query parameter that can be given once is there twice.
    #[error("URI parameter `{name}` is given more than once")]
    RepeatedParameter {
        /// Its name.
        name: &'static str,
    },
    /// A query parameter has a value that it cannot have.
    #[error("URI parameter `{name}` must be {expected}")]
    ParameterValue {
        /// Its name.
        name: &'static str,
        /// What is possible.
        expected: &'static str,
    },
    /// Of several URIs, one differs from the first in more than host and port.
    #[error("URI {number} of the list differs from the first one in more than host and port")]
    Differs {
        /// Its place in the list, from 1 on.
        number: usize,
    },
    /// A list of URIs is empty.
    #[error("there is no URI in the list")]
    None,
    /// A TLS parameter in an `amqp://` URI, where it would be silently without effect.
    #[error("URI parameter `{name}` needs the scheme amqps")]
    TlsParameter {
        /// Its name.
        name: &'static str,
    },
}

/// A part of a URI, as errors name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// Before the first `:` of the user information.
    Username,
    /// After it.
    Password,
    /// The host.
    Host,
    /// The path.
    VirtualHost,
    /// Name and value of a query parameter.
    Query,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Username => "user name",
            Part::Password => "password",
            Part::Host => "host",
            Part::VirtualHost => "virtual host",
            Part::Query => "query",
        })
    }
}
