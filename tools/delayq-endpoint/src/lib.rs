//! Service mode: a delayq-server calls this application when its tasks are due, with the same
//! workers that a plugin runs.
//!
//! ```no_run
//! use delayq_endpoint::{Announcement, Endpoint};
//! use delayq_plugin::{DelayQueuePlugin, seconds};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = Endpoint::of(DelayQueuePlugin::builder()).await?;
//! let endpoint = endpoint.secrets(["whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"])?;
//! let listener = tokio::net::TcpListener::bind("10.0.0.7:8080").await?;
//! let app = axum::Router::new().merge(endpoint.router());
//! let http = tokio::spawn(async { axum::serve(listener, app).await });
//!
//! let registry = ["http://eureka:8761/eureka"];
//! let shop = Announcement::at_eureka(registry, "shop", "http://10.0.0.7:8080");
//! let registration = endpoint.announce(shop)?;
//! // .. until the process is asked to end
//! registration.deregister().await;
//! endpoint.shutdown(seconds(15)).await;
//! http.abort();
//! # Ok(()) }
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::{Error, Result, TaskType};
use delayq_plugin::{DelayQueuePluginBuilder, StartError, WorkerSet};

mod announcement;
mod answer;
mod call;
mod eureka;
#[doc(hidden)]
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod http_client;
mod load;
mod routes;
mod service;
mod settlements;
mod spring;
mod verifier;

pub use self::announcement::{Announcement, Registration};
pub use self::call::{SPRING_PATH, WORK_PATH};
pub use self::eureka::{EurekaClient, EurekaError, EurekaInstance};
pub use self::settlements::{LaterSettlement, Settlements};
pub use self::spring::{SpringJob, spelled_id, spelled_type};

use crate::service::Service;
use crate::verifier::Verifier;

/// The workers of this application, to be called by a server. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Endpoint {
    service: Arc<Service>,
}

impl Endpoint {
    /// Builds the workers of a builder, as [`start`](DelayQueuePluginBuilder::start) does. They
    /// claim nothing and run when a server calls them. Middleware, components, the options of
    /// workers and the configuration count; pools, listeners and recurring tasks do not.
    ///
    /// With a URL or a store of the builder its workers can send tasks there, such as to the server
    /// itself (`delayq://..`), and [settle later](Settlements). Without one a send is refused.
    ///
    /// # Errors
    /// As for `start`, so for a worker with [`Settlements`] and no store; nothing runs then.
    pub async fn of(builder: DelayQueuePluginBuilder) -> Result<Self, StartError> {
        let workers = WorkerSet::build(builder, Settlements::on).await?;
        let service = Service::new(workers);
        Ok(Self {
            service: Arc::new(service),
        })
    }

    /// Takes only calls that are signed with one of these secrets of the server
    /// (`service.secrets`), each `whsec_` and 24 to 64 bytes in base64. Without them everybody who
    /// reaches the routes can have a worker run.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a text that is no secret, and for no secret at all.
    pub fn secrets<T: AsRef<str>>(self, secrets: impl IntoIterator<Item = T>) -> Result<Self> {
        let verifier = Verifier::new(secrets)?;
        self.service.protect(verifier);
        Ok(self)
    }

    /// The routes that a server calls: [`WORK_PATH`] and [`SPRING_PATH`]. An answer comes when the
    /// workers of the task have ended.
    pub fn router(&self) -> axum::Router {
        routes::router(&self.service)
    }

    /// The types that are served by name, sorted: what an announcement says. Workers of patterns
    /// run as well, for tasks whose type a server is configured to send here.
    #[must_use]
    pub fn types(&self) -> Vec<TaskType> {
        self.service.types()
    }

    /// Announces the types and the address of this application, until
    /// [`deregister`](Registration::deregister), or until the registration is dropped. A registry
    /// that does not answer is tried again.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for an address or a URL that cannot be one, and when no worker
    /// serves a type by name.
    pub fn announce(&self, announcement: Announcement) -> Result<Registration> {
        let types = self.types();
        if types.is_empty() {
            let reason = "no worker here serves a type by name, and a pattern cannot be announced";
            return Err(Error::invalid("announcement", reason));
        }
        announcement.begin(&types)
    }

    /// Takes no more calls, and waits up to `grace` for those that run; then tells the workers to
    /// stop, and waits another half second. Call
    /// [`deregister`](Registration::deregister) before.
    pub async fn shutdown(&self, grace: Duration) {
        self.service.close(grace).await;
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endpoint").field(&self.types()).finish()
    }
}
