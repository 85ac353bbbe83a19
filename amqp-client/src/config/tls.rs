//! What a connection over TLS is told before it is opened.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::auth::Secret;

/// How to speak TLS (the feature `rustls`).
///
/// Without anything said, the server must have a certificate for the host that was asked for, from an
/// authority that the platform trusts, and TLS 1.2 or newer is spoken. ALPN is not used: brokers have no
/// use for it.
///
/// ```
/// use amqp_client::ConnectOptions;
/// use amqp_client::config::Tls;
///
/// let options = ConnectOptions::new().address("rabbit-1", 5671).tls(
///     Tls::new()
///         .ca_file("/etc/app/ca.pem")
///         .client_certificate_files("/etc/app/client.pem", "/etc/app/client.key"),
/// );
/// ```
///
/// Files are in PEM and are read each time a connection is opened, so that a renewed certificate is used
/// from the next connection on. `Debug` shows the names of files and nothing that is in memory.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Tls {
    pub(crate) roots: Vec<Pem>,
    pub(crate) certificate: Option<Pem>,
    pub(crate) key: Option<Pem>,
    pub(crate) verify: Verify,
    pub(crate) server_name: Option<ServerName>,
    pub(crate) min_version: TlsVersion,
    #[cfg(feature = "rustls")]
    pub(crate) ready: Option<Arc<rustls::ClientConfig>>,
}

#[cfg(feature = "rustls")]
use tokio_rustls::rustls;

/// Whether the server's certificate is verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verify {
    /// `verify_peer`: it must be valid and for the right name.
    #[default]
    Peer,
    /// `verify_none`: **anybody is believed to be the server.** Whoever can answer in its place reads the
    /// password and every message, and changes them at will. For experiments; each connection says so in
    /// the log.
    None,
}

/// The name sent to the server in the TLS handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerName {
    /// This one, which is then the one verified too.
    Name(String),
    /// None is sent. The certificate is still verified for the host, unlike in Erlang, where `disable`
    /// ends that too.
    Disabled,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    V1_2,
    /// TLS 1.3.
    V1_3,
}

/// Where something in PEM comes from.
#[derive(Clone)]
pub(crate) enum Pem {
    File(PathBuf),
    #[cfg_attr(
        not(feature = "rustls"),
        expect(dead_code, reason = "there is no reader")
    )]
    Memory(Arc<Secret>),
}

/// What is wrong with the TLS options, found before anything is connected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsConfigError {
    /// This build has no TLS.
    #[error("amqps was asked for, but amqp-client was built without its feature `rustls`")]
    FeatureMissing,
    /// A PEM file cannot be read.
    #[error("cannot read {}: {text}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What kind of error it was.
        kind: io::ErrorKind,
        /// What the system says about it.
        text: String,
    },
    /// Something is not PEM, or not what PEM says it is.
    #[error("{origin} is malformed: {text}")]
    Malformed {
        /// The file's path, or "the PEM in memory".
        origin: String,
        /// What is wrong.
        text: String,
    },
    /// There is no certificate where there should be one.
    #[error("there is no certificate in {origin}")]
    NoCertificate {
        /// The file's path, or "the PEM in memory".
        origin: String,
    },
    /// There is no private key where there should be one. Encrypted ones do not count.
    #[error("there is no unencrypted private key in {origin}")]
    NoKey {
        /// The file's path, or "the PEM in memory".
        origin: String,
    },
    /// There is a client key, but no certificate.
    #[error("a client key needs a client certificate")]
    KeyWithoutCertificate,
    /// The client's certificate and key cannot be used together, or at all.
    #[error("the client certificate cannot be used: {text}")]
    ClientCertificate {
        /// Why.
        text: String,
    },
    /// The platform's authorities cannot be read, or there are none.
    #[error("the platform has no usable certificate authorities{text}")]
    PlatformRoots {
        /// Why, if it says so.
        text: String,
    },
    /// The provider of cryptography that the program has installed for the process cannot be used.
    #[error("the installed provider of cryptography cannot be used: {text}")]
    Provider {
        /// Why.
        text: String,
    },
    /// The name is neither a host name nor an address, so that no certificate can be for it.
    #[error("`{name}` is not a name a certificate can be for")]
    ServerName {
        /// The name.
        name: String,
    },
    /// A ready configuration and settings it would override.
    #[error("a ready rustls configuration leaves nothing to set but the server's name")]
    ReadyAndMore,
}

