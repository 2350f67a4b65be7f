//! The data of the pages of batches.

use delayq_plugin::store::MAX_BATCH;
use delayq_plugin::{
    BATCH_TYPE, BatchProgress, BatchState, BatchSummary, Result, TaskId, TaskInfo, TaskState,
    TaskSubmitService, TaskType,
};

/// The number of ended batches on a page.
const OVER: usize = 50;

/// The batches of a store.
pub(crate) struct BatchesLook {
    /// Those that have not ended, those with a dead watcher first.
    pub(crate) waiting: Vec<BatchSummary>,
    /// Those that are over, latest first.
    pub(crate) over: Vec<BatchSummary>,
    /// True if more wait than are listed.
    pub(crate) has_more: bool,
    /// True if more are over than are listed.
    pub(crate) has_more_over: bool,
}

impl BatchesLook {
    /// Reads the first batches, and the one with this name.
    pub(crate) async fn read(tasks: TaskSubmitService, name: String) -> Result<Self> {
        let mut look = Self {
            waiting: Vec::new(),
            over: Vec::new(),
            has_more: false,
            has_more_over: false,
        };
        for state in [TaskState::Dead, TaskState::Running, TaskState::Scheduled] {
            let page = tasks.batches(state, None, MAX_BATCH).await?;
            look.has_more |= page.next.is_some();
            look.waiting.extend(page.batches);
        }
        let over = tasks.batches(TaskState::Done, None, OVER).await?;
        look.has_more_over = over.next.is_some();
        look.over = over.batches;
        if TaskId::new(&name).is_ok() && !look.has(&name) {
            let watcher = tasks.find(BATCH_TYPE, &name).await?;
            look.add(watcher.and_then(|watcher| BatchSummary::of(&watcher).ok()));
        }
        Ok(look)
    }

    fn has(&self, name: &str) -> bool {
        let mut all = self.waiting.iter().chain(&self.over);
        all.any(|one| one.name.as_str() == name)
    }

    fn add(&mut self, named: Option<BatchSummary>) {
        match named {
            Some(over) if over.state == BatchState::Over => self.over.insert(0, over),
            Some(waiting) => self.waiting.insert(0, waiting),
            None => {}
        }
    }
}

/// What follows a batch.
pub(crate) struct Then {
    pub(crate) task_type: TaskType,
    pub(crate) id: TaskId,
}

/// One batch.
pub(crate) struct BatchLook {
    pub(crate) progress: Option<BatchProgress>,
    /// The task that watches it.
    pub(crate) watcher: Option<TaskInfo>,
    pub(crate) then: Option<Then>,
}

impl BatchLook {
    pub(crate) async fn read(tasks: TaskSubmitService, name: String) -> Result<Self> {
        let progress = tasks.batch(&name).await?;
        let mut watcher = tasks.find(BATCH_TYPE, &name).await?;
        let then = watcher.as_ref().and_then(|watcher| {
            let summary = BatchSummary::of(watcher).ok()?;
            let (task_type, id) = summary.completion_type.zip(summary.completion_id)?;
            Some(Then { task_type, id })
        });
        if let Some(watcher) = &mut watcher {
            watcher.message = None;
        }
        Ok(Self {
            progress,
            watcher,
            then,
        })
    }
}
