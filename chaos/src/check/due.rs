//! I1: a task never starts before it is due, and is due when it was asked to be.

use std::time::Duration;

use delayq_core::store::CLOCK_GUARD;
use delayq_core::time::duration_ms;

use super::view::{Cause, LockView, TaskView};
use super::{Findings, Promise};
use crate::event::{Asked, ChangeAnswer, End};
use crate::history::{Row, Step, SubmitResult};

/// A receipt may be answered this much later than the store read its clock: only its due time counts,
/// rounded up to a millisecond.
const ROUNDING: Duration = Duration::from_millis(1);

/// The earliest time that a task may rightly be due at, and who set it.
#[derive(Clone, Copy, Debug)]
struct Setter {
    from: u64,
    to: u64,
    sure: bool,
    not_before: i64,
}

pub(super) fn check(view: &TaskView<'_>, findings: &mut Findings) {
    for row in view.rows {
        receipt(view, row, findings);
    }
    for (index, lock) in view.locks.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|index| view.locks.get(index));
        claimed(view, before, lock, findings);
        was_set(view, before, lock, findings);
    }
    for row in view.rows {
        started(view, row, findings);
    }
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
    let off = view.run.excuses.clock_off_ms((row.from, row.to));
    let earliest = asked_ms(view, when, row.from) - off;
    if due < earliest {
        let detail = format!("due {} ms before the time asked for", earliest - due);
        findings.task(
            Promise::NeverEarly,
            "due before the time asked for",
            view,
            detail,
        );
    }
    let latest = match when {
        Asked::After(ms) => view
            .run
            .history
            .clock
            .latest_ms(row.to)
            .saturating_add(signed(ms)),
        // A past time means now.
        Asked::At(time) => time
            .as_millis()
            .max(view.run.history.clock.latest_ms(row.to)),
    };
    let latest = latest + off + duration_ms(ROUNDING);
    if due > latest {
        let detail = format!("due {} ms after the time asked for", due - latest);
        findings.task(
            Promise::NeverEarly,
            "due after the time asked for",
            view,
            detail,
        );
    }
}

/// The store's own clock had reached the due time when it handed the task out.
fn claimed(
    view: &TaskView<'_>,
    before: Option<&LockView<'_>>,
    lock: &LockView<'_>,
    findings: &mut Findings,
) {
    // A lock that has expired is taken by the store's clock alone, whatever the claimer's says.
    let cause = before.map(|before| view.cause(before, lock));
    let now = match cause {
        Some(Cause::Expired(_) | Cause::Rollback) => lock.call.store_now,
        None if lock.attempt > 1 => lock.call.store_now,
        _ => lock.call.now.min(lock.call.store_now),
    };
    // A task accepted while the store's clock was ahead shows no due time before that of its acceptance.
    let first = view.rows.first().map_or(lock.row.from, |row| row.from);
    let off = view.run.excuses.clock_off_ms((first, lock.row.to));
    if now.as_millis() + off < lock.due.as_millis() {
        let detail = format!(
            "fence {} claimed {} ms before it was due, by the store's clock",
            lock.fence,
            lock.due.as_millis() - now.as_millis()
        );
        findings.task(
            Promise::NeverEarly,
            "claimed before it was due",
            view,
            detail,
        );
    }
}

/// The due time that a claim shows is one that somebody has set.
fn was_set(
    view: &TaskView<'_>,
    before: Option<&LockView<'_>>,
    lock: &LockView<'_>,
    findings: &mut Findings,
) {
    let Some(earliest) = earliest_due(view, before, lock) else {
        return;
    };
    let off = view.run.excuses.clock_off_ms((0, lock.row.to));
    let due = lock.due.as_millis();
    if due < earliest - off {
        let detail = format!(
            "fence {} shows a due time {} ms before any that was set",
            lock.fence,
            earliest - due
        );
        findings.task(Promise::NeverEarly, "due before the time set", view, detail);
    }
}

