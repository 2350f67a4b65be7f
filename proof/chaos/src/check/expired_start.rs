//! I3: a worker starts only while the lock of its process lasts.

use super::view::{LockView, TaskView};
use super::{Findings, Promise};
use crate::event::{ExtendAnswer, Target};
use crate::history::{Row, Step};

/// Beginning of the kinds of planned faults that stop a process.
const PAUSE: &str = "pause-";
/// Longest time between a process' look at its deadline and the start, if nothing stops it: a
/// heartbeat records what takes longer.
const SLACK_NS: u64 = 250_000_000;

pub(super) fn check(view: &TaskView<'_>, findings: &mut Findings) {
    // What is settled before its start has no lock any more that could run out.
    if view.run.history.at_most_once.contains(view.task_type) {
        return;
    }
    for row in view.rows {
        let Step::Start { fence, .. } = row.step else {
            continue;
        };
        let lock = view
            .lock(fence)
            .filter(|lock| lock.row.process == row.process);
        let Some(lock) = lock else { continue };
        let deadline = deadline(view, lock, row.from);
        let is_in_time = |by: u64| row.from <= by.saturating_add(SLACK_NS);
        if !is_in_time(deadline) && !is_in_time(latest(view, lock, deadline)) {
            let late_ms = (row.from - deadline) / 1_000_000;
            let detail = format!("fence {fence}: {late_ms} ms after the deadline of its holder");
            let rule = "started after its own lock had run out";
            findings.task(Promise::OneHolder, rule, view, detail);
        }
    }
}

/// End of the lock as its holder knew it at `at`: counted from before the claim or the last
/// extension that had been answered. The monotonic clock of the holder counts, whatever the store's
/// clock did.
fn deadline(view: &TaskView<'_>, lock: &LockView<'_>, at: u64) -> u64 {
    let extended = view.rows.iter().filter(|row| {
        let is_extended = matches!(
            row.step,
            Step::Extend {
                fence,
                answer: Some(ExtendAnswer::Extended(_) | ExtendAnswer::CancelRequested(_)),
            } if fence == lock.fence
        );
        is_extended && row.to <= at
    });
    let last = extended.map(|row: &Row| row.from).max();
    last.unwrap_or(0)
        .max(lock.row.from)
        .saturating_add(lock.length_ns)
}

/// The deadline, or the end of the last stop of the holder that had begun before it, or in its
/// slack: who is stopped between the look at the deadline and the start cannot look again.
fn latest(view: &TaskView<'_>, lock: &LockView<'_>, deadline: u64) -> u64 {
    let history = view.run.history;
    let holder = view.run.process(lock.row);
    let seen = history.stops.iter();
    let seen = seen.filter(|stop| stop.process == lock.row.process);
    let seen = seen.map(|stop| (stop.from, stop.to));
    let planned = history.faults.iter().filter(|fault| {
        let is_its = matches!(&fault.target, Target::Process(name) if name == holder);
        is_its && fault.kind.starts_with(PAUSE)
    });
    let planned = planned.map(|fault| (fault.begun_ns, fault.ended_ns));
    let stops = seen
        .chain(planned)
        .filter(|(from, to)| *from <= deadline.saturating_add(SLACK_NS) && *to >= deadline);
    stops.map(|(_, to)| to).fold(deadline, u64::max)
}
