//! Shared state for calls of instances.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::discovery::{Discovery, Instance, ServiceConfig, Trust};
use crate::network::BadNetwork;

use super::connector::HttpClient;
use super::secret::Hidden;
use super::secret::Signer;
use super::{Guard, PushConfig};

/// The time limit for connecting to an instance; afterwards another instance is tried.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// The configured instances, and the guards and keys for calls.
#[derive(Debug)]
pub(super) struct Services {
    pub(super) discovery: Arc<Discovery>,
    pub(super) secrets: Vec<Hidden>,
    /// For instances that a registry lists or that announced themselves.
    pub(super) announced: Arc<Guard>,
    /// For instances that the configuration names.
    configured: Arc<Guard>,
    announced_client: OnceLock<HttpClient>,
    configured_client: OnceLock<HttpClient>,
}

/// An unusable option of service mode.
#[derive(Debug)]
pub struct BadService {
    /// The name of the option within `service`.
    pub option: &'static str,
    pub value: String,
    pub reason: String,
}

/// Refuses invalid networks and secrets.
pub fn check_service(push: &PushConfig, service: &ServiceConfig) -> Result<(), BadService> {
    let announced = announced(push, service);
    announced.map_err(|bad| BadService {
        option: "allow_networks",
        value: bad.text,
        reason: bad.reason,
    })?;
    let signer = Signer::new(&secrets(service));
    signer.map(drop).map_err(|reason| BadService {
        option: "secrets",
        value: "***".to_owned(),
        reason,
    })
}

fn announced(push: &PushConfig, service: &ServiceConfig) -> Result<Guard, BadNetwork> {
    let networks = push.allow_networks.iter().chain(&service.allow_networks);
    Guard::new(&PushConfig {
        allow_networks: networks.cloned().collect(),
        // HTTP without TLS is common inside private networks.
        allow_http: push.allow_http || !service.allow_networks.is_empty(),
        ..push.clone()
    })
}

fn secrets(service: &ServiceConfig) -> Vec<Hidden> {
    service.secrets.0.iter().cloned().map(Hidden::new).collect()
}

impl Services {
    pub(super) fn new(push: &PushConfig, discovery: Arc<Discovery>) -> Result<Self, BadNetwork> {
        let service = discovery.config();
        let everywhere = PushConfig {
            allow_networks: vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()],
            allow_ports: (1..1_024).collect(),
            allow_http: true,
            ..push.clone()
        };
        Ok(Self {
            secrets: secrets(service),
            announced: Arc::new(announced(push, service)?),
            configured: Arc::new(Guard::new(&everywhere)?),
            announced_client: OnceLock::new(),
            configured_client: OnceLock::new(),
            discovery,
        })
    }

    /// The guard for an instance.
    pub(super) fn guard(&self, instance: &Instance) -> &Arc<Guard> {
        match instance.trust {
            Trust::Configured => &self.configured,
            Trust::Announced => &self.announced,
        }
    }

    /// The client for an instance; `new` makes it for the first call.
    pub(super) fn client(
        &self,
        instance: &Instance,
        new: impl FnOnce(&Arc<Guard>) -> HttpClient,
    ) -> &HttpClient {
        let client = match instance.trust {
            Trust::Configured => &self.configured_client,
            Trust::Announced => &self.announced_client,
        };
        client.get_or_init(|| new(self.guard(instance)))
    }
}
