//! Clean-up in types in which nothing happens any more.

use delayq_core::name::TaskType;

use super::follow_up::FollowUp;
use super::retain::{forget, has_to_forget};
use super::tx::{Tx, refuse_snapshot};
use crate::error::Outcome;

const SELECT_RETAINING: &str = "SELECT name FROM types WHERE namespace = ?1 AND ended > 0";

const SELECT_REQUESTED: &str = "SELECT name FROM types WHERE namespace = ?1 AND EXISTS \
     (SELECT 1 FROM tasks WHERE type = -types.id)";

/// Forgets ended tasks of types in which nothing ends any more, up to `limit` of each. Types with
/// nothing to forget are only read.
pub(crate) fn forget_overdue(tx: &mut Tx<'_>, limit: usize) -> Outcome<()> {
    let is_snapshot = tx.is_snapshot;
    for name in tx.names(SELECT_RETAINING)? {
        // A damaged type is left alone, without affecting the others.
        if let Ok(task_type) = TaskType::new(&name)
            && let Ok(mut tasks) = tx.known(&task_type)
            && has_to_forget(&tasks)?
        {
            refuse_snapshot(is_snapshot)?;
            forget(&mut tasks, &task_type, limit)?;
        }
    }
    Ok(())
}

/// Schedules requests to run again that a process of an earlier release has left behind, up to
/// `limit` of each type. Types without such requests are only read.
pub(crate) fn adopt_requests(tx: &mut Tx<'_>, limit: usize) -> Outcome<()> {
    let is_snapshot = tx.is_snapshot;
    for name in tx.names(SELECT_REQUESTED)? {
        if let Ok(task_type) = TaskType::new(&name)
            && let Ok(mut tasks) = tx.known(&task_type)
            && !FollowUp::left(&tasks, "", 1)?.is_empty()
        {
            refuse_snapshot(is_snapshot)?;
            FollowUp::adopt_left(&mut tasks, limit)?;
        }
    }
    Ok(())
}
