//! A task that an earlier promoter may have moved: whether hot has had it.

use delayq_core::operate::TypeStats;
use delayq_core::{NewTask, Result, TaskInfo, TaskState, Timestamp, When};

use crate::parts::{Parts, is_live, unasked};

/// What becomes of a task that an earlier promoter may have submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Hot has not had it, or would still know.
    Submit,
    /// The same, and hot remembers an earlier task with its id.
    Anew,
    /// Hot has it, or it has ended there.
    Moved,
    /// Hot has another task with its id.
    Taken(TaskState),
    /// It may have run, and hot has forgotten it.
    Unknown,
}

/// Judges a task by what hot knows. `stats` were read before. `accepted_at` is the time when cold
/// accepted the task.
pub(super) async fn judge(
    parts: &Parts,
    stats: &TypeStats,
    task: &NewTask,
    accepted_at: Timestamp,
) -> Result<Verdict> {
    let found = parts.hot.find(&task.task_type, &task.id).await;
    let due = match task.when {
        When::At(time) => time,
        When::After(_) => Timestamp::ZERO,
    };
    // No promoter has it earlier.
    let first = due.minus(parts.lead()).max(accepted_at);
    match found.map_err(unasked)? {
        Some(info) if is_live(&info) => {
            let is_same = is_moved_form(&info, task, due)
                || info.submitted_at.is_some_and(|time| time >= first);
            return Ok(if is_same {
                Verdict::Moved
            } else {
                Verdict::Taken(info.state)
            });
        }
        Some(info) if info.at >= first => return Ok(Verdict::Moved),
        Some(_) => return Ok(Verdict::Anew),
        None => {}
    }
    let has_forgotten = stats.remembered_since.is_none_or(|since| since > first);
    if has_forgotten && stats.now >= due {
        return Ok(Verdict::Unknown);
    }
    Ok(Verdict::Submit)
}

/// True for a task of hot with the due time and the message of this one. Clocks do not count here.
fn is_moved_form(info: &TaskInfo, task: &NewTask, due: Timestamp) -> bool {
    info.due_at == Some(due) && info.message.as_ref() == Some(&task.message)
}
