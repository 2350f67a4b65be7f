//! Settlement of attempts that transactions of their workers may have ended.

use delayq_core::store::{AttemptEnd, Bucket, SettleOutcome};
use delayq_core::{Error, Result, TaskState};
use tokio::task::JoinSet;

use crate::ending::Ending;
use crate::type_context::TypeContext;

/// The settlement of one batch.
pub(super) struct Settlement<'a> {
    pub(super) context: &'a TypeContext,
    pub(super) bucket: &'a Bucket,
}

impl Settlement<'_> {
    /// Settles a batch; one outcome for each, in order. An attempt whose transaction was committed
    /// becomes one that is done. One whose transaction is not ends as its worker has ended it; the
    /// store waits until a transaction that is still open has ended.
    pub(super) async fn settle(&self, batch: &mut [Ending]) -> Result<Vec<SettleOutcome>> {
        self.look_up(batch).await?;
        let settlements = batch.iter().map(|ending| ending.settlement.clone());
        let settled = self
            .context
            .store
            .settle(self.bucket, settlements.collect());
        let mut outcomes = settled.await?;
        for (ending, outcome) in batch.iter_mut().zip(&mut outcomes) {
            let may_be_done = ending.within.is_some() && *outcome == SettleOutcome::LockLost;
            if may_be_done && self.has_ended(ending).await? {
                ending.settlement.end = AttemptEnd::Done;
                *outcome = SettleOutcome::Settled;
            }
        }
        Ok(outcomes)
    }

    /// Marks those that are done.
    async fn look_up(&self, batch: &mut [Ending]) -> Result<()> {
        let mut looks = JoinSet::new();
        for (index, ending) in batch.iter().enumerate() {
            if ending.within.is_none() {
                continue;
            }
            let (context, lock) = (self.context, ending.lock().clone());
            let (store, task_type) = (context.store.clone(), context.task_type.clone());
            looks.spawn(async move {
                let found = store.find(&task_type, &lock.id).await?;
                let is_done = found.is_some_and(|task| {
                    task.state == TaskState::Done && task.settled_fence == Some(lock.fence)
                });
                Ok::<_, Error>((index, is_done))
            });
        }
        while let Some(looked) = looks.join_next().await {
            let (index, is_done) = looked.map_err(|_| Error::Closed("the runtime"))??;
            if let Some(ending) = batch.get_mut(index).filter(|_| is_done) {
                ending.settlement.end = AttemptEnd::Done;
            }
        }
        Ok(())
    }

    /// Whether its transaction has ended the task of an attempt whose lock the store does not have
    /// any more. It has, if the task is forgotten or another task has its id: somebody who took the
    /// lock over would have needed the time of a lock.
    async fn has_ended(&self, ending: &Ending) -> Result<bool> {
        let Some(within) = &ending.within else {
            return Ok(false);
        };
        let (store, lock) = (&self.context.store, ending.lock());
        let found = store.find(&self.context.task_type, &lock.id).await?;
        Ok(found.is_none_or(|task| {
            let is_by_this = task.settled_fence == Some(lock.fence);
            let is_ended = task.state.is_ended();
            is_by_this || (!is_ended && task.submitted_at != Some(within.submitted_at))
        }))
    }
}
