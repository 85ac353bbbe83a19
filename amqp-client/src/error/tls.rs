use std::fmt;
use std::io;

/// TLS did not come about, or broke before the connection was open.
///
/// The source is the error as the transport gave it; where rustls had a word in it, its own
/// `rustls::Error` is inside.
#[derive(Debug)]
pub struct TlsError {
    reason: TlsReason,
    source: io::Error,
}

/// Why TLS did not come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TlsReason {
    /// The server's certificate is not valid any more.
    CertificateExpired,
    /// The server's certificate is not valid yet, or a clock is wrong.
    CertificateNotYetValid,
    /// The server's certificate is not for the name that was asked for.
    WrongName,
    /// The server's certificate comes from none of the trusted authorities.
    UnknownAuthority,
    /// A signature is wrong: of the server's certificate, when there is an authority of that name but it is
    /// another one (made anew, for example), or of the server itself, when it does not have the key of the
    /// certificate it shows.
    WrongSignature,
    /// The server's certificate was revoked.
    CertificateRevoked,
    /// The server's certificate cannot be accepted for another reason.
    CertificateInvalid,
    /// The server asked for a client certificate, got none, and ended the connection.
    ClientCertificateRequired,
    /// The server asked for a client certificate, and ended the connection when it had it.
    ClientCertificateRefused,
    /// There is no version of TLS that both sides speak.
    NoCommonVersion,
    /// The server speaks AMQP without TLS: probably the port is the wrong one.
    Plaintext,
    /// The server speaks something that is not TLS.
    NotTls,
    /// The server ended TLS with an alert of another kind.
    Alert,
    /// The transport ended.
    Transport,
    /// The peer broke the rules of TLS, or offers nothing that can be spoken.
    Other,
}

impl TlsError {
    #[cfg(feature = "rustls")]
    pub(crate) fn new(reason: TlsReason, source: io::Error) -> Self {
        TlsError { reason, source }
    }

    /// Why.
    pub fn reason(&self) -> TlsReason {
        self.reason
    }
}

/// The reason, and what the transport or rustls says.
impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.source)
    }
}

impl std::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl fmt::Display for TlsReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TlsReason::CertificateExpired => "the server's certificate has expired",
            TlsReason::CertificateNotYetValid => "the server's certificate is not valid yet",
            TlsReason::WrongName => "the server's certificate is for another name",
            TlsReason::UnknownAuthority => {
                "the server's certificate is from an authority that is not trusted"
            }
            TlsReason::WrongSignature => {
                "the server's certificate is not signed by the trusted authority of that name"
            }
            TlsReason::CertificateRevoked => "the server's certificate was revoked",
            TlsReason::CertificateInvalid => "the server's certificate cannot be accepted",
            TlsReason::ClientCertificateRequired => {
                "the server asked for a client certificate, got none and ended the connection"
            }
            TlsReason::ClientCertificateRefused => {
                "the server asked for a client certificate and ended the connection when it had it"
            }
            TlsReason::NoCommonVersion => "client and server have no version of TLS in common",
            TlsReason::Plaintext => "the server speaks AMQP without TLS on this port",
            TlsReason::NotTls => "the server does not speak TLS on this port",
            TlsReason::Alert => "the server ended TLS",
            TlsReason::Transport => "the connection ended during the TLS handshake",
            TlsReason::Other => "TLS failed",
        })
    }
}
