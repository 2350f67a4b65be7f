//! I4: a task ends as expired when its time has come, and is not handed out after it.

use delayq_core::TaskState;

use super::view::TaskView;
use super::{Findings, Promise};
use crate::event::Asked;
use crate::history::{NEVER, Row, Step, SubmitResult};

pub(super) fn check(view: &TaskView<'_>, findings: &mut Findings) {
    handed_out(view, findings);
    for row in view.rows {
        if let Step::EndedByClaim { state, .. } = row.step {
            ended(view, row, state, findings);
        }
    }
}

/// Of a task that was sent once and never moved: it is not handed out when it has expired.
fn handed_out(view: &TaskView<'_>, findings: &mut Findings) {
    let mut submits = view.rows.iter().filter_map(|row| match row.step {
        Step::Submit { expiry, result, .. } => Some((expiry, result)),
        _ => None,
    });
    let moved = |row: &Row| matches!(row.step, Step::Reschedule { .. } | Step::Requeue { .. });
    let (Some((expiry, SubmitResult::Accepted { due, .. })), None) =
        (submits.next(), submits.next())
    else {
        return;
    };
    let expires = match view.run.history.expiry(expiry) {
        Some(Asked::At(time)) => time.as_millis(),
        Some(Asked::After(ms)) => due.as_millis() + i64::try_from(ms).unwrap_or(i64::MAX / 2),
        None => return,
    };
    if view.rows.iter().any(moved) {
        return;
    }
    for lock in &view.locks {
        let late = lock.call.now.as_millis() - expires;
        if late >= 0 {
            let detail = format!("fence {}, {late} ms after its expiry", lock.fence);
            let rule = "handed out after its expiry";
            findings.task(Promise::OneEnd, rule, view, detail);
        }
    }
}

/// A claim ends a task only for a reason.
fn ended(view: &TaskView<'_>, row: &Row, state: TaskState, findings: &mut Findings) {
    let since = match state {
        TaskState::Expired => view.expires_at(),
        TaskState::Cancelled => view.marked_at(),
        // Poison: a lock has expired. Damage is judged where it is looked for.
        _ => {
            let first = view.locks.iter().map(|lock| lock.row.from).min();
            let damaged = view.run.allowances.damaged(view.name);
            let hidden = view.hidden_after(0).then_some(0);
            first.or(hidden).or(damaged.then_some(0)).or(damage(row))
        }
    };
    if since.is_none_or(|since| since > row.to) && row.to != NEVER {
        let detail = format!("{state:?}");
        let rule = "ended by a claim for no reason";
        findings.task(Promise::OneEnd, rule, view, detail);
    }
}

fn damage(row: &Row) -> Option<u64> {
    match row.step {
        Step::EndedByClaim { damaged: true, .. } => Some(0),
        _ => None,
    }
}
