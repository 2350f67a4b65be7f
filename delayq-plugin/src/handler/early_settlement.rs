//! Settlement of at-most-once tasks before they start.

use delayq_core::store::{AttemptEnd, Bucket, SettleOutcome, Settlement};
use delayq_core::{ClaimedTask, Error, Result};
use tracing::warn;

use super::Batch;
use crate::backoff::Backoff;
use crate::ending::Ending;
use crate::type_context::TypeContext;

/// The settlement of one claim.
pub(super) struct EarlySettlement<'a> {
    context: &'a TypeContext,
    bucket: &'a Bucket,
}

impl<'a> EarlySettlement<'a> {
    pub(super) fn new(context: &'a TypeContext, bucket: &'a Bucket) -> Self {
        Self { context, bucket }
    }

    /// Settles the tasks to start as done, together with the others of the batch. A call in doubt
    /// is repeated while the locks last, as a task that was settled but not started would never
    /// run.
    pub(super) async fn settle(&self, batch: &mut Batch) -> Result<()> {
        let (clock, task_type) = (&self.context.clock, &self.context.task_type);
        let tasks: Vec<_> = batch.start.drain(..).collect();
        let done = |task: &ClaimedTask| Settlement::new(task.lock.clone(), AttemptEnd::Done);
        let mut settlements: Vec<_> = tasks.iter().map(done).collect();
        let others = std::mem::take(&mut batch.settle);
        settlements.extend(others.iter().map(|ending| ending.settlement.clone()));
        let give_up_at = clock.elapsed().saturating_add(self.context.options().lock);
        let mut backoff = Backoff::default();
        loop {
            let settled = self.context.store.settle(self.bucket, settlements.clone());
            let error = match settled.await {
                Ok(outcomes) if outcomes.contains(&SettleOutcome::Busy) => {
                    let detail = "a transaction keeps one of the tasks locked";
                    Error::unavailable("the store", detail)
                }
                Ok(outcomes) => {
                    let unstarted = outcomes.iter().skip(tasks.len()).zip(&others);
                    unstarted.for_each(|(outcome, ending)| self.report(*outcome, ending));
                    batch.start = self.settled_only(tasks, &outcomes);
                    return Ok(());
                }
                Err(error) => error,
            };
            let retry_at = clock.elapsed().saturating_add(backoff.next());
            let is_over = retry_at >= give_up_at || matches!(error, Error::Closed(_));
            if is_over {
                let ids: Vec<_> = tasks.iter().map(|task| task.lock.id.as_str()).collect();
                warn!(%task_type, ?ids, %error,
                    "not started: the settlement of these at-most-once tasks is in doubt");
                return Err(error);
            }
            clock.sleep_until(retry_at).await;
        }
    }

    fn report(&self, outcome: SettleOutcome, ending: &Ending) {
        if outcome == SettleOutcome::Settled {
            self.context.report.settled(ending);
        }
    }

    fn settled_only(
        &self,
        tasks: Vec<ClaimedTask>,
        outcomes: &[SettleOutcome],
    ) -> Vec<ClaimedTask> {
        let mut start = Vec::with_capacity(tasks.len());
        for (task, outcome) in tasks.into_iter().zip(outcomes) {
            if *outcome == SettleOutcome::Settled {
                self.context.report.settled_early();
                start.push(task);
                continue;
            }
            warn!(task_type = %self.context.task_type, id = %task.lock.id,
                "not started: the lock of this at-most-once task was lost");
        }
        start
    }
}
