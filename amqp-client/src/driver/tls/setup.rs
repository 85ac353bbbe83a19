//! From the options to a configuration of rustls.

use std::fs;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{self, CryptoProvider};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use super::{CertificateRequest, Connector};
use crate::auth::Secret;
use crate::config::{self, Pem, Tls, TlsConfigError, TlsVersion, Verify};

/// How old what is known of the platform's authorities may be.
const ROOTS_MAX_AGE: Duration = Duration::from_secs(60);

pub(super) fn connector(tls: &Tls) -> Result<Connector, TlsConfigError> {
    let name = match &tls.server_name {
        Some(config::ServerName::Name(name)) => Some(name.clone()),
        Some(config::ServerName::Disabled) | None => None,
    };
    let provider = CryptoProvider::get_default().cloned();
    let provider = provider.unwrap_or_else(|| Arc::new(crypto::ring::default_provider()));
    let request = Arc::new(CertificateRequest {
        certificate: client_certificate(tls, &provider)?,
        asked: AtomicBool::new(false),
    });
    let mut config = match &tls.ready {
        Some(ready) => ready.clone(),
        None => Arc::new(client_config(tls, provider, request.clone())?),
    };
    if let Some(config::ServerName::Disabled) = tls.server_name {
        Arc::make_mut(&mut config).enable_sni = false;
    }
    Ok(Connector {
        config,
        name,
        request,
    })
}

fn client_config(
    tls: &Tls,
    provider: Arc<CryptoProvider>,
    request: Arc<CertificateRequest>,
) -> Result<ClientConfig, TlsConfigError> {
    let versions: &[_] = match tls.min_version {
        TlsVersion::V1_2 => &[&TLS12, &TLS13],
        TlsVersion::V1_3 => &[&TLS13],
    };
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .map_err(|error| TlsConfigError::Provider {
            text: error.to_string(),
        })?;
    let builder = match tls.verify {
        Verify::Peer => builder.with_root_certificates(roots(tls)?),
        Verify::None => {
            tracing::warn!("the server's certificate is not verified: anybody can be the server");
            let verifier = Arc::new(AnyServer(provider));
            builder
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        }
    };
    let mut config = builder.with_client_cert_resolver(request);
    // Each connection has a configuration of its own, so that renewed files are seen: there is no other
    // to resume a session of, and the usual cache for them is large.
    config.resumption = Resumption::disabled();
    Ok(config)
}

// ----- authorities -----

fn roots(tls: &Tls) -> Result<Arc<RootCertStore>, TlsConfigError> {
    if tls.roots.is_empty() {
        return platform_roots();
    }
    let mut roots = RootCertStore::empty();
    for pem in &tls.roots {
        for certificate in certificates(pem)? {
            roots
                .add(certificate)
                .map_err(|error| malformed(pem, error))?;
        }
    }
    Ok(Arc::new(roots))
}

/// Shared between connections: the usual list is a hundred kilobytes long.
fn platform_roots() -> Result<Arc<RootCertStore>, TlsConfigError> {
    static ROOTS: Mutex<Option<(Instant, Arc<RootCertStore>)>> = Mutex::new(None);
    let mut known = ROOTS.lock().unwrap_or_else(PoisonError::into_inner);
    match &*known {
        Some((since, roots)) if since.elapsed() < ROOTS_MAX_AGE => Ok(roots.clone()),
        _ => {
            let roots = Arc::new(read_platform_roots()?);
            *known = Some((Instant::now(), roots.clone()));
            Ok(roots)
        }
    }
}

fn read_platform_roots() -> Result<RootCertStore, TlsConfigError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Platforms have certificates that rustls cannot read: what they certify is not trusted, no more.
    let (_, unusable) = roots.add_parsable_certificates(found.certs);
    if unusable > 0 || !found.errors.is_empty() {
        tracing::debug!(unusable, errors = ?found.errors, "some of the platform's authorities cannot be used");
    }
    if roots.is_empty() {
        let errors: Vec<_> = found
            .errors
            .iter()
            .map(|error| format!(": {error}"))
            .collect();
        return Err(TlsConfigError::PlatformRoots {
            text: errors.concat(),
        });
    }
    Ok(roots)
}

// ----- the client's certificate -----

fn client_certificate(
    tls: &Tls,
    provider: &CryptoProvider,
) -> Result<Option<Arc<CertifiedKey>>, TlsConfigError> {
    let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) else {
        return Ok(None);
    };
    let chain = certificates(certificate)?;
    let key = private_key(key)?;
    match CertifiedKey::from_der(chain, key, provider) {
        Ok(certified) => Ok(Some(Arc::new(certified))),
        Err(error) => Err(TlsConfigError::ClientCertificate {
            text: error.to_string(),
        }),
    }
}

// ----- PEM -----

fn certificates(pem: &Pem) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    let bytes = read(pem)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes.reveal()).collect();
    let certificates = certificates.map_err(|error| malformed(pem, pem_fault(&error)))?;
    if certificates.is_empty() {
        return Err(TlsConfigError::NoCertificate {
            origin: pem.to_string(),
        });
    }
    Ok(certificates)
}

fn private_key(pem: &Pem) -> Result<PrivateKeyDer<'static>, TlsConfigError> {
    let bytes = read(pem)?;
    PrivateKeyDer::from_pem_slice(bytes.reveal()).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsConfigError::NoKey {
            origin: pem.to_string(),
        },
        error => malformed(pem, pem_fault(&error)),
    })
}

fn read(pem: &Pem) -> Result<Arc<Secret>, TlsConfigError> {
    match pem {
        Pem::Memory(bytes) => Ok(bytes.clone()),
        Pem::File(path) => match fs::read(path) {
            Ok(bytes) => Ok(Arc::new(Secret::from(bytes))),
            Err(error) => Err(TlsConfigError::File {
                path: path.clone(),
                kind: error.kind(),
                text: error.to_string(),
            }),
        },
    }
}

fn malformed(pem: &Pem, error: impl std::fmt::Display) -> TlsConfigError {
    TlsConfigError::Malformed {
        origin: pem.to_string(),
        text: error.to_string(),
    }
}

/// Without quoting anything: it may be a key.
fn pem_fault(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a section does not end",
        pem::Error::IllegalSectionStart { .. } => "the first line of a section is not in PEM",
        pem::Error::Base64Decode(_) => "a section is not in base64",
        _ => "it is not in PEM",
    }
}

// ----- verifying nothing -----

/// Believes that anybody is the server, as long as they have the key of the certificate they show.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
