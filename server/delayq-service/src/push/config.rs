//! Options of push.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where a server may push to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PushConfig {
    /// Networks that targets may be in though they are not public, such as `10.0.0.0/8`.
    pub allow_networks: Vec<String>,
    /// Ports below 1024 that targets may use, beside 80 and 443.
    pub allow_ports: Vec<u16>,
    /// Whether targets may be without TLS.
    pub allow_http: bool,
    /// Whether everybody who may create a task may give it a target of its own.
    pub allow_task_targets: bool,
    /// Certificates of authorities that are trusted beside those of the system (PEM).
    pub ca_file: Option<PathBuf>,
    /// Kafka clusters, by the names that targets use.
    pub kafka: BTreeMap<String, KafkaConfig>,
}

/// A Kafka cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KafkaConfig {
    /// Its first brokers, as `HOST:PORT,HOST:PORT`.
    pub brokers: String,
}
