//! The due time that a claim shows is one that somebody has set.

use delayq_core::time::duration_ms;

use super::{ROUNDING, asked_ms, report, signed};
use crate::check::Findings;
use crate::check::view::{LockView, TaskView};
use crate::event::{Asked, ChangeAnswer, End};
use crate::history::{Row, Step, SubmitResult};

/// Between which times a task may rightly be due, and who set them.
#[derive(Clone, Copy, Debug)]
struct Setter {
    from: u64,
    to: u64,
    certain: bool,
    not_before: i64,
    not_after: i64,
}

pub(super) fn check(
    view: &TaskView<'_>,
    before: Option<&LockView<'_>>,
    lock: &LockView<'_>,
    findings: &mut Findings,
) {
    let Some((earliest, latest)) = due(view, before, lock) else {
        return;
    };
    let due = lock.due.as_millis();
    let fence = lock.fence;
    if due < earliest {
        let early = earliest - due;
        let detail = format!("fence {fence} shows a due time {early} ms before any that was set");
        report(view, "due before the time set", detail, findings);
    }
    if due > latest && !view.is_given_back(lock) && !view.run.moves() {
        let late = due - latest;
        let detail = format!("fence {fence} shows a due time {late} ms after any that was set");
        report(view, "due after the time set", detail, findings);
    }
}

/// Between which times `lock` may be due; `None` when nobody knows who sent the task.
fn due(
    view: &TaskView<'_>,
    before: Option<&LockView<'_>>,
    lock: &LockView<'_>,
) -> Option<(i64, i64)> {
    let setters: Vec<_> = view
        .rows
        .iter()
        .filter(|row| row.from <= lock.row.to)
        .filter_map(|row| setter(view, row, lock))
        .collect();
    let again = before.map_or_else(Vec::new, |before| repeats(view, before, lock));
    let opened = before.is_none_or(|before| setters.iter().any(|set| set.to >= before.row.from));
    if let [again] = again.as_slice()
        && again.certain
        && !opened
    {
        return Some((again.not_before, again.not_after));
    }
    let overwritten = |set: &Setter| {
        let mut others = setters.iter();
        others.any(|other| other.certain && other.from > set.to && other.to < lock.row.from)
    };
    let current = setters.iter().filter(|set| !overwritten(set));
    let spans = current.copied().chain(again);
    let spans = spans.map(|set| (set.not_before, set.not_after));
    spans.reduce(|one, two| (one.0.min(two.0), one.1.max(two.1)))
}

/// What sets a due time apart from failures.
fn setter(view: &TaskView<'_>, row: &Row, lock: &LockView<'_>) -> Option<Setter> {
    let off = view.run.clock_off(row, lock.row.to);
    let clock = &view.run.history.clock;
    let latest = || clock.latest_ms(row.to.min(lock.row.to)) + off.ahead_ms + duration_ms(ROUNDING);
    let span = match row.step {
        Step::Submit {
            result: SubmitResult::Accepted { due, .. },
            ..
        } => (due.as_millis(), due.as_millis()),
        // Shown no earlier than when it was accepted, which may have been by a clock that was
        // ahead.
        Step::Reschedule {
            answer: Some(ChangeAnswer::Changed { due }),
            ..
        } => (due.as_millis(), due.as_millis().max(accepted_ms(view, row))),
        Step::Submit {
            when,
            result: SubmitResult::InDoubt,
            ..
        }
        | Step::Reschedule { when, answer: None } => match when {
            Asked::After(ms) => (
                asked_ms(view, when, row.from) - off.behind_ms,
                latest()
                    .saturating_add(signed(ms))
                    .max(accepted_ms(view, row)),
            ),
            Asked::At(time) => (
                time.as_millis(),
                latest().max(time.as_millis()).max(accepted_ms(view, row)),
            ),
        },
        // With others, one after the other: how far apart is not recorded.
        Step::Requeue { .. } => (clock.earliest_ms(row.from) - off.behind_ms, i64::MAX),
        _ => return None,
    };
    Some(Setter {
        from: row.from,
        to: row.to,
        certain: view.run.is_certain(row),
        not_before: span.0,
        not_after: span.1,
    })
}

/// When the store accepted the task, at the latest, if by its clock that may be after what `moved`
/// asked for: it was ahead then, or is behind now.
fn accepted_ms(view: &TaskView<'_>, moved: &Row) -> i64 {
    let is_behind = view.run.clock_off(moved, moved.to).behind_ms > 0;
    let submits = view.rows.iter().filter(|row| row.from <= moved.to);
    let submits = submits.filter(|row| matches!(row.step, Step::Submit { .. }));
    let after = submits.filter_map(|row| {
        let off = view.run.clock_off(row, moved.to);
        let at = view.run.history.clock.latest_ms(row.to.min(moved.to));
        let is_after = off.ahead_ms > 0 || is_behind;
        is_after.then(|| at + off.ahead_ms + duration_ms(ROUNDING))
    });
    after.max().unwrap_or(i64::MIN)
}

/// The due times after the attempt of `before` and, where that may have been undone, after those
/// before it.
fn repeats(view: &TaskView<'_>, before: &LockView<'_>, lock: &LockView<'_>) -> Vec<Setter> {
    let earlier = view.locks.iter().rev();
    let mut repeats = Vec::new();
    for one in earlier.filter(|one| one.fence <= before.fence) {
        let again = repeated(view, one, lock);
        // Where the attempt after it was not undone, that one's lock has expired, and this says
        // nothing.
        let is_last = one.fence == before.fence;
        repeats.extend(again.map(|again| Setter {
            certain: again.certain && is_last,
            ..again
        }));
        if view.run.is_certain(one.row) || again.is_some_and(|again| again.certain) {
            break;
        }
    }
    repeats
}

/// The due time after the attempt of `before` was to be repeated, and whether it is certain.
fn repeated(view: &TaskView<'_>, before: &LockView<'_>, lock: &LockView<'_>) -> Option<Setter> {
    let clock = &view.run.history.clock;
    let settles = view.settles(before.fence);
    let again = settles.filter_map(|(row, end)| match end {
        _ if row.from > lock.row.to => None,
        End::Retry { after } | End::Release { after } => {
            let off = view.run.clock_off(row, lock.row.to);
            let to = row.to.min(lock.row.to);
            // A claim that lost its answer may have come between. Its lock expired, and the repeat
            // of that was due when the last submit said, not when the settlement did.
            let is_next = !view.is_takeover(Some(before), lock);
            let rounded = clock.latest_ms(to) + off.ahead_ms + duration_ms(ROUNDING);
            Some(Setter {
                from: row.from,
                to: row.to,
                certain: view.run.is_certain(row) && is_next,
                not_before: (clock.earliest_ms(row.from) - off.behind_ms)
                    .saturating_add(signed(after)),
                not_after: rounded.saturating_add(signed(after)),
            })
        }
        _ => None,
    });
    again.reduce(|one, two| Setter {
        certain: one.certain && two.certain,
        not_before: one.not_before.min(two.not_before),
        not_after: one.not_after.max(two.not_after),
        ..one
    })
}