impl Tls {
    /// The platform's authorities, the host's name, no client certificate.
    pub fn new() -> Self {
        Tls::default()
    }

    /// A configuration of rustls that is ready: for what this type has no method for, such as
    /// revocation lists, the verifier of the operating system, keys in hardware, or another provider of
    /// cryptography. Of this type's methods only [`server_name`](Self::server_name) and
    /// [`without_server_name`](Self::without_server_name) go together with it.
    ///
    /// [`rustls`](crate::rustls) is re-exported, so that the versions agree.
    #[cfg(feature = "rustls")]
    pub fn from_rustls(config: Arc<rustls::ClientConfig>) -> Self {
        Tls {
            ready: Some(config),
            ..Tls::default()
        }
    }

    /// Trusts the authorities in this PEM file, instead of the platform's. May be called several times,
    /// together with [`ca_pem`](Self::ca_pem).
    pub fn ca_file(mut self, path: impl AsRef<Path>) -> Self {
        self.roots.push(Pem::file(path));
        self
    }

    /// Trusts these authorities, in PEM, instead of the platform's.
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.roots.push(Pem::memory(pem.into()));
        self
    }

    /// The client's certificate, followed by those between it and its authority, and its unencrypted
    /// private key, in PEM files; both may be the same file.
    pub fn client_certificate_files(
        mut self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Self {
        self.certificate = Some(Pem::file(certificate));
        self.key = Some(Pem::file(key));
        self
    }

    /// The client's certificate, followed by those between it and its authority, and its unencrypted
    /// private key, in PEM.
    pub fn client_certificate_pem(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Secret>,
    ) -> Self {
        self.certificate = Some(Pem::memory(certificate.into()));
        self.key = Some(Pem::memory(key));
        self
    }

    /// The name to ask for and to verify, if it is not the host's: for several addresses that share one
    /// certificate, or a host that is reached by its number.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(ServerName::Name(name.into()));
        self
    }

    /// Sends no name; see [`ServerName::Disabled`].
    pub fn without_server_name(mut self) -> Self {
        self.server_name = Some(ServerName::Disabled);
        self
    }

    /// The oldest version to speak, TLS 1.2 unless said.
    pub fn min_version(mut self, version: TlsVersion) -> Self {
        self.min_version = version;
        self
    }

    /// Whether to verify the server's certificate. Think twice: see [`Verify::None`].
    pub fn verify(mut self, verify: Verify) -> Self {
        self.verify = verify;
        self
    }

    /// Whether these options can work, as far as that shows without reading files.
    pub(super) fn validate(&self) -> Result<(), TlsConfigError> {
        if cfg!(not(feature = "rustls")) {
            return Err(TlsConfigError::FeatureMissing);
        }
        if self.key.is_some() && self.certificate.is_none() {
            return Err(TlsConfigError::KeyWithoutCertificate);
        }
        #[cfg(feature = "rustls")]
        if self.ready.is_some()
            && (!self.roots.is_empty()
                || self.certificate.is_some()
                || self.verify != Verify::default()
                || self.min_version != TlsVersion::default())
        {
            return Err(TlsConfigError::ReadyAndMore);
        }
        Ok(())
    }
}

impl Pem {
    pub(super) fn file(path: impl AsRef<Path>) -> Self {
        Pem::File(path.as_ref().to_owned())
    }

    fn memory(pem: impl Into<Secret>) -> Self {
        Pem::Memory(Arc::new(pem.into()))
    }
}

/// Where it comes from, as errors say it.
impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pem::File(path) => path.display().fmt(f),
            Pem::Memory(_) => f.write_str("the PEM in memory"),
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pem::File(path) => path.fmt(f),
            Pem::Memory(_) => f.write_str("in memory"),
        }
    }
}
