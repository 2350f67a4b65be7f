//! I4: one end, and nothing by a lock that is somebody else's.

use std::mem::discriminant;

use delayq_core::TaskState;

use super::view::TaskView;
use super::{Findings, Promise};
use crate::event::{ExtendAnswer, SettleAnswer};
use crate::history::{NEVER, Row, Step};

pub(super) fn check(view: &TaskView<'_>, findings: &mut Findings) {
    two_ends(view, findings);
    for row in view.rows {
        stale(view, row, findings);
    }
    ran_again(view, findings);
    alive_again(view, findings);
}

/// What certainly ended the task, each once: a settlement may be repeated.
fn sure_ends<'a>(view: &TaskView<'a>) -> Vec<&'a Row> {
    let mut ends: Vec<&Row> = Vec::new();
    for row in view.ends().filter(|row| view.run.is_certain(row)) {
        let repeats = |other: &&Row| match (other.step, row.step) {
            (
                Step::Settle {
                    fence: a, end: x, ..
                },
                Step::Settle {
                    fence: b, end: y, ..
                },
            ) => a == b && discriminant(&x) == discriminant(&y),
            _ => false,
        };
        if !ends.iter().any(repeats) {
            ends.push(row);
        }
    }
    ends.sort_by_key(|row| row.to);
    ends
}

fn two_ends(view: &TaskView<'_>, findings: &mut Findings) {
    let ends = sure_ends(view);
    for pair in ends.windows(2) {
        let [one, two] = pair else { continue };
        let one_lock = match (one.step, two.step) {
            (Step::Settle { fence: a, .. }, Step::Settle { fence: b, .. }) => a == b,
            _ => false,
        };
        if one_lock || !view.opened_between(one, two) {
            let detail = format!("{:?} and {:?}", one.step, two.step);
            findings.task(Promise::OneEnd, "two ends", view, detail);
        }
    }
}

/// A lock that was taken over settles and extends nothing.
fn stale(view: &TaskView<'_>, row: &Row, findings: &mut Findings) {
    let (fence, rule) = match row.step {
        Step::Settle {
            fence,
            answer: Some(SettleAnswer::Settled),
            ..
        } => (fence, "a stale lock settled"),
        Step::Extend {
            fence,
            answer: Some(ExtendAnswer::Extended(_) | ExtendAnswer::CancelRequested(_)),
        } => (fence, "a stale lock was extended"),
        _ => return,
    };
    let own = view.lock(fence).map_or(0, |own| own.row.from);
    let is_next =
        |claim: &&Row| claim.to >= own && claim.to < row.from && view.run.is_certain(claim);
    let later = view.locks.iter().filter(|lock| lock.fence > fence);
    let Some(next) = later.map(|lock| lock.row).find(is_next) else {
        return;
    };
    let repeats = |other: &&Row| match (other.step, row.step) {
        (
            Step::Settle {
                fence: a, end: x, ..
            },
            Step::Settle { end: y, .. },
        ) => a == fence && discriminant(&x) == discriminant(&y) && other.from <= next.to,
        _ => false,
    };
    if !view.rows.iter().any(|other| repeats(&other)) {
        let detail = format!("fence {fence}, after the task had been given to somebody else");
        findings.task(Promise::OneEnd, rule, view, detail);
    }
}

/// Nothing is handed out after its end, unless it was sent or requeued anew. (After a cancel: I6.)
fn ran_again(view: &TaskView<'_>, findings: &mut Findings) {
    let ends = sure_ends(view);
    let ends = ends
        .into_iter()
        .filter(|row| !matches!(row.step, Step::Cancel { .. }));
    for end in ends {
        let is_later = |claim: &Row| match (end.step, claim.step) {
            (Step::Settle { fence, .. }, Step::Claim { fence: next, .. }) => {
                next > fence && end.from <= claim.to
            }
            _ => end.to < claim.from,
        };
        let mut later = view.locks.iter().filter(|lock| is_later(lock.row));
        let again =
            later.find(|lock| view.run.is_certain(lock.row) && !view.opened_between(end, lock.row));
        if let Some(lock) = again {
            let detail = format!("{:?}, then handed out with fence {}", end.step, lock.fence);
            findings.task(Promise::OneEnd, "handed out after its end", view, detail);
        }
    }
}

/// What has ended is not scheduled or running when all is over.
fn alive_again(view: &TaskView<'_>, findings: &mut Findings) {
    let alive = view.is_in(TaskState::Scheduled) || view.is_in(TaskState::Running);
    let Some(last) = sure_ends(view).last().copied().filter(|_| alive) else {
        return;
    };
    if !view.opened_until(last, NEVER) {
        let detail = format!("{:?}, and still {:?}", last.step, view.stored);
        findings.task(Promise::OneEnd, "alive after its end", view, detail);
    }
}
