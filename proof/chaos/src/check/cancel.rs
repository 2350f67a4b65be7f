//! I6: once a cancel is answered, the worker never starts (again).

use super::view::TaskView;
use super::{Findings, Promise};
use crate::event::CancelAnswer;
use crate::history::{Row, Step};

pub(super) fn check(view: &TaskView<'_>, findings: &mut Findings) {
    for row in view.rows {
        match row.step {
            Step::Cancel {
                answer: Some(CancelAnswer::Cancelled),
            } if view.run.is_certain(row) => {
                claimed_after(view, row, "handed out after its cancel", findings);
                started_after(view, row, findings);
            }
            // It may end the attempt that it has, and gets no other.
            Step::Cancel {
                answer: Some(CancelAnswer::Running),
            } if view.run.is_certain(row) => {
                claimed_after(view, row, "another attempt after its cancel", findings);
            }
            _ => {}
        }
    }
}

fn claimed_after(view: &TaskView<'_>, cancel: &Row, rule: &'static str, findings: &mut Findings) {
    let mut later = view.locks.iter().filter(|lock| lock.row.from > cancel.to);
    let again = later.find(|lock| !view.opened_between(cancel, lock.row));
    if let Some(lock) = again {
        let detail = format!("fence {}", lock.fence);
        findings.task(Promise::CancelIsFinal, rule, view, detail);
    }
}

/// A worker that starts late, with a lock from before the cancel, has been held up by a fault.
fn started_after(view: &TaskView<'_>, cancel: &Row, findings: &mut Findings) {
    for row in view.rows.iter().filter(|row| row.from > cancel.to) {
        let Step::Start { fence, .. } = row.step else {
            continue;
        };
        let Some(lock) = view.lock(fence).filter(|lock| lock.row.from <= cancel.to) else {
            continue;
        };
        let span = (lock.row.from, row.from);
        let held_up = view
            .run
            .allowances
            .held_up(view.run.process(lock.row), span);
        if !held_up && !view.opened_between(cancel, lock.row) {
            let detail = format!("fence {fence}");
            let rule = "started after its cancel";
            findings.task(Promise::CancelIsFinal, rule, view, detail);
        }
    }
}
