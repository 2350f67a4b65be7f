//! I1: a task never starts before it is due, and is due when it was asked to be.

use std::time::Duration;

use delayq_core::store::CLOCK_GUARD;
use delayq_core::time::duration_ms;

use super::view::{LockView, TaskView};
use super::{Findings, Promise};
use crate::event::{Asked, ChangeAnswer};
use crate::history::{Row, Step, SubmitResult};

mod set;

/// A receipt may be answered this much later than the store read its clock: only its due time
/// counts, rounded up to a millisecond.
const ROUNDING: Duration = Duration::from_millis(1);

pub(super) fn check(view: &TaskView<'_>, findings: &mut Findings) {
    for row in view.rows {
        receipt(view, row, findings);
    }
    // Fences that are out of order are a broken promise of their own.
    let in_order = view
        .locks
        .is_sorted_by(|one, next| one.row.from <= next.row.to);
    for (index, lock) in view.locks.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|index| view.locks.get(index));
        clock(view, lock, findings);
        if in_order {
            set::check(view, before, lock, findings);
        }
        if !was_due(view, before, lock) {
            claimed(view, before, lock, findings);
            started(view, lock, findings);
        }
    }
}

fn report(view: &TaskView<'_>, rule: &'static str, detail: String, findings: &mut Findings) {
    findings.task(Promise::NeverEarly, rule, view, detail);
}

/// A receipt gives the time that was asked for.
fn receipt(view: &TaskView<'_>, row: &Row, findings: &mut Findings) {
    let (when, due) = match row.step {
        Step::Submit {
            when,
            result: SubmitResult::Accepted { due, .. },
            ..
        }
        | Step::Reschedule {
            when,
            answer: Some(ChangeAnswer::Changed { due }),
        } => (when, due.as_millis()),
        _ => return,
    };
    let clock = &view.run.history.clock;
    let off = view.run.clock_off(row, row.to);
    let (earliest, latest) = match when {
        Asked::After(ms) => (
            clock.earliest_ms(row.from).saturating_add(signed(ms)) - off.behind_ms,
            clock.latest_ms(row.to).saturating_add(signed(ms)) + off.ahead_ms,
        ),
        // A past time means now.
        Asked::At(time) => (
            time.as_millis(),
            time.as_millis().max(clock.latest_ms(row.to) + off.ahead_ms),
        ),
    };
    if due < earliest {
        let detail = format!("due {} ms before the time asked for", earliest - due);
        report(view, "due before the time asked for", detail, findings);
    }
    let latest = latest + duration_ms(ROUNDING);
    if due > latest {
        let detail = format!("due {} ms after the time asked for", due - latest);
        report(view, "due after the time asked for", detail, findings);
    }
}

/// The store's clock is right while nobody has set it: all rules that go by it rest on that.
fn clock(view: &TaskView<'_>, lock: &LockView<'_>, findings: &mut Findings) {
    let clock = &view.run.history.clock;
    let off = view.run.clock_off(lock.row, lock.row.to);
    let guard = duration_ms(CLOCK_GUARD);
    let now = lock.call.store_now.as_millis();
    let ahead = now - clock.latest_ms(lock.row.to) - off.ahead_ms - guard;
    let behind = clock.earliest_ms(lock.row.from) - now - off.behind_ms - guard;
    let wrong = ahead.max(behind);
    if wrong > 0 && !clock.is_empty() {
        let detail = format!("fence {}: by {} ms", lock.fence, wrong + guard);
        report(view, "claimed by a clock that is wrong", detail, findings);
    }
}

/// Whether the task had been handed out before with this due time or a later one: an expired lock
/// is taken by the store's clock, whatever the due time says by now.
fn was_due(view: &TaskView<'_>, before: Option<&LockView<'_>>, lock: &LockView<'_>) -> bool {
    let mut earlier = view.locks.iter().filter(|other| other.fence < lock.fence);
    view.is_takeover(before, lock) && earlier.any(|other| other.due >= lock.due)
}

/// The clocks by which it was handed out had reached the due time: the store's own, and the
/// claimer's but for the guard. An expired lock is taken by the store's clock alone.
fn claimed(
    view: &TaskView<'_>,
    before: Option<&LockView<'_>>,
    lock: &LockView<'_>,
    findings: &mut Findings,
) {
    let now = if view.is_takeover(before, lock) {
        lock.call.store_now
    } else {
        lock.call.now.min(lock.call.store_now)
    };
    let early = due_ms(view, lock) - now.as_millis();
    if early > 0 {
        let detail = format!(
            "fence {} claimed {early} ms before it was due, by the store's clock",
            lock.fence
        );
        report(view, "claimed before it was due", detail, findings);
    }
}

/// The worker started when the due time had come, by the real time of day. A store's clock that is
/// ahead may start it early, by no more than the guard.
fn started(view: &TaskView<'_>, lock: &LockView<'_>, findings: &mut Findings) {
    let due = due_ms(view, lock) - view.run.clock_off(lock.row, lock.row.to).early_ms;
    for row in view.rows {
        let Step::Start { fence, .. } = row.step else {
            continue;
        };
        let early = due - view.run.history.clock.latest_ms(row.from);
        if fence == lock.fence && early > 0 {
            let detail = format!("fence {fence} started {early} ms before it was due");
            report(view, "started before it was due", detail, findings);
        }
    }
}

/// When an attempt was due: what its claim says. A task shows no due time before that of its
/// acceptance, but can have been moved to one, if the clock was ahead when it was accepted, or
/// behind when it was moved.
fn due_ms(view: &TaskView<'_>, lock: &LockView<'_>) -> i64 {
    let off = |row: &Row| view.run.clock_off(row, lock.row.to);
    let before = || view.rows.iter().filter(|row| row.from <= lock.row.to);
    let mut sent = before().filter(|row| matches!(row.step, Step::Submit { .. }));
    let ahead = sent.find(|row| off(row).ahead_ms > 0).map(|row| row.from);
    let moved = before().filter_map(|row| {
        let Step::Reschedule { when, answer } = row.step else {
            return None;
        };
        let is_before = ahead.is_some_and(|from| row.to >= from) || off(row).behind_ms > 0;
        match answer {
            _ if !is_before => None,
            Some(ChangeAnswer::Changed { due }) => Some(due.as_millis()),
            None => Some(asked_ms(view, when, row.from) - off(row).behind_ms),
            _ => None,
        }
    });
    moved.fold(lock.due.as_millis(), i64::min)
}

fn asked_ms(view: &TaskView<'_>, when: Asked, from: u64) -> i64 {
    let clock = &view.run.history.clock;
    match when {
        Asked::After(ms) => clock.earliest_ms(from).saturating_add(signed(ms)),
        Asked::At(time) => time.as_millis(),
    }
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}
