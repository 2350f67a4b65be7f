//! Options of push.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where a server may push to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PushConfig {
    /// Networks that targets may be in though they are not public, such as `10.0.0.0/8`.
    pub(crate) allow_networks: Vec<String>,
    /// Ports below 1024 that targets may use, beside 80 and 443.
    pub(crate) allow_ports: Vec<u16>,
    /// Whether targets may be without TLS.
    pub(crate) allow_http: bool,
    /// Whether everybody who may create a task may give it a target of its own.
    pub(crate) allow_task_targets: bool,
    /// Certificates of authorities that are trusted beside those of the system (PEM).
    pub(crate) ca_file: Option<PathBuf>,
    /// Kafka clusters, by the names that targets use.
    pub(crate) kafka: BTreeMap<String, KafkaConfig>,
}

/// A Kafka cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct KafkaConfig {
    /// Its first brokers, as `HOST:PORT,HOST:PORT`.
    pub(crate) brokers: String,
}
