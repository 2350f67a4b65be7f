//! The protocol of beanstalkd.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The protocol of beanstalkd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BeanstalkConfig {
    /// Where it listens; none: it is not offered.
    pub listen: Option<SocketAddr>,
    /// The path of the Unix socket where it listens, too; none: there is none.
    pub socket: Option<PathBuf>,
    /// The namespace of its jobs.
    pub namespace: String,
    /// Most bytes of a job.
    pub max_job_bytes: usize,
}

impl Default for BeanstalkConfig {
    fn default() -> Self {
        Self {
            listen: None,
            socket: None,
            namespace: "default".to_owned(),
            max_job_bytes: 65_535,
        }
    }
}

impl BeanstalkConfig {
    /// Whether the protocol is offered.
    pub fn is_offered(&self) -> bool {
        self.listen.is_some() || self.socket.is_some()
    }
}
