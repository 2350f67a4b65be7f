//! I7: once nothing is wrong any more, due tasks start within the time of a lock and a second: some
//! task of each type, and each task that others do not come before.
//!
//! Time counts from the end of the last fault that may have kept the type from starting: a fault of
//! a task, of a sender, or one that explains nothing, does not hide a type that stands still.

use super::figures::Began;
use super::view::Run;
use super::{Findings, Promise};

pub(super) fn check(run: &Run<'_>, task_type: &str, starts: &[Began], findings: &mut Findings) {
    let disturbances = run.disturbances(task_type);
    stalls(run, (task_type, starts), &disturbances, findings);
    overtaken(run, (task_type, starts), &disturbances, findings);
}

/// For each start, the earliest time since when it or a later one had waited.
pub(super) fn waiting_after(starts: &[Began]) -> Vec<u64> {
    let mut earliest = u64::MAX;
    let mut waiting: Vec<_> = starts
        .iter()
        .rev()
        .map(|began| {
            earliest = earliest.min(began.waited_from);
            earliest
        })
        .collect();
    waiting.reverse();
    waiting
}

/// When the type was last disturbed before `at`; `None`: it is then. 0: never before.
fn calm_since(disturbances: &[(u64, u64)], at: u64) -> Option<u64> {
    let next = disturbances.partition_point(|(begun, _)| *begun <= at);
    let last = next.checked_sub(1).and_then(|last| disturbances.get(last));
    match last {
        Some((_, ended)) if *ended >= at => None,
        Some((_, ended)) => Some(*ended),
        None => Some(0),
    }
}

/// While tasks of a type wait, some start.
fn stalls(
    run: &Run<'_>,
    (task_type, starts): (&str, &[Began]),
    disturbances: &[(u64, u64)],
    findings: &mut Findings,
) {
    let mut before = 0;
    for (began, waiting) in starts.iter().zip(waiting_after(starts)) {
        let idle_since = waiting.max(before);
        before = began.at;
        let Some(calm_since) = calm_since(disturbances, began.at) else {
            continue;
        };
        let stalled_ms = began.at.saturating_sub(idle_since.max(calm_since)) / 1_000_000;
        if stalled_ms > run.recovery_ms {
            let rule = if calm_since > idle_since {
                "a type stalled after a fault"
            } else {
                "a type stalled while nothing was wrong"
            };
            let kind = ended_at(run, calm_since);
            let detail = format!(
                "type {task_type}: nothing started for {stalled_ms} ms{kind}, then {}",
                name(run, began)
            );
            findings.run(Promise::ComesBack, rule, detail);
        }
    }
}

fn ended_at(run: &Run<'_>, ended_ns: u64) -> String {
    let mut faults = run.history.faults.iter();
    let fault = faults.find(|fault| fault.ended_ns == ended_ns);
    fault.map_or_else(String::new, |fault| {
        format!(" after fault {} ({})", fault.id, fault.kind)
    })
}

fn name<'a>(run: &Run<'a>, began: &Began) -> &'a str {
    let place = usize::try_from(began.task).unwrap_or(usize::MAX);
    run.history.tasks.get(place).map_or("", String::as_str)
}

/// Tasks are claimed by when they are due: none is passed by one that came to be due so much later,
/// and was claimed and answered before it, while nothing was wrong for as long.
fn overtaken(
    run: &Run<'_>,
    (task_type, starts): (&str, &[Began]),
    disturbances: &[(u64, u64)],
    findings: &mut Findings,
) {
    let patience = run.recovery_ms * 1_000_000;
    let starts = starts.iter().filter(|began| !began.is_by_wrong_clock);
    let mut sent: Vec<_> = starts.clone().collect();
    sent.sort_unstable_by_key(|began| began.claimed.0);
    let mut answered: Vec<_> = starts.filter(|began| !began.is_takeover).collect();
    answered.sort_unstable_by_key(|began| began.claimed.1);
    let mut answered = answered.into_iter().peekable();
    // Of the claims of the present calm, late enough in it, the one that took the youngest task.
    let mut youngest: Option<(u64, &Began)> = None;
    for began in sent {
        let Some(calm) = calm_since(disturbances, began.claimed.0) else {
            continue;
        };
        while let Some(other) = answered.next_if(|other| other.claimed.1 < began.claimed.0) {
            let is_calm = calm_since(disturbances, other.claimed.0) == Some(calm);
            let is_late = other.claimed.0 >= calm.saturating_add(patience);
            let is_younger = youngest.is_none_or(|(of, youngest)| {
                of != calm || other.waited_from > youngest.waited_from
            });
            if is_calm && is_late && is_younger {
                youngest = Some((calm, other));
            }
        }
        let Some((_, other)) = youngest.filter(|(of, _)| *of == calm) else {
            continue;
        };
        let passed_by = other.waited_from.saturating_sub(began.waited_from);
        if passed_by > patience {
            let detail = format!(
                "type {task_type}: {} was due {} ms before {}, and was claimed after it",
                name(run, began),
                passed_by / 1_000_000,
                name(run, other)
            );
            findings.run(Promise::ComesBack, "a task was passed over", detail);
        }
    }
}
