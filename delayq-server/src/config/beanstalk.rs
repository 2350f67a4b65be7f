//! The protocol of beanstalkd.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The protocol of beanstalkd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BeanstalkConfig {
    /// Where it listens; none: it is not offered.
    pub(crate) listen: Option<SocketAddr>,
    /// The path of the Unix socket where it listens, too; none: there is none.
    pub(crate) socket: Option<PathBuf>,
    /// The namespace of its jobs.
    pub(crate) namespace: String,
    /// Most bytes of a job.
    pub(crate) max_job_bytes: usize,
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
    pub(crate) fn is_offered(&self) -> bool {
        self.listen.is_some() || self.socket.is_some()
    }
}
