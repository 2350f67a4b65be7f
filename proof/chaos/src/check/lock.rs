//! I3: one holder at a time, and fences that increase.

use std::collections::BTreeSet;

use super::view::{Cause, LockView, TaskView};
use super::{Findings, Promise};
use crate::history::Step;

pub(super) fn check(view: &TaskView<'_>, findings: &mut Findings) {
    for pair in view.locks.windows(2) {
        if let [one, next] = pair {
            fences(view, one, next, findings);
            overlap(view, one, next, findings);
        }
    }
    without_claim(view, findings);
    effect_log(view, findings);
}

fn fences(view: &TaskView<'_>, one: &LockView<'_>, next: &LockView<'_>, findings: &mut Findings) {
    let detail = || format!("fences {} and {}", one.fence, next.fence);
    if one.fence == next.fence {
        findings.task(
            Promise::OneHolder,
            "two locks with one fence",
            view,
            detail(),
        );
    } else if next.row.to < one.row.from {
        findings.task(
            Promise::OneHolder,
            "a later lock has a smaller fence",
            view,
            detail(),
        );
    }
}

/// Nobody gets a lock while another one lasts, unless its holder has given it back.
fn overlap(view: &TaskView<'_>, one: &LockView<'_>, next: &LockView<'_>, findings: &mut Findings) {
    let left = one.until.as_millis() - next.call.store_now.as_millis();
    let settled = || {
        view.settles(one.fence)
            .any(|(row, _)| row.from <= next.row.to)
    };
    if left <= 0 || settled() || next.row.to < one.row.from {
        return;
    }
    if view.undone_between(one, next) || may_be_shortened(view, one, next) {
        return;
    }
    let detail = format!(
        "fence {} was given {left} ms before the lock with fence {} expired",
        next.fence, one.fence
    );
    findings.task(Promise::OneHolder, "two locks overlap", view, detail);
}

/// Whether an extension whose answer is lost may have been measured on a clock that was behind.
fn may_be_shortened(view: &TaskView<'_>, one: &LockView<'_>, next: &LockView<'_>) -> bool {
    view.rows.iter().any(|row| match row.step {
        Step::Extend {
            fence,
            answer: None,
        } => fence == one.fence && view.run.clock_off(row, next.row.to).behind_ms > 0,
        _ => false,
    })
}

/// Nobody starts a worker without a lock.
fn without_claim(view: &TaskView<'_>, findings: &mut Findings) {
    for row in view.rows {
        let Step::Start { fence, .. } = row.step else {
            continue;
        };
        let Some(lock) = view.lock(fence) else {
            let detail = format!("fence {fence} is in no claim's answer");
            findings.task(Promise::OneHolder, "started without a lock", view, detail);
            continue;
        };
        if lock.row.process != row.process || lock.row.to > row.from {
            let detail = format!("fence {fence} was given to somebody else, or later");
            let rule = "started with the lock of another";
            findings.task(Promise::OneHolder, rule, view, detail);
        }
    }
}

fn effect_log(view: &TaskView<'_>, findings: &mut Findings) {
    let mut largest = 0;
    let mut inside = BTreeSet::new();
    let mut rows: Vec<_> = view.rows.iter().collect();
    rows.sort_by_key(|row| row.from);
    for row in rows {
        match row.step {
            Step::EffectAccepted { fence } => {
                if fence < largest {
                    let detail = format!("fence {fence} was taken after {largest}");
                    findings.task(
                        Promise::OneHolder,
                        "the effect log took a smaller fence",
                        view,
                        detail,
                    );
                }
                largest = largest.max(fence);
            }
            Step::EffectRefused { fence } if fence > largest => {
                let detail = format!("fence {fence} was refused, {largest} is the largest taken");
                findings.task(
                    Promise::OneHolder,
                    "the effect log refused a larger fence",
                    view,
                    detail,
                );
            }
            Step::EffectBegun { fence, others } => {
                let beside = inside.iter().all(|other| is_explained(view, *other, fence));
                let known = !inside.is_empty() && !inside.contains(&fence);
                inside.insert(fence);
                if others > 0 && !(known && beside) {
                    let detail = format!("fences {inside:?} were at work at the same time");
                    findings.task(Promise::OneHolder, "two workers overlap", view, detail);
                }
            }
            Step::EffectEnded { fence } => {
                inside.remove(&fence);
            }
            _ => {}
        }
    }
}

/// Whether the holder of the smaller fence has lost its lock by a fault: it may still be at work
/// beside the one who has taken over.
fn is_explained(view: &TaskView<'_>, one: u64, other: u64) -> bool {
    let older = one.min(other);
    let mut pairs = view.locks.windows(2);
    pairs.any(|pair| match pair {
        [lock, next] if lock.fence == older => {
            let cause = view.cause(lock, next);
            matches!(cause, Cause::Expired(Some(_)) | Cause::Rollback)
        }
        _ => false,
    })
}
