//! Handlers of this process: started with the plugin and when new types or buckets appear, and
//! stopped together.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::presence::InstanceId;
use delayq_core::{Error, Result, TaskType, TypePattern};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tracing::{error, warn};

mod app_runtime;
mod dead_bounds;
mod dispatcher;
mod idle;
mod maintenance;
mod member;
mod recording;
mod reload;
mod sampling;
mod served_type;
mod serving;
mod shared;
mod thread;
mod threads;
mod watched;

use self::dispatcher::dispatch;
use self::idle::until_idle;
use self::maintenance::Maintenance;
use self::reload::reload;
use self::shared::Shared;
use crate::config::{Config, ConfigError, Reloaded};
use crate::error::StartError;
use crate::health::HandlerHealth;
use crate::recurring::Recurring;
use crate::settings::Settings;
use crate::submit::{TaskSubmitService, ensure_all, ensure_one};
use crate::workers::{BuiltWorker, WorkerRegistry};

/// The dispatcher's thread.
const DISPATCHER_THREAD: &str = "delayq";

/// The reason why the handlers have stopped.
const SHUT_DOWN: &str = "shut down";

/// All handlers, and the dispatcher that wakes them.
#[derive(Debug)]
pub(crate) struct HandlerSet {
    shared: Arc<Shared>,
    _app_runtime: app_runtime::Watch,
}

impl HandlerSet {
    pub(crate) async fn start(
        tasks: TaskSubmitService,
        registry: Arc<WorkerRegistry>,
        settings: Settings,
        app: Handle,
    ) -> Result<Self, StartError> {
        let (notices, received) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared::new(tasks, registry, settings, app, notices));
        // Created before the first handler, so that an error stops the handlers already running.
        let set = Self {
            _app_runtime: app_runtime::watch(&shared),
            shared,
        };
        let shared = &set.shared;
        // Listening begins before the first claim, so that no wake-up is missed in between.
        let wakeups = shared.store.wakeups();
        for task_type in shared.registry.exact_types() {
            shared.list(&task_type).await?;
            shared.serve(&task_type)?;
        }
        for task_type in shared.store.types().await? {
            shared.serve(&task_type)?;
        }
        match shared.refresh().await {
            // Maintenance tries again.
            Some(Err(error)) if error.is_transient() => {
                warn!(%error, "cannot read or write the settings or buckets of a type yet; trying again");
            }
            refreshed => refreshed.unwrap_or(Ok(()))?,
        }
        if let Err(error) = ensure_all(&shared.tasks).await {
            warn!(%error, "the next occurrence of a recurring task is not sent yet");
        }
        let thread = shared.start_thread(DISPATCHER_THREAD)?;
        thread.spawn(dispatch(Arc::clone(shared), wakeups, received));
        thread.spawn(Maintenance::new(Arc::clone(shared)).run());
        Ok(set)
    }

    pub(crate) fn types(&self) -> Vec<TaskType> {
        self.shared.served()
    }

    pub(crate) fn instance_id(&self) -> &InstanceId {
        &self.shared.instance.id
    }

    /// Applies the tables of `config` as far as that is possible now.
    pub(crate) fn reload(&self, config: &Arc<Config>) -> Result<Reloaded, ConfigError> {
        reload(&self.shared, config)
    }

    pub(crate) fn health(&self) -> Vec<HandlerHealth> {
        self.shared.health()
    }

    /// Changes the concurrency of the types that `pattern` matches. Returns their number.
    pub(crate) fn set_concurrency(&self, pattern: TypePattern, most: usize) -> Result<usize> {
        let registry = &self.shared.registry;
        if !registry.may_serve(&pattern) {
            let registered = registry.describe();
            let reason = format!("no worker here serves {pattern}; registered: {registered}");
            return Err(Error::invalid("task type pattern", reason));
        }
        let slots = &self.shared.settings.slots;
        Ok(slots.set_concurrency(pattern, most))
    }

    pub(crate) async fn add_recurring(&self, recurring: &Recurring) -> Result<()> {
        let (registry, tasks) = (&self.shared.registry, &self.shared.tasks);
        if registry.of_type(&recurring.task_type).is_none() {
            let (task_type, registered) = (&recurring.task_type, registry.describe());
            let reason = format!("no worker here serves {task_type}; registered: {registered}");
            return Err(Error::invalid("recurring task", reason));
        }
        let since = tasks.clock.now();
        tasks.declared.add(recurring, since);
        ensure_one(tasks, recurring, since).await.map(drop)
    }

    /// Begins to serve the types of a worker while the set runs.
    pub(crate) async fn serve(&self, built: BuiltWorker) -> Result<(), StartError> {
        serving::serve(&self.shared, built).await
    }

    /// Stops serving the worker of a pattern while the set runs. Returns true if there was one.
    pub(crate) async fn unserve(&self, pattern: &TypePattern, grace: Duration) -> bool {
        serving::unserve(&self.shared, pattern, grace).await
    }

    pub(crate) fn set_pool(&self, name: &str, slots: usize) -> Result<()> {
        self.shared.settings.slots.set_pool(name, slots)
    }

    /// Waits until there is nothing to do at the present time. Returns the time of the next thing
    /// to do, by `Clock::elapsed`, other than polls.
    pub(crate) async fn until_idle(&self) -> Option<Duration> {
        until_idle(&self.shared).await
    }

    /// Stops all handlers and waits until they have ended. Safe to call again and concurrently.
    pub(crate) async fn shutdown(&self, grace: Duration) {
        self.shared.stop(grace, SHUT_DOWN);
        for ended in self.shared.take_ends() {
            if let Err(error) = ended.await {
                error!(%error, "a handler ended abnormally");
            }
        }
        // A second call waits until every handler has dropped its receiver of the phase.
        self.shared.phase.closed().await;
    }
}

impl Drop for HandlerSet {
    fn drop(&mut self) {
        // Handlers still running stop now; their threads end with the last of them.
        self.shared.stop(Duration::ZERO, SHUT_DOWN);
    }
}
