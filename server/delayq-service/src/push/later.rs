//! Wait for an instance that settles its task by a request of its own.

use std::time::Duration;

use delayq_plugin::{TaskError, TaskResult, TaskState};
use tokio::time::Instant;
use tracing::debug;

use super::Target;
use super::board::Board;
use super::parcel::Parcel;

/// How soon it is looked whether the task is settled; then twice as long, up to the second.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LAST_LOOK: Duration = Duration::from_secs(1);

/// Holds the lock of a task until it is settled by somebody else, to any server. Then nothing is
/// left to settle; a task that is done is counted as done here.
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
            // Known when the store answers again; the lock is extended as long as it can be.
            Err(error) => debug!(%task_type, %id, %error, "it is not known whether it is settled"),
        }
        if Instant::now() >= end {
            let text =
                format!("the instance took the task, and did not settle it within {limit:?}");
            return Err(TaskError::retry(text));
        }
    }
}
