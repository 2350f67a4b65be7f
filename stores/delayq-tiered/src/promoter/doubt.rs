//! A task whose move was broken off: whether hot has had it.

use delayq_core::operate::TypeStats;
use delayq_core::{NewTask, Result, Timestamp, When};

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
    /// It may have run, and hot has forgotten it.
    Unknown,
}

/// Judges a task by what hot knows. `stats` were read before.
pub(super) async fn judge(parts: &Parts, stats: &TypeStats, task: &NewTask) -> Result<Verdict> {
    let found = parts.hot.find(&task.task_type, &task.id).await;
    let due = match task.when {
        When::At(time) => time,
        When::After(_) => Timestamp::ZERO,
    };
    // No promoter has it earlier.
    let first = due.minus(parts.lead());
    match found.map_err(unasked)? {
        Some(info) if is_live(&info) || info.at >= first => return Ok(Verdict::Moved),
        Some(_) => return Ok(Verdict::Anew),
        None => {}
    }
    let has_forgotten = stats.remembered_since.is_none_or(|since| since > first);
    if has_forgotten && stats.now >= due {
        return Ok(Verdict::Unknown);
    }
    Ok(Verdict::Submit)
}
