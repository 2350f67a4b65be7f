//! Bounds: of tokens and namespaces, of connections, and of the time that a stop takes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Limits of every token, and of every namespace without limits of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Most requests a second of a token that has no rate of its own; none: no limit.
    pub token_rate: Option<u32>,
    /// The limits of a namespace that has none of its own.
    pub namespace: NamespaceLimits,
}

/// Limits of a namespace. Each server counts its own requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NamespaceLimits {
    /// Most requests a second of all tokens together; none: no limit.
    pub rate: Option<u32>,
    /// Most tasks of all types that are scheduled or running, roughly; none: no limit.
    pub max_pending: Option<u64>,
    /// Most bytes of a message, where less than those of the server.
    pub max_message_bytes: Option<usize>,
}

impl NamespaceLimits {
    /// These limits, and those of `other` where there is none.
    pub fn or(&self, other: &Self) -> Self {
        Self {
            rate: self.rate.or(other.rate),
            max_pending: self.max_pending.or(other.max_pending),
            max_message_bytes: self.max_message_bytes.or(other.max_message_bytes),
        }
    }
}

/// Bounds of connections, each listener by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectionsConfig {
    /// Most open connections; further ones are answered with 503 and closed.
    pub max: usize,
    /// How long the headers of a request may take, and how long an HTTP/1 connection may be idle.
    pub header_timeout_ms: u64,
    /// How long the body of a request may take that is read whole.
    pub body_timeout_ms: u64,
    /// Most bytes of the headers of a request, at least 8192.
    pub max_header_bytes: u32,
    /// Most requests at a time on one HTTP/2 connection.
    pub max_streams: u32,
}

impl Default for ConnectionsConfig {
    fn default() -> Self {
        Self {
            max: 20_000,
            header_timeout_ms: 30_000,
            body_timeout_ms: 30_000,
            max_header_bytes: 64 * 1_024,
            max_streams: 200,
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

/// How the server stops after SIGTERM or Ctrl-C.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StopConfig {
    /// How long `/health/ready` says no before connections are refused, for a balancer to hear it.
    pub ready_grace_ms: u64,
    /// How long running requests may take after that before their connections are cut.
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
