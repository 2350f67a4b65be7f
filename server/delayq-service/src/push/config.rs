//! Options of push.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Restrictions on push targets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PushConfig {
    /// Non-public networks that targets may be in, such as `10.0.0.0/8`.
    pub allow_networks: Vec<String>,
    /// Ports below 1024 that targets may use, in addition to 80 and 443.
    pub allow_ports: Vec<u16>,
    /// True if targets without TLS are allowed.
    pub allow_http: bool,
    /// True if every client that may create a task may give it a target.
    pub allow_task_targets: bool,
    /// A PEM file of authorities trusted in addition to those of the system.
    pub ca_file: Option<PathBuf>,
    /// Kafka clusters, by the name that targets use.
    pub kafka: BTreeMap<String, KafkaConfig>,
}

/// A Kafka cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KafkaConfig {
    /// The bootstrap brokers, as `HOST:PORT,HOST:PORT`.
    pub brokers: String,
}
