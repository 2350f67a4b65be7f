//! The fronts of a server: where they listen, and their routes.

#[cfg(feature = "lmstfy")]
use std::sync::Arc;

use axum::Router;
use delayq_service::app::App;
use delayq_service::config::Config;
use delayq_service::listener::listen;
use futures_util::future::{OptionFuture, join_all};
use tokio::net::TcpListener;
#[cfg(feature = "lmstfy")]
use tokio_util::task::AbortOnDropHandle;

#[cfg(feature = "beanstalkd")]
use crate::beanstalk;
use crate::front::Front;
#[cfg(feature = "grape")]
use crate::grape;
use crate::listen_error::ListenError;
#[cfg(feature = "lmstfy")]
use crate::lmstfy::{self, Lmstfy};
#[cfg(feature = "spring")]
use crate::spring;
#[cfg(feature = "task-service")]
use crate::task_service;

/// The listeners of the fronts that are configured.
#[derive(Debug, Default)]
pub struct Listeners {
    http: Vec<(Front, TcpListener)>,
    #[cfg(feature = "beanstalkd")]
    beanstalk: Option<beanstalk::Listeners>,
}

impl Listeners {
    /// Listens for all fronts that are configured.
    ///
    /// # Errors
    /// An address or a path that cannot be used, or a front that this program was built without.
    pub async fn open(config: &Config) -> Result<Self, ListenError> {
        if let Some(missing) = Front::not_built(config) {
            return Err(missing);
        }
        #[cfg(feature = "beanstalkd")]
        let mut listeners = Self::of_beanstalkd(config).await?;
        #[cfg(not(feature = "beanstalkd"))]
        let mut listeners = Self::default();
        for front in Front::ALL {
            let Some(address) = front.listen(config) else {
                continue;
            };
            let listening = listen(address).await;
            let listener = listening.map_err(|error| ListenError::Address { address, error })?;
            listeners.http.push((front, listener));
        }
        Ok(listeners)
    }

    /// Listens for clients of beanstalkd alone, where that is configured.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    #[cfg(feature = "beanstalkd")]
    pub async fn of_beanstalkd(config: &Config) -> Result<Self, ListenError> {
        Ok(Self {
            beanstalk: beanstalk::Listeners::open(&config.beanstalk).await?,
            ..Self::default()
        })
    }

    /// A line for each front, with the address that it listens on.
    ///
    /// # Errors
    /// The system does not tell the address of a socket.
    pub fn describe(&self) -> std::io::Result<Vec<String>> {
        let mut lines = Vec::new();
        for (front, listener) in &self.http {
            let address = listener.local_addr()?;
            lines.push(format!("{} listens on {address}", front.about()));
        }
        #[cfg(feature = "beanstalkd")]
        if let Some(listeners) = &self.beanstalk {
            lines.push(format!("the protocol of beanstalkd listens on {listeners}"));
        }
        Ok(lines)
    }
}

/// The fronts of one server.
#[derive(Debug)]
pub struct Fronts {
    #[allow(dead_code, reason = "a build may lack the fronts that use it")]
    app: App,
    #[cfg(feature = "lmstfy")]
    lmstfy: Arc<Lmstfy>,
}

impl Fronts {
    /// The fronts of `app`.
    pub fn new(app: App) -> Self {
        Self {
            #[cfg(feature = "lmstfy")]
            lmstfy: Lmstfy::new(app.clone()),
            app,
        }
    }

    /// The routes of one front; none where this program was built without it.
    #[allow(clippy::unused_self, reason = "a build may lack every front")]
    fn router(&self, front: Front) -> Router {
        match front {
            #[cfg(feature = "lmstfy")]
            Front::Lmstfy => lmstfy::router(&self.lmstfy),
            #[cfg(feature = "lmstfy")]
            Front::LmstfyAdmin => lmstfy::admin(&self.lmstfy),
            #[cfg(feature = "grape")]
            Front::Grape => grape::router(self.app.clone()),
            #[cfg(feature = "task-service")]
            Front::TaskService => task_service::router(self.app.clone()),
            #[cfg(feature = "spring")]
            Front::Spring => spring::router(self.app.clone()),
            #[allow(unreachable_patterns, reason = "a build may lack fronts")]
            _ => Router::new(),
        }
    }

    /// Serves until the server ends. `door` serves the routes of a front, by its name in metrics.
    pub async fn serve<F, S>(&self, listeners: Listeners, door: F)
    where
        F: Fn(&'static str, Router, TcpListener) -> S,
        S: Future<Output = ()>,
    {
        #[cfg(feature = "lmstfy")]
        let _following = self.follow(&listeners);
        #[cfg(feature = "beanstalkd")]
        let beanstalk = listeners
            .beanstalk
            .map(|listeners| beanstalk::serve(self.app.clone(), listeners));
        #[cfg(not(feature = "beanstalkd"))]
        let beanstalk: Option<std::future::Ready<()>> = None;
        let http = listeners.http.into_iter();
        let http = http.map(|(front, listener)| door(front.name(), self.router(front), listener));
        tokio::join!(OptionFuture::from(beanstalk), join_all(http));
    }

    /// Follows the tokens and limits of lmstfy while they are used here.
    #[cfg(feature = "lmstfy")]
    fn follow(&self, listeners: &Listeners) -> Option<AbortOnDropHandle<()>> {
        let is_lmstfy = |front: Front| matches!(front, Front::Lmstfy | Front::LmstfyAdmin);
        let is_offered = listeners.http.iter().any(|(front, _)| is_lmstfy(*front));
        let follow = || tokio::spawn(Arc::clone(&self.lmstfy).follow());
        is_offered.then(|| AbortOnDropHandle::new(follow()))
    }
}
