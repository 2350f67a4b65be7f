//! I2: an accepted task is in the store until it has ended.

use delayq_core::TaskState;
use delayq_core::store::DEFAULT_REMEMBERED;

use super::view::TaskView;
use super::{Figures, Findings, Promise};
use crate::event::{End, ExtendAnswer, SettleAnswer, TypeChange};
use crate::history::{NEVER, Row, Step, SubmitResult};

pub(super) fn check(view: &TaskView<'_>, findings: &mut Findings, figures: &mut Figures) {
    let Some(sent) = last_accepted(view, |_| true) else {
        return;
    };
    figures.accepted += 1;
    if view.stored.is_some() || view.run.history.dumped.is_none() {
        return;
    }
    // What a rollback took, was written within its window; what had been there before it comes
    // back.
    let kept = last_accepted(view, |row| !is_undone(view, row));
    match kept {
        Some(kept) => gone(view, kept, findings, figures),
        // What it had to do has been done; that it had, is forgotten by now.
        None if has_ended(view, sent) => {}
        None => figures.lost(age_ms(view, sent)),
    }
}

/// Whether an end of it was acknowledged that leaves it in no place.
fn has_ended(view: &TaskView<'_>, sent: &Row) -> bool {
    let mut ends = view.ends();
    ends.any(|row| row.to >= sent.from && row.to != NEVER && !is_death(row))
}

/// The task is not in the store, and no fault has taken it.
fn gone(view: &TaskView<'_>, sent: &Row, findings: &mut Findings, figures: &mut Figures) {
    let died = view.ends().any(|row| row.to >= sent.from && is_death(row));
    if was_discarded(view, sent) {
        return;
    }
    let ended = |row: &&Row| row.to >= sent.from && !is_death(row);
    let may_be_ended = view.ends().any(|row| ended(&row)) || is_ended_unseen(view);
    if may_be_ended && !is_remembered(view, sent) {
        return;
    }
    if let Some(state) = purged(view, sent, (died, may_be_ended)) {
        figures.purged(view.task_type, state);
        return;
    }
    let (rule, detail) = match (may_be_ended, died, view.locks.is_empty()) {
        (true, ..) => ("an ended task is forgotten", "before its time"),
        (false, true, _) => ("a dead task is gone", "nobody has discarded it"),
        (false, false, true) => ("lost before it started", "accepted, never claimed"),
        (false, false, false) => ("lost after it started", "claimed, never settled"),
    };
    let age = match age_ms(view, sent) {
        Some(ms) => format!(", {ms} ms before the store lost its last writes"),
        None => String::new(),
    };
    findings.task(Promise::NeverLost, rule, view, format!("{detail}{age}"));
}

/// The last submit that is certain to have been accepted: answered so, or shown by what came of it.
fn last_accepted<'a>(view: &TaskView<'a>, fits: impl Fn(&Row) -> bool) -> Option<&'a Row> {
    view.rows.iter().rev().find(|row| match row.step {
        Step::Submit { result, .. } if fits(row) => match result {
            SubmitResult::Accepted { .. } => true,
            SubmitResult::InDoubt => is_shown(view, row) || view.stored.is_some(),
            _ => false,
        },
        _ => false,
    })
}

/// Whether what came later shows that an unanswered submit was applied. That the task had ended may
/// be due to an earlier one.
fn is_shown(view: &TaskView<'_>, sent: &Row) -> bool {
    let may_be_first = |row: &Row| match row.step {
        Step::Submit { result, .. } => result == SubmitResult::Refused || row.from >= sent.from,
        _ => true,
    };
    let is_first = view.rows.iter().all(may_be_first);
    view.rows.iter().any(|row| match row.step {
        _ if row.to < sent.from => false,
        Step::Claim { .. } | Step::EndedByClaim { .. } => true,
        Step::Submit {
            result: SubmitResult::Exists(state) | SubmitResult::Conflict(state),
            ..
        } => is_first || !state.is_ended(),
        _ => false,
    })
}

/// By when a submit had been applied: when it was answered, or what came of it was seen.
fn applied_by(view: &TaskView<'_>, sent: &Row) -> u64 {
    let is_evidence = |row: &&Row| match row.step {
        Step::Claim { .. } | Step::EndedByClaim { .. } => true,
        Step::Submit { result, .. } => {
            matches!(result, SubmitResult::Exists(_) | SubmitResult::Conflict(_))
        }
        _ => false,
    };
    let later = view.rows.iter().filter(|row| row.to >= sent.from);
    let shown = later.filter(is_evidence).map(|row| row.to);
    shown.fold(sent.to, u64::min)
}

fn is_undone(view: &TaskView<'_>, sent: &Row) -> bool {
    let span = (sent.from, applied_by(view, sent));
    let mut rollbacks = view.run.allowances.rollbacks(span);
    rollbacks.any(|window| !is_seen_after(view, sent, window.to))
}

