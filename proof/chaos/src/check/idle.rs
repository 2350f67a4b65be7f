//! I7: a handler that sleeps is woken for a task that comes before what it sleeps for.
//!
//! A handler whose wake-ups are lost looks at its type once in a poll interval, so its tasks still
//! start: only later. That shows where nothing else keeps a handler awake: at single tasks of a
//! type that is idle otherwise.

use super::figures::{Figures, Span};
use super::view::{Run, TaskView};
use super::{Findings, Promise};
use crate::event::Asked;
use crate::history::Step;

/// Half of such tasks of a type start earlier than this, in milliseconds. A wake-up takes a few;
/// the file of an embedded store is looked at every 100; without one it is the poll interval,
/// 1,000.
const PROMPT_MS: u64 = 250;
/// With fewer of them nothing is proved.
const ENOUGH: u64 = 4;

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
    // Each is served by one process, which may be the only one that nobody wakes.
    for task_type in plan.into_iter().flat_map(|plan| &plan.idle_types) {
        let lateness = figures.lateness_idle.get(task_type);
        let count = lateness.map_or(0, Span::count);
        if count < ENOUGH {
            invalid.push(format!(
                "only {count} tasks that others sent woke the idle handler of {task_type} while nothing was wrong: \
                 lost wake-ups cannot be seen"
            ));
        }
        let late_ms = lateness.map_or(0, |span| span.percentile_us(50.0) / 1_000);
        if late_ms > PROMPT_MS {
            let detail = format!(
                "half of {count} tasks that others sent to {task_type}, due at once, started more than {late_ms} ms \
                 late: wake-ups are lost"
            );
            let rule = "sleeping handlers are not woken";
            findings.run(Promise::ComesBack, rule, detail);
        }
    }
}
