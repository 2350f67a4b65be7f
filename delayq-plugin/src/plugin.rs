//! The plugin: its builder, its running handle.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{Durability, InstanceId, InstanceInfo, StoreOptions};
use delayq_core::{
    Clock, Components, Limits, Namespace, Result, Store, SystemClock, TaskType, TaskWorker,
    WorkerOptions,
};
use tokio::runtime::Handle;
use tracing::info;

use crate::error::StartError;
use crate::fleet::Fleet;
use crate::health::{Health, UnservedType};
use crate::roster::{BuiltWorker, Roster};
use crate::submit::TaskSubmitService;
use crate::url::{StoreUrl, open_store};

/// Where tasks are kept unless told otherwise: a file in the working directory.
const DEFAULT_URL: &str = "sqlite:delayq.sqlite";
/// How long running workers may take when a signal ends the process.
const SIGNAL_GRACE: Duration = Duration::from_secs(20);
/// A task whose lock has expired this often is taken for poison.
const MAX_LOCK_EXPIRIES: u32 = 3;

/// A running plugin: one [`DelayBucketHandler`](crate::DelayBucketHandler) for each task type that a
/// worker here serves.
///
/// End it with [`shutdown`](Self::shutdown). When it is dropped instead, nothing new is started and
/// running workers are stopped; tasks that could not be given back return when their locks expire.
#[derive(Debug)]
pub struct DelayQueuePlugin {
    service: TaskSubmitService,
    fleet: Fleet,
}

impl DelayQueuePlugin {
    /// A builder with the defaults: the embedded store in `delayq.sqlite`, namespace `default`, all
    /// workers that were linked in, a thread for each type, a poll every second.
    pub fn builder() -> DelayQueuePluginBuilder {
        DelayQueuePluginBuilder::default()
    }

    /// The service that sends tasks to the same store.
    #[must_use]
    pub fn submit_service(&self) -> TaskSubmitService {
        self.service.clone()
    }

    /// The types that have a handler here now, sorted.
    #[must_use]
    pub fn served_types(&self) -> Vec<TaskType> {
        self.fleet.types()
    }

    /// The instances that are there now, this one among them, in the order of their starts: every plugin on the
    /// same store and namespace. One that crashed is listed for up to 60 s; one that was started, or began to
    /// serve another type, is known as such a moment later.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        self.service.store().instances().await
    }

    /// The identity of this instance in that list.
    #[must_use]
    pub fn instance_id(&self) -> &InstanceId {
        self.fleet.instance_id()
    }

    /// How the store and the handlers are doing. Asks the store, and waits for its answers for about the time that a
    /// call may take; never fails.
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
            handlers: self.fleet.health(),
            unserved,
        }
    }

    async fn unserved(&self) -> Result<Vec<UnservedType>> {
        let store = self.service.store();
        let served = self.fleet.types();
        let (mut unserved, mut is_silent) = (Vec::new(), false);
        for task_type in store.types().await? {
            if !served.contains(&task_type) {
                let mut stats = None;
                if !is_silent {
                    let answer = store.stats(&task_type).await;
                    // Each further one may take as long to fail.
                    is_silent = answer.as_ref().is_err_and(delayq_core::Error::is_transient);
                    stats = answer.ok();
                }
                unserved.push(UnservedType { task_type, stats });
            }
        }
        Ok(unserved)
    }

    /// Stops claiming, lets running workers finish for up to `grace`, then fires their `cancelled()` and
    /// soon after gives what is left back, so that another instance gets it at once and no attempt is
    /// burned. Returns once all is settled: after at most `grace` + 6 s, also when the store is down.
    ///
    /// Further calls wait for the first one.
    pub async fn shutdown(&self, grace: Duration) {
        self.fleet.shutdown(grace).await;
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

/// Sets up a [`DelayQueuePlugin`].
#[derive(Debug)]
#[must_use = "a builder does nothing until start()"]
pub struct DelayQueuePluginBuilder {
    url: StoreUrl,
    store: Option<Arc<dyn Store>>,
    options: StoreOptions,
    limits: Limits,
    components: Components,
    workers: Vec<BuiltWorker>,
    maps: Maps,
    use_registered: bool,
    expected: Vec<String>,
    settings: Settings,
}

/// What is done to each worker before it runs.
#[derive(Default)]
struct Maps(Vec<Box<dyn Fn(BuiltWorker) -> BuiltWorker + Send + Sync>>);

impl std::fmt::Debug for Maps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Maps({})", self.0.len())
    }
}

/// What the handlers are run with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) poll: Duration,
    /// Scheduler threads shared by all types; `None`: one for each type.
    pub(crate) threads: Option<usize>,
    /// No scheduler threads: handlers run beside the workers.
    pub(crate) on_app_runtime: bool,
    pub(crate) max_lock_expiries: u32,
}

impl Default for DelayQueuePluginBuilder {
    fn default() -> Self {
        Self {
            url: StoreUrl(DEFAULT_URL.to_owned()),
            store: None,
            options: StoreOptions::default(),
            limits: Limits::default(),
            components: Components::default(),
            workers: Vec::new(),
            maps: Maps::default(),
            use_registered: true,
            expected: Vec::new(),
            settings: Settings {
                clock: Arc::new(SystemClock),
                poll: Duration::from_secs(1),
                threads: None,
                on_app_runtime: false,
                max_lock_expiries: MAX_LOCK_EXPIRIES,
            },
        }
    }
}

