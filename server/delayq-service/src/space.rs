//! A namespace of the server and its services.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use delayq_plugin::history::{HistoryRetention, HistoryStore};
use delayq_plugin::store::StoreOptions;
use delayq_plugin::{Namespace, SystemClock, TaskReply, TaskSubmitService};
use futures_util::future::join_all;
use tokio::sync::{Mutex, OnceCell};
use tracing::{debug, warn};

use crate::config::{Config, HistoryPlan, NamespaceLimits, is_own_namespace};
use crate::discovery::Discovery;
use crate::limits::{Limits, Pending};
use crate::place::{Mover, PlaceBook, PlacedStore};
use crate::policy::Policies;
use crate::problem::Problem;
use crate::pull::Pull;
use crate::push::{Courier, Push};
use crate::recorded_store::{RecordedStore, tell_all};
use crate::recurring::RecurringTasks;
use crate::stop::Stopping;

/// How often opening a namespace is retried so that its tasks can be pushed.
const REOPEN: Duration = Duration::from_secs(5);
/// How long running pushes may take when the server stops.
const PUSH_GRACE: Duration = Duration::from_secs(20);

/// How often moves by other servers are looked for.
const REFRESH: Duration = Duration::from_millis(400);
/// Each move is advanced after this many checks.
const DRIVE: u64 = 3;

/// A namespace of the server.
#[derive(Debug)]
pub struct Space {
    /// The tasks as clients see them.
    pub tasks: TaskSubmitService,
    /// The same tasks with their own targets, which clients can neither see nor set.
    pub within: TaskSubmitService,
    pub namespace: Namespace,
    /// Claims and settlements of clients.
    pub pull: Pull,
    /// The store, and the state of its move to another one.
    pub place: Arc<PlacedStore>,
    /// The pushes.
    pub push: Push,
    /// The policies of types.
    pub policies: Arc<Policies>,
    /// The recurring tasks that are declared to the server.
    pub recurring: RecurringTasks,
    /// The same as `tasks`, without counting submits: an application that uses the server as its
    /// store counts its own.
    pub(crate) uncounted: TaskSubmitService,
    pub(crate) limits: NamespaceLimits,
    pub(crate) pending: Pending,
    stopping: Stopping,
}

impl Space {
    /// The stop signal of the server.
    pub fn stopping(&self) -> &Stopping {
        &self.stopping
    }

    /// The reply of a task within `wait`. If there is none by then or when the server stops,
    /// returns the state of the task.
    pub async fn reply(
        &self,
        task_type: &str,
        id: &str,
        wait: Duration,
    ) -> delayq_plugin::Result<TaskReply> {
        tokio::select! {
            reply = self.tasks.wait_for_reply(task_type, id, wait) => reply,
            () = self.stopping.ended() => {
                self.tasks.wait_for_reply(task_type, id, Duration::ZERO).await
            }
        }
    }
}

/// The namespaces of the server. Each is opened when it is first needed.
#[derive(Debug)]
pub struct Spaces {
    config: Arc<Config>,
    stopping: Stopping,
    book: Arc<PlaceBook>,
    names: BTreeSet<Namespace>,
    courier: Option<Arc<Courier>>,
    /// The history, whose connections all namespaces share.
    history: Option<HistoryStore>,
    /// The known instances of applications.
    pub discovery: Arc<Discovery>,
    open: Mutex<HashMap<Namespace, Arc<OnceCell<Arc<Space>>>>>,
}

