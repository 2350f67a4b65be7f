//! State of a handler set, shared between the plugin and the dispatcher's thread.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delayq_core::presence::{InstanceId, InstanceInfo};
use delayq_core::store::{Bucket, Wakeup};
use delayq_core::{Error, Result, Store, TaskType};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use super::served_type::ServedType;
use super::thread::SchedulerThread;
use super::threads::Threads;
use crate::error::StartError;
use crate::handler::{Idleness, IdlenessReport, Notice, Phase, Wiring};
use crate::health::HandlerHealth;
use crate::host;
use crate::settings::Settings;
use crate::status::Status;
use crate::submit::TaskSubmitService;
use crate::type_context::TypeContext;
use crate::workers::{WorkerRegistry, check_shards, shards_of};

/// State shared by all handlers of a process.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) tasks: Arc<TaskSubmitService>,
    pub(super) registry: WorkerRegistry,
    pub(super) settings: Settings,
    pub(super) app: Handle,
    /// This instance. Maintenance adds the types that it serves.
    pub(super) instance: InstanceInfo,
    pub(super) phase: watch::Sender<Phase>,
    notices: mpsc::UnboundedSender<Notice>,
    /// The handlers that have not ended.
    pub(super) handlers: TaskTracker,
    /// The number of the last question to all handlers about their idleness.
    questions: watch::Sender<u64>,
    /// Maintenance has something to do ahead of schedule.
    pub(super) news: Notify,
    /// The store has lost data, possibly its list of types.
    pub(super) has_lost_data: AtomicBool,
    /// Wake-ups of types that are not served yet may have been missed.
    pub(super) has_missed: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) types: BTreeMap<TaskType, ServedType>,
    /// The types no longer served whose handlers have not all ended yet.
    pub(super) leaving: BTreeSet<TaskType>,
    /// The types whose settings or buckets have to be synchronised, each with the earliest
    /// `Clock::elapsed` for the next call: at most one per poll.
    pub(super) stale: BTreeMap<TaskType, Duration>,
    threads: Threads,
}