impl DelayQueuePluginBuilder {
    /// Keeps tasks where `url` says, see [`open_store`]. Default `sqlite:delayq.sqlite`.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = StoreUrl(url.into());
        self
    }

    /// Keeps tasks in `store`, which is open already: the URL, namespace, durability and retention given
    /// here are not used.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Keeps to this namespace; default `default`. Two namespaces never see each other.
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.options.namespace = namespace;
        self
    }

    /// The weakest durability that will do; default [`Durability::Process`]. `start` fails, with the line
    /// to change, when the store cannot keep it.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.options.durability = durability;
        self
    }

    /// How long ended tasks are remembered; default 10 minutes, zero: not at all.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.options.retention = retention;
        self
    }

    /// How long one call to the store may take before it fails and is repeated; default 5 s, at most a day.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.options.call_timeout = timeout;
        self
    }

    /// Limits of the jobs that the submit service takes.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Adds a value that workers are built from, see
    /// [`FromComponents`](delayq_core::FromComponents). One of each type.
    pub fn component<T: Send + Sync + 'static>(mut self, component: T) -> Self {
        self.components.insert(component);
        self
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

    /// Passes every worker, registered or added by hand, through `map` once, when the plugin starts: to
    /// set options from a configuration, or to put something around them all, such as metrics or a record
    /// of what they do. Several maps are applied in the order given.
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

    /// Leaves out the workers that `#[task_worker]` registered; only those added by hand run.
    pub fn without_registered_workers(mut self) -> Self {
        self.use_registered = false;
        self
    }

    /// `start` fails unless each of these types has a worker: a guard against a crate that the linker
    /// dropped.
    pub fn expect_types<T: Into<String>>(mut self, types: impl IntoIterator<Item = T>) -> Self {
        self.expected.extend(types.into_iter().map(Into::into));
        self
    }

    /// Shares `n` scheduler threads (at least 1) among all types, instead of one for each.
    pub fn threads(mut self, n: usize) -> Self {
        self.settings.threads = Some(n.max(1));
        self
    }

    /// Runs everything on the runtime that [`start`](Self::start) is called in, without threads of its own.
    /// For simulations: on a current-thread runtime, with a [`Clock`] that shows tokio's paused time, a test
    /// runs in one order of events, and time passes whenever nothing else is to be done.
    ///
    /// Not for production: whatever blocks the runtime then keeps locks from being extended.
    pub fn on_application_runtime(mut self) -> Self {
        self.settings.on_app_runtime = true;
        self
    }

    /// How often a handler looks into the store when nothing wakes it; default 1 s, at least 10 ms. It
    /// bounds how late a task can be whose wake-up was lost.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.settings.poll = interval.max(Duration::from_millis(10));
        self
    }

    /// Sends a task to dead after its lock has expired `n` times (at least 1): it seems to kill its
    /// process. Default 3.
    pub fn max_lock_expiries(mut self, n: u32) -> Self {
        self.settings.max_lock_expiries = n.max(1);
        self
    }

    /// Uses another clock, for tests with virtual time. The store has its own.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.settings.clock = clock;
        self
    }

    /// Opens the store, checks it, builds the workers and starts a handler for each type: those served
    /// by name, and those in the store's list that a pattern matches. Overdue tasks run at once. Workers
    /// run on the tokio runtime that this is called in.
    ///
    /// # Errors
    /// See [`StartError`]; nothing runs then.
    pub async fn start(self) -> Result<DelayQueuePlugin, StartError> {
        let app = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let roster = self.roster()?;
        info!(types = %roster.describe(), "workers registered");
        let store = match self.store {
            Some(store) => store,
            None => open_store(&self.url.0, self.options).await?,
        };
        let clock = Arc::clone(&self.settings.clock);
        let service = TaskSubmitService::new(Arc::clone(&store));
        let service = service.with_limits(self.limits).with_clock(clock);
        let fleet = Fleet::start(store, roster, self.settings, app).await?;
        Ok(DelayQueuePlugin { service, fleet })
    }

    fn roster(&self) -> Result<Roster, StartError> {
        let mut roster = Roster::default();
        let mut workers = Vec::new();
        if self.use_registered {
            workers = BuiltWorker::registered(&self.components)?;
        }
        workers.extend(self.workers.iter().cloned());
        for worker in workers {
            roster.add(self.maps.0.iter().fold(worker, |built, map| map(built)))?;
        }
        if roster.is_empty() {
            return Err(StartError::NoWorkers);
        }
        self.check_expected(&roster)?;
        Ok(roster)
    }

    fn check_expected(&self, roster: &Roster) -> Result<(), StartError> {
        let mut missing = Vec::new();
        for expected in &self.expected {
            if roster.crew(&TaskType::new(expected)?).is_none() {
                missing.push(expected.as_str());
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let (missing, registered) = (missing.join(", "), roster.describe());
        Err(StartError::MissingTypes {
            missing,
            registered,
        })
    }
}
