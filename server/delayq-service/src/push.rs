//! Push: sends due tasks to targets.
//!
//! A target is served by a worker of delayq's own plugin, which runs in the server as in any
//! application. Nothing here schedules, claims or settles.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use delayq_core::task::Headers;
use delayq_plugin::{
    BATCH_TYPE, DelayQueuePlugin, Error, Namespace, Result, Store, TaskId, TaskType, TypePattern,
    WorkerOptions,
};
use futures_util::future::poll_immediate;
use tokio::sync::{Mutex, Notify};
use tracing::{info, warn};

use crate::policy::Policies;
use crate::problem::Problem;

mod answer;
mod barred;
mod board;
mod callees;
mod config;
mod connector;
mod courier;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod grpc;
mod guard;
mod http;
#[cfg(feature = "kafka")]
mod kafka;
mod later;
mod own_target;
mod parcel;
mod seal;
mod secret;
mod service;
mod services;
mod target;
mod target_kinds;
#[cfg(test)]
mod tests;
mod worker;

use self::board::Board;
pub use self::callees::Announced;
pub use self::config::{KafkaConfig, PushConfig};
pub use self::courier::Courier;
pub use self::guard::Guard;
pub use self::own_target::KeptTask;
pub use self::own_target::{OWN_TARGET, refuse_reserved, veil};
pub use self::seal::Seals;
use self::seal::Subject;
use self::secret::Hidden;
pub use self::service::{SPRING_ID, SPRING_TIME, SPRING_TYPE};
pub use self::services::{BadService, check_service};
pub use self::target::Target;
use self::worker::PushWorker;

/// How often changes by other servers are looked for.
const REFRESH: Duration = Duration::from_millis(400);
/// How long running pushes may take after their target is removed.
const GRACE: Duration = Duration::from_secs(30);
/// Batches are looked for every so many rounds.
const BATCH_ROUNDS: u64 = 12;
/// Scheduler threads of a namespace.
const THREADS: usize = 2;

/// The pushes of a namespace.
#[derive(Debug)]
pub struct Push {
    board: Arc<Board>,
    store: Arc<dyn Store>,
    /// Notified when this server changes a target.
    news: Notify,
    serving: Mutex<ServingState>,
    /// True if the namespace has had batches, whose watchers the plugin runs.
    has_batches: AtomicBool,
    rounds: AtomicU64,
}

/// A target as it would be stored.
#[derive(Debug)]
pub struct Prepared {
    /// The target that is stored now.
    pub before: Option<Arc<Target>>,
    /// The target to store, with its secrets.
    pub target: Target,
    /// The secret that it gets anew.
    pub made: Option<String>,
}

/// The state of the plugin.
#[derive(Debug, Default)]
struct ServingState {
    /// Started when the first target is set.
    plugin: Option<Arc<DelayQueuePlugin>>,
    served: BTreeMap<TypePattern, WorkerOptions>,
    /// Types and patterns whose targets this server may not push to, as told in the log.
    barred: BTreeMap<TypePattern, String>,
    is_over: bool,
}

impl ServingState {
    /// Logs each target that this server has come to be barred from.
    fn tell_barred(&mut self, namespace: &Namespace, barred: BTreeMap<TypePattern, String>) {
        for (pattern, reason) in &barred {
            if self.barred.get(pattern) != Some(reason) {
                warn!(%namespace, %pattern,
                    "left the tasks to servers that may push them, as this one may not: {reason}");
            }
        }
        self.barred = barred;
    }
}

impl Push {
    pub fn new(
        store: Arc<dyn Store>,
        namespace: Namespace,
        courier: Arc<Courier>,
        policies: Arc<Policies>,
    ) -> Self {
        let board = Board::new(Arc::clone(&store), namespace, courier, policies);
        Self {
            board: Arc::new(board),
            store,
            news: Notify::new(),
            serving: Mutex::default(),
            has_batches: AtomicBool::new(false),
            rounds: AtomicU64::new(0),
        }
    }

    /// Sees batches to their end from now on.
    pub fn watch_batches(&self) {
        self.has_batches.store(true, Ordering::Relaxed);
        self.news.notify_one();
    }

