//! TLS: its files, read before anything connects, and the errors of one side that distrusts the
//! other.

use std::path::Path;

use redis::{ClientTlsConfig, ConnectionInfo, TlsCertificates};
use rustls::InconsistentKeys::KeyMismatch;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use delayq_core::{Error, Result};

use super::fault::{self, Cause};
use crate::config::TlsConfig;

/// The client of a server that speaks TLS.
///
/// # Errors
/// `InvalidInput` when a file cannot be used.
pub(super) fn client(info: ConnectionInfo, tls: &TlsConfig) -> Result<redis::Client> {
    // Chooses how connections are encrypted for the whole process. It fails when the application
    // has done so, which is as good.
    let _ = default_provider().install_default();
    let client = redis::Client::build_with_tls(info, certificates(tls)?);
    client.map_err(|error| fault::invalid(&error))
}

/// What the files hold that are named.
///
/// # Errors
/// `InvalidInput` with the file, when it cannot be read or holds something else, or when the key is
/// not the certificate's.
fn certificates(tls: &TlsConfig) -> Result<TlsCertificates> {
    let root_cert = tls.ca.as_deref().map(authorities).transpose()?;
    let client_tls = match (&tls.certificate, &tls.key) {
        (Some(certificate), Some(key)) => Some(own(certificate, key)?),
        _ => None,
    };
    Ok(TlsCertificates {
        client_tls,
        root_cert,
    })
}

fn authorities(path: &Path) -> Result<Vec<u8>> {
    let pem = read(path, "the CA")?;
    certificates_in(&pem, path, "the CA")?;
    Ok(pem)
}

fn own(certificate: &Path, key: &Path) -> Result<ClientTlsConfig> {
    let client_cert = read(certificate, "the certificate")?;
    let chain = certificates_in(&client_cert, certificate, "the certificate")?;
    let client_key = read(key, "the key")?;
    let secret = PrivateKeyDer::from_pem_slice(&client_key).map_err(|_| {
        let expected = "a key that is not encrypted, in PEM: -----BEGIN PRIVATE KEY-----";
        refused("the key", key, &format!("it does not hold {expected}"))
    })?;
    match CertifiedKey::from_der(chain, secret, &default_provider()) {
        Ok(_) => Ok(ClientTlsConfig {
            client_cert,
            client_key,
        }),
        Err(rustls::Error::InconsistentKeys(KeyMismatch)) => {
            let of = format!(
                "it is not the key of the certificate in {}",
                certificate.display()
            );
            Err(refused("the key", key, &of))
        }
        Err(error) => Err(refused("the key", key, &error.to_string())),
    }
}

fn certificates_in(pem: &[u8], path: &Path, what: &str) -> Result<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => {
            let expected = "a certificate in PEM: -----BEGIN CERTIFICATE-----";
            Err(refused(what, path, &format!("it does not hold {expected}")))
        }
    }
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| refused(what, path, &format!("it cannot be read: {error}")))
}

fn refused(what: &str, path: &Path, why: &str) -> Error {
    let path = path.display();
    Error::invalid("setting", format!("cannot use {what} in {path}: {why}"))
}

/// Why one side does not trust the other; the first that fits. The signs are those of the client,
/// whose errors are of no public type. A certificate `of this client` is the one that `cert=`
/// names.
pub(super) const DISTRUST: [Cause; 11] = [
    (
        &["certificate not valid for name"],
        "its certificate is for another host",
        "connect by a name that stands in the certificate, or have one issued for this name",
    ),
    (
        &["invalid peer certificate: certificate expired"],
        "its certificate has expired",
        "renew the file of its `tls-cert-file`; if it has not, set the clock of this machine",
    ),
    (
        &["invalid peer certificate: certificate not valid yet"],
        "its certificate is not valid yet",
        "set the clock of this machine, or have it issued anew",
    ),
    (
        &[
            "invalid peer certificate: UnknownIssuer",
            "invalid peer certificate: BadSignature",
        ],
        "its certificate is not signed by an authority that is trusted here",
        "write ca=FILE with the certificate of that authority (PEM)",
    ),
    (
        &["invalid peer certificate"],
        "its certificate cannot be used",
        "have the file of its `tls-cert-file` issued anew, signed by an authority",
    ),
    // The client reads these for each connection, also when it is given an authority.
    (
        &[
            "failed to read PEM from file",
            "opening directory",
            "failed to open file",
        ],
        "the certificates of the system cannot be read",
        "mend or unset SSL_CERT_FILE and SSL_CERT_DIR; SSL_CERT_FILE may name the same file as ca=",
    ),
    (
        &["alert: CertificateRequired", "alert: HandshakeFailure"],
        "it asks for a certificate of this client",
        "write cert=FILE and key=FILE, signed by the authority in its `tls-ca-cert-file`; or set \
         `tls-auth-clients no` in redis.conf",
    ),
    (
        &["alert: UnknownCA"],
        "it does not trust the authority of the certificate of this client",
        "have that signed by the authority in its `tls-ca-cert-file`, and name it with cert= and key=",
    ),
    (
        &["alert: CertificateExpired"],
        "the certificate of this client has expired",
        "renew the file that cert= names, and start again",
    ),
    (
        &["alert: ProtocolVersion"],
        "it speaks neither TLS 1.2 nor 1.3",
        "set `tls-protocols \"TLSv1.2 TLSv1.3\"` in redis.conf",
    ),
    (
        &["received fatal alert"],
        "it refuses the certificate of this client",
        "see its log; the files are those that cert= and key= name",
    ),
];
