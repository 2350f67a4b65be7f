//! The dead letters of a queue.

use std::collections::BTreeMap;
use std::time::Duration;

use delayq_plugin::store::{NewTask, SubmitOutcome};
use delayq_plugin::{DeadFilter, Error, OnConflict, Result, TaskState};

use super::engine::{BATCH, Engine};
use super::job::{describe, lifetime};
use super::queue_name::QueueName;

/// The dead letters of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeadLetters<'a> {
    pub(super) engine: &'a Engine,
    pub(super) queue: &'a QueueName,
}

impl DeadLetters<'_> {
    /// How many jobs are dead.
    pub(super) async fn size(&self) -> Result<u64> {
        let task_type = self.queue.task_type()?;
        self.engine.overdue(&task_type).await?;
        Ok(self
            .engine
            .space
            .tasks
            .store()
            .stats(&task_type)
            .await?
            .dead)
    }

    /// The job that has been dead for the longest time.
    pub(super) async fn head(&self) -> Result<Option<String>> {
        let task_type = self.queue.task_type()?;
        let store = self.engine.space.tasks.store();
        let page = store.list(&task_type, TaskState::Dead, None, 1).await?;
        Ok(page.tasks.first().map(|info| info.id.to_string()))
    }

    /// Removes dead jobs, those first that have been dead for the longest time; how many.
    pub(super) async fn delete(&self, limit: usize) -> Result<usize> {
        let task_type = self.queue.task_type()?;
        self.engine.overdue(&task_type).await?;
        let first = DeadFilter::Matching {
            died_before: None,
            error_contains: None,
            limit,
        };
        let removed = self
            .engine
            .space
            .tasks
            .store()
            .discard_dead(&task_type, &first);
        Ok(removed.await?.len())
    }

    /// Makes dead jobs ready again, with one try and this time to live; how many.
    pub(super) async fn respawn(&self, limit: usize, ttl: Duration) -> Result<usize> {
        let task_type = self.queue.task_type()?;
        self.engine.overdue(&task_type).await?;
        let store = self.engine.space.within.store();
        let mut respawned = 0;
        while respawned < limit {
            let most = BATCH.min(limit - respawned);
            let page = store.list(&task_type, TaskState::Dead, None, most).await?;
            let tasks: Vec<_> = page
                .tasks
                .into_iter()
                .map(|info| {
                    let message = info.message.unwrap_or_default();
                    let mut task = NewTask::new(task_type.clone(), info.id, message);
                    task.headers = info.headers;
                    task.expiry = lifetime(ttl, Duration::ZERO);
                    task.on_conflict = OnConflict::Replace;
                    describe(&mut task, 1, &BTreeMap::new());
                    task
                })
                .collect();
            let count = tasks.len();
            let receipts = self.engine.resubmit(tasks).await;
            let replaced = receipts
                .iter()
                .flatten()
                .filter(|one| matches!(one.outcome, SubmitOutcome::Accepted { .. }));
            let done = replaced.count();
            respawned += done;
            let errors = receipts.into_iter().filter_map(Result::err);
            // Another one has the id meanwhile: that job is not dead any more.
            let mut errors = errors.filter(|error| !matches!(error, Error::Conflict { .. }));
            if let Some(error) = errors.next() {
                return Err(error);
            }
            if done == 0 || count < most {
                break;
            }
        }
        Ok(respawned)
    }
}
