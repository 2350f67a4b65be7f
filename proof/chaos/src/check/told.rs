//! I3: the holder of a lock that has ended is told, so that it stops.

use super::view::{LockView, TaskView};
use super::{Findings, Promise};
use crate::event::Target;
use crate::history::Step;

pub(super) fn check(view: &TaskView<'_>, findings: &mut Findings) {
    // What is settled before its start has no lock any more that could end.
    if view.run.history.at_most_once.contains(view.task_type) {
        return;
    }
    for lock in &view.locks {
        for row in view.rows {
            let Step::End {
                fence, told: false, ..
            } = row.step
            else {
                continue;
            };
            if fence != lock.fence || row.from <= lock.ran_out() {
                continue;
            }
            let Some(free) = free_since(view, lock, row.from) else {
                continue;
            };
            // Who has no processor for so long has a fault of its own.
            let patience = view.run.lock_ms() * 1_000_000 / 3;
            let by = lock.ran_out().max(free).saturating_add(patience);
            if row.from > by {
                let detail = format!(
                    "fence {fence} ended, and {} ms later its worker had not been told",
                    (row.from - lock.ran_out()) / 1_000_000
                );
                let rule = "nobody told the holder of a lock that had ended";
                findings.task(Promise::OneHolder, rule, view, detail);
            }
        }
    }
}

/// Since when nothing was done to the holder or the store any more, before `at`; `None`: something
/// is being done.
fn free_since(view: &TaskView<'_>, lock: &LockView<'_>, at: u64) -> Option<u64> {
    let holder = view.run.process(lock.row);
    let faults = view.run.history.faults.iter().filter(|fault| {
        let is_its = match &fault.target {
            Target::Store => true,
            Target::Process(name) => name == holder,
            Target::Task(_) => false,
        };
        is_its && fault.begun_ns <= at
    });
    let ended = faults.map(|fault| fault.ended_ns).max().unwrap_or(0);
    (ended < at).then_some(ended)
}
