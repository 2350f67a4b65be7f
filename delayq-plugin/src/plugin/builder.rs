//! Builder of a plugin.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::job::MAX_MESSAGE_BYTES;
use delayq_core::registry::registered_workers;
use delayq_core::store::{Durability, StoreOptions};
use delayq_core::time::MAX_DELAY;
use delayq_core::{Clock, Components, Limits, Namespace, Store, TaskWorker, WorkerOptions};
use tokio::runtime::Handle;
use tracing::info;

mod listeners;
mod maps;

use self::listeners::Listeners;
use self::maps::Maps;
use super::DelayQueuePlugin;
use crate::attempt::Innermost;
use crate::error::StartError;
use crate::events::{TaskListener, run_listener};
use crate::handler_set::HandlerSet;
use crate::middleware::{Middleware, MiddlewareStack};
use crate::recurring::Recurring;
use crate::settings::Settings;
use crate::submit::TaskSubmitService;
use crate::telemetry::Telemetry;
use crate::url::{StoreUrl, open_store};
use crate::workers::{BuiltWorker, WorkerRegistry};

/// Sets up a [`DelayQueuePlugin`].
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until start()"]
pub struct DelayQueuePluginBuilder {
    url: StoreUrl,
    store: Option<Arc<dyn Store>>,
    options: StoreOptions,
    limits: Limits,
    components: Components,
    workers: Vec<BuiltWorker>,
    recurring: Vec<Recurring>,
    maps: Maps,
    without_registered: bool,
    expected: Vec<String>,
    only: Vec<String>,
    settings: Settings,
    listeners: Listeners,
    middleware: MiddlewareStack,
    /// The options given that are about opening a store.
    opening: Vec<&'static str>,
    /// What was given twice or cannot be used; `start` says so.
    mistakes: Vec<StartError>,
}

