//! I10: the store's structure is whole, and it has what the history says. I7: nothing is stuck.

use delayq_core::TaskState;

use super::view::{LockView, Run, TaskView};
use super::{Findings, Promise};
use crate::event::{Asked, CancelAnswer, ChangeAnswer, DRIVER, End, SettleAnswer};
use crate::history::{NEVER, Row, Step, Stored};

/// A delay, in milliseconds, of a task that the end of a run need not wait for.
const LONG_MS: u64 = 50_000;

pub(super) fn check(view: &TaskView<'_>, findings: &mut Findings) {
    stuck(view, findings);
    moved_up(view, findings);
    state(view, findings);
    attempts(view, findings);
}

/// What audits found is damage that a fault explains.
pub(super) fn check_audits(run: &Run<'_>, findings: &mut Findings) {
    for (task_type, id, what) in &run.history.problems {
        let task = format!("{task_type}/{id}");
        if !run.allowances.damaged(&task) {
            findings.run(
                Promise::Structure,
                "an audit found damage",
                format!("{task}: {what}"),
            );
        }
    }
}

/// When all is over, nothing is long due, or locked by nobody.
fn stuck(view: &TaskView<'_>, findings: &mut Findings) {
    let (Some(stored), Some(now)) = (view.stored, view.run.history.dumped) else {
        return;
    };
    let rule = match stored.state {
        TaskState::Scheduled => "due, and nobody starts it",
        TaskState::Running => "its lock has expired, and nobody takes it over",
        _ => return,
    };
    let clock = &view.run.history.clock;
    let [due, end] = [stored.at, now].map(|time| clock.monotonic_ns(time.as_millis()));
    // While its type is paused, nobody may start it.
    let paused_ns = view.run.paused_ns(view.task_type, (due, end));
    let waited_ms = i64::try_from(paused_ns / 1_000_000).unwrap_or(i64::MAX);
    let late = now.as_millis() - stored.at.as_millis() - waited_ms;
    if late > i64::try_from(view.run.recovery_ms).unwrap_or(i64::MAX) {
        let detail = format!("for {late} ms at the end of the run");
        findings.task(Promise::ComesBack, rule, view, detail);
    }
}

/// At the end, what is due in a long time is moved up so that the run ends: a clock was wrong when
/// it was sent, or somebody has asked for that.
fn moved_up(view: &TaskView<'_>, findings: &mut Findings) {
    let asked_ms = |row: &Row| match row.step {
        Step::Submit { when, .. } | Step::Reschedule { when, .. } => match when {
            Asked::After(ms) => ms,
            Asked::At(time) => {
                let clock = &view.run.history.clock;
                clock
                    .monotonic_ns(time.as_millis())
                    .saturating_sub(row.from)
                    / 1_000_000
            }
        },
        Step::Settle {
            end: End::Retry { after } | End::Release { after },
            ..
        } => after,
        _ => 0,
    };
    let by_driver = |row: &&Row| {
        let moves = matches!(
            row.step,
            Step::Reschedule {
                answer: Some(ChangeAnswer::Changed { .. }),
                ..
            }
        );
        moves && view.run.process(row) == DRIVER
    };
    let Some(moved) = view.rows.iter().find(by_driver) else {
        return;
    };
    let is_asked = view.rows.iter().any(|row| asked_ms(row) >= LONG_MS);
    if !is_asked && !view.is_set_by_wrong_clock(moved.to) {
        let detail = "nobody had asked for that, and no clock was wrong".to_owned();
        let rule = "due far too late";
        findings.task(Promise::ComesBack, rule, view, detail);
    }
}

/// Whether a clock that was ahead gave it a lock that lasts accordingly, and nobody is left to
/// settle it.
pub(super) fn is_locked_for_long(view: &TaskView<'_>) -> bool {
    let last = view.locks.last().filter(|_| view.is_in(TaskState::Running));
    last.is_some_and(|lock| {
        let ahead = |row: &&Row| match row.step {
            Step::Claim { fence, .. } | Step::Extend { fence, .. } => {
                let off = view.run.clock_off(row, row.to);
                fence == lock.fence && off.is_set && off.ahead_ms > 0
            }
            _ => false,
        };
        view.rows.iter().any(|row| ahead(&row))
    })
}

