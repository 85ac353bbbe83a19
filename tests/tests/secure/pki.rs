//! Authorities and certificates, made when a test wants them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

/// An authority that keeps what it makes in a directory of somebody else's.
pub(crate) struct Authority {
    directory: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key in PEM files.
#[derive(Debug, Clone)]
pub(crate) struct Certified {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// From when to when a certificate is valid.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Validity {
    Now,
    Past,
    Future,
}

impl Authority {
    pub(crate) fn new(name: &str, directory: &Path) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = parameters.self_signed(&key).unwrap().pem();
        let authority = Authority {
            directory: directory.to_owned(),
            issuer: Issuer::new(parameters, key),
            pem,
        };
        fs::write(authority.ca(), &authority.pem).unwrap();
        authority
    }

    /// Its own certificate.
    pub(crate) fn ca(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    pub(crate) fn ca_pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for a server of these names or addresses.
    pub(crate) fn server(&self, names: &[&str], validity: Validity) -> Certified {
        let names = names.iter().map(|name| (*name).to_owned());
        let mut parameters = CertificateParams::new(names.collect::<Vec<_>>()).unwrap();
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let name = &mut parameters.distinguished_name;
        name.push(DnType::CommonName, "A server of the tests");
        match validity {
            Validity::Now => {}
            Validity::Past => parameters.not_after = date_time_ymd(2020, 2, 29),
            Validity::Future => parameters.not_before = date_time_ymd(3000, 1, 1),
        }
        self.certify(&parameters)
    }

    /// A certificate for a client of this common name.
    pub(crate) fn client(&self, common_name: &str) -> Certified {
        let mut parameters = CertificateParams::default();
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let name = &mut parameters.distinguished_name;
        name.push(DnType::CommonName, common_name);
        self.certify(&parameters)
    }

    fn certify(&self, parameters: &CertificateParams) -> Certified {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        let files = Certified {
            certificate: self.directory.join(format!("{number}.pem")),
            key: self.directory.join(format!("{number}.key")),
        };
        fs::write(&files.certificate, certificate.pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }
}
