//! The plugin while it runs.

use std::time::Duration;

use delayq_core::presence::{InstanceId, InstanceInfo};
use delayq_core::{Error, Result, TaskType};
use tracing::info;

use crate::events::TaskEvents;
use crate::handler_set::HandlerSet;
use crate::health::{Health, UnservedType};
use crate::submit::TaskSubmitService;

mod builder;

pub use builder::DelayQueuePluginBuilder;

/// How long running workers may take when a signal ends the process.
const SIGNAL_GRACE: Duration = Duration::from_secs(20);

/// A running plugin: one [`DelayBucketHandler`](crate::DelayBucketHandler) for each bucket of each
/// task type that a worker here serves.
///
/// End it with [`shutdown`](Self::shutdown). When it is dropped instead, nothing new is started and
/// running workers are stopped; tasks that could not be given back return when their locks expire.
#[derive(Debug)]
pub struct DelayQueuePlugin {
    service: TaskSubmitService,
    handlers: HandlerSet,
}

impl DelayQueuePlugin {
    /// A builder with the defaults: the embedded store in `delayq.sqlite`, namespace `default`, all
    /// workers that were linked in, a thread for each of the first 32 types, a poll every second.
    pub fn builder() -> DelayQueuePluginBuilder {
        DelayQueuePluginBuilder::default()
    }

    /// The service that sends tasks to the same store.
    #[must_use]
    pub fn submit_service(&self) -> TaskSubmitService {
        self.service.clone()
    }

    /// The events of this process from now on: what its handlers do with tasks, and what its submit
    /// service sends and cancels. For a dashboard or an alarm; see
    /// [`TaskEvent`](crate::TaskEvent) for what they are not.
    #[must_use]
    pub fn events(&self) -> TaskEvents {
        self.service.events()
    }

    /// The types that have a handler here now, sorted.
    #[must_use]
    pub fn served_types(&self) -> Vec<TaskType> {
        self.handlers.types()
    }

    /// The running instances, this one among them, in the order of their starts: every plugin on
    /// the same store and namespace. A crashed one is listed for up to 60 s; a new one, or another
    /// type that one serves, shows a moment later.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        self.service.store().instances().await
    }

    /// The identity of this instance in that list.
    #[must_use]
    pub fn instance_id(&self) -> &InstanceId {
        self.handlers.instance_id()
    }

    /// How the store and the handlers are doing. Calls the store, and waits for its answers for
    /// about the time that a call may take; never fails.
    pub async fn health(&self) -> Health {
        let store = self.service.store();
        let (unserved, store_error) = match tokio::join!(store.check(), self.unserved()) {
            (Ok(()), Ok(unserved)) => (unserved, None),
            (Err(error), unserved) => (unserved.unwrap_or_default(), Some(error)),
            (Ok(()), Err(error)) => (Vec::new(), Some(error)),
        };
        Health {
            store: store.name(),
            store_error,
            handlers: self.handlers.health(),
            unserved,
        }
    }

    /// Waits until nothing is left to do at the present time: every due task has been settled, and
    /// no worker runs. Returns when there is something to do again, by `Clock::elapsed`. For
    /// delayq-testing.
    #[doc(hidden)]
    pub async fn until_idle(&self) -> Option<Duration> {
        self.handlers.until_idle().await
    }

    async fn unserved(&self) -> Result<Vec<UnservedType>> {
        let store = self.service.store();
        let served = self.handlers.types();
        let (mut unserved, mut is_silent) = (Vec::new(), false);
        for task_type in store.types().await? {
            if !served.contains(&task_type) {
                let mut stats = None;
                if !is_silent {
                    let answer = store.stats(&task_type).await;
                    // Each further one may take as long to fail.
                    is_silent = answer.as_ref().is_err_and(Error::is_transient);
                    stats = answer.ok();
                }
                unserved.push(UnservedType { task_type, stats });
            }
        }
        Ok(unserved)
    }

    /// Stops claiming, lets running workers finish for up to `grace`, then fires their
    /// `cancelled()` and soon after gives what is left back, so that another instance gets it at
    /// once and no attempt is burned. Returns once all is settled: after at most `grace` + 6 s,
    /// also when the store is down.
    ///
    /// Further calls wait for the first one.
    pub async fn shutdown(&self, grace: Duration) {
        self.handlers.shutdown(grace).await;
    }

    /// Waits for Ctrl-C or, on Unix, SIGTERM, then shuts down with a grace time of 20 s: all is
    /// over within 26 s, below the 30 s after which Kubernetes kills.
    ///
    /// # Errors
    /// The signal handlers cannot be installed; the plugin goes on running.
    pub async fn run_until_signal(&self) -> std::io::Result<()> {
        signal().await?;
        info!("signal received: shutting down");
        self.shutdown(SIGNAL_GRACE).await;
        Ok(())
    }
}

#[cfg(unix)]
async fn signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => result,
        _ = terminate.recv() => Ok(()),
    }
}

#[cfg(not(unix))]
async fn signal() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}