/// When all has had its time, nothing is left but what is locked for long.
pub(super) fn check_left(run: &Run<'_>, locked: u64, findings: &mut Findings) {
    if let Some(left) = run.history.left.filter(|left| *left > locked) {
        let detail = format!("{left} tasks have not ended although they had their time");
        findings.run(Promise::ComesBack, "tasks are left", detail);
    }
}

/// The state in the store is one that somebody has brought about.
fn state(view: &TaskView<'_>, findings: &mut Findings) {
    let Some(stored) = view.stored else { return };
    if !sent(view) {
        let detail = format!("{:?}, and nobody has sent it", stored.state);
        findings.task(
            Promise::Structure,
            "the store has what nobody sent",
            view,
            detail,
        );
        return;
    }
    let caused = match stored.state {
        TaskState::Scheduled | TaskState::Running => true,
        state => {
            may_be_hidden(view, stored) || view.rows.iter().any(|row| leads_to(view, row, state))
        }
    };
    if !caused {
        let detail = format!("{:?}, and nobody did that", stored.state);
        findings.task(Promise::Structure, "a state without a cause", view, detail);
    }
}

/// Whether a claim whose answer was lost may have brought the task there.
fn may_be_hidden(view: &TaskView<'_>, stored: Stored) -> bool {
    let state = stored.state;
    let since = match state {
        TaskState::Cancelled => view.marked_at(),
        TaskState::Expired => view.expires_at(),
        // A damaged record, or poison: after the lock that expired last.
        TaskState::Dead if view.run.allowances.damaged(view.name) => Some(0),
        TaskState::Dead => {
            let expired = stored.trail.is_none_or(|(_, expiries, ..)| expiries > 0);
            let first = view.rows.first().map_or(0, |row| row.from);
            let last = view.locks.last().map_or(first, LockView::ran_out);
            expired.then_some(last)
        }
        _ => None,
    };
    // What is certain to have ended otherwise stays so until it is sent or requeued anew.
    let ends = view.ends().filter(|row| view.run.is_certain(row));
    let mut others = ends.filter(|row| !leads_to(view, row, state));
    let is_otherwise = others.any(|end| !view.opened_until(end, NEVER));
    !is_otherwise && since.is_some_and(|since| view.hidden_after(since))
}

fn sent(view: &TaskView<'_>) -> bool {
    view.openers().next().is_some()
}

fn leads_to(view: &TaskView<'_>, row: &Row, state: TaskState) -> bool {
    match row.step {
        Step::Settle { end, answer, .. } if SettleAnswer::may_count(answer) => {
            let ends_in = match end {
                End::Done => TaskState::Done,
                End::Dead => TaskState::Dead,
                End::Expired => TaskState::Expired,
                // After a cancel that found it running.
                End::Retry { .. } | End::Release { .. } if view.is_marked(row) => {
                    TaskState::Cancelled
                }
                End::Retry { .. } | End::Release { .. } => return false,
            };
            ends_in == state
        }
        Step::EndedByClaim { state: ended, .. } => ended == state,
        Step::Cancel { answer } => {
            state == TaskState::Cancelled && matches!(answer, Some(CancelAnswer::Cancelled) | None)
        }
        _ => false,
    }
}

/// A done task has made as many attempts as the lock that settled it says.
fn attempts(view: &TaskView<'_>, findings: &mut Findings) {
    let Some(stored) = view.stored.filter(|stored| stored.state == TaskState::Done) else {
        return;
    };
    let done = |fence| {
        let mut settles = view.settles(fence);
        settles.any(|(_, end)| end == End::Done)
    };
    let mut last = view.locks.iter().rev().filter(|lock| done(lock.fence));
    let Some(lock) = last.next() else { return };
    if stored.attempt != lock.attempt {
        let detail = format!(
            "the store says {} attempts, the lock that ended it {}",
            stored.attempt, lock.attempt
        );
        findings.task(
            Promise::Structure,
            "attempts differ at the end",
            view,
            detail,
        );
    }
}