/// Whether the store has shown after `lost` that it still had what `sent` had put there, and nobody
/// else.
fn is_seen_after(view: &TaskView<'_>, sent: &Row, lost: u64) -> bool {
    let again = view.rows.iter().find(|row| {
        let Step::Submit { result, .. } = row.step else {
            return false;
        };
        let puts = matches!(
            result,
            SubmitResult::Accepted { .. } | SubmitResult::InDoubt
        );
        puts && row.from > sent.from
    });
    let until = again.map_or(NEVER, |again| again.from);
    view.rows.iter().any(|row| {
        let shows = match row.step {
            Step::Claim { .. } | Step::EndedByClaim { .. } => true,
            Step::Settle { answer, .. } => answer == Some(SettleAnswer::Settled),
            Step::Extend { answer, .. } => {
                matches!(answer, Some(answer) if answer != ExtendAnswer::LockLost)
            }
            _ => false,
        };
        shows && row.from > lost && row.to < until
    })
}

/// How long it had been accepted when the store lost its last writes, the next time that it did.
fn age_ms(view: &TaskView<'_>, sent: &Row) -> Option<u64> {
    let span = (sent.from, applied_by(view, sent));
    let age_ns = view.run.allowances.age_at_loss(span)?;
    Some(age_ns / 1_000_000)
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
    here || died_unseen(view, sent)
        && lost.any(|(task_type, from, requeue)| {
            !requeue && task_type == view.task_type && *from >= sent.from
        })
}

/// Whether it may be dead: only such tasks are discarded.
fn died_unseen(view: &TaskView<'_>, sent: &Row) -> bool {
    let may_die = |row: &Row| match row.step {
        Step::Settle { end, answer, .. } => end == End::Dead && SettleAnswer::may_count(answer),
        Step::EndedByClaim { state, .. } => state == TaskState::Dead,
        _ => false,
    };
    view.rows.iter().any(may_die) || view.hidden_after(sent.from)
}

/// The state in which an operator removed it, together with all others of its type.
fn purged(
    view: &TaskView<'_>,
    sent: &Row,
    (died, may_be_ended): (bool, bool),
) -> Option<TaskState> {
    let purges = view.run.history.type_calls.iter();
    let mut purges = purges.filter(|call| call.task_type == view.task_type && call.to >= sent.from);
    purges.find_map(|call| match call.change {
        TypeChange::Purge {
            state: TaskState::Scheduled,
        } if !died => Some(TaskState::Scheduled),
        TypeChange::Purge {
            state: TaskState::Dead,
        } if died || died_unseen(view, sent) => Some(TaskState::Dead),
        TypeChange::Purge { state } if is_ended(state) && may_be_ended => Some(state),
        _ => None,
    })
}

fn is_ended(state: TaskState) -> bool {
    matches!(
        state,
        TaskState::Done | TaskState::Cancelled | TaskState::Expired
    )
}

/// No more tasks are gone by purges than these say that they removed.
pub(super) fn check_purges(
    history: &crate::history::History,
    figures: &Figures,
    findings: &mut Findings,
) {
    for ((task_type, state), gone) in &figures.purged {
        let purges = history.type_calls.iter().filter(|call| {
            let purge = TypeChange::Purge { state: *state };
            call.task_type == *task_type && call.change == purge
        });
        let is_known = purges.clone().all(|call| call.to != NEVER);
        let removed: u64 = purges.map(|call| call.removed).sum();
        if is_known && *gone > removed {
            let detail =
                format!("type {task_type}: {gone} {state:?} tasks are gone, {removed} were purged");
            findings.run(Promise::NeverLost, "more are gone than were purged", detail);
        }
    }
}

/// Whether it may have ended in a step that shows no end: an attempt that failed after a cancel had
/// found it running, or a claim whose answer is lost, after its expiry or such a cancel.
fn is_ended_unseen(view: &TaskView<'_>) -> bool {
    let given_up = |row: &Row| match row.step {
        Step::Settle { end, answer, .. } => {
            let again = matches!(end, End::Retry { .. } | End::Release { .. });
            again && SettleAnswer::may_count(answer) && view.is_marked(row)
        }
        _ => false,
    };
    let hidden = |since: Option<u64>| since.is_some_and(|since| view.hidden_after(since));
    view.rows.iter().any(given_up) || hidden(view.marked_at()) || hidden(view.expires_at())
}

/// Whether the store would still know of its end, and somebody has asked it.
fn is_remembered(view: &TaskView<'_>, sent: &Row) -> bool {
    let history = view.run.history;
    let (Some(plan), Some(dumped)) = (history.plan.as_ref(), history.dumped) else {
        return false;
    };
    let dumped = history.clock.monotonic_ns(dumped.as_millis());
    let since_ms = dumped.saturating_sub(sent.from) / 1_000_000;
    let undone = view.rows.iter().any(|row| {
        let undone = view.run.allowances.undone((row.from, row.to));
        row.to >= sent.from && undone.is_some()
    });
    plan.dumps_ended
        && since_ms < plan.retention_ms
        && !undone
        && view.run.tasks_of(view.task_type) < DEFAULT_REMEMBERED
}