/// The worker started when the due time had come, by the real time of day.
fn started(view: &TaskView<'_>, row: &Row, findings: &mut Findings) {
    let Step::Start { due, fence, .. } = row.step else {
        return;
    };
    let first = view.rows.first().map_or(row.from, |row| row.from);
    let due_off = view.run.excuses.clock_off_ms((first, row.from));
    let start_off = match due_off {
        0 => 0,
        off => off.max(duration_ms(CLOCK_GUARD)),
    };
    let early = due.as_millis() - start_off - view.run.history.clock.latest_ms(row.from);
    if early > 0 {
        let detail = format!("fence {fence} started {early} ms before it was due");
        findings.task(
            Promise::NeverEarly,
            "started before it was due",
            view,
            detail,
        );
    }
}

/// The earliest due time that `lock` may have; `None` when nobody knows who sent the task.
fn earliest_due(
    view: &TaskView<'_>,
    before: Option<&LockView<'_>>,
    lock: &LockView<'_>,
) -> Option<i64> {
    let setters: Vec<_> = view
        .rows
        .iter()
        .filter(|row| row.from <= lock.row.to)
        .filter_map(|row| setter(view, row))
        .collect();
    let again = before.and_then(|before| repeated_at(view, before, lock));
    let opened = before.is_none_or(|before| setters.iter().any(|set| set.to >= before.row.from));
    if let Some((sure, at)) = again
        && sure
        && !opened
    {
        return Some(at);
    }
    let overwritten = |set: &Setter| {
        let mut others = setters.iter();
        others.any(|other| other.sure && other.from > set.to && other.to < lock.row.from)
    };
    let current = setters.iter().filter(|set| !overwritten(set));
    let times = current.map(|set| set.not_before);
    times.chain(again.map(|(_, at)| at)).min()
}

/// What sets a due time apart from failures.
fn setter(view: &TaskView<'_>, row: &Row) -> Option<Setter> {
    let unknown = |when| Some(asked_ms(view, when, row.from));
    let not_before = match row.step {
        Step::Submit { when, result, .. } => match result {
            SubmitResult::Accepted { due, .. } => Some(due.as_millis()),
            SubmitResult::Unknown => unknown(when),
            _ => None,
        },
        Step::Reschedule { when, answer } => match answer {
            Some(ChangeAnswer::Changed { due }) => Some(due.as_millis()),
            None => unknown(when),
            _ => None,
        },
        Step::Requeue { .. } => Some(view.run.history.clock.earliest_ms(row.from)),
        _ => None,
    }?;
    Some(Setter {
        from: row.from,
        to: row.to,
        sure: view.run.is_sure(row),
        not_before,
    })
}

/// The earliest due time after the attempt of `before` was to be repeated, and whether it is certain.
fn repeated_at(
    view: &TaskView<'_>,
    before: &LockView<'_>,
    lock: &LockView<'_>,
) -> Option<(bool, i64)> {
    let settles = view.settles(before.fence);
    let again = settles.filter_map(|(row, end)| match end {
        _ if row.from > lock.row.to => None,
        End::Retry { after } | End::Release { after } => {
            let from = view.run.history.clock.earliest_ms(row.from);
            // A claim that lost its answer may have come between. Its lock expired, and the repeat of that
            // was due when the last submit said, not when the settlement did.
            let next = before.attempt + u32::from(matches!(end, End::Retry { .. }));
            let is_next = lock.attempt <= next || view.hidden_claims(lock.row) == 0;
            let is_sure = view.run.is_sure(row) && is_next;
            Some((is_sure, from.saturating_add(signed(after))))
        }
        _ => None,
    });
    again.min_by_key(|(_, at)| *at)
}

fn asked_ms(view: &TaskView<'_>, when: Asked, from: u64) -> i64 {
    match when {
        Asked::After(ms) => view
            .run
            .history
            .clock
            .earliest_ms(from)
            .saturating_add(signed(ms)),
        Asked::At(time) => time.as_millis(),
    }
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}
