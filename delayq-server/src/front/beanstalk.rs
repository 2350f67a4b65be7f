//! The protocol of beanstalkd.
//!
//! ```text
//! connection -> Session -> orders -> Hub (tubes, held jobs, waiters) -> Store
//! ```
//!
//! A job is a task whose id is its number. The jobs of a tube with one priority are a task type, a
//! [lane](lane::Lane); a reservation claims from the lanes of the watched tubes, the most urgent
//! first. What a server knows beside the store follows from it and from the open connections.

mod answers;
mod claims;
mod counters;
mod ends;
pub(crate) mod fuzz;
mod held;
mod hub;
mod input;
mod jobs;
mod keeper;
mod lane;
mod moves;
mod numbers;
mod order;
mod past;
mod puts;
mod report;
mod reserved;
mod session;
mod state;
#[cfg(test)]
mod tests;
mod tube;
mod tube_name;
mod waiter;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use self::hub::Hub;
use self::session::Session;
use crate::app::App;
use crate::problem::Problem;

/// Serves its clients until the server ends.
pub(crate) async fn serve(app: App, listener: TcpListener) {
    let hub = match open(&app).await {
        Ok(hub) => Arc::new(hub),
        Err(problem) => {
            warn!(%problem, "the protocol of beanstalkd is not served");
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
        () = drain(&hub) => {}
        () = accept(&app, &hub, &listener, &connections) => {}
    }
    drop(listener);
    connections.close();
    let ended = tokio::time::timeout(app.config.stop.grace(), connections.wait());
    if ended.await.is_err() {
        warn!(
            open = connections.len(),
            "connections are cut: their jobs come back later"
        );
    }
}

async fn open(app: &App) -> Result<Hub, Problem> {
    let config = app.config.beanstalk.clone();
    let namespace = delayq_plugin::Namespace::new(&config.namespace)?;
    let space = app.spaces.of(&namespace).await?;
    let hub = Hub::new(space, config);
    hub.refresh().await?;
    Ok(hub)
}

async fn accept(app: &App, hub: &Arc<Hub>, listener: &TcpListener, connections: &TaskTracker) {
    let places = Arc::new(Semaphore::new(app.config.connections.max));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = app.stopping.ended() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                    continue;
                };
                let session = Session::new(Arc::clone(hub), stream);
                connections.spawn(async move {
                    session.run().await;
                    drop(place);
                });
            }
            Err(error) => crate::door::after(&error).await,
        }
    }
}

/// Takes no further jobs once the process is told so.
#[cfg(unix)]
async fn drain(hub: &Hub) {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::user_defined1()) {
        Ok(mut told) => {
            while told.recv().await.is_some() {
                hub.is_draining.store(true, Ordering::Relaxed);
                info!("no further jobs are taken");
            }
        }
        Err(error) => warn!(%error, "SIGUSR1 is not heard"),
    }
    std::future::pending::<()>().await;
}

/// There is no such signal.
#[cfg(not(unix))]
async fn drain(_hub: &Hub) {
    std::future::pending::<()>().await;
}
