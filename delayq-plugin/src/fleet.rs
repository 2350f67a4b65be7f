//! The handlers of this process: started at the start and when new types appear, stopped together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delayq_core::store::{InstanceId, InstanceInfo, Taken, TypeSettings};
use delayq_core::{Error, Result, Store, TaskType, Timestamp, WorkerOptions};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tracing::{error, info, warn};

mod router;

use self::router::Router;

use crate::claim::Bucket;
use crate::error::StartError;
use crate::handler::{DelayBucketHandler, Phase, Wiring};
use crate::health::{HandlerHealth, Status};
use crate::host;
use crate::plugin::Settings;
use crate::roster::Roster;
use crate::scheduler::SchedulerThread;

/// The thread that routes wake-ups.
const ROUTER_THREAD: &str = "delayq";

/// All handlers, and the router that wakes them.
#[derive(Debug)]
pub(crate) struct Fleet {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    store: Arc<dyn Store>,
    roster: Roster,
    settings: Settings,
    app: Handle,
    /// Who this is; the types that it serves are told by its router.
    instance: InstanceInfo,
    phase: watch::Sender<Phase>,
    store_lost_data: Arc<Notify>,
    members: Mutex<Members>,
}

#[derive(Debug, Default)]
struct Members {
    by_type: BTreeMap<TaskType, Member>,
    threads: Vec<SchedulerThread>,
}

#[derive(Debug)]
struct Member {
    wake: Arc<Notify>,
    taken: watch::Sender<Option<Taken>>,
    status: Status,
    /// Taken by the shutdown that awaits it.
    ended: Option<JoinHandle<()>>,
    /// The settings that its workers ask for, until they are in the store.
    undeclared: Option<TypeSettings>,
    /// Its own thread, unless threads are shared.
    _thread: Option<SchedulerThread>,
}

impl Fleet {
    pub(crate) async fn start(
        store: Arc<dyn Store>,
        roster: Roster,
        settings: Settings,
        app: Handle,
    ) -> Result<Self, StartError> {
        let instance = InstanceInfo {
            id: InstanceId::generate(),
            host: host::name(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            types: Vec::new(),
            type_count: 0,
            started_at: settings.clock.now(),
            seen_at: Timestamp::ZERO,
        };
        let shared = Arc::new(Shared {
            instance,
            store,
            roster,
            settings,
            app,
            phase: watch::Sender::new(Phase::Running),
            store_lost_data: Arc::default(),
            members: Mutex::default(),
        });
        let fleet = Self { shared };
        let shared = &fleet.shared;
        // Listening begins before the first claim, so that no wake-up falls between.
        let wakeups = shared.store.wakeups();
        for n in 0..shared.settings.threads.unwrap_or(0) {
            let thread = shared.start_thread(&format!("delayq-{n}"))?;
            shared.members().threads.push(thread);
        }
        for task_type in shared.roster.exact_types() {
            shared.list(&task_type).await?;
            shared.serve(&task_type)?;
        }
        shared.serve_listed().await?;
        match shared.declare().await {
            // The router tries again: meanwhile those settings hold that the store has.
            Err(error) if error.is_transient() => {
                warn!(%error, "the settings of a type cannot be put into the store yet");
            }
            declared => declared?,
        }
        let thread = shared.start_thread(ROUTER_THREAD)?;
        thread.spawn(Router::new(Arc::clone(shared), wakeups).run());
        Ok(fleet)
    }

    pub(crate) fn types(&self) -> Vec<TaskType> {
        self.shared.served()
    }

    pub(crate) fn instance_id(&self) -> &InstanceId {
        &self.shared.instance.id
    }

    pub(crate) fn health(&self) -> Vec<HandlerHealth> {
        let elapsed = self.shared.settings.clock.elapsed();
        let members = self.shared.members();
        let health = |(task_type, member): (&TaskType, &Member)| {
            member.status.health(task_type.clone(), elapsed)
        };
        members.by_type.iter().map(health).collect()
    }

    /// Stops all handlers and waits for their ends. Safe to call again and at the same time.
    pub(crate) async fn shutdown(&self, grace: Duration) {
        self.shared.stop(grace);
        let ended: Vec<_> = {
            let mut members = self.shared.members();
            members
                .by_type
                .values_mut()
                .filter_map(|member| member.ended.take())
                .collect()
        };
        for handler in ended {
            if let Err(error) = handler.await {
                error!(%error, "a handler ended abnormally");
            }
        }
        // Whoever did not take a handle waits until every handler has let go of the phase.
        self.shared.phase.closed().await;
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // Handlers that still run are told to stop now; their threads end when the last of them does.
        self.shared.stop(Duration::ZERO);
    }
}

impl Shared {
    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn served(&self) -> Vec<TaskType> {
        self.members().by_type.keys().cloned().collect()
    }

    fn start_thread(&self, name: &str) -> Result<SchedulerThread, StartError> {
        if self.settings.on_app_runtime {
            return Ok(SchedulerThread::on(self.app.clone()));
        }
        SchedulerThread::start(name)
    }

