//! Options of service mode.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use delayq_endpoint::{EurekaClient, EurekaInstance};
use delayq_plugin::{Namespace, TaskType};
use serde::{Deserialize, Serialize};
use url::Url;

use super::secrets::Secrets;

/// URL schemes of names to look up by SRV, and the schemes of their instances.
pub(super) const SRV_SCHEMES: [(&str, &str); 2] = [("srv", "http"), ("srvs", "https")];

/// The shortest time between two look-ups, in milliseconds.
const MIN_REFRESH_MS: u64 = 100;

/// How the server finds and calls instances of applications.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceConfig {
    /// The namespace whose tasks the instances serve.
    pub namespace: String,
    /// The allowed networks of instances that a registry lists or that announce themselves.
    pub allow_networks: Vec<String>,
    /// Standard Webhooks secrets that sign calls.
    pub secrets: Secrets,
    /// The time between two look-ups of registries and names, in milliseconds.
    pub refresh_ms: u64,
    /// A Eureka registry.
    pub eureka: EurekaConfig,
    /// Types, with the addresses of their instances.
    #[serde(rename = "static")]
    pub fixed: BTreeMap<String, Vec<String>>,
    /// Types, with the DNS names of their instances.
    pub dns: BTreeMap<String, Vec<String>>,
    /// DNS servers to ask; empty means those of the system.
    pub dns_servers: Vec<SocketAddr>,
}

/// A Eureka registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EurekaConfig {
    /// The URLs of its servers; empty means no registry.
    pub urls: Vec<String>,
    /// The metadata entry that lists the types of an instance, separated by commas.
    pub types_key: String,
    /// The name of this server in the registry.
    pub app: String,
    /// The address of this server in the registry; `None` means that the server does not register.
    pub address: Option<String>,
    /// The time between two heartbeats of this server, in milliseconds.
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

/// An option with an unusable value.
#[derive(Debug)]
pub struct ServiceConfigError {
    pub option: String,
    pub value: String,
    pub reason: String,
}

impl ServiceConfig {
    /// The time between two look-ups of registries and names.
    pub fn refresh(&self) -> Duration {
        Duration::from_millis(self.refresh_ms.max(MIN_REFRESH_MS))
    }

    /// Refuses unusable options. Networks and secrets are checked where they are used.
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
        if eureka.types_key.is_empty() {
            let reason = "name the entry of the metadata, such as delayq.types".to_owned();
            return Err(refused("eureka.types_key", "", reason));
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
                if urls.is_empty() {
                    let reason = "name at least one, or leave the type out".to_owned();
                    return Err(refused(&format!("{option}.{task_type}"), "[]", reason));
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
    /// The time between two heartbeats of this server.
    pub fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms)
    }
}

/// Refuses a text that is not a DNS name to look up.
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

/// Refuses a text that is not the address of an instance.
fn check_address(text: &str) -> Result<(), String> {
    let url = Url::parse(text).map_err(|error| format!("this is no URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err("write it as http://10.0.0.7:8080, or with the path that is called".to_owned());
    }
    Ok(())
}