impl DelayQueuePluginBuilder {
    /// Keeps tasks where `url` says, see [`open_store`]. Default `sqlite:delayq.sqlite`.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.opening.push("url");
        self.url = StoreUrl(url.into());
        self
    }

    /// Keeps tasks in `store`, which is open already. Its URL, namespace, durability, retention and
    /// call timeout are its own: `start` fails if one of them is given here, too.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Keeps to this namespace; default `default`. Two namespaces never see each other.
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.opening.push("namespace");
        self.options.namespace = namespace;
        self
    }

    /// The weakest durability that will do; default [`Durability::Process`]. `start` fails, with
    /// the line to change, when the store cannot keep it.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.opening.push("durability");
        self.options.durability = durability;
        self
    }

    /// How long ended tasks are remembered; default 10 minutes, zero: not at all.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.opening.push("retention");
        self.options.retention = retention;
        self
    }

    /// How long one call to the store may take before it fails and is repeated; default 5 s, at
    /// most a day.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.opening.push("call_timeout");
        self.options.call_timeout = timeout;
        self
    }

    /// Limits of the jobs that the submit service takes. `start` fails for limits above the hard
    /// ones: messages of 1 MiB and delays of 10 years.
    pub fn limits(mut self, limits: Limits) -> Self {
        if limits.max_message_bytes > MAX_MESSAGE_BYTES || limits.max_delay > MAX_DELAY {
            self.mistaken(
                "limits",
                "at most 1 MiB (1,048,576 bytes) a message and 10 years of delay",
            );
        }
        self.limits = limits;
        self
    }

    /// Adds a value that workers are built from, see
    /// [`FromComponents`](delayq_core::FromComponents). One of each type: `start` fails for a
    /// second one. [`TaskSubmitService`] is one that every plugin has, for workers that send.
    pub fn component<T: Send + Sync + 'static>(mut self, component: T) -> Self {
        self.refuse_second::<T>();
        self.components.insert(component);
        self
    }

    /// Adds a value that is in an `Arc` already, as a `T`, which may be a `dyn Trait`: a worker
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
        self.refuse_second::<T>();
        self.components.insert_arc(component);
        self
    }

    fn refuse_second<T: ?Sized + Send + Sync + 'static>(&mut self) {
        if self.components.get::<T>().is_ok() {
            let type_name = std::any::type_name::<T>();
            self.mistakes
                .push(StartError::DuplicateComponent { type_name });
        }
    }

    fn mistaken(&mut self, option: &'static str, reason: &'static str) {
        self.mistakes
            .push(StartError::InvalidSetting { option, reason });
    }

    /// Adds a worker by hand, for a type or a pattern such as `report.*`. Its name, which tells the
    /// workers of one type apart, is that of its Rust type.
    pub fn worker<W: TaskWorker>(
        mut self,
        task_type: impl Into<String>,
        options: WorkerOptions,
        worker: W,
    ) -> Self {
        let name = std::any::type_name::<W>();
        let built = BuiltWorker::new(task_type, name, options, Arc::new(worker));
        self.workers.push(built);
        self
    }

    /// Declares a task that recurs: each occurrence runs once over all instances that declare it.
    /// `#[task_worker(type = "..", every = "..")]` does the same for a worker whose message is
    /// nothing. `start` fails when no worker here serves the type, and for two of one type and
    /// name.
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
        self.recurring.push(recurring);
        self
    }

    /// Passes every worker, registered or added by hand, through `map` once, when the plugin
    /// starts: to set options from a configuration. Several maps are applied in the order given. To
    /// put code around every run there is [`middleware`](Self::middleware).
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
        self.maps.0.push(Box::new(map));
        self
    }

    /// Adds a listener, which hears what this process does with its tasks: an alarm for dead ones,
    /// a count of failures. See [`TaskListener`].
    pub fn listener(mut self, listener: impl TaskListener) -> Self {
        self.listeners.0.push(Arc::new(listener));
        self
    }

    /// Puts `middleware` around every task: the sends of the plugin's service, and the runs of its
    /// workers. The first one is the outermost. See [`Middleware`].
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        self.middleware = self.middleware.with(middleware);
        self
    }

    /// Leaves out the workers that `#[task_worker]` registered; only those added by hand run.
    pub fn without_registered_workers(mut self) -> Self {
        self.without_registered = true;
        self
    }

    /// `start` fails unless each of these types has a worker: a guard against a crate that the
    /// linker dropped.
    pub fn expect_types<T: Into<String>>(mut self, types: impl IntoIterator<Item = T>) -> Self {
        self.expected.extend(types.into_iter().map(Into::into));
        self
    }

    /// Serves only the types that one of these patterns matches, such as `mail.*` or
    /// `order.cancel`, of all workers: a process for the mails, from the same program. Sending is
    /// not limited. `start` fails for a pattern that no worker serves, and for an empty list.
    pub fn only<T: Into<String>>(mut self, patterns: impl IntoIterator<Item = T>) -> Self {
        let before = self.only.len();
        self.only.extend(patterns.into_iter().map(Into::into));
        if self.only.len() == before {
            self.mistaken(
                "only",
                "at least one type or pattern: with none nothing would run",
            );
        }
        self
    }

    /// Shares `n` scheduler threads among all types; `start` fails for 0. Default: each of the
    /// first 32 types has a thread of its own, and further types share those.
    pub fn threads(mut self, n: usize) -> Self {
        if n == 0 {
            self.mistaken("threads", "at least 1");
        }
        self.settings.threads = Some(n.max(1));
        self
    }

    /// Runs everything on the runtime that [`start`](Self::start) is called in, without threads of
    /// its own. For simulations: on a current-thread runtime, with a [`Clock`] that shows tokio's
    /// paused time, a test runs in one order of events, and time passes whenever nothing else is to
    /// be done.
    ///
    /// Not for production: whatever blocks the runtime then keeps locks from being extended.
    #[cfg(any(test, feature = "test-util"))]
    pub fn on_application_runtime(mut self) -> Self {
        self.settings.on_app_runtime = true;
        self
    }

    /// How often a handler polls its bucket when nothing wakes it; default 1 s, at least 10 ms,
    /// below which `start` fails. It
    /// bounds how late a task can be whose wake-up was lost. Idle polls come up to an eighth of it
    /// early, so that those of many types go out together.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        if interval < Duration::from_millis(10) {
            self.mistaken("poll_interval", "at least 10 ms");
        }
        self.settings.poll = interval.max(Duration::from_millis(10));
        self
    }

    /// Sends a task to dead after its lock has expired `n` times (at least 1): it seems to kill its
    /// process. Default 3.
    pub fn max_lock_expiries(mut self, n: u32) -> Self {
        if n == 0 {
            self.mistaken("max_lock_expiries", "at least 1");
        }
        self.settings.max_lock_expiries = n.max(1);
        self
    }

    /// Uses another clock, for tests with virtual time. The store has its own.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.settings.clock = clock;
        self
    }

    /// Opens the store, checks it, builds the workers and starts a handler for each bucket of each
    /// type: those served by name, and those in the store's list that a pattern matches. Overdue
    /// tasks run at once. Workers run on the tokio runtime that this is called in.
    ///
    /// # Errors
    /// See [`StartError`]; nothing runs then.
    pub async fn start(mut self) -> Result<DelayQueuePlugin, StartError> {
        let app = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        self.check()?;
        let is_opened_here = self.store.is_none();
        let opened = match self.store.take() {
            Some(store) => store,
            None => open_store(&self.url.0, self.options.clone()).await?,
        };
        let clock = Arc::clone(&self.settings.clock);
        let telemetry = Telemetry::new(&clock).with_unserved(Arc::clone(&clock));
        self.settings.telemetry = telemetry.clone();
        let service = TaskSubmitService::new(Arc::clone(&opened));
        let service = service.with_limits(self.limits).with_clock(clock);
        let service = service.with_telemetry(telemetry.clone());
        let service = service.with_stack(self.middleware.clone());
        // One that the application added is of another store, and goes first.
        if self.components.get::<TaskSubmitService>().is_err() {
            self.components.insert(service.clone());
        }
        let registry = match self.registry(&service) {
            Ok(registry) => registry,
            Err(error) => {
                if is_opened_here {
                    opened.close().await;
                }
                return Err(error);
            }
        };
        let types = registry.describe();
        service
            .declared()
            .set(registry.recurring().to_vec(), self.settings.clock.now());
        for listener in self.listeners.0 {
            app.spawn(run_listener(listener, telemetry.hub.listen()));
        }
        let handlers = HandlerSet::start(service.clone(), registry, self.settings, app).await?;
        let store = service.store();
        let durability = store.durability().as_str();
        let namespace = store.namespace().map(Namespace::as_str);
        info!(store = store.name(), namespace, durability, instance = %handlers.instance_id(),
            %types, "delayq started");
        Ok(DelayQueuePlugin { service, handlers })
    }

    /// Refuses what cannot be before a store is opened.
    fn check(&mut self) -> Result<(), StartError> {
        if let Some(mistake) = self.mistakes.drain(..).next() {
            return Err(mistake);
        }
        if self.store.is_some() && !self.opening.is_empty() {
            let options = self.opening.join(", ");
            return Err(StartError::OptionsOfStore { options });
        }
        let is_linked = !self.without_registered && registered_workers().next().is_some();
        if self.workers.is_empty() && !is_linked {
            return Err(StartError::NoWorkers);
        }
        Ok(())
    }

    fn registry(&self, tasks: &TaskSubmitService) -> Result<WorkerRegistry, StartError> {
        let mut registry = WorkerRegistry::default();
        let mut workers = Vec::new();
        if !self.without_registered {
            workers = BuiltWorker::registered(&self.components)?;
        }
        workers.extend(self.workers.iter().cloned());
        for worker in workers {
            let mut built = self.maps.0.iter().fold(worker, |built, map| map(built));
            if !self.middleware.is_empty() {
                let (name, tasks) = (built.name.clone(), tasks.clone());
                let worker = built.worker;
                let inner = Innermost {
                    worker,
                    name,
                    tasks,
                };
                built.worker = self.middleware.around(Arc::new(inner));
            }
            registry.add(built)?;
        }
        for recurring in &self.recurring {
            registry.declare(recurring.clone())?;
        }
        registry.check_recurring()?;
        registry.keep_only(&self.only)?;
        registry.expect(&self.expected)?;
        Ok(registry)
    }
}
