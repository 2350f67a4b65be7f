//! Fronts: the server as the clients of other delayed-task systems know theirs.
//!
//! Each is thin: it maps what it is asked onto the operations of a namespace, and keeps the answers
//! that its clients rely on.

#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    rustdoc::private_intra_doc_links,
    reason = "nothing outside this workspace builds on it"
)]

use std::net::SocketAddr;

use delayq_service::config::Config;

pub mod beanstalk;
mod body;
mod client;
#[doc(hidden)]
#[cfg(feature = "fuzz")]
pub mod fuzz;
pub mod grape;
pub mod lmstfy;
pub mod spring;
pub mod task_service;
#[cfg(test)]
mod tests;

/// A front over HTTP with a listener of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
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
    pub const ALL: [Self; 5] = [
        Self::Lmstfy,
        Self::LmstfyAdmin,
        Self::Grape,
        Self::TaskService,
        Self::Spring,
    ];

    /// What it is, for whoever started the server.
    pub fn about(self) -> &'static str {
        match self {
            Self::Lmstfy => "the API of lmstfy",
            Self::LmstfyAdmin => "the administration of lmstfy",
            Self::Grape => "the verbs of Grape",
            Self::TaskService => "the API of the public task service",
            Self::Spring => "the paths of the Spring delay queue",
        }
    }

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lmstfy => "lmstfy",
            Self::LmstfyAdmin => "lmstfy_admin",
            Self::Grape => "grape",
            Self::TaskService => "task_service",
            Self::Spring => "spring",
        }
    }

    /// Where it listens; none: it is not offered.
    pub fn listen(self, config: &Config) -> Option<SocketAddr> {
        match self {
            Self::Lmstfy => config.lmstfy.listen,
            Self::LmstfyAdmin => config.lmstfy.admin_listen,
            Self::Grape => config.grape.listen,
            Self::TaskService => config.task_service.listen,
            Self::Spring => config.spring.listen,
        }
    }
}
