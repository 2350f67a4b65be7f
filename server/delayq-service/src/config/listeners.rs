//! Listeners: their addresses, TLS, and the web page.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Config, ConfigError};

/// TLS files in PEM format. The server reloads them when they change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// The certificate chain. If set, every listener uses TLS.
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate.
    pub key: Option<PathBuf>,
    /// The authorities for client certificates. If set, every client needs a certificate signed by
    /// one of them.
    pub client_ca: Option<PathBuf>,
}

/// The listener and the sessions of the web page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdminConfig {
    /// The address of the web page; `None` switches the page off.
    pub listen: Option<SocketAddr>,
    /// The lifetime of a session, in minutes.
    pub session_minutes: u32,
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self {
            listen: None,
            session_minutes: 480,
        }
    }
}

/// Refuses two listeners on one address.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let all = [
        ("listen", Some(config.listen)),
        ("admin.listen", config.admin.listen),
        ("lmstfy.listen", config.lmstfy.listen),
        ("lmstfy.admin_listen", config.lmstfy.admin_listen),
        ("beanstalk.listen", config.beanstalk.listen),
        ("grape.listen", config.grape.listen),
        ("task_service.listen", config.task_service.listen),
        ("spring.listen", config.spring.listen),
    ];
    let mut taken = BTreeMap::new();
    for (option, address) in all {
        let Some(address) = address.filter(|address| address.port() != 0) else {
            continue;
        };
        if let Some(other) = taken.insert(address, option) {
            return Err(ConfigError::Refused {
                option: option.to_owned(),
                value: address.to_string(),
                reason: format!("it is that of {other}: each listener has a port of its own"),
            });
        }
    }
    Ok(())
}
