//! Bounds of connections.

use std::time::Duration;

use serde::{Deserialize, Serialize};

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
