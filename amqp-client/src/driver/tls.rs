//! TLS between the socket and AMQP: rustls, through tokio-rustls.
//!
//! The cryptography is the process's default provider where the program has installed one, else ring's:
//! it builds in seconds with nothing but a C compiler. Given and platform's authorities go through one
//! verifier, rustls's own, so that the reasons for refusing a certificate are the same everywhere; who
//! wants the operating system's verifier brings it in a ready configuration.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::ResolvesClientCert;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, Error, InvalidMessage, PeerIncompatible,
    SignatureScheme,
};

use crate::config::{Tls, TlsConfigError};
use crate::error::{CloseCause, TlsError, TlsReason};

mod setup;

/// The name that a server must have a certificate for.
pub(super) type Name = ServerName<'static>;

/// Does TLS handshakes as the options say.
#[derive(Clone)]
pub(super) struct Connector {
    config: Arc<ClientConfig>,
    /// The name to verify, if it is not the host's.
    name: Option<String>,
    request: Arc<CertificateRequest>,
}

/// A stream over TLS, and what it tells about a connection that ended too soon.
pub(super) struct Secured<S> {
    pub(super) stream: TlsStream<FirstBytes<S>>,
    pub(super) hints: Hints,
}

/// What is known about a TLS connection besides its errors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hints {
    certificate_asked: bool,
    certificate_given: bool,
}

impl Connector {
    /// Reads the files, and puts together what rustls wants to know.
    pub(super) async fn new(tls: Tls) -> Result<Self, TlsConfigError> {
        match tokio::task::spawn_blocking(move || setup::connector(&tls)).await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime shuts down, and this future with it.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// The name that the server must have a certificate for.
    ///
    /// # Errors
    /// It is no name.
    pub(super) fn server_name(&self, host: &str) -> Result<Name, TlsConfigError> {
        let name = self.name.as_deref().unwrap_or(host);
        ServerName::try_from(name.to_owned()).map_err(|_| TlsConfigError::ServerName {
            name: name.to_owned(),
        })
    }

    /// The handshake over a stream that is connected already.
    pub(super) async fn connect<S>(&self, stream: S, name: Name) -> Result<Secured<S>, TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.request.asked.store(false, Ordering::Relaxed);
        let connect = TlsConnector::from(self.config.clone())
            .connect(name, FirstBytes::new(stream))
            .into_fallible();
        match connect.await {
            Ok(stream) => Ok(Secured {
                stream,
                hints: self.hints(),
            }),
            Err((error, stream)) => {
                let reason = match stream.is_amqp() {
                    true => TlsReason::Plaintext,
                    false => reason(&error, self.hints()),
                };
                Err(TlsError::new(reason, error))
            }
        }
    }

    fn hints(&self) -> Hints {
        Hints {
            certificate_asked: self.request.asked.load(Ordering::Relaxed),
            certificate_given: self.config.client_auth_cert_resolver.has_certs(),
        }
    }
}

/// What TLS has to do with it that the connection ended before the server's first frame. In TLS 1.3 the
/// server looks at the client's certificate after the client's part of the handshake is done.
pub(super) fn late_error(cause: &CloseCause, hints: Hints) -> Option<TlsError> {
    let error = match cause {
        CloseCause::Io(error) => copy(error.inner()),
        CloseCause::EndOfStream => io::Error::from(io::ErrorKind::UnexpectedEof),
        _ => return None,
    };
    match reason(&error, hints) {
        TlsReason::Transport => None,
        reason => Some(TlsError::new(reason, error)),
    }
}

/// An error that says the same and has the same rustls error inside.
fn copy(error: &io::Error) -> io::Error {
    match rustls_error(error) {
        Some(inner) => io::Error::new(error.kind(), inner.clone()),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

fn rustls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

fn reason(error: &io::Error, hints: Hints) -> TlsReason {
    let certificate_reason = match (hints.certificate_asked, hints.certificate_given) {
        (true, false) => Some(TlsReason::ClientCertificateRequired),
        (true, true) => Some(TlsReason::ClientCertificateRefused),
        (false, _) => None,
    };
    match rustls_error(error) {
        // The alert is lost where a reset overtakes it.
        None => certificate_reason.unwrap_or(TlsReason::Transport),
        Some(Error::InvalidCertificate(error)) => certificate(error),
        Some(Error::AlertReceived(alert)) => match alert {
            AlertDescription::CertificateRequired => TlsReason::ClientCertificateRequired,
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            // What TLS 1.2 has for a certificate that is missing.
            | AlertDescription::HandshakeFailure => certificate_reason.unwrap_or(TlsReason::Alert),
            AlertDescription::ProtocolVersion => TlsReason::NoCommonVersion,
            _ => TlsReason::Alert,
        },
        Some(Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        )) => TlsReason::NoCommonVersion,
        Some(Error::InvalidMessage(
            InvalidMessage::InvalidContentType
            | InvalidMessage::UnknownProtocolVersion
            | InvalidMessage::MessageTooLarge
            | InvalidMessage::InvalidEmptyPayload,
        )) => TlsReason::NotTls,
        Some(_) => TlsReason::Other,
    }
}

fn certificate(error: &CertificateError) -> TlsReason {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            TlsReason::CertificateExpired
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            TlsReason::CertificateNotYetValid
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            TlsReason::WrongName
        }
        CertificateError::UnknownIssuer => TlsReason::UnknownAuthority,
        CertificateError::BadSignature => TlsReason::WrongSignature,
        CertificateError::Revoked => TlsReason::CertificateRevoked,
        _ => TlsReason::CertificateInvalid,
    }
}

/// Answers a server that asks for a certificate, and remembers that it did: TLS 1.2 has no word for
/// "certificate required".
#[derive(Debug)]
struct CertificateRequest {
    certificate: Option<Arc<CertifiedKey>>,
    asked: AtomicBool,
}

impl ResolvesClientCert for CertificateRequest {
    fn resolve(
        &self,
        _root_hint_subjects: &[&[u8]],
        _schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        self.asked.store(true, Ordering::Relaxed);
        self.certificate.clone()
    }

    fn has_certs(&self) -> bool {
        self.certificate.is_some()
    }
}

/// A stream that remembers how what it received begins: a server without TLS says so by speaking AMQP.
pub(super) struct FirstBytes<S> {
    stream: S,
    first: [u8; 4],
    len: usize,
}

impl<S> FirstBytes<S> {
    fn new(stream: S) -> Self {
        FirstBytes {
            stream,
            first: [0; 4],
            len: 0,
        }
    }

    fn is_amqp(&self) -> bool {
        self.first == *b"AMQP"
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FirstBytes<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        if self.len < self.first.len() {
            for byte in &buf.filled()[before..] {
                let len = self.len;
                if let Some(slot) = self.first.get_mut(len) {
                    *slot = *byte;
                    self.len += 1;
                }
            }
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FirstBytes<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
