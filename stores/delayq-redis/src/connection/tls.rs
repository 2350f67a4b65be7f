//! TLS: its files, which are read before anything connects, and the errors if one side distrusts
//! the other.

use std::path::Path;

use redis::{ClientTlsConfig, ConnectionInfo, TlsCertificates};
use rustls::InconsistentKeys::KeyMismatch;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use delayq_core::{Error, Result};

use super::fault;
use crate::config::TlsConfig;

/// The client of a server that speaks TLS.
///
/// # Errors
/// `InvalidInput` if a file cannot be used.
pub(super) fn client(info: ConnectionInfo, tls: &TlsConfig) -> Result<redis::Client> {
    // Chooses the encryption library for the whole process. It fails if the application has already
    // chosen one, which is just as good.
    let _ = default_provider().install_default();
    let client = redis::Client::build_with_tls(info, certificates(tls)?);
    client.map_err(|error| fault::invalid(&error))
}

/// The contents of the named files.
///
/// # Errors
/// `InvalidInput` with the file, if it cannot be read or has other contents, or if the key does not
/// belong to the certificate.
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
    let pem = std::fs::read(path);
    let pem = pem.map_err(|error| refused(what, path, &format!("it cannot be read: {error}")))?;
    // Some editors write a byte order mark, which no reader of PEM takes.
    Ok(pem.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&pem).to_vec())
}

fn refused(what: &str, path: &Path, why: &str) -> Error {
    let path = path.display();
    Error::invalid("setting", format!("cannot use {what} in {path}: {why}"))
}