    /// Looks from time to time for batches that were sent in another way.
    async fn look_for_batches(&self) -> Result<()> {
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        let has_batches = self.has_batches.load(Ordering::Relaxed);
        if has_batches || !round.is_multiple_of(BATCH_ROUNDS) {
            return Ok(());
        }
        let watchers = self.store.stats(&TaskType::new(BATCH_TYPE)?).await?;
        if watchers.scheduled + watchers.running > 0 {
            self.has_batches.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Pushes tasks and follows changes of targets; never returns.
    pub async fn run(&self) {
        let mut is_lost = false;
        loop {
            let refreshed = self.refresh().await;
            match &refreshed {
                Err(error) if !is_lost => {
                    let namespace = &self.board.namespace;
                    warn!(%namespace, %error, "cannot reload targets; changes are not used yet");
                }
                _ => {}
            }
            is_lost = refreshed.is_err();
            tokio::select! {
                () = tokio::time::sleep(REFRESH) => {}
                () = self.news.notified() => {}
            }
        }
    }

    async fn refresh(&self) -> Result<(), Problem> {
        self.board.refresh().await?;
        self.board.callees.refresh().await?;
        self.look_for_batches().await?;
        self.serve().await
    }

    /// Refuses a target that this server may not push to.
    fn allowed(&self, target: &Target) -> Result<(), String> {
        let courier = &self.board.courier;
        target.allowed(&courier.guard, &courier.config)
    }

    /// The types and patterns whose targets this server may not push to, each with the reason.
    /// Their tasks are left to servers that may.
    fn barred(&self) -> BTreeMap<TypePattern, String> {
        let targets = self.board.all();
        let barred = targets.iter().filter_map(|(pattern, target)| {
            let reason = self.allowed(target).err()?;
            Some((pattern.clone(), reason))
        });
        barred.collect()
    }

    /// The types and patterns to serve, each with the options of its target: those with a target,
    /// and those that instances serve.
    fn wanted(&self) -> BTreeMap<TypePattern, WorkerOptions> {
        let targets = self.board.all();
        let barred = self.barred();
        // Types of a service target are served only while they have instances. Otherwise their
        // tasks wait unclaimed.
        let others = targets
            .iter()
            .filter(|(pattern, one)| one.service.is_none() && !barred.contains_key(*pattern));
        let mut wanted: BTreeMap<_, _> = others
            .map(|(pattern, target)| (pattern.clone(), Board::options(target)))
            .collect();
        for task_type in &*self.board.own() {
            let set = self.board.of_type(task_type);
            if set.is_none_or(|target| self.allowed(&target).is_err()) {
                let pattern = TypePattern::Exact(task_type.clone());
                wanted.insert(pattern, Target::options_of_own());
            }
        }
        let is_service = |set: &Option<Arc<Target>>| {
            let set = set.as_ref();
            set.is_some_and(|target| target.service.is_some())
        };
        for task_type in self.board.announced_types() {
            let set = self.board.of_type(&task_type);
            if set.is_none() || is_service(&set) {
                let target = set.unwrap_or_else(|| Arc::new(Target::of_service()));
                let pattern = TypePattern::Exact(task_type);
                let options = Board::options(&target);
                wanted.insert(pattern, options);
            }
        }
        wanted
    }

    /// Makes the plugin serve exactly the types and patterns that have targets.
    async fn serve(&self) -> Result<(), Problem> {
        let targets = self.wanted();
        let mut serving = self.serving.lock().await;
        serving.tell_barred(&self.board.namespace, self.barred());
        let is_idle = targets.is_empty() && !self.has_batches.load(Ordering::Relaxed);
        if serving.is_over || (is_idle && serving.plugin.is_none()) {
            return Ok(());
        }
        let plugin = match &serving.plugin {
            Some(plugin) => Arc::clone(plugin),
            None => Arc::clone(serving.plugin.insert(Arc::new(self.start().await?))),
        };
        let gone = serving
            .served
            .keys()
            .filter(|one| !targets.contains_key(one));
        for pattern in gone.cloned().collect::<Vec<_>>() {
            serving.served.remove(&pattern);
            info!(namespace = %self.board.namespace, %pattern, "stopped pushing tasks");
            // Started here and finished in the background, so that running pushes do not delay
            // other targets.
            let pattern = pattern.to_string();
            drop(poll_immediate(pin!(plugin.unserve(&pattern, GRACE))).await);
        }
        for (pattern, options) in targets {
            if serving.served.get(&pattern) == Some(&options) {
                continue;
            }
            let worker = PushWorker::new(&self.board);
            let namespace = &self.board.namespace;
            // After an error of the store the plugin keeps trying.
            match plugin.serve(pattern.to_string(), options, worker).await {
                Ok(()) => info!(%namespace, %pattern, "started pushing tasks"),
                Err(error) => {
                    warn!(%namespace, %pattern, %error, "cannot push tasks as configured");
                }
            }
            serving.served.insert(pattern, options);
        }
        Ok(())
    }

    async fn start(&self) -> Result<DelayQueuePlugin, Problem> {
        let plugin = DelayQueuePlugin::builder()
            .store(Arc::clone(&self.store))
            .without_registered_workers()
            .workers_later()
            // No task of another program ends the process that sends it.
            .max_lock_expiries(u32::MAX)
            .threads(THREADS)
            .metrics_without_gauges()
            .start();
        plugin.await.map_err(|error| match error {
            delayq_plugin::StartError::Store(error) => error.into(),
            error => Problem::unavailable(error.to_string()),
        })
    }

    /// Stops pushing. Running pushes have `grace` to finish.
    pub async fn close(&self, grace: Duration) {
        let plugin = {
            let mut serving = self.serving.lock().await;
            serving.is_over = true;
            serving.plugin.take()
        };
        if let Some(plugin) = plugin {
            plugin.shutdown(grace).await;
        }
    }

    /// All targets, without their secrets.
    pub async fn targets(&self) -> Result<Vec<(TypePattern, Target)>, Problem> {
        self.board.refresh().await?;
        let targets = self.board.all();
        let targets = targets
            .iter()
            .map(|(pattern, target)| (pattern.clone(), target.shown()));
        Ok(targets.collect())
    }

    /// The target of a type or pattern, without its secrets.
    pub async fn target(&self, pattern: &TypePattern) -> Result<Option<Target>, Problem> {
        let target = self.board.stored(pattern).await?;
        Ok(target.map(|target| target.shown()))
    }

    /// The target of a type or pattern, with its secrets.
    pub async fn stored(&self, pattern: &TypePattern) -> Result<Option<Arc<Target>>, Problem> {
        Ok(self.board.stored(pattern).await?)
    }

    /// Sets the target of a type or pattern. Returns the target without its secrets, and a new
    /// secret if one was made.
    pub async fn set(
        &self,
        pattern: &TypePattern,
        target: Target,
    ) -> Result<(Target, Option<String>), Problem> {
        let Prepared { target, made, .. } = self.prepared(pattern, target).await?;
        let shown = target.shown();
        self.put(pattern, target).await?;
        Ok((shown, made))
    }

    /// A target as it would be stored: with what it keeps of the one before, and with a new secret
    /// if it needs one.
    ///
    /// # Errors
    /// `bad-request` for an invalid target, and errors of the store.
    pub async fn prepared(
        &self,
        pattern: &TypePattern,
        mut target: Target,
    ) -> Result<Prepared, Problem> {
        let before = self.board.stored(pattern).await?;
        target.keep_from(before.as_deref());
        let mut made = None;
        if let Some(http) = target.http.as_mut().filter(|http| http.secrets.is_none()) {
            let secret =
                secret::new_secret().map_err(|error| Problem::unavailable(error.to_string()))?;
            http.secrets = Some(vec![Hidden::new(secret.clone())]);
            made = Some(secret);
        }
        let courier = &self.board.courier;
        let checked = target.check(&courier.guard, &courier.config);
        checked.map_err(Problem::bad_request)?;
        Ok(Prepared {
            before,
            target,
            made,
        })
    }

    /// Stores a target that was [prepared](Self::prepared).
    pub async fn put(&self, pattern: &TypePattern, target: Target) -> Result<(), Problem> {
        self.board.write(pattern, target).await?;
        self.news.notify_one();
        Ok(())
    }

    /// Removes the target of a type or pattern; returns true if it existed.
    pub async fn remove(&self, pattern: &TypePattern) -> Result<bool, Problem> {
        let removed = self.board.remove(pattern).await?;
        self.news.notify_one();
        Ok(removed)
    }

    /// The seals of task targets.
    pub fn seals(&self) -> Arc<Seals> {
        Arc::clone(&self.board.seals)
    }

    /// The headers of a task with its own target. Tasks of its type are pushed from now on; the
    /// task's id and message stay as they are.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid target, and errors of the store.
    pub async fn headers_of_own(
        &self,
        (task_type, id): (&TaskType, &TaskId),
        message: &[u8],
        text: &str,
    ) -> Result<Headers> {
        let target = own_target::read(text, &self.board.courier);
        let target = target.map_err(|reason| Error::invalid("target", reason))?;
        let subject = Subject {
            task_type,
            id,
            message,
        };
        let headers = self.board.sealer().await?.headers(subject, &target)?;
        self.board.push_own_of(task_type).await?;
        self.news.notify_one();
        Ok(headers)
    }

    /// Applications that announced themselves, by name, as they are shown.
    pub async fn callees(&self) -> Result<Vec<(String, Announced)>, Problem> {
        let all = self.board.callees.all().await?.into_iter();
        Ok(all.map(|(name, one)| (name, one.shown())).collect())
    }

    /// Stores the announcement of an application.
    pub async fn announce(&self, name: &str, announced: &Announced) -> Result<(), Problem> {
        let guard = &self.board.courier.services.announced;
        let url = guard.url(&announced.url);
        let url = url.map_err(|reason| {
            let text = format!("url: {reason} (networks of instances: service.allow_networks)");
            Problem::bad_request(text)
        });
        url?;
        self.board.callees.put(name, announced).await?;
        self.news.notify_one();
        Ok(())
    }

    /// Withdraws an announcement; returns true if it existed.
    pub async fn withdraw(&self, name: &str) -> Result<bool, Problem> {
        let removed = self.board.callees.remove(name).await?;
        self.news.notify_one();
        Ok(removed)
    }

    /// Returns true if every client that may create a task may give it a target.
    pub fn is_open(&self) -> bool {
        self.board.courier.config.allow_task_targets
    }
}
