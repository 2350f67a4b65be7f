//! I2 and I5: what is settled is what workers did, and what they did is settled.

use super::view::{LockView, TaskView};
use super::{Findings, Promise};
use crate::event::{End, SettleAnswer};
use crate::history::{Row, Step};

pub(super) fn check(view: &TaskView<'_>, findings: &mut Findings) {
    if !view.run.has_starts {
        return;
    }
    for lock in &view.locks {
        as_claimed(view, lock, findings);
        not_settled(view, lock, findings);
    }
    let first = view.run.history.at_most_once.contains(view.task_type);
    for row in view.rows.iter().filter(|_| !first) {
        not_done(view, row, findings);
        not_failed(view, row, findings);
    }
}

fn starts<'a>(view: &TaskView<'a>, lock: u64) -> impl Iterator<Item = &'a Row> {
    let rows = view.rows.iter();
    rows.filter(move |row| matches!(row.step, Step::Start { fence, .. } if fence == lock))
}

fn ends<'a>(view: &TaskView<'a>) -> impl Iterator<Item = (&'a Row, u64, End)> {
    view.rows.iter().filter_map(|row| match row.step {
        Step::End { fence, end, .. } => Some((row, fence, end)),
        _ => None,
    })
}

/// A worker is told what its claim was answered.
fn as_claimed(view: &TaskView<'_>, lock: &LockView<'_>, findings: &mut Findings) {
    for row in starts(view, lock.fence) {
        let Step::Start { attempt, due, .. } = row.step else {
            continue;
        };
        if attempt != lock.attempt || due != lock.due {
            let detail = format!(
                "fence {}: attempt {attempt} due {due}, claimed as {} due {}",
                lock.fence, lock.attempt, lock.due
            );
            let rule = "started as another attempt";
            findings.task(Promise::ExplainedRepeats, rule, view, detail);
        }
    }
}

/// Done is only what a worker has done, before.
fn not_done(view: &TaskView<'_>, row: &Row, findings: &mut Findings) {
    let Step::Settle {
        fence,
        end: End::Done,
        answer: Some(SettleAnswer::Settled) | None,
    } = row.step
    else {
        return;
    };
    let Some(lock) = view.lock(fence) else { return };
    // A worker that has succeeded already is left out of a repeat.
    let succeeded = |end: &Row, by: u64| {
        let earlier = by < fence && !view.opened_between(end, lock.row);
        end.from < row.from && (by == fence || earlier)
    };
    if !ends(view).any(|(end, by, how)| how == End::Done && succeeded(end, by)) {
        let detail = format!("fence {fence}, and no worker had succeeded");
        let rule = "settled as done, and not done";
        findings.task(Promise::NeverLost, rule, view, detail);
    }
}

/// What all its workers have done is not settled as failed.
fn not_failed(view: &TaskView<'_>, row: &Row, findings: &mut Findings) {
    let Step::Settle {
        fence,
        end: End::Retry { .. } | End::Release { .. } | End::Dead | End::Expired,
        answer: Some(SettleAnswer::Settled),
    } = row.step
    else {
        return;
    };
    let mut own = ends(view).filter(|(end, by, _)| *by == fence && end.from < row.from);
    let (mut done, mut others) = (0, 0);
    for (_, _, end) in own.by_ref() {
        if end == End::Done {
            done += 1;
        } else {
            others += 1;
        }
    }
    if done > 0 && others == 0 && starts(view, fence).count() == done {
        let detail = format!("fence {fence}, and its worker had succeeded");
        let rule = "settled as failed, and done";
        findings.task(Promise::ExplainedRepeats, rule, view, detail);
    }
}

/// What a worker has ended is settled, unless a fault keeps its process from it.
fn not_settled(view: &TaskView<'_>, lock: &LockView<'_>, findings: &mut Findings) {
    let Some((end, ..)) = ends(view).find(|(_, by, _)| *by == lock.fence) else {
        return;
    };
    let settles = |row: &Row| matches!(row.step, Step::Settle { fence, .. } if fence == lock.fence);
    let is_over = |row: &Row| settles(row) || matches!(row.step, Step::EndedByClaim { .. });
    let taken = view.locks.iter().any(|other| other.fence > lock.fence);
    let span = (lock.alive, u64::MAX);
    let process = view.run.process(lock.row);
    let lost = || view.run.allowances.held_up(process, span) || view.hidden_after(lock.alive);
    if !view.rows.iter().any(is_over) && !taken && !lost() {
        let detail = format!("fence {}: {:?}", lock.fence, end.step);
        let rule = "ended, and never settled";
        findings.task(Promise::ComesBack, rule, view, detail);
    }
}
