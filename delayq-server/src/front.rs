//! Fronts: the server as the clients of other delayed-task systems know theirs.
//!
//! Each is thin: it maps what it is asked onto the operations of a namespace, and keeps the answers
//! that its clients rely on.

use std::net::SocketAddr;

use delayq_service::config::Config;

pub(crate) mod beanstalk;
mod body;
mod client;
#[cfg(test)]
pub(crate) mod exchange;
pub(crate) mod fuzz;
pub(crate) mod grape;
pub(crate) mod lmstfy;
pub(crate) mod spring;
pub(crate) mod task_service;
#[cfg(test)]
mod tests;

/// A front over HTTP with a listener of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    /// The API of lmstfy.
    Lmstfy,
    /// The administration of the API of lmstfy.
    LmstfyAdmin,
    /// The verbs of Grape.
    Grape,
    /// The API of the public task service.
    TaskService,
    /// The paths of the Spring delay queue.
    Spring,
}

impl Front {
    /// Every front.
    pub(crate) const ALL: [Self; 5] = [
        Self::Lmstfy,
        Self::LmstfyAdmin,
        Self::Grape,
        Self::TaskService,
        Self::Spring,
    ];

    /// What it is, for whoever started the server.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::Lmstfy => "the API of lmstfy",
            Self::LmstfyAdmin => "the administration of lmstfy",
            Self::Grape => "the verbs of Grape",
            Self::TaskService => "the API of the public task service",
            Self::Spring => "the paths of the Spring delay queue",
        }
    }

    /// Its name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lmstfy => "lmstfy",
            Self::LmstfyAdmin => "lmstfy_admin",
            Self::Grape => "grape",
            Self::TaskService => "task_service",
            Self::Spring => "spring",
        }
    }

    /// Where it listens; none: it is not offered.
    pub(crate) fn listen(self, config: &Config) -> Option<SocketAddr> {
        match self {
            Self::Lmstfy => config.lmstfy.listen,
            Self::LmstfyAdmin => config.lmstfy.admin_listen,
            Self::Grape => config.grape.listen,
            Self::TaskService => config.task_service.listen,
            Self::Spring => config.spring.listen,
        }
    }
}
