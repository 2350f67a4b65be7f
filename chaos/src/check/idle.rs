//! I7: a handler that sleeps is woken for a task that comes before what it sleeps for.
//!
//! A handler whose wake-ups are lost looks at its type once in a poll interval, so its tasks still start: only
//! later. That shows where nothing else keeps a handler awake: at single tasks of a type that is idle otherwise.

use super::figures::{Figures, Span};
use super::view::{Run, TaskView};
use super::{Findings, Promise};
use crate::event::Asked;
use crate::history::Step;

/// Three quarters of such tasks start earlier than this, in milliseconds. A wake-up takes a few; the file of
/// an embedded store is looked at every 100; without one it is the poll interval, 1,000.
const PROMPT_MS: u64 = 250;
/// With fewer of them nothing is proved.
const ENOUGH: u64 = 10;

/// Whether the task was sent to an idle type, due at once.
pub(super) fn is_for_idle(view: &TaskView<'_>) -> bool {
    let plan = view.run.history.plan.as_ref();
    let is_idle =
        plan.is_some_and(|plan| plan.idle_types.iter().any(|idle| idle == view.task_type));
    let at_once = |step| {
        let when = Asked::After(0);
        matches!(step, Step::Submit { when: asked, .. } if asked == when)
    };
    is_idle && view.rows.iter().any(|row| at_once(row.step))
}

pub(super) fn check(
    run: &Run<'_>,
    figures: &Figures,
    (findings, invalid): (&mut Findings, &mut Vec<String>),
) {
    let plan = run.history.plan.as_ref();
    if plan.is_none_or(|plan| plan.idle_types.is_empty()) {
        return;
    }
    let count = figures.lateness_idle.count();
    if count < ENOUGH {
        invalid.push(format!(
            "only {count} tasks woke an idle handler while nothing was wrong: lost wake-ups cannot be seen"
        ));
    }
    let late_ms = quarter_ms(&figures.lateness_idle);
    if late_ms > PROMPT_MS {
        let detail = format!(
            "a quarter of {count} tasks sent to idle types, due at once, started more than {late_ms} ms \
             late: wake-ups are lost"
        );
        findings.run(
            Promise::ComesBack,
            "sleeping handlers are not woken",
            detail,
        );
    }
}

fn quarter_ms(lateness: &Span) -> u64 {
    lateness.percentile_us(75.0) / 1_000
}
