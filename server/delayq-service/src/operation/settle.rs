//! Ends of attempts, with the tasks that follow them.

use delayq_plugin::store::SettleOutcome;
use futures_util::future::join_all;

use super::follow_up::{self, FollowUp};
use crate::context::Context;
use crate::problem::Problem;
use crate::pull::Ending;

/// An attempt that has ended, and what follows it.
#[derive(Clone, Debug)]
pub struct FinishedAttempt {
    /// How it ended.
    pub ending: Ending,
    /// For an attempt that is done: tasks that are accepted before the task is done.
    pub then: Vec<FollowUp>,
}

impl From<Ending> for FinishedAttempt {
    fn from(ending: Ending) -> Self {
        Self {
            ending,
            then: Vec::new(),
        }
    }
}

/// Ends attempts and returns one result for each, in order. An attempt whose follow-ups are not all
/// accepted does not end.
pub async fn settle(
    context: &Context,
    attempts: Vec<FinishedAttempt>,
) -> Vec<Result<SettleOutcome, Problem>> {
    let followed = attempts.into_iter().map(|one| async move {
        let FinishedAttempt { ending, then } = one;
        let task_type = ending.bucket.task_type();
        let holds = follow_up::send(context, task_type, &ending.lock, then).await;
        holds.map(|holds| holds.then_some(ending))
    });
    let (mut open, mut outcomes) = (Vec::new(), Vec::new());
    for followed in join_all(followed).await {
        outcomes.push(followed.map(|ending| ending.map(|ending| open.push(ending))));
    }
    let settled = context.space.pull.settle(open).await;
    let mut settled = settled.into_iter();
    let outcomes = outcomes.into_iter().map(|followed| match followed? {
        None => Ok(SettleOutcome::LockLost),
        Some(()) => Ok(settled.next().unwrap_or(Ok(SettleOutcome::LockLost))?),
    });
    outcomes.collect()
}
