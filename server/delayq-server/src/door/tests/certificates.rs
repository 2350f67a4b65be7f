//! Certificates of a test, from an authority of its own.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// An authority.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// Its own certificate.
    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for localhost, and its key.
    pub(super) fn issue(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// Writes a new certificate and its key, as those who renew them do.
    pub(super) fn write(&self, folder: &Path) {
        let (certificate, key) = self.issue();
        // As an editor may write them: with a byte order mark.
        fs::write(folder.join("server.pem"), format!("\u{feff}{certificate}")).unwrap();
        fs::write(folder.join("server.key"), format!("\u{feff}{key}")).unwrap();
    }

    /// What a client trusts.
    pub(super) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        let own = CertificateDer::from_pem_slice(self.pem().as_bytes()).unwrap();
        roots.add(own).unwrap();
        roots
    }
}

/// A certificate and a key, as rustls has them.
pub(super) fn read(
    (certificate, key): &(String, String),
) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    (vec![certificate], key)
}
