//! I5: every repeat has a cause of its own, and attempts are counted right.

use std::collections::BTreeSet;

use delayq_core::store::DEFAULT_REMEMBERED;

use super::view::{Cause, LockView, TaskView};
use super::{Findings, Promise};
use crate::event::{Asked, End};
use crate::history::{NEVER, Row, Step, SubmitResult};

pub(super) fn check(view: &TaskView<'_>, findings: &mut Findings) {
    let mut before: Option<&LockView<'_>> = None;
    for lock in &view.locks {
        // Fences that are out of order, and a run after the end, are broken promises of their own.
        let is_clear = before
            .is_none_or(|before| before.row.from <= lock.row.to && !has_ended(view, before, lock));
        if is_clear {
            repeat(view, before, lock, findings);
            attempt(view, before, lock, findings);
        }
        before = Some(lock);
    }
    started_twice(view, findings);
    accepted_twice(view, findings);
}

fn has_ended(view: &TaskView<'_>, one: &LockView<'_>, next: &LockView<'_>) -> bool {
    let mut settles = view.settles(one.fence);
    // One that nobody has answered may not have happened: then the repeat needs a cause as any
    // other.
    let ended = settles.any(|(row, end)| {
        let is_end = !matches!(end, End::Retry { .. } | End::Release { .. });
        is_end && row.to != NEVER && row.from <= next.row.to
    });
    ended && view.cause(one, next) == Cause::Expired(None)
}

fn repeat(
    view: &TaskView<'_>,
    before: Option<&LockView<'_>>,
    lock: &LockView<'_>,
    findings: &mut Findings,
) {
    let Some(before) = before else { return };
    // Two locks at a time are a broken promise of their own.
    let overlaps = lock.call.store_now < before.until;
    if view.cause(before, lock) == Cause::Expired(None) && !overlaps {
        let detail = format!(
            "the lock with fence {} expired, and nothing had happened to its holder",
            before.fence
        );
        findings.task(
            Promise::ExplainedRepeats,
            "a repeat without a cause",
            view,
            detail,
        );
    }
}

/// The attempt's number follows from the one before and its cause.
fn attempt(
    view: &TaskView<'_>,
    before: Option<&LockView<'_>>,
    lock: &LockView<'_>,
    findings: &mut Findings,
) {
    let (least, most) = match before.map(|before| (before.attempt, view.cause(before, lock))) {
        None | Some((_, Cause::Again)) => (1, 1),
        Some((attempt, Cause::Release)) => (attempt, attempt),
        Some((attempt, Cause::Retry | Cause::Expired(_))) => (attempt + 1, attempt + 1),
        Some((_, Cause::Rollback)) => return,
    };
    let undone = || before.is_some_and(|before| view.undone_between(before, lock));
    if (least..=most).contains(&lock.attempt) || undone() {
        return;
    }
    let unsure_release = before.is_some_and(|before| lock.attempt == before.attempt + 1)
        && before.is_some_and(|before| {
            let mut settles = view.settles(before.fence);
            settles.any(|(row, _)| !view.run.is_certain(row))
        });
    let opened = before.is_some_and(|before| view.opened_between(before.row, lock.row));
    let since = before.map(|before| before.row.from);
    let most = most.saturating_add(view.hidden_between(since, lock));
    if unsure_release || (least..=most).contains(&lock.attempt) || opened && lock.attempt == 1 {
        return;
    }
    let detail = format!(
        "fence {} is attempt {}, it should be {least}",
        lock.fence, lock.attempt
    );
    findings.task(
        Promise::ExplainedRepeats,
        "attempts counted wrong",
        view,
        detail,
    );
}

/// One lock starts each worker once.
fn started_twice(view: &TaskView<'_>, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for row in view.rows {
        let Step::Start { worker, fence, .. } = row.step else {
            continue;
        };
        if !seen.insert((fence, worker)) {
            let detail = format!("fence {fence}");
            findings.task(
                Promise::ExplainedRepeats,
                "one lock started twice",
                view,
                detail,
            );
        }
    }
}

/// The same request is accepted once: sending it again is safe.
fn accepted_twice(view: &TaskView<'_>, findings: &mut Findings) {
    let submits: Vec<_> = view.rows.iter().filter_map(request).collect();
    for (index, (second, digest, when)) in submits.iter().enumerate() {
        let Step::Submit { result, .. } = second.step else {
            continue;
        };
        if !matches!(result, SubmitResult::Accepted { .. }) || !view.run.is_certain(second) {
            continue;
        }
        let same = |first: &&Row| is_accepted_before(view, first, second);
        let earlier = submits.iter().take(index);
        let mut earlier = earlier
            .filter(|(_, d, w)| d == digest && w == when)
            .map(|(row, ..)| row);
        let Some(first) = earlier.find(|first| same(first)) else {
            continue;
        };
        if !may_be_forgotten(view, first, second) {
            let detail = "the second answer should be that it exists".to_owned();
            findings.task(
                Promise::ExplainedRepeats,
                "the same request was accepted twice",
                view,
                detail,
            );
        }
    }
}

fn request(row: &Row) -> Option<(&Row, u64, Asked)> {
    match row.step {
        Step::Submit { digest, when, .. } => Some((row, digest, when)),
        _ => None,
    }
}

/// Whether `first` was certainly in the store before `second` was sent.
fn is_accepted_before(view: &TaskView<'_>, first: &Row, second: &Row) -> bool {
    let Step::Submit { result, .. } = first.step else {
        return false;
    };
    let answered = matches!(result, SubmitResult::Accepted { .. })
        && view.run.is_certain(first)
        && first.to < second.from;
    let mut openers = view.openers();
    let alone = !openers.any(|(from, _)| from < first.from);
    let shown = || {
        let mut locks = view.locks.iter();
        locks.any(|lock| lock.row.to < second.from && lock.row.to >= first.from)
    };
    answered || result == SubmitResult::InDoubt && alone && shown()
}

/// Whether the store may have forgotten `first` when `second` came: another request took its id, it
/// was removed, or it had ended longer ago than ends are remembered.
fn may_be_forgotten(view: &TaskView<'_>, first: &Row, second: &Row) -> bool {
    let plan = view.run.history.plan.as_ref();
    let retention_ns = plan.map_or(0, |plan| plan.retention_ms) * 1_000_000;
    let many = view.run.history.tasks.len() >= DEFAULT_REMEMBERED;
    let between = |row: &&Row| row.to >= first.from && row.from <= second.to;
    let changed = |row: &&Row| match row.step {
        Step::Submit { result, .. } => {
            let other = row.from != first.from && row.from != second.from;
            other && !matches!(result, SubmitResult::Refused | SubmitResult::Exists(_))
        }
        Step::Discard { .. } | Step::Update { .. } | Step::Reschedule { .. } => true,
        _ => false,
    };
    if view.rows.iter().filter(between).any(|row| changed(&row)) {
        return true;
    }
    let mut ends = view.ends().filter(between);
    ends.any(|end| many || second.to.saturating_sub(end.from) >= retention_ns)
}
