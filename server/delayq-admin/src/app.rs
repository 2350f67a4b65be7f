//! State shared by all requests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::request::Parts;
use delayq_ops::{DeadGroups, Finding, Forecast, Overview, RecurringTasks, SearchResults};
use delayq_plugin::{Result, TaskSubmitService};
use tokio::sync::Semaphore;

use crate::cache::Cache;
use crate::jobs::Jobs;
use crate::key::Key;
use crate::look::{BatchLook, BatchesLook, HistoryLook, LogLook, TaskLook, TasksLook, TypeLook};
use crate::surroundings::Surroundings;
use crate::viewer::{Role, Viewer};

/// The largest number of open event streams. Each renders a page every two seconds.
const MAX_STREAMS: usize = 200;
/// The largest number of searches at a time. Each can make hundreds of calls.
const MAX_SEARCHES: usize = 4;

/// Identifies the viewer of a request; `None` if unknown.
pub(crate) type Authorize = Arc<dyn Fn(&Parts) -> Option<Viewer> + Send + Sync>;

/// What stands around the page of a request.
pub(crate) type Around = Arc<dyn Fn(&Parts) -> Surroundings + Send + Sync>;

/// State shared by all requests.
pub(crate) struct App {
    pub(crate) tasks: TaskSubmitService,
    pub(crate) authorize: Option<Authorize>,
    pub(crate) around: Option<Around>,
    pub(crate) is_read_only: bool,
    pub(crate) trusts_forwarded: bool,
    pub(crate) key: Key,
    pub(crate) jobs: Jobs,
    pub(crate) streams: Arc<Semaphore>,
    /// Searches at a time.
    pub(crate) searches: Arc<Semaphore>,
    /// False while the small call that asks whether the store answers fails.
    is_answering: AtomicBool,
    pub(crate) shelf: Shelf,
}

/// The cached snapshots of all pages.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    pub(crate) overview: Cache<Overview>,
    pub(crate) of_type: Cache<TypeLook>,
    pub(crate) forecast: Arc<Cache<Forecast>>,
    pub(crate) tasks: Cache<TasksLook>,
    pub(crate) task: Cache<TaskLook>,
    pub(crate) dead: Cache<DeadGroups>,
    pub(crate) history: Cache<HistoryLook>,
    pub(crate) log: Cache<LogLook>,
    pub(crate) health: Cache<Vec<Finding>>,
    pub(crate) count: Cache<u64>,
    pub(crate) search: Cache<SearchResults>,
    pub(crate) recurring: Cache<RecurringTasks>,
    pub(crate) batches: Cache<BatchesLook>,
    pub(crate) batch: Cache<BatchLook>,
    /// Whether the store answers now.
    pub(crate) pulse: Cache<()>,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("tasks", &self.tasks)
            .field("is_read_only", &self.is_read_only)
            .finish_non_exhaustive()
    }
}

impl App {
    pub(crate) fn new(tasks: TaskSubmitService) -> Self {
        Self {
            tasks,
            authorize: None,
            around: None,
            is_read_only: false,
            trusts_forwarded: false,
            key: Key::random(),
            jobs: Jobs::default(),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            searches: Arc::new(Semaphore::new(MAX_SEARCHES)),
            is_answering: AtomicBool::new(true),
            shelf: Shelf::default(),
        }
    }

    /// The viewer of a request. Without a rule, everybody may look and nobody may change anything.
    pub(crate) fn viewer(&self, parts: &Parts) -> Option<Viewer> {
        let mut viewer = match &self.authorize {
            Some(authorize) => authorize(parts)?,
            None => Viewer::new("anonymous", Role::Viewer),
        };
        if self.is_read_only {
            viewer.role = Role::Viewer;
        }
        Some(viewer)
    }

    /// Asks whether the store answers. Once it does again, every view is read again: the last read
    /// of one that failed may be a while ago.
    pub(crate) async fn feel_pulse(self: Arc<Self>) -> Result<()> {
        // Until it answers: this future is dropped if that takes too long.
        let was_answering = self.is_answering.swap(false, Ordering::Relaxed);
        self.tasks.instances().await?;
        self.is_answering.store(true, Ordering::Relaxed);
        if !was_answering {
            self.outdate();
        }
        Ok(())
    }

    /// Marks all snapshots as outdated after a change.
    pub(crate) fn outdate(&self) {
        let all = &self.shelf;
        all.overview.outdate();
        all.of_type.outdate();
        all.forecast.outdate();
        all.tasks.outdate();
        all.task.outdate();
        all.dead.outdate();
        all.history.outdate();
        all.log.outdate();
        all.health.outdate();
        all.count.outdate();
        all.search.outdate();
        all.recurring.outdate();
        all.batches.outdate();
        all.batch.outdate();
    }
}
