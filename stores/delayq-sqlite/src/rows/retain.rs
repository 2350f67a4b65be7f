//! Retention of ended tasks: remembered for a while, then forgotten in small steps.

use delayq_core::name::TaskType;
use delayq_core::state::TaskState;
use delayq_core::store::warn_of_early_forgetting;
use delayq_core::time::{Timestamp, duration_ms};

use super::number::signed;
use super::type_tasks::TypeTasks;
use crate::error::Outcome;

/// The states of ended tasks, which are only remembered.
const ENDED: [TaskState; 3] = [TaskState::Done, TaskState::Cancelled, TaskState::Expired];

/// Number of ended tasks forgotten in a transaction beyond those that ended in it, so that a
/// backlog shrinks.
const EXTRA: usize = 64;

/// Forgets the oldest ended tasks of a type. They have no message any more.
const FORGET: &str = "DELETE FROM tasks WHERE seq IN (SELECT seq FROM ( \
     SELECT * FROM (SELECT seq, at, id FROM tasks INDEXED BY tasks_place \
     WHERE type = ?1 AND state = 3 AND at <= ?2 ORDER BY at, id LIMIT ?3) UNION ALL \
     SELECT * FROM (SELECT seq, at, id FROM tasks INDEXED BY tasks_place \
     WHERE type = ?1 AND state = 4 AND at <= ?2 ORDER BY at, id LIMIT ?3) UNION ALL \
     SELECT * FROM (SELECT seq, at, id FROM tasks INDEXED BY tasks_place \
     WHERE type = ?1 AND state = 5 AND at <= ?2 ORDER BY at, id LIMIT ?3) \
     ORDER BY at, id LIMIT ?3)) RETURNING at";

/// Forgets twice as many old tasks as have ended in this transaction.
pub(super) fn forget_some(tasks: &mut TypeTasks<'_>, task_type: &TaskType) -> Outcome<()> {
    match tasks.row.ended {
        0 => Ok(()),
        ended => forget(tasks, task_type, ended + EXTRA),
    }
}

/// Forgets up to `limit` ended tasks: first the oldest ones beyond the maximum number, then those
/// whose retention is over.
pub(super) fn forget(tasks: &mut TypeTasks<'_>, task_type: &TaskType, limit: usize) -> Outcome<()> {
    let ended = usize::try_from(tasks.row.count(TaskState::Done)).unwrap_or(usize::MAX);
    let surplus = ended.saturating_sub(tasks.remembered).min(limit);
    let any = Timestamp::MAX.as_millis();
    let over = tasks
        .now
        .as_millis()
        .saturating_sub(duration_ms(tasks.retention));
    for (until, most) in [(any, surplus), (over, limit - surplus)] {
        if most > 0 {
            let key = (tasks.row.id, until, signed(most));
            let forgotten: Vec<i64> = tasks.query(FORGET, key, |row| row.get(0))?;
            tasks.row.add(TaskState::Done, -signed(forgotten.len()));
            let latest = forgotten.into_iter().max().filter(|latest| *latest > over);
            if let Some(latest) = latest {
                let latest = Timestamp::from_millis(latest);
                tasks.row.forgotten = tasks.row.forgotten.max(latest);
                warn_of_early_forgetting(task_type, tasks.remembered);
            }
        }
    }
    Ok(())
}

/// True if [`forget`] would find something.
pub(super) fn has_to_forget(tasks: &TypeTasks<'_>) -> Outcome<bool> {
    if tasks.row.count(TaskState::Done) > tasks.remembered as u64 {
        return Ok(true);
    }
    for state in ENDED {
        let oldest = tasks.first(state)?;
        if oldest.is_some_and(|at| at.plus(tasks.retention) <= tasks.now) {
            return Ok(true);
        }
    }
    Ok(false)
}
