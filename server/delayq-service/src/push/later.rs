//! Waits for an instance that settles its task with a separate request.

use std::time::Duration;

use delayq_plugin::{TaskError, TaskResult, TaskState};
use tokio::time::Instant;
use tracing::debug;

use super::Target;
use super::board::Board;
use super::parcel::Parcel;

/// The first interval between checks; it doubles up to a second.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LAST_LOOK: Duration = Duration::from_secs(1);

/// Holds the lock of a task until another request settles it, on any server. Nothing is left to
/// settle then; a task that is done counts as done here.
pub(super) async fn settled(board: &Board, target: &Target, parcel: &Parcel<'_>) -> TaskResult {
    let (task_type, id) = (parcel.cx.task_type(), parcel.cx.id());
    let limit = target.settle_within();
    let end = Instant::now() + limit;
    let mut look = FIRST_LOOK;
    loop {
        tokio::time::sleep(look).await;
        look = (look * 2).min(LAST_LOOK);
        match board.store.find(task_type, id).await {
            Ok(Some(task)) if task.fence == Some(parcel.cx.fence()) => {}
            Ok(Some(task)) if task.state == TaskState::Done => return Ok(()),
            Ok(_) => return Err(TaskError::Settled),
            // The next check may succeed. The lock is extended as long as possible.
            Err(error) => {
                debug!(%task_type, %id, %error, "cannot check whether the task is settled");
            }
        }
        if Instant::now() >= end {
            let text =
                format!("the instance took the task, and did not settle it within {limit:?}");
            return Err(TaskError::retry(text));
        }
    }
}
