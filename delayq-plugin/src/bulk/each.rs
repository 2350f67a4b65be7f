//! Tasks of a type, cancelled by their ids.

use delayq_core::store::{CancelOutcome, MAX_BATCH};
use delayq_core::{Error, Result, TaskId, TaskType};

use super::Desk;

/// Cancels tasks some at once, so that they share the store's syncs and round trips; one result
/// each, in order.
pub(crate) async fn cancel_each(
    desk: &Desk,
    task_type: Result<TaskType>,
    ids: Vec<Result<TaskId>>,
) -> Vec<Result<CancelOutcome>> {
    let mut results = Vec::with_capacity(ids.len());
    let mut ids = ids.into_iter();
    loop {
        let start = |id| {
            let (desk, task_type) = (desk.clone(), task_type.clone());
            tokio::spawn(async move { desk.cancel(&task_type?, &id?).await })
        };
        let calls: Vec<_> = ids.by_ref().take(MAX_BATCH).map(start).collect();
        if calls.is_empty() {
            return results;
        }
        for call in calls {
            let ended = call.await;
            results.push(ended.unwrap_or(Err(Error::Closed("the runtime"))));
        }
    }
}
