//! I2: an accepted task is in the store until it has ended.

use delayq_core::TaskState;

use super::view::TaskView;
use super::{Figures, Findings, Promise};
use crate::event::{End, SettleAnswer};
use crate::history::{NEVER, Row, Step, SubmitResult};

pub(super) fn check(view: &TaskView<'_>, findings: &mut Findings, figures: &mut Figures) {
    let Some(sent) = last_accepted(view) else {
        return;
    };
    figures.accepted += 1;
    if view.stored.is_some() || view.run.history.dumped.is_none() {
        return;
    }
    let ended = |row: &&Row| row.to >= sent.from && !is_death(row);
    if view.ends().any(|row| ended(&row)) || was_discarded(view, sent) || may_be_ended(view) {
        return;
    }
    if view.rows.iter().any(|row| view.run.excuses.undone(row)) {
        figures.lost_with_cause += 1;
        return;
    }
    let died = view.ends().any(|row| row.to >= sent.from);
    let (rule, detail) = match (died, view.locks.is_empty()) {
        (true, _) => ("a dead task is gone", "nobody has discarded it"),
        (false, true) => ("lost before it started", "accepted, never claimed"),
        (false, false) => ("lost after it started", "claimed, never settled"),
    };
    findings.task(Promise::NeverLost, rule, view, detail.to_owned());
}

/// The last submit that is certain to have been accepted: answered so, or shown by what came of it.
fn last_accepted<'a>(view: &TaskView<'a>) -> Option<&'a Row> {
    let shown = !view.locks.is_empty() || view.stored.is_some();
    view.rows.iter().rev().find(|row| match row.step {
        Step::Submit { result, .. } => match result {
            SubmitResult::Accepted { .. } => true,
            SubmitResult::Unknown => shown,
            _ => false,
        },
        _ => false,
    })
}

/// Whether `row` sends the task to dead for certain, where it has to stay.
fn is_death(row: &Row) -> bool {
    match row.step {
        Step::Settle { end, answer, .. } => {
            end == End::Dead && answer == Some(SettleAnswer::Settled)
        }
        Step::EndedByClaim { state, .. } => state == TaskState::Dead,
        _ => false,
    }
}

fn was_discarded(view: &TaskView<'_>, sent: &Row) -> bool {
    let mut rows = view.rows.iter();
    let here = rows.any(|row| row.to >= sent.from && matches!(row.step, Step::Discard { .. }));
    let mut lost = view.run.history.lost_operations.iter();
    here || lost.any(|(task_type, _, requeue)| !requeue && task_type == view.task_type)
}

/// Whether it may have ended in a step that shows no end: an attempt that failed after a cancel had
/// found it running, or a claim whose answer is lost, after its expiry or such a cancel.
fn may_be_ended(view: &TaskView<'_>) -> bool {
    let expires = |row: &Row| matches!(row.step, Step::Submit { expires: true, .. });
    let marked = view.is_marked();
    let given_up = |row: &Row| match row.step {
        Step::Settle { end, answer, .. } => {
            let again = matches!(end, End::Retry { .. } | End::Release { .. });
            again && answer != Some(SettleAnswer::LockLost)
        }
        _ => false,
    };
    marked && view.rows.iter().any(given_up)
        || (marked || view.rows.iter().any(expires)) && view.hidden_claims_until(NEVER) > 0
}
