//! Options of service mode.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use delayq_endpoint::{EurekaClient, EurekaInstance};
use delayq_plugin::{Namespace, TaskType};
use serde::{Deserialize, Serialize};
use url::Url;

use super::secrets::Secrets;

/// Schemes of names that are looked up by SRV, and those of their instances.
pub(super) const SRV_SCHEMES: [(&str, &str); 2] = [("srv", "http"), ("srvs", "https")];

/// The shortest span between two looks.
const MIN_REFRESH_MS: u64 = 100;

/// How instances of applications are found, and called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceConfig {
    /// The namespace whose tasks they serve.
    pub namespace: String,
    /// Networks that instances may be in which a registry lists, or which announce themselves.
    pub allow_networks: Vec<String>,
    /// Secrets of Standard Webhooks that calls are signed with.
    pub secrets: Secrets,
    /// How often registries and names are looked up.
    pub refresh_ms: u64,
    /// A Eureka registry.
    pub eureka: EurekaConfig,
    /// Types, each with the addresses of its instances.
    #[serde(rename = "static")]
    pub fixed: BTreeMap<String, Vec<String>>,
    /// Types, each with names that lead to its instances.
    pub dns: BTreeMap<String, Vec<String>>,
    /// Servers that answer for these names; none: those of the system.
    pub dns_servers: Vec<SocketAddr>,
}

/// A Eureka registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EurekaConfig {
    /// Its servers; none: no registry.
    pub urls: Vec<String>,
    /// The entry of the metadata of an instance that names its types, separated by commas.
    pub types_key: String,
    /// The name of this server in the registry.
    pub app: String,
    /// The address of this server in the registry; none: it is not listed there.
    pub address: Option<String>,
    /// How often the server says that it is alive.
    pub heartbeat_ms: u64,
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self {
            namespace: "default".to_owned(),
            allow_networks: Vec::new(),
            secrets: Secrets::default(),
            refresh_ms: 5_000,
            eureka: EurekaConfig::default(),
            fixed: BTreeMap::new(),
            dns: BTreeMap::new(),
            dns_servers: Vec::new(),
        }
    }
}

impl Default for EurekaConfig {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            types_key: "delayq.types".to_owned(),
            app: "delayq-server".to_owned(),
            address: None,
            heartbeat_ms: 10_000,
        }
    }
}

/// An option that cannot be used.
#[derive(Debug)]
pub struct ServiceConfigError {
    pub option: String,
    pub value: String,
    pub reason: String,
}

impl ServiceConfig {
    /// How often registries and names are looked up.
    pub fn refresh(&self) -> Duration {
        Duration::from_millis(self.refresh_ms.max(MIN_REFRESH_MS))
    }

    /// Refuses what cannot be. Networks and secrets are checked by what uses them.
    pub fn check(&self) -> Result<(), ServiceConfigError> {
        let refused = |option: &str, value: &str, reason: String| ServiceConfigError {
            option: format!("service.{option}"),
            value: value.to_owned(),
            reason,
        };
        if let Err(error) = Namespace::new(&self.namespace) {
            return Err(refused("namespace", &self.namespace, error.to_string()));
        }
        let eureka = &self.eureka;
        for url in &eureka.urls {
            if let Err(error) = EurekaClient::new([url]) {
                return Err(refused("eureka.urls", url, error.to_string()));
            }
        }
        if let Some(address) = &eureka.address {
            if eureka.urls.is_empty() {
                let reason = "it needs service.eureka.urls".to_owned();
                return Err(refused("eureka.address", address, reason));
            }
            if let Err(error) = EurekaInstance::new(&eureka.app, address) {
                return Err(refused("eureka.address", address, error.to_string()));
            }
        }
        for (option, types) in [("static", &self.fixed), ("dns", &self.dns)] {
            for (task_type, urls) in types {
                if let Err(error) = TaskType::new(task_type) {
                    return Err(refused(option, task_type, error.to_string()));
                }
                for url in urls {
                    let checked = match option {
                        "static" => check_address(url),
                        _ => check_name(url),
                    };
                    let option = format!("{option}.{task_type}");
                    checked.map_err(|reason| refused(&option, url, reason))?;
                }
            }
        }
        Ok(())
    }
}

impl EurekaConfig {
    /// How often the server says that it is alive.
    pub fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms)
    }
}

/// Refuses what is no name to look up.
pub(super) fn check_name(text: &str) -> Result<(), String> {
    let url = Url::parse(text).map_err(|error| format!("this is no URL: {error}"))?;
    let is_srv = SRV_SCHEMES.iter().any(|(srv, _)| *srv == url.scheme());
    let is_http = matches!(url.scheme(), "http" | "https");
    if url.host_str().is_none_or(str::is_empty) || !(is_srv || is_http) {
        return Err(
            "write it as http://NAME:PORT, srv://_SERVICE._tcp.NAME, or srvs:// for TLS".to_owned(),
        );
    }
    Ok(())
}

/// Refuses what is no address of an instance.
fn check_address(text: &str) -> Result<(), String> {
    let url = Url::parse(text).map_err(|error| format!("this is no URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err("write it as http://10.0.0.7:8080, or with the path that is called".to_owned());
    }
    Ok(())
}