impl Spaces {
    pub fn new(config: &Arc<Config>, book: Arc<PlaceBook>, stopping: Stopping) -> Self {
        let declared = config.namespaces.keys();
        let mut names: BTreeSet<_> = declared
            .filter(|name| !is_own_namespace(name))
            .filter_map(|name| Namespace::new(name).ok())
            .collect();
        names.insert(Namespace::default());
        let discovery = Arc::new(Discovery::new(&config.service));
        let timeout = config.store_options().call_timeout;
        // Cannot fail: the configuration was checked.
        let history = config
            .history_plan()
            .and_then(|plan| plan.open(Namespace::default(), timeout).ok());
        #[cfg(feature = "kafka")]
        let history = history.map(|history| {
            let topic = crate::history_topic::HistoryTopic::of(config);
            topic.into_iter().fold(history, HistoryStore::copied_to)
        });
        Self {
            history,
            config: Arc::clone(config),
            stopping,
            book,
            names,
            // Cannot fail: the configuration was checked.
            courier: Courier::new(&config.push, Arc::clone(&discovery))
                .ok()
                .map(|courier| courier.with_retention(config.store_options().retention))
                .map(Arc::new),
            discovery,
            open: Mutex::default(),
        }
    }

    /// The declared namespaces.
    pub fn names(&self) -> Vec<Namespace> {
        self.names.iter().cloned().collect()
    }

    /// A declared namespace; opens it if needed.
    pub async fn of(&self, namespace: &Namespace) -> Result<Arc<Space>, Problem> {
        // Checked here regardless of configuration and token, because every access to a namespace
        // passes here.
        if is_own_namespace(namespace.as_str()) {
            let text = format!("the namespace {namespace} is that of the server itself");
            return Err(Problem::forbidden(text));
        }
        if !self.names.contains(namespace) {
            let text = format!(
                "there is no namespace {namespace}: declare it as [namespaces.{namespace}] in the \
                 configuration"
            );
            return Err(Problem::not_found(text));
        }
        let cell = {
            let mut open = self.open.lock().await;
            Arc::clone(open.entry(namespace.clone()).or_default())
        };
        // Boxed: its future is deep, and part of that of every request.
        let opened = cell.get_or_try_init(|| Box::pin(self.open(namespace)));
        let space = opened.await?;
        Ok(Arc::clone(space))
    }

    async fn open(&self, namespace: &Namespace) -> Result<Arc<Space>, Problem> {
        let (config, book) = (Arc::clone(&self.config), Arc::clone(&self.book));
        let options = StoreOptions {
            namespace: namespace.clone(),
            ..config.store_options()
        };
        let place = PlacedStore::open(options, config, book).await?;
        let space = self.space(namespace, place)?;
        // No attempt is settled by another policy than that of its type.
        space.policies.read().await?;
        Ok(Arc::new(space))
    }

    fn space(&self, namespace: &Namespace, place: Arc<PlacedStore>) -> Result<Space, Problem> {
        let recordings = self.config.recordings();
        let within = RecordedStore::around(Arc::clone(&place) as _, recordings.clone());
        let courier = self.courier.clone();
        let courier = courier
            .ok_or_else(|| Problem::unavailable("push.allow_networks is no list of networks"))?;
        let most = self.config.limits.max_lock_expiries;
        let policies = Arc::new(Policies::new(Arc::clone(&within), most));
        let push = Push::new(
            Arc::clone(&within),
            namespace.clone(),
            courier,
            Arc::clone(&policies),
        );
        let door = RecordedStore::around(place.door(push.seals()), recordings);
        let pull = Pull::start(
            Arc::clone(&door),
            Arc::new(SystemClock),
            self.stopping.clone(),
            Arc::clone(&policies),
        );
        let sizes = delayq_core::Limits {
            max_message_bytes: self.config.max_message_bytes,
            ..delayq_core::Limits::default()
        };
        let service = |store| {
            let service = TaskSubmitService::new(store);
            service.with_limits(sizes).with_metrics()
        };
        let tasks = match &self.history {
            Some(history) => service(door).with_history(Arc::new(history.of(namespace.clone()))),
            None => service(door),
        };
        let recurring = RecurringTasks::new(Arc::clone(&within), tasks.clone());
        Ok(Space {
            recurring,
            uncounted: TaskSubmitService::new(Arc::clone(tasks.store())),
            tasks,
            within: service(within),
            namespace: namespace.clone(),
            pull,
            limits: Limits::new(&self.config).of(namespace),
            pending: Pending::default(),
            stopping: self.stopping.clone(),
            place,
            push,
            policies,
        })
    }

