//! The handlers of this process: started at the start and when new types appear, stopped together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delayq_core::store::{Wakeup, Wakeups};
use delayq_core::{Error, Result, Store, TaskType};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tracing::{error, info, warn};

use crate::claim::Bucket;
use crate::error::StartError;
use crate::handler::{DelayBucketHandler, Phase, Wiring};
use crate::health::{HandlerHealth, Status};
use crate::plugin::Settings;
use crate::roster::Roster;
use crate::scheduler::SchedulerThread;

/// How often the list of types is read, in polls, for new ones that a pattern matches: usually a wake-up
/// tells earlier.
const POLLS_PER_LISTING: u32 = 5;
/// How often the store is asked whether it can still keep its promises, in polls, and the list of types is
/// read for served ones that are gone. Seldom, as an idle type costs the store one call a poll, and no more.
const POLLS_PER_CHECK: u32 = 600;
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
    status: Status,
    /// Taken by the shutdown that awaits it.
    ended: Option<JoinHandle<()>>,
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
        let shared = Arc::new(Shared {
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
        let thread = shared.start_thread(ROUTER_THREAD)?;
        thread.spawn(route(Arc::clone(shared), wakeups));
        Ok(fleet)
    }

    pub(crate) fn types(&self) -> Vec<TaskType> {
        self.shared.served()
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
        let wiring = Wiring {
            app: self.app.clone(),
            poll: self.settings.poll,
            status: status.clone(),
            wake: Arc::clone(&wake),
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
            status,
            ended: Some(ended),
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

    fn wake(&self, wakeup: &Wakeup) {
        match wakeup {
            Wakeup::All => {
                self.members()
                    .by_type
                    .values()
                    .for_each(|member| member.wake.notify_one());
            }
            Wakeup::Type(task_type) if self.wake_member(task_type) => {}
            Wakeup::Type(task_type) => match self.serve(task_type) {
                // A new handler looks at once.
                Ok(_) => {}
                Err(error) => error!(%task_type, %error, "cannot serve a new type"),
            },
        }
    }

    fn wake_member(&self, task_type: &TaskType) -> bool {
        let members = self.members();
        let member = members.by_type.get(task_type);
        member.inspect(|member| member.wake.notify_one()).is_some()
    }

    /// Looks for types that appeared since the start, and lists those again that somebody has taken from
    /// the list: they would not be served after the next restart.
    async fn look_at_types(&self) {
        let types = match self.store.types().await {
            Ok(types) => types,
            Err(error) => return warn!(%error, "cannot read the list of types; trying again"),
        };
        for task_type in self.served() {
            if types.contains(&task_type) {
                continue;
            }
            match self.store.register_type(&task_type).await {
                Ok(()) => warn!(%task_type, "the store had this type listed no more; listed again"),
                Err(error) => warn!(%task_type, %error, "cannot list the type again; trying again"),
            }
        }
        for task_type in types {
            if let Err(error) = self.serve(&task_type) {
                error!(%task_type, %error, "cannot serve a new type");
            }
        }
    }

    /// Has the store look at itself, and logs what is wrong when it begins and when it ends.
    async fn check_store(&self, trouble: &mut Option<Error>) {
        let found = self.store.check().await.err();
        match (&found, &trouble) {
            (Some(error), before) if before.as_ref().map(kind_of) != Some(kind_of(error)) => {
                error!(%error, "the store cannot keep what it promises");
            }
            (None, Some(_)) => {
                info!(
                    store = self.store.name(),
                    "the store can keep what it promises again"
                );
            }
            _ => {}
        }
        *trouble = found;
    }
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

/// Two errors of one kind are one trouble, though their words may differ.
fn kind_of(error: &Error) -> std::mem::Discriminant<Error> {
    std::mem::discriminant(error)
}

/// Wakes the handlers that the store's wake-ups name, until the fleet stops.
async fn route(shared: Arc<Shared>, mut wakeups: Wakeups) {
    let clock = Arc::clone(&shared.settings.clock);
    let mut phase = shared.phase.subscribe();
    let poll = shared.settings.poll;
    let (listing, checking) = (
        poll.saturating_mul(POLLS_PER_LISTING),
        poll.saturating_mul(POLLS_PER_CHECK),
    );
    let mut trouble = None;
    let mut next_check = clock.elapsed().saturating_add(checking);
    loop {
        let mut next_look = next_check;
        if shared.roster.has_patterns() {
            next_look = next_look.min(clock.elapsed().saturating_add(listing));
        }
        let mut timer = clock.sleep_until(next_look);
        loop {
            tokio::select! {
                wakeup = wakeups.next() => match wakeup {
                    Some(wakeup) => shared.wake(&wakeup),
                    None => return,
                },
                () = &mut timer => break,
                () = shared.store_lost_data.notified() => break,
                _ = phase.wait_for(|phase| *phase != Phase::Running) => return,
            }
        }
        let rounds = async {
            if next_check <= clock.elapsed() {
                shared.check_store(&mut trouble).await;
                // The end of a trouble is news, too.
                let pause = if trouble.is_some() { listing } else { checking };
                next_check = clock.elapsed().saturating_add(pause);
            }
            shared.look_at_types().await;
        };
        tokio::select! {
            () = rounds => {}
            _ = phase.wait_for(|phase| *phase != Phase::Running) => return,
        }
    }
}
