//! The plugin while it runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use delayq_core::presence::{InstanceId, InstanceInfo};
use delayq_core::{Error, Result, TaskType, TaskWorker, TypePattern, WorkerOptions};
use tracing::info;

use self::builder::within;
use crate::config::{ChangedOption, Config, ConfigError, Reloaded};
use crate::error::StartError;
use crate::events::TaskEvents;
use crate::handler_set::HandlerSet;
use crate::health::{Health, UnservedType};
use crate::history::{Shipping, concern_of_records};
use crate::recurring::Recurring;
use crate::submit::TaskSubmitService;
use crate::workers::BuiltWorker;

mod builder;

pub use builder::DelayQueuePluginBuilder;
pub(crate) use builder::{Prepared, prepare_set};

/// The default time that running workers have when a signal ends the process.
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
    /// Ships the records of ended tasks, if there is a history.
    shipping: Option<Shipping>,
    /// The configuration that the plugin was started with.
    config: Config,
    /// The grace time if the configuration has none.
    own_grace: Duration,
    grace: Mutex<Duration>,
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
    /// service sends and cancels. For dashboards and alarms; see [`TaskEvent`](crate::TaskEvent)
    /// for their limits.
    #[must_use]
    pub fn events(&self) -> TaskEvents {
        self.service.events()
    }

    /// The types that have a handler here now, sorted.
    #[must_use]
    pub fn served_types(&self) -> Vec<TaskType> {
        self.handlers.types()
    }

    /// Changes how many tasks each type that `pattern` matches (`mail.send`, `mail.*`) may run at
    /// the same time in this process: at least 1. Returns the number of served types that match;
    /// matching types that are served later get the new number, too. Running workers above the new
    /// number are not stopped. The number holds until the process ends or until a
    /// [`reload`](Self::reload), which applies the numbers of its configuration. If several calls
    /// match a type, the last one counts.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for 0, or when no worker here could serve such a type;
    /// [`Error::InvalidName`] for an invalid pattern. Nothing has changed then.
    pub fn set_concurrency(&self, pattern: &str, most: usize) -> Result<usize> {
        check_slots("concurrency", most)?;
        self.handlers
            .set_concurrency(TypePattern::new(pattern)?, most)
    }

    /// Changes how many slots a [pool](DelayQueuePluginBuilder::pool) of this process has; at least
    /// one. Running workers are not stopped, as with [`set_concurrency`](Self::set_concurrency).
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for 0, and for a pool that was not declared. Nothing has changed
    /// then.
    pub fn set_pool(&self, name: &str, slots: usize) -> Result<()> {
        check_slots("pool", slots)?;
        self.handlers.set_pool(name, slots)
    }

    /// Begins to serve a type or a pattern while the plugin runs, without a restart. Once it
    /// returns, due tasks of these types are being claimed; if the store is out of reach, as soon
    /// as it is back. The worker stays until [`unserve`](Self::unserve) or the end of the process.
    ///
    /// A second call for the same pattern replaces the worker and its options: running attempts
    /// finish with the former worker, all others use the new one. `lock`, `weight`, `delivery` and
    /// `shards` stay as they were until `unserve`. If several patterns match a type, the longest
    /// counts, as with workers from the start. The builder's `only` and `map_workers` do not apply;
    /// its middleware does.
    ///
    /// # Errors
    /// [`StartError`]: invalid options, a pattern that a worker has served since the start, an
    /// undeclared pool, or a plugin that was shut down. Nothing has changed then, with one
    /// exception: after an error of the store that is not transient the worker stays, and
    /// maintenance keeps trying.
    pub async fn serve<W: TaskWorker>(
        &self,
        pattern: impl Into<String>,
        options: WorkerOptions,
        worker: W,
    ) -> Result<(), StartError> {
        let name = std::any::type_name::<W>();
        let built = BuiltWorker::new(pattern, name, options, Arc::new(worker));
        let built = within(&self.service.middleware, built, &self.service);
        self.handlers.serve(built).await
    }

    /// Stops serving the worker given to [`serve`](Self::serve) for `pattern`. Returns true if
    /// there was such a worker. Nothing more is claimed for it. Running attempts have `grace` to
    /// finish; then they are asked to stop and given back soon after, without using up an attempt,
    /// as by a [`shutdown`](Self::shutdown). Returns when the last handler has ended. If the future
    /// is dropped earlier, the rest still happens.
    ///
    /// # Errors
    /// [`Error::InvalidName`].
    pub async fn unserve(&self, pattern: &str, grace: Duration) -> Result<bool> {
        let pattern = TypePattern::new(pattern)?;
        Ok(self.handlers.unserve(&pattern, grace).await)
    }

    /// Adds a recurring task while the plugin runs, such as that of a new tenant, or replaces the
    /// one with the same type and name: the next occurrence of the former schedule is cancelled.
    /// This process keeps it in memory, so declare it at each start, and on every instance that is
    /// to send its occurrences when this one is gone.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when no worker here serves the type. Errors of the store: the task
    /// is declared all the same, and its first occurrence is sent within a minute.
    pub async fn add_recurring(&self, recurring: Recurring) -> Result<()> {
        self.handlers.add_recurring(&recurring).await
    }

    /// Ends a recurring task in this process and cancels its waiting occurrences; returns how many
    /// there were. `name` is empty unless one was given. Call this on every instance that declares
    /// the task: an instance that still does sends the next occurrence within a minute, and any
    /// instance that serves the type runs it.
    ///
    /// # Errors
    /// [`Error::InvalidName`]. Errors of the store: this process sends no more occurrences, but one
    /// may still wait.
    pub async fn remove_recurring(&self, task_type: &str, name: &str) -> Result<usize> {
        self.service
            .declared
            .remove(&TaskType::new(task_type)?, name);
        self.service.remove_recurring(task_type, name).await
    }

    /// The running instances, including this one, in the order of their starts: every plugin on the
    /// same store and namespace. A crashed instance is listed for up to 60 s. A new instance, or a
    /// newly served type, appears a moment later.
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

    /// The state of the store and the handlers. Calls the store and waits for its answers for about
    /// the time that a call may take; never fails.
    pub async fn health(&self) -> Health {
        let store = self.service.store();
        let (concerns, checked, unserved, records) = tokio::join!(
            store.concerns(),
            store.check(),
            self.unserved(),
            store.ends_status()
        );
        let (unserved, store_error) = match (checked, unserved) {
            (Ok(()), Ok(unserved)) => (unserved, None),
            (Err(error), unserved) => (unserved.unwrap_or_default(), Some(error)),
            (Ok(()), Err(error)) => (Vec::new(), Some(error)),
        };
        let history = self.shipping.as_ref().map(Shipping::health);
        let mut concerns = concerns.unwrap_or_default();
        let now = self.service.clock().now();
        concerns.extend(history.iter().flat_map(|history| history.concerns(now)));
        if let (None, Ok(waiting)) = (&history, records) {
            concerns.extend(concern_of_records(&waiting, now));
        }
        Health {
            store: store.name(),
            store_error,
            concerns,
            history,
            handlers: self.handlers.health(),
            unserved,
        }
    }

    /// Waits until there is nothing to do at the present time: every due task has been settled, and
    /// no worker runs. Returns the time, by `Clock::elapsed`, of the next thing to do. For
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
                    // Each further call may take as long to fail.
                    is_silent = answer.as_ref().is_err_and(Error::is_transient);
                    stats = answer.ok();
                }
                unserved.push(UnservedType { task_type, stats });
            }
        }
        Ok(unserved)
    }

    /// Applies another configuration, as far as that is possible while the plugin runs.
    ///
    /// Applied at once, to everything that starts or ends from now on: `retry`, `max_releases`,
    /// `timeout`, `concurrency`, `on_late`, `late_after`, `late_spread`, `fleet_concurrency`,
    /// `fleet_rate`, and `grace`. `max_pending` reaches the store within a poll interval; if it was
    /// removed, the type is unbounded again. The answer names the options that changed and those
    /// that need a restart: all others, including `lock`. A type first served after the reload uses
    /// the whole new configuration.
    ///
    /// Numbers set by [`set_concurrency`](Self::set_concurrency) no longer apply: the new
    /// configuration's do, for types that are served now and later.
    ///
    /// `config` is the whole configuration: an option that it does not name goes back to the
    /// worker's own value or the default.
    ///
    /// # Errors
    /// A table that no worker serves, or options that contradict each other. Nothing changes then.
    pub fn reload(&self, config: Config) -> Result<Reloaded, ConfigError> {
        let config = Arc::new(config);
        let mut reloaded = self.handlers.reload(&config)?;
        let changed = self.config.changed(&config).into_iter();
        let restart = changed.map(ChangedOption::of_plugin);
        reloaded.needs_restart.extend(restart);
        let mut grace = self.grace.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = config.grace.unwrap_or(self.own_grace);
        if wanted != *grace {
            *grace = wanted;
            reloaded.applied.push(ChangedOption::of_plugin("grace"));
        }
        Ok(reloaded)
    }

    /// Stops claiming and lets running workers finish for up to `grace`. Then it fires their
    /// `cancelled()` and soon after gives the rest back, so that another instance gets those tasks
    /// at once and no attempt is used up. Returns once everything is settled: after at most `grace`
    /// + 6 s, also when the store is down.
    ///
    /// Further calls wait for the first one.
    pub async fn shutdown(&self, grace: Duration) {
        self.handlers.shutdown(grace).await;
        if let Some(shipping) = &self.shipping {
            shipping.flush().await;
        }
    }

    /// The grace time of a shutdown by a signal.
    #[must_use]
    pub fn grace(&self) -> Duration {
        *self.grace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for Ctrl-C or, on Unix, SIGTERM, then shuts down with the grace time of the
    /// [builder](DelayQueuePluginBuilder::grace), 20 s by default: it ends within 26 s, before
    /// Kubernetes kills the process after 30 s.
    ///
    /// # Errors
    /// The signal handlers cannot be installed; the plugin keeps running.
    pub async fn run_until_signal(&self) -> std::io::Result<()> {
        signal().await?;
        info!("signal received: shutting down");
        self.shutdown(self.grace()).await;
        Ok(())
    }
}

fn check_slots(what: &'static str, slots: usize) -> Result<()> {
    if slots == 0 {
        let reason = "at least 1: to stop a type, pause it with the submit service";
        return Err(Error::invalid(what, reason));
    }
    Ok(())
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