    /// Follows and advances moves of namespaces; never returns.
    pub async fn follow(self: Arc<Self>) {
        let mut movers = HashMap::new();
        for tick in 1_u64.. {
            tokio::time::sleep(REFRESH).await;
            if let Err(error) = self.book.refresh().await {
                debug!(%error, "cannot read the list of namespace moves");
                continue;
            }
            let open: Vec<_> = self.open.lock().await.values().cloned().collect();
            for space in open.iter().filter_map(|cell| cell.get()) {
                space.place.follow().await;
            }
            if tick.is_multiple_of(DRIVE) {
                self.drive(&mut movers).await;
            }
        }
    }

    async fn drive(&self, movers: &mut HashMap<Namespace, Mover>) {
        for namespace in self.book.moving() {
            let Ok(space) = self.of(&namespace).await else {
                continue;
            };
            let mover = movers
                .entry(namespace.clone())
                .or_insert_with(|| Mover::new(Arc::clone(&space.place)));
            if let Err(error) = mover.advance().await {
                warn!(%namespace, %error, "cannot advance the move of the namespace");
            }
        }
    }

    /// Offers a store that is already open; for tests.
    #[doc(hidden)]
    pub async fn offer(&self, namespace: Namespace, store: Arc<dyn delayq_plugin::Store>) {
        let (config, book) = (Arc::clone(&self.config), Arc::clone(&self.book));
        let place = PlacedStore::of(namespace.clone(), store, config, book);
        if let Ok(space) = self.space(&namespace, place) {
            let cell = OnceCell::new_with(Some(Arc::new(space)));
            self.open.lock().await.insert(namespace, Arc::new(cell));
        }
    }

    /// Pushes the tasks of all namespaces and updates their gauges; never returns.
    pub async fn run(self: Arc<Self>) {
        let plan = self.config.history_plan();
        let retention = plan.map_or_else(Default::default, |plan: HistoryPlan| plan.retention);
        let all = self.names().into_iter().map(|namespace| {
            let (spaces, retention) = (Arc::clone(&self), retention.clone());
            async move {
                loop {
                    match spaces.of(&namespace).await {
                        Ok(space) => {
                            let (push, tasks) = (space.push.run(), space.tasks.keep_gauges());
                            let history = ship_history(&space, retention.clone(), &spaces.config);
                            let (policies, recurring) =
                                (space.policies.follow(), space.recurring.run());
                            tokio::join!(push, tasks, policies, recurring, history);
                        }
                        Err(problem) => warn!(
                            %namespace,
                            %problem,
                            "cannot open the namespace; nothing is pushed yet"
                        ),
                    }
                    tokio::time::sleep(REOPEN).await;
                }
            }
        });
        join_all(all).await;
    }

    /// Closes all stores.
    pub async fn close(&self) {
        let open = std::mem::take(&mut *self.open.lock().await);
        let spaces = || open.values().filter_map(|cell| cell.get());
        // All at once, because each may wait for running pushes.
        join_all(spaces().map(|space| space.push.close(PUSH_GRACE))).await;
        for space in spaces() {
            space.pull.close().await;
            space.tasks.close().await;
        }
    }
}

/// Tells the types whether their ends are recorded, and ships the records if the server keeps a
/// history; never returns.
async fn ship_history(space: &Space, retention: HistoryRetention, config: &Config) {
    let (recordings, has_bound) = (config.recordings(), config.history_buffer.is_some());
    let store = space.within.store();
    if recordings.tells()
        && let Err(error) = tell_all(&**store, &recordings, has_bound).await
    {
        warn!(namespace = %space.namespace, %error,
            "not all types are told whether to record their ends: each is at its next task");
    }
    match space.tasks.history() {
        Some(history) => history.ship(retention).await,
        None => std::future::pending().await,
    }
}
