//! I6, I2 and I4: what the store answers is true, as far as the history knows.

use super::view::TaskView;
use super::{Findings, Promise};
use crate::event::{CancelAnswer, ChangeAnswer, ExtendAnswer, SettleAnswer};
use crate::history::{Row, Step, SubmitResult};

/// Where an answer says that a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Running,
    Finished,
    NotFound,
}

pub(super) fn check(view: &TaskView<'_>, findings: &mut Findings) {
    for row in view.rows {
        if let Some(said) = said(row) {
            place(view, row, said, findings);
        }
        exists(view, row, findings);
        refused(view, row, findings);
    }
}

fn said(row: &Row) -> Option<Said> {
    match row.step {
        Step::Cancel {
            answer: Some(answer),
        } => match answer {
            CancelAnswer::Cancelled => None,
            CancelAnswer::Running => Some(Said::Running),
            CancelAnswer::Finished(_) => Some(Said::Finished),
            CancelAnswer::NotFound => Some(Said::NotFound),
        },
        Step::Reschedule {
            answer: Some(answer),
            ..
        }
        | Step::Update {
            answer: Some(answer),
            ..
        } => match answer {
            ChangeAnswer::Changed { .. } => None,
            ChangeAnswer::Running => Some(Said::Running),
            ChangeAnswer::Finished(_) => Some(Said::Finished),
            ChangeAnswer::NotFound => Some(Said::NotFound),
        },
        _ => None,
    }
}

/// The answer to a change gives a reason that may be one.
fn place(view: &TaskView<'_>, row: &Row, said: Said, findings: &mut Findings) {
    let may_be = match said {
        Said::Running => may_run(view, row),
        Said::Finished => may_have_ended(view, row),
        Said::NotFound => !is_there(view, row) || may_have_ended(view, row),
    };
    if !may_be {
        let detail = format!("{:?}", row.step);
        let rule = "an answer that cannot be true";
        findings.task(Promise::CancelIsFinal, rule, view, detail);
    }
}

/// Whether somebody may have held it during the call.
fn may_run(view: &TaskView<'_>, row: &Row) -> bool {
    let given_back = |fence| {
        let mut settles = view.settles(fence);
        settles.any(|(settle, _)| view.run.is_certain(settle) && settle.to < row.from)
    };
    let mut locks = view.locks.iter();
    let held = locks.any(|lock| lock.row.from <= row.to && !given_back(lock.fence));
    held || touches_hidden(view, row) || undone(view, row)
}

/// Whether it may have ended before the call was answered.
fn may_have_ended(view: &TaskView<'_>, row: &Row) -> bool {
    let ended = view
        .ends()
        .any(|end| end.from <= row.to && end.from != row.from);
    let given_up = view.is_marked(row)
        && view
            .rows
            .iter()
            .any(|settle| matches!(settle.step, Step::Settle { .. }) && settle.from <= row.to);
    let removed = view
        .rows
        .iter()
        .any(|discard| matches!(discard.step, Step::Discard { .. }) && discard.from <= row.to);
    let mut calls = view.run.history.type_calls.iter();
    let purged = calls.any(|call| call.task_type == view.task_type && call.from <= row.to);
    let mut operations = view.run.history.lost_operations.iter();
    let operated =
        operations.any(|(task_type, from, _)| task_type == view.task_type && *from <= row.to);
    ended
        || given_up
        || removed
        || purged
        || operated
        || touches_hidden(view, row)
        || undone(view, row)
}

/// Whether it had been accepted for certain when the call was made.
fn is_there(view: &TaskView<'_>, row: &Row) -> bool {
    view.rows.iter().any(|sent| {
        let accepted = matches!(
            sent.step,
            Step::Submit {
                result: SubmitResult::Accepted { .. },
                ..
            }
        );
        accepted && sent.to < row.from
    })
}

fn touches_hidden(view: &TaskView<'_>, row: &Row) -> bool {
    let first = view.rows.first().map_or(row.from, |row| row.from);
    view.run.hidden.locks(view.task_type, (first, row.to), 0) > 0
}

fn undone(view: &TaskView<'_>, row: &Row) -> bool {
    let mut before = view.rows.iter().filter(|other| other.from <= row.to);
    before.any(|other| view.run.allowances.undone((other.from, other.to)).is_some())
}

/// What is said to exist has been sent.
fn exists(view: &TaskView<'_>, row: &Row, findings: &mut Findings) {
    let Step::Submit { result, .. } = row.step else {
        return;
    };
    if !matches!(result, SubmitResult::Exists(_) | SubmitResult::Conflict(_)) {
        return;
    }
    let mut others = view.rows.iter().filter(|other| other.from <= row.to);
    let sent = others.any(|other| match other.step {
        Step::Submit { result, .. } => {
            matches!(
                result,
                SubmitResult::Accepted { .. } | SubmitResult::InDoubt
            )
        }
        _ => false,
    });
    if !sent {
        let detail = format!("{result:?}, and nobody else has sent it");
        let rule = "said to exist, and never sent";
        findings.task(Promise::NeverLost, rule, view, detail);
    }
}

/// A lock is refused only when somebody else has been given one, or the attempt or the task is
/// over.
fn refused(view: &TaskView<'_>, row: &Row, findings: &mut Findings) {
    let (Step::Settle {
        fence,
        answer: Some(SettleAnswer::LockLost),
        ..
    }
    | Step::Extend {
        fence,
        answer: Some(ExtendAnswer::LockLost),
    }) = row.step
    else {
        return;
    };
    let Some(own) = view.lock(fence) else { return };
    let over = view.rows.iter().any(|other| match other.step {
        _ if other.from > row.to || (other.from == row.from && other.step == row.step) => false,
        Step::Claim { fence: next, .. } => next > fence,
        Step::Settle {
            fence: settled,
            answer,
            ..
        } => settled == fence && SettleAnswer::may_count(answer),
        Step::EndedByClaim { .. } => other.to >= own.row.from,
        _ => false,
    });
    let since = own.row.from;
    let hidden = view.run.hidden.locks(view.task_type, (since, row.to), 0) > 0;
    if !over && !hidden && !undone(view, row) {
        let detail = format!("fence {fence}, and nobody else had been given the task");
        findings.task(
            Promise::OneEnd,
            "a lock refused to its holder",
            view,
            detail,
        );
    }
}
