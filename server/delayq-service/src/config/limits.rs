//! Limits of tokens, namespaces and connections, and of the time that a stop takes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Config, ConfigError};
use crate::proxies::TrustedProxies;

/// Limits of every token, and of every namespace without its own limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Requests a second for a token without its own rate; `None` means no limit.
    pub token_rate: Option<u32>,
    /// The number of times that the lock of a task may expire; then the task is dead.
    pub max_lock_expiries: u32,
    /// The limits of a namespace without its own.
    pub namespace: NamespaceLimits,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            token_rate: None,
            max_lock_expiries: 5,
            namespace: NamespaceLimits::default(),
        }
    }
}

/// Limits of a namespace. Each server counts its own requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NamespaceLimits {
    /// Requests a second of all tokens together; `None` means no limit.
    pub rate: Option<u32>,
    /// The approximate limit of scheduled and running tasks of all types; `None` means no limit.
    pub max_pending: Option<u64>,
    /// The largest message, in bytes, if smaller than the server's limit.
    pub max_message_bytes: Option<usize>,
}

impl NamespaceLimits {
    /// Fills unset limits from `other`.
    pub fn or(&self, other: &Self) -> Self {
        Self {
            rate: self.rate.or(other.rate),
            max_pending: self.max_pending.or(other.max_pending),
            max_message_bytes: self.max_message_bytes.or(other.max_message_bytes),
        }
    }
}

/// Limits of connections. Those of counts are for each listener separately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectionsConfig {
    /// Open connections; the server answers further ones with 503 and closes them.
    pub max: usize,
    /// The time for the headers of a request, and the idle time of a connection.
    pub header_timeout_ms: u64,
    /// The time for the body of a request that is read as a whole.
    pub body_timeout_ms: u64,
    /// The size of a request's headers in bytes, at least 8192.
    pub max_header_bytes: u32,
    /// Concurrent requests on one HTTP/2 connection.
    pub max_streams: u32,
    /// The bytes of request bodies that are held at once, of all listeners together. A request
    /// above this is refused.
    pub max_body_bytes: usize,
    /// Proxies whose `X-Forwarded-For` and `Forwarded` count: addresses and networks.
    pub trusted_proxies: Vec<String>,
}

impl Default for ConnectionsConfig {
    fn default() -> Self {
        Self {
            max: 20_000,
            header_timeout_ms: 30_000,
            body_timeout_ms: 30_000,
            max_header_bytes: 64 * 1_024,
            max_streams: 200,
            max_body_bytes: 256 << 20,
            trusted_proxies: Vec::new(),
        }
    }
}

impl ConnectionsConfig {
    pub fn header_timeout(&self) -> Duration {
        Duration::from_millis(self.header_timeout_ms)
    }

    pub fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }
}

/// The timing of a stop after SIGTERM or Ctrl-C.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StopConfig {
    /// How long `/health/ready` fails before connections are refused, so that a load balancer
    /// notices.
    pub ready_grace_ms: u64,
    /// How long running requests may take after that before their connections are closed.
    pub grace_ms: u64,
}

impl Default for StopConfig {
    fn default() -> Self {
        Self {
            ready_grace_ms: 0,
            grace_ms: 20_000,
        }
    }
}

impl StopConfig {
    pub fn ready_grace(&self) -> Duration {
        Duration::from_millis(self.ready_grace_ms)
    }

    pub fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }
}

/// Refuses proxies that are no addresses or networks.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let proxies = TrustedProxies::new(&config.connections.trusted_proxies);
    proxies.map(drop).map_err(|bad| ConfigError::Refused {
        option: "connections.trusted_proxies".to_owned(),
        value: bad.text,
        reason: bad.reason,
    })
}