impl Shared {
    pub(super) fn new(
        tasks: TaskSubmitService,
        registry: WorkerRegistry,
        settings: Settings,
        app: Handle,
        notices: mpsc::UnboundedSender<Notice>,
    ) -> Self {
        let started_at = settings.clock.now();
        let (id, pid) = (InstanceId::generate(), std::process::id());
        let state = State {
            types: BTreeMap::new(),
            leaving: BTreeSet::new(),
            stale: BTreeMap::new(),
            threads: Threads::new(&settings, &app),
        };
        Self {
            store: Arc::clone(tasks.store()),
            tasks: Arc::new(tasks),
            registry,
            settings,
            app,
            instance: InstanceInfo::new(id, host::name(), pid, started_at),
            phase: watch::Sender::new(Phase::Running),
            notices,
            handlers: TaskTracker::new(),
            questions: watch::Sender::default(),
            news: Notify::new(),
            has_lost_data: AtomicBool::new(false),
            has_missed: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.settings.clock.elapsed()
    }

    pub(super) fn served(&self) -> Vec<TaskType> {
        self.state().types.keys().cloned().collect()
    }

    pub(super) fn health(&self) -> Vec<HandlerHealth> {
        let elapsed = self.elapsed();
        let state = self.state();
        let types = state.types.values();
        types.flat_map(|served| served.health(elapsed)).collect()
    }

    /// A thread separate from those of the types.
    pub(super) fn start_thread(&self, name: &str) -> Result<SchedulerThread, StartError> {
        self.state().threads.start(name)
    }

    /// Tells all handlers to stop claiming and to stop their workers after `grace`, and puts the
    /// reason into their health. Only the first call counts. Returns true for that call.
    pub(super) fn stop(&self, grace: Duration, why: &'static str) -> bool {
        let stop_at = self.elapsed().saturating_add(grace);
        let is_first = self.phase.send_if_modified(|phase| {
            let is_first = *phase == Phase::Running;
            if is_first {
                *phase = Phase::Stopping(stop_at);
            }
            is_first
        });
        let state = self.state();
        let types = state.types.values().filter(|_| is_first);
        for (bucket, member) in types.flat_map(|served| &served.handlers) {
            member.status.update(|health| {
                health.stopped = Some(why);
                if health.running > 0 {
                    let running = health.running;
                    info!(%bucket, running, ?grace, "stopping; waiting for its workers");
                }
            });
        }
        is_first
    }

    /// The ends of all handlers, for the first caller.
    pub(super) fn take_ends(&self) -> Vec<tokio::task::JoinHandle<()>> {
        let mut state = self.state();
        let members = state
            .types
            .values_mut()
            .flat_map(|served| served.handlers.values_mut());
        members.filter_map(|member| member.ended.take()).collect()
    }

    /// Lists a type in the store. A full store cannot do this, but its tasks must still run, so
    /// that is not an error: the type's next submit will list it.
    pub(super) async fn list(&self, task_type: &TaskType) -> Result<()> {
        match self.store.register_type(task_type).await {
            Err(error @ Error::Full { .. }) => {
                warn!(%task_type, %error, "the type is not listed yet; its first task will do that");
                Ok(())
            }
            result => result,
        }
    }

    /// Begins to serve `task_type` if a worker here serves it and it is not served yet. Its
    /// handlers start with the next [`refresh`](Self::refresh).
    pub(super) fn serve(&self, task_type: &TaskType) -> Result<(), StartError> {
        let mut state = self.state();
        if state.types.contains_key(task_type) || state.leaving.contains(task_type) {
            return Ok(());
        }
        let Some(workers) = self.registry.of_type(task_type) else {
            return Ok(());
        };
        let context = TypeContext::new(
            task_type.clone(),
            workers,
            Arc::clone(&self.tasks),
            &self.settings,
            self.app.clone(),
        );
        let options = &context.options();
        check_shards(task_type.as_str(), options, shards_of(options))?;
        let workers = context.workers();
        if workers.len() > 1 {
            let workers = workers.names();
            info!(%task_type, ?workers, "each task of this type runs all of these workers");
        }
        if let Some(unserved) = &self.settings.telemetry.unserved {
            unserved.is_served(task_type);
        }
        let thread = state.threads.assign(task_type)?;
        let recording = self.settings.recording;
        let served = ServedType::new(Arc::new(context), thread, recording);
        state.types.insert(task_type.clone(), served);
        state.stale.insert(task_type.clone(), Duration::ZERO);
        self.news.notify_one();
        Ok(())
    }

    /// The time when [`refresh`](Self::refresh) has something to do.
    pub(super) fn next_refresh(&self) -> Option<Duration> {
        self.state().stale.values().min().copied()
    }

    /// For each stale type: puts the settings of its workers into the store, and starts handlers
    /// for its buckets. Goes through all types before it fails, and prefers to return an error that
    /// is not transient. `None` if no type was stale.
    pub(super) async fn refresh(&self) -> Option<Result<()>> {
        let stale = self.take_stale();
        if stale.is_empty() {
            return None;
        }
        let mut failed = None;
        for task_type in stale {
            let declared = self.declare(&task_type).await;
            let buckets = self.store.buckets(&task_type).await;
            let served = self.serve_buckets(&task_type, buckets);
            for error in [declared.err(), served.err()].into_iter().flatten() {
                // An error that is not transient is tried again in the next round of maintenance.
                if error.is_transient() {
                    self.mark_stale(&task_type);
                }
                if failed
                    .as_ref()
                    .is_none_or(|failed: &Error| failed.is_transient())
                {
                    failed = Some(error);
                }
            }
        }
        Some(failed.map_or(Ok(()), Err))
    }

    fn take_stale(&self) -> Vec<TaskType> {
        let (mut state, now) = (self.state(), self.elapsed());
        let due = state.stale.iter().filter(|(_, at)| **at <= now);
        let due: Vec<_> = due.map(|(task_type, _)| task_type.clone()).collect();
        for task_type in &due {
            state.stale.remove(task_type);
            if let Some(served) = state.types.get_mut(task_type) {
                served.asked_at = Some(now);
            }
        }
        due
    }

    async fn declare(&self, task_type: &TaskType) -> Result<()> {
        let undeclared = self
            .state()
            .types
            .get(task_type)
            .and_then(|one| one.undeclared.clone());
        let Some(settings) = undeclared else {
            return Ok(());
        };
        self.store.configure_type(task_type, &settings).await?;
        if let Some(served) = self.state().types.get_mut(task_type) {
            served.undeclared = None;
        }
        Ok(())
    }

    fn serve_buckets(&self, task_type: &TaskType, buckets: Result<Vec<Bucket>>) -> Result<()> {
        let mut state = self.state();
        let Some(served) = state.types.get_mut(task_type) else {
            return Ok(());
        };
        // A shutdown has already told all handlers that existed.
        if *self.phase.borrow() != Phase::Running {
            return Ok(());
        }
        let options = &served.context.options();
        let checked = buckets.and_then(|buckets| {
            check_shards(task_type.as_str(), options, buckets.len())?;
            Ok(buckets)
        });
        match checked {
            Ok(buckets) => served.serve(buckets, |bucket, phase| self.wiring(bucket, phase)),
            Err(error) => {
                served.failed(error.clone());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Marks the settings and buckets of a type to be synchronised again.
    pub(super) fn mark_stale(&self, task_type: &TaskType) {
        let poll = self.settings.poll;
        let mut state = self.state();
        let asked_at = state
            .types
            .get(task_type)
            .and_then(|served| served.asked_at);
        let at = asked_at.map_or(Duration::ZERO, |at| at.saturating_add(poll));
        state.stale.insert(task_type.clone(), at);
        self.news.notify_one();
    }

    /// Marks the buckets of all types to be read again.
    pub(super) fn mark_all_stale(&self) {
        self.served()
            .iter()
            .for_each(|task_type| self.mark_stale(task_type));
    }

    /// Marks the settings of a type to be sent to the store again.
    pub(super) fn forget_declared(&self, task_type: &TaskType) {
        if let Some(served) = self.state().types.get_mut(task_type) {
            served.forget_declared();
        }
        self.mark_stale(task_type);
    }

    fn wiring(&self, bucket: &Bucket, type_phase: watch::Receiver<Phase>) -> Wiring {
        Wiring {
            instance: self.instance.id.clone(),
            status: Status::new(bucket.clone(), &self.settings.telemetry.outages),
            wake: Arc::new(Notify::new()),
            phase: self.phase.subscribe(),
            type_phase,
            notices: self.notices.clone(),
            skew_log: Arc::clone(&self.settings.telemetry.skew),
            idleness: IdlenessReport::new(self.questions.subscribe()),
            _alive: self.handlers.token(),
        }
    }

    /// Makes every handler claim and report whether it is idle. Returns the number of the question,
    /// and a receiver of each handler's reports.
    pub(super) fn ask(&self) -> (u64, Vec<watch::Receiver<Idleness>>) {
        let state = self.state();
        let served = state.types.values();
        let members = served.flat_map(|served| served.handlers.values());
        let answers = members.map(|member| member.idleness.clone()).collect();
        self.questions.send_modify(|question| *question += 1);
        (*self.questions.borrow(), answers)
    }

    /// Serves the types in the store and their buckets, without waiting for a wake-up.
    pub(super) async fn serve_all(&self) {
        for task_type in self.store.types().await.unwrap_or_default() {
            if self.serve(&task_type).is_err() || !self.is_without_handlers(&task_type) {
                continue;
            }
            let buckets = self.store.buckets(&task_type).await;
            if let Err(error) = self.serve_buckets(&task_type, buckets) {
                warn!(%task_type, %error, "cannot serve the type");
            }
        }
    }

    fn is_without_handlers(&self, task_type: &TaskType) -> bool {
        let state = self.state();
        let served = state.types.get(task_type);
        served.is_some_and(|served| served.handlers.is_empty())
    }

    /// Wakes the handlers that the wake-up concerns.
    pub(super) fn wake(&self, wakeup: &Wakeup) {
        let Some(task_type) = wakeup.task_type() else {
            if !self.has_missed.swap(true, Ordering::Relaxed) {
                self.news.notify_one();
            }
            let state = self.state();
            let types = state.types.values();
            return types.for_each(|served| served.wake(None));
        };
        let state = self.state();
        let Some(served) = state.types.get(task_type) else {
            drop(state);
            if let Err(error) = self.serve(task_type) {
                error!(%task_type, %error, "cannot serve a new type");
            }
            return;
        };
        let bucket = match wakeup {
            Wakeup::Bucket(bucket) => Some(bucket),
            _ => None,
        };
        if bucket.is_some_and(|bucket| !served.handlers.contains_key(bucket)) {
            drop(state);
            return self.mark_stale(task_type);
        }
        served.wake(bucket);
    }
}
