//! TLS files, which are reloaded when they change.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use delayq_service::config::TlsConfig;
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;
use tracing::{error, info};

use super::handshake_log::HandshakeLog;

/// How often the files are checked.
const POLL: Duration = Duration::from_secs(2);

/// The reason why the TLS files cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// A file cannot be read.
    #[error("{option} {path:?} cannot be read: {error}")]
    Unreadable {
        option: &'static str,
        path: PathBuf,
        error: io::Error,
    },
    /// A file does not contain what it should.
    #[error("{option} {path:?} holds no {expected} in PEM")]
    Empty {
        option: &'static str,
        path: PathBuf,
        expected: &'static str,
    },
    /// The certificate and the key do not match.
    #[error("tls.certificate and tls.key cannot be used together: {0}")]
    Pair(#[from] rustls::Error),
    /// The client authorities cannot be used.
    #[error("tls.client_ca cannot be used: {0}")]
    Authorities(String),
}

/// The contents of the files.
#[derive(Debug, PartialEq, Eq)]
struct TlsFiles {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

/// The current certificate of the server. Open connections keep the certificate that they started
/// with.
#[derive(Debug)]
pub(crate) struct Tls {
    files: Files,
    present: RwLock<Arc<ServerConfig>>,
    contents: RwLock<TlsFiles>,
    pub(super) handshakes: HandshakeLog,
}

#[derive(Clone, Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

impl Tls {
    /// Reads the files; `None` if TLS is not configured.
    pub(crate) fn open(config: &TlsConfig) -> Result<Option<Arc<Self>>, TlsError> {
        let (Some(certificate), Some(key)) = (&config.certificate, &config.key) else {
            return Ok(None);
        };
        let files = Files {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: config.client_ca.clone(),
        };
        let contents = files.read()?;
        let present = files.server_config(&contents)?;
        Ok(Some(Arc::new(Self {
            files,
            present: RwLock::new(Arc::new(present)),
            contents: RwLock::new(contents),
            handshakes: HandshakeLog::new(),
        })))
    }

    /// The acceptor for a new connection.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let present = self.present.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&present))
    }

    /// Reloads the files when they change; never returns.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut said = String::new();
        loop {
            tokio::time::sleep(POLL).await;
            let tls = Arc::clone(&self);
            let refreshed = tokio::task::spawn_blocking(move || tls.refresh()).await;
            let Ok(refreshed) = refreshed else { continue };
            match refreshed {
                Ok(true) => info!("reloaded the certificate; new connections use it"),
                Ok(false) => {}
                Err(error) if error.to_string() == said => continue,
                Err(error) => {
                    said = error.to_string();
                    error!(%error, "cannot reload the certificate; the earlier one stays in use");
                    continue;
                }
            }
            said.clear();
        }
    }

    /// Reads the files and uses them. Returns true if they have changed.
    pub(crate) fn refresh(&self) -> Result<bool, TlsError> {
        let contents = self.files.read()?;
        let is_same = {
            let present = self.contents.read().unwrap_or_else(PoisonError::into_inner);
            *present == contents
        };
        if is_same {
            return Ok(false);
        }
        let config = Arc::new(self.files.server_config(&contents)?);
        *self.present.write().unwrap_or_else(PoisonError::into_inner) = config;
        *self
            .contents
            .write()
            .unwrap_or_else(PoisonError::into_inner) = contents;
        Ok(true)
    }
}

impl Files {
    fn read(&self) -> Result<TlsFiles, TlsError> {
        let client_ca = self.client_ca.as_deref();
        Ok(TlsFiles {
            certificate: read("tls.certificate", &self.certificate)?,
            key: read("tls.key", &self.key)?,
            client_ca: client_ca
                .map(|path| read("tls.client_ca", path))
                .transpose()?,
        })
    }

    fn server_config(&self, contents: &TlsFiles) -> Result<ServerConfig, TlsError> {
        let chain = certificates("tls.certificate", &self.certificate, &contents.certificate)?;
        let key = private_key(&self.key, &contents.key)?;
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = match (&self.client_ca, &contents.client_ca) {
            (Some(path), Some(bytes)) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates("tls.client_ca", path, bytes)? {
                    roots.add(authority)?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = verifier.build();
                let verifier =
                    verifier.map_err(|error| TlsError::Authorities(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// The byte order mark that some editors write before a text. No reader of PEM takes it.
const MARK: &[u8] = b"\xef\xbb\xbf";

fn read(option: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut read = fs::read(path);
    if let Ok(pem) = &mut read
        && pem.starts_with(MARK)
    {
        pem.drain(..MARK.len());
    }
    read.map_err(|error| TlsError::Unreadable {
        option,
        path: path.to_owned(),
        error,
    })
}

fn certificates(
    option: &'static str,
    path: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.unwrap_or_default();
    if found.is_empty() {
        return Err(TlsError::Empty {
            option,
            path: path.to_owned(),
            expected: "certificate",
        });
    }
    Ok(found)
}

fn private_key(path: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| TlsError::Empty {
        option: "tls.key",
        path: path.to_owned(),
        expected: "private key that is not encrypted",
    })
}

/// The certificate chain and the key in these files.
pub(super) fn pair(
    certificate: &Path,
    key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let option = "tls.certificate";
    let chain = certificates(option, certificate, &read(option, certificate)?)?;
    let key = private_key(key, &read("tls.key", key)?)?;
    Ok((chain, key))
}
