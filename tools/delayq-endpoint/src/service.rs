//! The state that the routes of an endpoint share.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use delayq_core::TaskType;
use delayq_core::worker::StopSignal;
use delayq_plugin::WorkerSet;
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::answer;
use crate::call::Invocation;
use crate::load::{Entry, Load};
use crate::verifier::Verifier;

/// The wait of a task whose earlier attempt still runs here.
const REPEATED_WAIT: Duration = Duration::from_secs(1);
/// The time that workers have to stop once they are told.
const STOPPED_WITHIN: Duration = Duration::from_millis(500);

/// The workers of an application, and the tasks that are running.
#[derive(Debug)]
pub(crate) struct Service {
    workers: WorkerSet,
    verifier: RwLock<Option<Verifier>>,
    load: Load,
    /// Stops all runs once the endpoint has ended and the grace is over.
    end: StopSignal,
}

/// Tells a run to stop when its caller has disconnected.
struct StopRunOnDrop(StopSignal);

impl Drop for StopRunOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Service {
    pub(crate) fn new(workers: WorkerSet) -> Self {
        Self {
            workers,
            verifier: RwLock::default(),
            load: Load::default(),
            end: StopSignal::new(),
        }
    }

    /// Requires a signature that this verifier accepts.
    pub(crate) fn protect(&self, verifier: Verifier) {
        let mut present = self
            .verifier
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *present = Some(verifier);
    }

    pub(crate) fn types(&self) -> Vec<TaskType> {
        self.workers.types()
    }

    /// Refuses a call without a valid signature where one is required. Returns true if the call was
    /// signed.
    pub(crate) fn admit(&self, headers: &HeaderMap, body: &[u8]) -> Result<bool, Box<Response>> {
        let verifier = self.verifier.read().unwrap_or_else(PoisonError::into_inner);
        let Some(verifier) = &*verifier else {
            return Ok(false);
        };
        match verifier.check(headers, body, self.workers.now()) {
            Ok(()) => Ok(true),
            Err(reason) => {
                warn!(reason, "refused a call");
                let response = answer::refused(StatusCode::UNAUTHORIZED, reason.to_owned());
                Err(Box::new(response))
            }
        }
    }

    /// Runs the workers of a task, and answers when they have ended. If the caller disconnects
    /// first, the workers are told to stop. Until they have, the task is refused here.
    pub(crate) async fn run(self: &Arc<Self>, call: Invocation) -> Response {
        let Some(workers) = self.workers.of_type(&call.task_type) else {
            let reason = format!("no worker here serves {}", call.task_type);
            return answer::refused(StatusCode::NOT_FOUND, reason);
        };
        let most = workers.concurrency();
        let permit = match self.load.enter(&call.task_type, &call.id, most) {
            Entry::Entered(permit) => permit,
            Entry::Full => return answer::busy("the concurrency limit of the type is reached"),
            Entry::Closed => return answer::busy("this instance is shutting down"),
            Entry::Repeated => {
                let reason = "an earlier attempt of this task still runs here";
                return answer::released(REPEATED_WAIT, reason);
            }
        };
        debug!(task_type = %call.task_type, id = %call.id, attempt = call.attempt, "called");
        let stop = StopSignal::new();
        let gone = StopRunOnDrop(stop.clone());
        let (attempt, message) = call.into_attempt(self.workers.now());
        let end = self.end.clone();
        // A separate task, which goes on when the connection is lost.
        let running = tokio::spawn(async move {
            let _permit = permit;
            let mut all = std::pin::pin!(workers.run(attempt, message, stop.clone()));
            tokio::select! {
                ended = &mut all => return ended,
                () = end.stopped() => stop.stop(),
            }
            all.await
        });
        let ended = running.await;
        drop(gone);
        match ended {
            Ok(ended) => answer::ended(ended),
            Err(error) => answer::released(REPEATED_WAIT, &error.to_string()),
        }
    }

    /// Refuses new calls, and waits for those that run.
    pub(crate) async fn close(&self, grace: Duration) {
        self.load.close();
        if timeout(grace, self.load.emptied()).await.is_ok() {
            return;
        }
        self.end.stop();
        if timeout(STOPPED_WITHIN, self.load.emptied()).await.is_err() {
            warn!("workers still run at the end of the endpoint; their tasks will be called again");
        }
    }
}
