//! I6 and I3: a task whose lock lasts is running: no cancel may answer that it never starts, and no
//! claim ends it.

use super::view::{LockView, TaskView};
use super::{Findings, Promise};
use crate::event::{CancelAnswer, Explains};
use crate::history::{Row, Step};

pub(super) fn check(view: &TaskView<'_>, findings: &mut Findings) {
    for row in view.rows {
        let (promise, rule) = match row.step {
            Step::Cancel {
                answer: Some(CancelAnswer::Cancelled),
            } => (Promise::CancelIsFinal, "cancelled while somebody held it"),
            Step::EndedByClaim { .. } => (
                Promise::OneHolder,
                "ended by a claim while somebody held it",
            ),
            _ => continue,
        };
        if let Some(lock) = view.locks.iter().find(|lock| is_held(view, lock, row)) {
            let detail = format!("fence {}: its lock had not ended", lock.fence);
            findings.task(promise, rule, view, detail);
        }
    }
}

/// Whether `lock` lasted throughout the call: given before, not yet expired, and not given back.
fn is_held(view: &TaskView<'_>, lock: &LockView<'_>, call: &Row) -> bool {
    let clock = &view.run.history.clock;
    let lasts = clock.latest_ms(call.to) < lock.until.as_millis();
    let settled = view
        .settles(lock.fence)
        .any(|(settle, _)| settle.from <= call.to);
    lock.row.to < call.from && lasts && !settled && !is_shaken(view, (lock.row.from, call.to))
}

/// Whether a fault within the span may have ended locks early or undone something.
fn is_shaken(view: &TaskView<'_>, (from, to): (u64, u64)) -> bool {
    let mut faults = view.run.history.faults.iter();
    faults.any(|fault| {
        let mut explains = fault.explains.iter();
        let shakes = explains.any(|what| {
            matches!(
                what,
                Explains::StoreClock { .. } | Explains::Rollback { .. } | Explains::Emptied
            )
        });
        shakes && fault.begun_ns <= to && fault.ended_ns >= from
    })
}
