use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tempfile::TempDir;

/// The files for a node that speaks TLS, in PEM.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The authority whose clients are trusted.
    pub ca: PathBuf,
    /// The node's certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Whether clients must have a certificate.
    pub client_certificates: bool,
}

/// An authority of a test's own with what it certified, in PEM files that go with it: a server `localhost` and
/// 127.0.0.1, and a client with the common name `guest`.
#[derive(Debug)]
pub struct Certificates {
    directory: TempDir,
}

impl Certificates {
    /// Makes new ones; each call's authority knows nothing of the others'.
    ///
    /// # Panics
    /// The temporary directory cannot be written.
    pub fn generate() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("amqp-certificates-")
            .tempdir()
            .expect("a temporary directory");
        let ca_key = KeyPair::generate().expect("a key can be made");
        let mut ca = named("Test authority", &[]);
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca_certificate = ca.self_signed(&ca_key).expect("an authority signs itself");
        write(directory.path(), "ca.pem", &ca_certificate.pem());

        let issuer = Issuer::new(ca, ca_key);
        let mut server = named("localhost", &["localhost", "127.0.0.1"]);
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let mut client = named("guest", &[]);
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        for (name, parameters) in [("server", server), ("client", client)] {
            let key = KeyPair::generate().expect("a key can be made");
            let certificate = parameters
                .signed_by(&key, &issuer)
                .expect("the authority signs");
            write(directory.path(), &format!("{name}.pem"), &certificate.pem());
            write(
                directory.path(),
                &format!("{name}.key"),
                &key.serialize_pem(),
            );
        }
        Self { directory }
    }

    /// The authority's certificate.
    pub fn ca(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// The client's certificate.
    pub fn client_certificate(&self) -> PathBuf {
        self.directory.path().join("client.pem")
    }

    /// The client's key.
    pub fn client_key(&self) -> PathBuf {
        self.directory.path().join("client.key")
    }

    /// For a node that has the server's certificate and trusts this authority's clients.
    pub fn node(&self, client_certificates: bool) -> Tls {
        Tls {
            ca: self.ca(),
            certificate: self.directory.path().join("server.pem"),
            key: self.directory.path().join("server.key"),
            client_certificates,
        }
    }
}

fn named(common_name: &str, addresses: &[&str]) -> CertificateParams {
    let addresses = addresses
        .iter()
        .map(|&address| address.to_owned())
        .collect::<Vec<_>>();
    let mut parameters = CertificateParams::new(addresses).expect("the names are sound");
    parameters
        .distinguished_name
        .push(DnType::CommonName, common_name);
    parameters
}

fn write(directory: &Path, name: &str, pem: &str) {
    fs::write(directory.join(name), pem).expect("a temporary directory can be written");
}
