//! How the server stops.

use std::time::Duration;

use serde::{Deserialize, Serialize};

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
