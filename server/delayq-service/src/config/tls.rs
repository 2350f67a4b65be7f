//! The files of TLS.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The files of TLS, in PEM. They are read again when they change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// The certificate with its chain; with it every listener speaks TLS.
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate.
    pub key: Option<PathBuf>,
    /// The authorities one of which has to have signed the certificate of every client.
    pub client_ca: Option<PathBuf>,
}
