//! TLS: its files, read before anything connects, and the errors of one side that distrusts the
//! other.

use std::path::Path;

use redis::{ClientTlsConfig, ConnectionAddr, RedisConnectionInfo, TlsCertificates};
use rustls::InconsistentKeys::KeyMismatch;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use delayq_core::{Error, Result};

use super::fault;
use super::login::info;
use crate::config::{Address, TlsConfig};

/// The client of a server that speaks TLS.
///
/// # Errors
/// `InvalidInput` when a file cannot be used.
pub(super) fn client(
    address: &Address,
    tls: &TlsConfig,
    settings: RedisConnectionInfo,
) -> Result<redis::Client> {
    install_provider();
    let addr = ConnectionAddr::TcpTls {
        host: address.host.clone(),
        port: address.port,
        insecure: tls.trust_any,
        tls_params: None,
    };
    let info = info(addr, settings)?;
    let client = match certificates(tls)? {
        Some(certificates) => redis::Client::build_with_tls(info, certificates),
        None => redis::Client::open(info),
    };
    client.map_err(|error| fault::invalid(&error))
}

/// Chooses how connections are encrypted for the whole process, unless the application has done so.
fn install_provider() {
    // Fails when there is one already, which is as good.
    let _ = default_provider().install_default();
}

/// What the files hold; `None` when none is named.
///
/// # Errors
/// `InvalidInput` with the file, when it cannot be read or holds something else, or when the key is
/// not the certificate's.
fn certificates(tls: &TlsConfig) -> Result<Option<TlsCertificates>> {
    let root_cert = tls.ca.as_deref().map(authorities).transpose()?;
    let client_tls = match (&tls.certificate, &tls.key) {
        (Some(certificate), Some(key)) => Some(own(certificate, key)?),
        _ => None,
    };
    let is_any = root_cert.is_some() || client_tls.is_some();
    Ok(is_any.then_some(TlsCertificates {
        client_tls,
        root_cert,
    }))
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

/// What to do when a connection failed because one side does not trust the other; `None`: it failed
/// for another reason. `said` is the text of the client: its errors are of no public type.
pub(super) fn distrust(place: &str, said: &str) -> Option<Error> {
    let (setting, fix) = DISTRUST.iter().find(|(sign, ..)| said.contains(sign))?.1;
    Some(Error::Misconfigured {
        store: place.to_owned(),
        setting: format!("{setting} ({said})"),
        fix: fix.to_owned(),
    })
}

/// What a failure has in its text, what it means, and what to change; the first that fits. A
/// certificate `of this client` is the one that `cert=` names.
const DISTRUST: [(&str, (&str, &str)); 15] = [
    (
        "certificate not valid for name",
        (
            "its certificate is for another host",
            "connect by a name that stands in the certificate, or have one issued for this name",
        ),
    ),
    (
        "invalid peer certificate: certificate expired",
        (
            "its certificate has expired",
            "renew the file of its `tls-cert-file`; if it has not, set the clock of this machine",
        ),
    ),
    (
        "invalid peer certificate: certificate not valid yet",
        (
            "its certificate is not valid yet",
            "set the clock of this machine, or have it issued anew",
        ),
    ),
    ("invalid peer certificate: UnknownIssuer", UNTRUSTED),
    ("invalid peer certificate: BadSignature", UNTRUSTED),
    (
        "invalid peer certificate",
        (
            "its certificate cannot be used",
            "have the file of its `tls-cert-file` issued anew, signed by an authority",
        ),
    ),
    ("failed to read PEM from file", UNREADABLE),
    ("opening directory", UNREADABLE),
    ("failed to open file", UNREADABLE),
    ("alert: CertificateRequired", UNSHOWN),
    ("alert: HandshakeFailure", UNSHOWN),
    (
        "alert: UnknownCA",
        (
            "it does not trust the authority of the certificate of this client",
            "have that signed by the authority in its `tls-ca-cert-file`, and name it with cert= and key=",
        ),
    ),
    (
        "alert: CertificateExpired",
        (
            "the certificate of this client has expired",
            "renew the file that cert= names, and start again",
        ),
    ),
    (
        "alert: ProtocolVersion",
        (
            "it speaks neither TLS 1.2 nor 1.3",
            "set `tls-protocols \"TLSv1.2 TLSv1.3\"` in redis.conf",
        ),
    ),
    (
        "received fatal alert",
        (
            "it refuses the certificate of this client",
            "see its log; the files are those that cert= and key= name",
        ),
    ),
];

const UNTRUSTED: (&str, &str) = (
    "its certificate is not signed by an authority that is trusted here",
    "write ca=FILE with the certificate of that authority (PEM)",
);

const UNSHOWN: (&str, &str) = (
    "it asks for a certificate of this client",
    "write cert=FILE and key=FILE, signed by the authority in its `tls-ca-cert-file`; or set \
     `tls-auth-clients no` in redis.conf",
);

/// The client reads these for each connection, also when it is given an authority.
const UNREADABLE: (&str, &str) = (
    "the certificates of the system cannot be read",
    "mend or unset SSL_CERT_FILE and SSL_CERT_DIR; SSL_CERT_FILE may name the same file as ca=",
);
