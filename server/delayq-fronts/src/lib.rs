//! Fronts: adapters for clients of other delayed-task systems.
//!
//! A front maps requests to operations on a namespace, and gives the answers that its clients
//! expect.

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

/// An HTTP front with its own listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// The lmstfy API.
    Lmstfy,
    /// The admin API of lmstfy.
    LmstfyAdmin,
    /// The Grape API.
    Grape,
    /// The API of the public task service.
    TaskService,
    /// The API of the Spring delay queue.
    Spring,
}

impl Front {
    /// All fronts.
    pub const ALL: [Self; 5] = [
        Self::Lmstfy,
        Self::LmstfyAdmin,
        Self::Grape,
        Self::TaskService,
        Self::Spring,
    ];

    /// A description for the output of the server.
    pub fn about(self) -> &'static str {
        match self {
            Self::Lmstfy => "the API of lmstfy",
            Self::LmstfyAdmin => "the administration of lmstfy",
            Self::Grape => "the verbs of Grape",
            Self::TaskService => "the API of the public task service",
            Self::Spring => "the paths of the Spring delay queue",
        }
    }

    /// The name of the listener in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lmstfy => "lmstfy",
            Self::LmstfyAdmin => "lmstfy_admin",
            Self::Grape => "grape",
            Self::TaskService => "task_service",
            Self::Spring => "spring",
        }
    }

    /// The configured address; `None` if the front is off.
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
