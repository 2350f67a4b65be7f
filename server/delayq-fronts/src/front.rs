//! A front over HTTP.

use std::net::SocketAddr;

use delayq_service::config::Config;

use crate::listen_error::ListenError;

/// An HTTP front with its own listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// The API of lmstfy.
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
    /// The option for its address.
    pub fn option(self) -> &'static str {
        match self {
            Self::Lmstfy => "lmstfy.listen",
            Self::LmstfyAdmin => "lmstfy.admin_listen",
            Self::Grape => "grape.listen",
            Self::TaskService => "task_service.listen",
            Self::Spring => "spring.listen",
        }
    }

    /// The Cargo feature of the front.
    fn feature(self) -> Feature {
        let (name, is_built) = match self {
            Self::Lmstfy | Self::LmstfyAdmin => ("lmstfy", cfg!(feature = "lmstfy")),
            Self::Grape => ("grape", cfg!(feature = "grape")),
            Self::TaskService => ("task-service", cfg!(feature = "task-service")),
            Self::Spring => ("spring", cfg!(feature = "spring")),
        };
        Feature { name, is_built }
    }

    /// The first front that is configured and that this program was built without.
    pub fn not_built(config: &Config) -> Option<ListenError> {
        let offered = Self::ALL.into_iter();
        let offered = offered.filter(|front| front.listen(config).is_some());
        let mut all: Vec<_> = offered
            .map(|front| (front.option(), front.feature()))
            .collect();
        if config.beanstalk.is_offered() {
            let is_built = cfg!(feature = "beanstalkd");
            let name = "beanstalkd";
            all.push(("beanstalk", Feature { name, is_built }));
        }
        let missing = all.into_iter().find(|(_, feature)| !feature.is_built);
        missing.map(|(option, feature)| ListenError::NotBuilt {
            option,
            feature: feature.name,
        })
    }
}

/// A Cargo feature of this crate.
#[derive(Clone, Copy, Debug)]
struct Feature {
    name: &'static str,
    is_built: bool,
}
