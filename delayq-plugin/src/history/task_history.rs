//! What became of tasks: the live store first, then the history.

use std::sync::Arc;

use delayq_core::history::{EndsStatus, Life, MAX_ENDS};
use delayq_core::{Clock, Error, Result, Store, TaskId, TaskInfo, TaskType};
use delayq_history::{
    Forget, HistoryPage, HistoryQuery, HistoryRetention, HistoryStatus, HistoryStore,
};
use metrics::SharedString;
use serde::Serialize;

use super::health::HistoryHealth;
use super::kept_history::KeptHistory;
use super::shipper::Shipper;
use super::shipping::ship;
use crate::metric::{HistorySamples, Metrics};

/// How often the records that wait are looked at, if not all of them were seen.
const LOOKS: u32 = 3;

/// What became of a task, see [`TaskHistory::what_became_of`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Fate {
    /// The task as the store knows it now, which is what
    /// [`find`](crate::TaskSubmitService::find) returns; `None` once it is forgotten there.
    pub now: Option<TaskInfo>,
    /// The ends of its lives, latest first: from the history, and of those that wait to be shipped.
    /// A life that goes on is not among them.
    pub lives: Vec<Life>,
    /// Records that wait to be shipped and were not looked at: the first 1,000 were. If the task is
    /// unknown and this is not 0, it may be among them.
    pub unread: u64,
    /// Why the history could not be read, if so: only what the store knows is here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_error: Option<Error>,
}

impl Fate {
    /// True if neither the store nor the history knows the task.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.now.is_none() && self.lives.is_empty()
    }
}

/// What a [`TaskHistory::forget`] has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Forgotten {
    /// Lives that were removed.
    pub lives: u64,
}

/// The history of the tasks of a service, see
/// [`TaskSubmitService::history`](crate::TaskSubmitService::history).
#[derive(Clone, Debug)]
pub struct TaskHistory {
    store: Arc<dyn Store>,
    kept: KeptHistory,
    history: Arc<HistoryStore>,
    clock: Arc<dyn Clock>,
    /// The namespace of its metrics, if there are any.
    counted: Option<SharedString>,
}

impl TaskHistory {
    pub(crate) fn new(store: Arc<dyn Store>, kept: KeptHistory, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            history: Arc::clone(&kept.store),
            kept,
            clock,
            counted: None,
        }
    }

    /// The same history, whose shipping sets these metrics.
    pub(crate) fn counted(mut self, metrics: Option<&Metrics>) -> Self {
        self.counted = metrics.map(|metrics| metrics.namespace().clone());
        self
    }

    /// What ships the records of ended tasks.
    pub(crate) fn shipper(self, retention: HistoryRetention) -> Shipper {
        let samples = self.counted.as_ref().map(HistorySamples::new);
        let shipper = Shipper::new(self.store, self.kept, self.clock, retention);
        shipper.with_metrics(samples)
    }

    /// Ships the records of ended tasks to the history, and removes lives whose retention is over,
    /// until the future is dropped. For a process without a plugin; a plugin with a history does
    /// this itself.
    pub async fn ship(self, retention: HistoryRetention) {
        Arc::new(self.shipper(retention)).run().await;
    }

    /// The state of the shipping, if this process ships the records of this service.
    #[must_use]
    pub fn health(&self) -> Option<HistoryHealth> {
        self.kept.health()
    }

    /// What became of a task: asks the store, and then the history. A status asked right after a
    /// submit comes from the store.
    ///
    /// # Errors
    /// `InvalidName`, and the errors of the store; those of the history database if the store knows
    /// nothing of the task.
    pub async fn what_became_of(&self, task_type: &str, id: &str) -> Result<Fate> {
        let (task_type, id) = (TaskType::new(task_type)?, TaskId::new(id)?);
        let now = self.store.find(&task_type, &id).await?;
        // Before the history: what is shipped in between is in both.
        let (mut lives, unread) = self.waiting_lives(&task_type, &id).await?;
        let (kept, history_error) = match self.history.lives(&task_type, &id).await {
            Ok(kept) => (kept, None),
            Err(error) if now.is_some() || !lives.is_empty() => (Vec::new(), Some(error)),
            Err(error) => return Err(error),
        };
        add_new(&mut lives, kept);
        lives.sort_by_key(|life| std::cmp::Reverse((life.ended_at, life.fence)));
        Ok(Fate {
            now,
            lives,
            unread,
            history_error,
        })
    }

    /// The lives of a task among the records that wait to be shipped, and the number of those that
    /// were not looked at.
    async fn waiting_lives(&self, task_type: &TaskType, id: &TaskId) -> Result<(Vec<Life>, u64)> {
        let (mut lives, mut unread) = (Vec::new(), 0);
        for _ in 0..LOOKS {
            let queued = match self.store.ends_status().await {
                Err(Error::Unsupported(_)) => 0,
                status => status?.waiting,
            };
            let read = match queued {
                0 => Vec::new(),
                _ => self.store.ends(MAX_ENDS).await?,
            };
            let count = read.len();
            unread = queued.saturating_sub(count as u64);
            let read = read.into_iter().map(|end| end.life);
            let own = read.filter(|life| life.task_type == *task_type && life.id == *id);
            add_new(&mut lives, own);
            // Otherwise others may have shipped what was counted.
            if unread == 0 || count >= MAX_ENDS {
                break;
            }
        }
        Ok((lives, unread))
    }

    /// A page of the lives that a search finds, latest end first. Ends of the last seconds may not
    /// be shipped yet.
    ///
    /// # Errors
    /// `InvalidInput` for a search that [`check`](HistoryQuery::check) refuses, and the errors of
    /// the history database.
    pub async fn search(&self, query: &HistoryQuery) -> Result<HistoryPage> {
        self.history.search(query).await
    }

    /// Removes lives from the history for good, such as those of a person. Ships what waits first,
    /// so that it is covered. Tasks that have not ended are left alone: cancel them before.
    ///
    /// # Errors
    /// `InvalidInput` for an empty group, and the errors of the store and of the history database.
    pub async fn forget(&self, whom: &Forget) -> Result<Forgotten> {
        // What ends from now on is not theirs to remove: a busy store always has more.
        let mut left = match self.store.ends_status().await {
            Err(Error::Unsupported(_)) => 0,
            status => status?.waiting,
        };
        while left > 0 {
            let shipped = ship(&*self.store, &self.history).await?;
            if shipped.taken == 0 {
                break;
            }
            left = left.saturating_sub(shipped.taken as u64);
        }
        let lives = self.history.forget(whom).await?;
        Ok(Forgotten { lives })
    }

    /// What waits in the store, and the state of the history database.
    ///
    /// # Errors
    /// The errors of the store and of the history database.
    pub async fn status(&self) -> Result<(EndsStatus, HistoryStatus)> {
        let waiting = match self.store.ends_status().await {
            Err(Error::Unsupported(_)) => EndsStatus::default(),
            waiting => waiting?,
        };
        Ok((waiting, self.history.status().await?))
    }
}

/// Adds the lives of one task that are not there yet.
fn add_new(lives: &mut Vec<Life>, more: impl IntoIterator<Item = Life>) {
    for life in more {
        if !lives.iter().any(|other| is_same(other, &life)) {
            lives.push(life);
        }
    }
}

/// True if two records of one task are of the same end.
fn is_same(one: &Life, other: &Life) -> bool {
    let key = |life: &Life| (life.ended_at, life.fence, life.submitted_at, life.outcome);
    key(one) == key(other)
}
