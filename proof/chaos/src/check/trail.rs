//! I10: what the store counts of a task's past agrees with the recorded attempts.

use delayq_core::TaskState;

use super::view::{LockView, TaskView};
use super::{Findings, Promise};
use crate::event::End;
use crate::history::{NEVER, Row, Step, SubmitResult};

/// Between how many and how many.
type Bounds = (u32, u32);

pub(super) fn check(view: &TaskView<'_>, findings: &mut Findings) {
    let Some(stored) = view.stored else { return };
    let is_live = matches!(
        stored.state,
        TaskState::Scheduled | TaskState::Running | TaskState::Dead
    );
    let Some((failures, expiries, releases, requeues)) = stored.trail.filter(|_| is_live) else {
        return;
    };
    let made = failures + expiries;
    let attempt = made + u32::from(stored.state == TaskState::Running);
    if attempt != stored.attempt {
        let detail = format!("{} attempts, by its trail {attempt}", stored.attempt);
        report(view, "attempts and trail differ", detail, findings);
    }
    let undone = |row: &Row| view.run.allowances.undone((row.from, row.to)).is_some();
    if view.rows.iter().any(undone) {
        return;
    }
    let Some(life) = Life::of(view) else { return };
    let counts = [
        ("failures", failures, life.failures(view)),
        ("lock expiries", expiries, life.expiries(view)),
        ("releases", releases, life.releases(view)),
        ("requeues", requeues, life.requeues),
    ];
    for (what, count, (least, most)) in counts {
        if !(least..=most).contains(&count) {
            let detail = format!("{what}: {count}, the record has {least} to {most}");
            report(view, "its trail is not what happened", detail, findings);
        }
    }
}

fn report(view: &TaskView<'_>, rule: &'static str, detail: String, findings: &mut Findings) {
    findings.task(Promise::Structure, rule, view, detail);
}

/// What counts: what happened since the submit, or since the last requeue.
struct Life {
    from: u64,
    requeues: Bounds,
}

impl Life {
    /// `None` when it is not certain when it began.
    fn of(view: &TaskView<'_>) -> Option<Self> {
        let openers: Vec<_> = view.openers().collect();
        let is_unsure = openers.iter().any(|(_, to)| *to == NEVER);
        let accepted = |row: &&Row| {
            let Step::Submit { result, .. } = row.step else {
                return false;
            };
            matches!(result, SubmitResult::Accepted { .. })
        };
        let is_sent_again = view.rows.iter().filter(accepted).count() > 1;
        if is_sent_again || is_unsure && openers.len() > 1 {
            return None;
        }
        let requeues = u32::try_from(openers.len()).ok()?.checked_sub(1)?;
        Some(Self {
            from: openers.iter().map(|(from, _)| *from).max()?,
            requeues: (requeues, requeues),
        })
    }

    fn locks<'a>(&self, view: &'a TaskView<'_>) -> impl Iterator<Item = &'a LockView<'a>> {
        let locks = view.locks.iter();
        locks.filter(|lock| lock.row.to >= self.from)
    }

    /// How many attempts were settled so.
    fn settled(&self, view: &TaskView<'_>, counts: impl Fn(End) -> bool) -> Bounds {
        let mut bounds = (0, 0);
        for lock in self.locks(view) {
            let settles: Vec<_> = view.settles(lock.fence).collect();
            let certain = |(row, end): &(&Row, End)| row.to != NEVER && counts(*end);
            bounds.0 += u32::from(settles.iter().any(certain));
            bounds.1 += u32::from(settles.iter().any(|(_, end)| counts(*end)));
        }
        bounds
    }

    fn failures(&self, view: &TaskView<'_>) -> Bounds {
        self.settled(view, |end| matches!(end, End::Retry { .. } | End::Dead))
    }

    fn releases(&self, view: &TaskView<'_>) -> Bounds {
        let (least, most) = self.settled(view, |end| matches!(end, End::Release { .. }));
        let given_back = if view.run.gives_back() {
            let life = (self.from, NEVER);
            view.run.hidden.locks(view.task_type, life, 0)
        } else {
            0
        };
        (least, most.saturating_add(given_back))
    }

    /// How many locks were not settled, and had to expire before somebody took the task again.
    fn expiries(&self, view: &TaskView<'_>) -> Bounds {
        let mut bounds = (0, 0);
        let last = view.locks.last().map(|lock| lock.fence);
        for lock in self.locks(view) {
            let settles: Vec<_> = view.settles(lock.fence).collect();
            let is_unsettled = settles.is_empty();
            let is_unsure = settles.iter().all(|(row, _)| row.to == NEVER);
            bounds.0 += u32::from(is_unsettled && Some(lock.fence) != last);
            bounds.1 += u32::from(is_unsure);
        }
        let hidden = view.run.hidden.locks(view.task_type, (self.from, NEVER), 0);
        (bounds.0, bounds.1.saturating_add(hidden))
    }
}
