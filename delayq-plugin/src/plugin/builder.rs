//! Builder of a plugin.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::history::{KeptMessage, Recording};
use delayq_core::job::MAX_MESSAGE_BYTES;
use delayq_core::store::{Durability, StoreOptions};
use delayq_core::time::MAX_DELAY;
use delayq_core::{Clock, Components, Limits, Namespace, Store, TaskWorker, WorkerOptions};

mod configured;
mod listeners;
mod mistakes;
mod sends_nothing;
mod start;
mod worker_plan;

use self::configured::configured;
use self::listeners::Listeners;
use self::mistakes::Mistakes;
pub(crate) use self::start::{Prepared, prepare_set};
use self::worker_plan::WorkerPlan;
pub(super) use self::worker_plan::within;
use super::DelayQueuePlugin;
use crate::config::Config;
use crate::error::StartError;
use crate::events::TaskListener;
use crate::history::HistoryPlan;
use crate::middleware::{Middleware, MiddlewareStack};
use crate::recurring::Recurring;
use crate::settings::Settings;
use crate::url::StoreUrl;
use crate::workers::BuiltWorker;

/// Sets up a [`DelayQueuePlugin`].
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until start()"]
pub struct DelayQueuePluginBuilder {
    url: StoreUrl,
    cold: Option<StoreUrl>,
    horizon: Option<Duration>,
    store: Option<Arc<dyn Store>>,
    options: StoreOptions,
    limits: Limits,
    components: Components,
    plan: WorkerPlan,
    settings: Settings,
    listeners: Listeners,
    middleware: MiddlewareStack,
    config: Config,
    history: HistoryPlan,
    grace: Option<Duration>,
    has_metrics: bool,
    /// The given options that concern the opening of a store.
    opening: Vec<&'static str>,
    /// Mistakes, such as options given twice; `start` reports them.
    mistakes: Mistakes,
}