    /// Tells all handlers to stop their workers after `grace`; the first call counts.
    fn stop(&self, grace: Duration) {
        let stop_at = self.settings.clock.elapsed().saturating_add(grace);
        let is_first = self.phase.send_if_modified(|phase| {
            let first = *phase == Phase::Running;
            *phase = if first {
                Phase::Stopping(stop_at)
            } else {
                *phase
            };
            first
        });
        if !is_first {
            return;
        }
        for (task_type, member) in &self.members().by_type {
            let running = member.status.stopping("shut down");
            if running > 0 {
                info!(%task_type, running, ?grace, "stopping; waiting for its workers");
            }
        }
    }

    /// A full store cannot list a new type, but has to be drained: the first submit will list it.
    async fn list(&self, task_type: &TaskType) -> Result<()> {
        match self.store.register_type(task_type).await {
            Err(error @ Error::Full { .. }) => {
                warn!(%task_type, %error, "the type is not listed yet; its first task will do that");
                Ok(())
            }
            result => result,
        }
    }

    /// Starts a handler for `task_type`, if somebody here serves it and it has none. Returns whether it
    /// is served.
    fn serve(&self, task_type: &TaskType) -> Result<bool, StartError> {
        let Some(crew) = self.roster.crew(task_type) else {
            return Ok(false);
        };
        let mut members = self.members();
        if members.by_type.contains_key(task_type) {
            return Ok(true);
        }
        let options = crew.combined();
        let bucket = Bucket {
            task_type: task_type.clone(),
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.settings.clock),
            crew,
            options,
            max_lock_expiries: self.settings.max_lock_expiries,
        };
        let (wake, status) = (Arc::new(Notify::new()), Status::default());
        let taken = watch::Sender::default();
        let wiring = Wiring {
            app: self.app.clone(),
            poll: self.settings.poll,
            status: status.clone(),
            wake: Arc::clone(&wake),
            taken: taken.subscribe(),
            phase: self.phase.subscribe(),
            store_lost_data: Arc::clone(&self.store_lost_data),
        };
        let handler = supervise(Arc::new(bucket), wiring);
        let count = members.by_type.len();
        let (ended, thread) = match members.threads.len() {
            0 => {
                let thread = self.start_thread(&format!("delayq-{task_type}"))?;
                (thread.spawn(handler), Some(thread))
            }
            shared => {
                let thread = members.threads.get(count % shared);
                (
                    thread
                        .expect("a remainder is within the length")
                        .spawn(handler),
                    None,
                )
            }
        };
        let member = Member {
            wake,
            taken,
            status,
            ended: Some(ended),
            undeclared: settings_of(&options),
            _thread: thread,
        };
        members.by_type.insert(task_type.clone(), member);
        Ok(true)
    }

    /// Serves every type in the store's list that somebody here serves.
    async fn serve_listed(&self) -> Result<(), StartError> {
        for task_type in self.store.types().await? {
            if !self.serve(&task_type)? {
                info!(%task_type, "no worker here serves this type of the store; it is left alone");
            }
        }
        Ok(())
    }

    /// Puts the settings that workers ask for into the store.
    async fn declare(&self) -> Result<()> {
        let mut failed = None;
        for (task_type, settings) in self.undeclared() {
            match self.store.configure_type(&task_type, &settings).await {
                Ok(()) => {
                    if let Some(member) = self.members().by_type.get_mut(&task_type) {
                        member.undeclared = None;
                    }
                }
                // One whose node is away keeps no other one from its settings.
                Err(error) if error.is_transient() => failed = failed.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn undeclared(&self) -> Vec<(TaskType, TypeSettings)> {
        let members = self.members();
        let members = members.by_type.iter();
        members
            .filter_map(|(task_type, member)| Some((task_type.clone(), member.undeclared.clone()?)))
            .collect()
    }

    /// Has the settings of a type put into the store again.
    fn forget_declared(&self, task_type: &TaskType) {
        if let Some(member) = self.members().by_type.get_mut(task_type) {
            let crew = self.roster.crew(task_type);
            member.undeclared = crew.and_then(|crew| settings_of(&crew.combined()));
        }
    }
}

/// What the store keeps of the options of a type's workers; `None` when they ask for nothing.
fn settings_of(options: &WorkerOptions) -> Option<TypeSettings> {
    let mut settings = TypeSettings::default();
    if let Some(most) = options.max_pending {
        settings = settings.max_pending(Some(most));
    }
    if let Some(partitions) = options.partitions {
        settings = settings.partitions(partitions);
    }
    (settings != TypeSettings::default()).then_some(settings)
}

/// Runs the handler of one type. Should it ever panic, which would be a defect of delayq, the type must
/// not stall: its locks are left to expire and a new handler takes over.
async fn supervise(bucket: Arc<Bucket>, wiring: Wiring) {
    loop {
        let handler = DelayBucketHandler::new(Arc::clone(&bucket), wiring.clone());
        let Err(error) = tokio::spawn(handler.run()).await else {
            return;
        };
        wiring
            .status
            .update(|counters| counters.failures_in_a_row += 1);
        error!(task_type = %bucket.task_type, %error, "a handler ended abnormally; starting another");
        let pause = bucket.clock.elapsed().saturating_add(wiring.poll);
        bucket.clock.sleep_until(pause).await;
    }
}
