//! The beanstalkd protocol.
//!
//! ```text
//! connection -> Session -> orders -> Hub (tubes, held jobs, waiters) -> Store
//! ```
//!
//! A job is a task whose id is the job's number. The jobs of a tube with one priority form a task
//! type, called a [lane](tube::Lane). A reservation claims from the lanes of the watched tubes,
//! most urgent first. All other state of a server follows from the store and from its open
//! connections.

mod claims;
mod client;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod hub;
mod input;
mod job;
mod jobs;
mod keeper;
mod listeners;
mod moves;
mod numbers;
mod report;
mod session;
mod state;
#[cfg(test)]
mod tests;
mod tube;

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;

use delayq_service::app::App;
use delayq_service::problem::Problem;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tracing::warn;

use self::hub::Hub;
pub use self::listeners::Listeners;
use self::session::Session;

/// The beanstalkd release whose answers are given, in the format in which clients parse versions.
pub const VERSION: &str = concat!("1.13.0+delayq-", env!("CARGO_PKG_VERSION"));

/// Creates a folder if needed, and locks out other servers while the returned file is open.
/// Otherwise a server started twice by mistake would go unnoticed, because the two would share
/// their jobs.
///
/// # Errors
/// Another server uses the folder, or the folder cannot be used.
pub fn lock(folder: &Path) -> Result<File, String> {
    let refused =
        |reason: &dyn std::fmt::Display| format!("the folder {}: {reason}", folder.display());
    std::fs::create_dir_all(folder).map_err(|error| refused(&error))?;
    let file = File::create(folder.join("beanstalk.lock")).map_err(|error| refused(&error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(refused(
            &"another server has it. End that, or give another folder with -b; servers that \
              share jobs take --store redis://HOST",
        )),
        Err(TryLockError::Error(error)) => Err(refused(&error)),
    }
}

/// Serves clients until the server stops.
pub async fn serve(app: App, listeners: Listeners) {
    let hub = match open(&app).await {
        Ok(hub) => Arc::new(hub),
        Err(problem) => {
            warn!(%problem, "cannot serve the beanstalkd protocol");
            return;
        }
    };
    let keeping = {
        let hub = Arc::clone(&hub);
        async move { keeper::run(&hub).await }
    };
    let connections = TaskTracker::new();
    tokio::select! {
        () = keeping => {}
        () = accept(&app, &hub, &listeners, &connections) => {}
    }
    drop(listeners);
    connections.close();
    let ended = tokio::time::timeout(app.config.stop.grace(), connections.wait());
    if ended.await.is_err() {
        warn!(
            open = connections.len(),
            "open connections are closed; their jobs become ready again later"
        );
    }
}

async fn open(app: &App) -> Result<Hub, Problem> {
    let config = app.config.beanstalk.clone();
    let namespace = delayq_plugin::Namespace::new(&config.namespace)?;
    let space = app.spaces.of(&namespace).await?;
    let hub = Hub::new(app, space, config);
    hub.refresh().await?;
    Ok(hub)
}

async fn accept(app: &App, hub: &Arc<Hub>, listeners: &Listeners, connections: &TaskTracker) {
    let places = Arc::new(Semaphore::new(app.config.connections.max));
    loop {
        let accepted = tokio::select! {
            accepted = listeners.accept() => accepted,
            () = app.stopping.ended() => return,
        };
        match accepted {
            Ok(accepted) => {
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                    continue;
                };
                let session = Session::new(Arc::clone(hub), accepted);
                connections.spawn(async move {
                    session.run().await;
                    drop(place);
                });
            }
            Err(error) => delayq_service::listener::after(&error).await,
        }
    }
}