impl DelayQueuePluginBuilder {
    /// Keeps tasks in the store of `url`, see [`open_store`](crate::open_store). Default
    /// `sqlite:delayq.sqlite`.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.opening.push("url");
        self.url = StoreUrl(url.into());
        self
    }

    /// Keeps tasks that are due beyond the [`horizon`](Self::horizon) in a second store, such as
    /// `postgres://HOST/DATABASE` behind Redis, and moves them ahead of their due time. Every
    /// process that uses the store needs this option, with the same URL.
    pub fn cold_store(mut self, url: impl Into<String>) -> Self {
        self.opening.push("cold_store");
        self.cold = Some(StoreUrl(url.into()));
        self
    }

    /// How far ahead tasks are due that are kept in the store of [`url`](Self::url) and not in the
    /// [`cold_store`](Self::cold_store); default 1 h, at least 5 minutes. `start` fails without a
    /// cold store.
    pub fn horizon(mut self, horizon: Duration) -> Self {
        self.opening.push("horizon");
        self.horizon = Some(horizon);
        self
    }

    /// Keeps tasks in `store`, which is already open. It has its own URL, namespace, durability,
    /// retention and call timeout: `start` fails if one of them is set here, too.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Uses this namespace; default `default`. Two namespaces never see each other's tasks.
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.opening.push("namespace");
        self.options.namespace = namespace;
        self
    }

    /// The weakest acceptable durability; default [`Durability::Process`]. `start` fails, with the
    /// line to change, if the store cannot provide it.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.opening.push("durability");
        self.options.durability = durability;
        self
    }

    /// How long ended tasks are remembered; default 10 minutes; zero: not at all.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.opening.push("retention");
        self.options.retention = retention;
        self
    }

    /// The minimum number of ended tasks of a type that are remembered; default 50,000, up to a
    /// million.
    pub fn remembered(mut self, tasks: usize) -> Self {
        self.opening.push("remembered");
        self.options.remembered = tasks;
        self
    }

    /// Keeps a history: what became of every task of the types served here, in the database of
    /// `url`, for as long as [`history_retention`](Self::history_retention) says. The records wait
    /// in the store until they are shipped. `start` fails for a store that cannot record ends. See
    /// [`HistoryStore::at`](crate::history::HistoryStore::at) for the forms of a URL.
    ///
    /// A worker's option [`history`](WorkerOptions::history) turns it off for a type, or keeps
    /// messages as well.
    pub fn history(mut self, url: impl Into<String>) -> Self {
        self.settings.recording = Some(Recording::On(KeptMessage::Nothing));
        self.history.url = Some(url.into());
        self
    }

    /// How long the history is kept; by default for ever. Only with [`history`](Self::history).
    pub fn history_retention(mut self, retention: Duration) -> Self {
        self.history.retention = Some(retention);
        self
    }

    /// The maximum size in bytes of the records that wait in the store for the history, at least 1
    /// MiB. It is kept in the store and holds for all its users. By default it stays as it is
    /// there, at first 512 MiB, on Redis 32 MiB for each type. At the bound the oldest records are
    /// dropped, and counted.
    pub fn history_buffer(mut self, bytes: u64) -> Self {
        self.opening.push("history_buffer");
        self.options.history_buffer = Some(bytes);
        self
    }

    /// How long a call to the store may take before it is repeated; default 5 s, at most a day.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.opening.push("call_timeout");
        self.options.call_timeout = timeout;
        self
    }

    /// Limits of the jobs that the submit service accepts. `start` fails for limits above the hard
    /// ones: messages of 1 MiB and delays of 10 years.
    pub fn limits(mut self, limits: Limits) -> Self {
        if limits.max_message_bytes > MAX_MESSAGE_BYTES || limits.max_delay > MAX_DELAY {
            let most = "at most 1 MiB (1,048,576 bytes) a message and 10 years of delay";
            self.mistakes.setting("limits", most);
        }
        self.limits = limits;
        self
    }

    /// Adds a value that workers are built from, see
    /// [`FromComponents`](delayq_core::FromComponents). There can be one of each type: `start`
    /// fails for a second one. Every plugin has a [`TaskSubmitService`](crate::TaskSubmitService),
    /// for workers that send.
    pub fn component<T: Send + Sync + 'static>(mut self, component: T) -> Self {
        self.mistakes.second::<T>(&self.components);
        self.components.insert(component);
        self
    }

    /// Adds a value that is already in an `Arc`, as a `T`, which may be a `dyn Trait`: a worker
    /// takes it as `Component<dyn Mailer>`.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// # use delayq_plugin::DelayQueuePlugin;
    /// trait Mailer: Send + Sync {}
    /// struct Smtp;
    /// impl Mailer for Smtp {}
    ///
    /// let builder = DelayQueuePlugin::builder().component_arc::<dyn Mailer>(Arc::new(Smtp));
    /// # let _ = builder;
    /// ```
    pub fn component_arc<T: ?Sized + Send + Sync + 'static>(mut self, component: Arc<T>) -> Self {
        self.mistakes.second::<T>(&self.components);
        self.components.insert_arc(component);
        self
    }

    /// Adds a worker by hand, for a type or a pattern such as `report.*`. Its name, which
    /// distinguishes the workers of one type, is that of its Rust type.
    pub fn worker<W: TaskWorker>(
        mut self,
        task_type: impl Into<String>,
        options: WorkerOptions,
        worker: W,
    ) -> Self {
        let name = std::any::type_name::<W>();
        let built = BuiltWorker::new(task_type, name, options, Arc::new(worker));
        self.plan.workers.push(built);
        self
    }

    /// Declares a recurring task. Each occurrence runs once among all instances that declare it.
    /// `#[task_worker(type = "..", every = "..")]` does the same for a worker without a message.
    /// `start` fails if no worker here serves the type, and for two recurring tasks with the same
    /// type and name.
    ///
    /// ```
    /// use delayq_plugin::{DelayQueuePlugin, Recurring};
    ///
    /// # fn main() -> delayq_plugin::Result<()> {
    /// let report = Recurring::new("report.daily", "0 9 * * *")?.zone("Europe/Berlin")?;
    /// let builder = DelayQueuePlugin::builder().recurring(report);
    /// # let _ = builder;
    /// # Ok(()) }
    /// ```
    pub fn recurring(mut self, recurring: Recurring) -> Self {
        self.plan.recurring.push(recurring);
        self
    }

    /// Passes every worker, registered or added by hand, through `map` once when the plugin starts,
    /// for example to set options from a configuration. Several maps are applied in the order
    /// given. To run code around every run, use [`middleware`](Self::middleware).
    ///
    /// ```
    /// use delayq_plugin::{DelayQueuePlugin, seconds};
    ///
    /// let builder = DelayQueuePlugin::builder().map_workers(|mut built| {
    ///     built.options.lock = seconds(10);
    ///     built
    /// });
    /// ```
    pub fn map_workers(
        mut self,
        map: impl Fn(BuiltWorker) -> BuiltWorker + Send + Sync + 'static,
    ) -> Self {
        self.plan.maps.push(Box::new(map));
        self
    }

    /// Adds a listener, which gets the events of this process's tasks: an alarm for dead ones, a
    /// count of failures. See [`TaskListener`].
    pub fn listener(mut self, listener: impl TaskListener) -> Self {
        self.listeners.0.push(Arc::new(listener));
        self
    }

    /// Records the [metrics](crate::METRICS) of this plugin with the crate `metrics`: install the
    /// recorder of an exporter before [`start`](Self::start). Without this call nothing is counted.
    ///
    /// Every 15 s the store is asked for the counts of up to 100 types.
    pub fn metrics(mut self) -> Self {
        self.has_metrics = true;
        self
    }

    /// Records only the metrics that this process counts, and asks the store for nothing. Otherwise
    /// like [`metrics`](Self::metrics). For processes in which something else updates the store's
    /// gauges, such as [`keep_gauges`](crate::TaskSubmitService::keep_gauges).
    pub fn metrics_without_gauges(mut self) -> Self {
        self.has_metrics = true;
        self.settings.has_gauges = false;
        self
    }

    /// Adds `middleware` around every task: the sends of the plugin's service, and the runs of its
    /// workers. The first one is the outermost. See [`Middleware`].
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        self.middleware = self.middleware.with(middleware);
        self
    }

    /// Applies `config`: the plugin's options as if their methods were called here, and the options
    /// of types over those of the workers, including options set by
    /// [`map_workers`](Self::map_workers). `start` fails for a table that no worker serves.
    pub fn config(self, config: Config) -> Self {
        configured(self, config)
    }

    /// How long running workers may take when a signal ends the process, see
    /// [`run_until_signal`](crate::DelayQueuePlugin::run_until_signal); default 20 s. A value in
    /// the configuration takes precedence.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// Leaves out the workers registered by `#[task_worker]`; only those added by hand run.
    pub fn without_registered_workers(mut self) -> Self {
        self.plan.without_registered = true;
        self
    }

    /// Also starts without workers: they are added with [`serve`](crate::DelayQueuePlugin::serve).
    pub fn workers_later(mut self) -> Self {
        self.plan.is_open = true;
        self
    }

    /// Makes `start` fail unless each of these types has a worker: a guard against a crate dropped
    /// by the linker.
    pub fn expect_types<T: Into<String>>(mut self, types: impl IntoIterator<Item = T>) -> Self {
        let types = types.into_iter().map(Into::into);
        self.plan.expected.extend(types);
        self
    }

    /// Serves only the types matched by one of these patterns, such as `mail.*` or `order.cancel`:
    /// the same program can then run as a process only for mails. This limits neither sending nor
    /// the watching of batches. `start` fails for a pattern that no worker serves, and for an empty
    /// list.
    pub fn only<T: Into<String>>(mut self, patterns: impl IntoIterator<Item = T>) -> Self {
        let only = &mut self.plan.only;
        let before = only.len();
        only.extend(patterns.into_iter().map(Into::into));
        if only.len() == before {
            self.mistakes.setting(
                "only",
                "at least one type or pattern: with none nothing would run",
            );
        }
        self
    }

    /// Declares a pool: all types whose workers name it (`pool = "mail"`) run at most `slots`
    /// attempts at the same time in this process, at least 1. Each type's own `concurrency` applies
    /// as well. While there are more due tasks than slots, the slots rotate among the types with
    /// due tasks, by [`weight`](Self::weight). `start` fails for a pool that is declared twice,
    /// that no worker names, or that a worker names and nobody declares.
    ///
    /// ```
    /// use delayq_plugin::{DelayQueuePlugin, TaskResult, task_worker};
    ///
    /// #[task_worker(type = "mail.*", pool = "mail")]
    /// async fn mail(to: &str) -> TaskResult {
    ///     println!("mail to {to}");
    ///     Ok(())
    /// }
    ///
    /// let builder = DelayQueuePlugin::builder().pool("mail", 16).weight("mail.high", 8);
    /// # let _ = builder;
    /// ```
    pub fn pool(mut self, name: &str, slots: usize) -> Self {
        let declared = self.settings.slots.declare(name, slots);
        self.mistakes.note(declared.err());
        self
    }

    /// Gives the types that `pattern` matches (`mail.high`, `mail.vip.*`) a share of their pool, 1
    /// to 100. With weight 8 a type starts eight attempts for each one of a type with weight 1,
    /// while both have due tasks. Overrides the `weight` of their workers; if several patterns
    /// match, the longest counts. `start` fails for a pattern that no worker with a pool serves.
    pub fn weight(mut self, pattern: &str, weight: u32) -> Self {
        let weighed = self.settings.slots.weigh(pattern, weight);
        self.mistakes.note(weighed.err());
        self
    }

    /// Shares `n` scheduler threads among all types; `start` fails for 0. By default each of the
    /// first 32 types has a thread of its own, and further types share those.
    pub fn threads(mut self, n: usize) -> Self {
        if n == 0 {
            self.mistakes.setting("threads", "at least 1");
        }
        self.settings.threads = Some(n.max(1));
        self
    }

    /// Runs everything on the runtime that [`start`](Self::start) is called in, without threads of
    /// its own. For simulations: on a current-thread runtime, with a [`Clock`] that follows tokio's
    /// paused time, a test is deterministic, and time advances whenever there is nothing else to
    /// do.
    ///
    /// Not for production: anything that blocks the runtime then keeps locks from being extended.
    #[cfg(any(test, feature = "test-util"))]
    pub fn on_application_runtime(mut self) -> Self {
        self.settings.on_app_runtime = true;
        self
    }

    /// How often a handler polls its bucket if nothing wakes it; default 1 s, at least 10 ms, below
    /// which `start` fails. This limits how late a task can be if its wake-up was lost. Idle polls
    /// come up to an eighth of the interval early, so that those of many types go out together.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        if interval < Duration::from_millis(10) {
            self.mistakes.setting("poll_interval", "at least 10 ms");
        }
        self.settings.poll = interval.max(Duration::from_millis(10));
        self
    }

    /// Sends a task to dead after its lock has expired `n` times (at least 1), as the task seems to
    /// kill its process. Default 3.
    pub fn max_lock_expiries(mut self, n: u32) -> Self {
        if n == 0 {
            self.mistakes.setting("max_lock_expiries", "at least 1");
        }
        self.settings.max_lock_expiries = n.max(1);
        self
    }

    /// How long a dead task is kept: older ones of served types are discarded within a minute, with
    /// a line at `warn`. By default they wait until somebody requeues or discards them.
    pub fn dead_retention(mut self, retention: Duration) -> Self {
        self.settings.dead.retention = Some(retention);
        self
    }

    /// Maximum number of dead tasks of a served type. The oldest ones beyond it are discarded
    /// within a minute, with a line at `warn`. By default there is no limit.
    pub fn max_dead(mut self, most: u64) -> Self {
        self.settings.dead.most = Some(most);
        self
    }

    /// Uses another clock, for tests with virtual time. The store has a clock of its own.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.settings.clock = clock;
        self
    }

    /// Opens the store, checks it, builds the workers and starts a handler for each bucket of each
    /// type: those served by name, and those in the store's list that a pattern matches. Overdue
    /// tasks run at once. Workers run on the tokio runtime that this is called in.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is running then.
    pub async fn start(self) -> Result<DelayQueuePlugin, StartError> {
        Box::pin(start::start(self)).await
    }
}
