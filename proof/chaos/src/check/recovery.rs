//! I7: what faults cost: until tasks start again, are taken over, and are accepted.

use super::figures::{Began, Figures};
use super::view::Run;
use super::{Findings, Promise, waits};
use crate::event::Target;
use crate::history::FaultSpan;

/// How long after a new master is known something may take to be accepted.
const FOLLOW_MS: u64 = 3_000;

pub(super) fn check(run: &Run<'_>, figures: &mut Figures, findings: &mut Findings) {
    figures.fail_overs = run.history.fail_overs.len() as u64;
    for fault in &run.history.faults {
        *figures.faults.entry(fault.kind.clone()).or_default() += 1;
    }
    let mut starts = std::mem::take(&mut figures.starts_of_type);
    for (task_type, starts) in &mut starts {
        starts.sort_unstable_by_key(|began| began.at);
        waits::check(run, task_type, starts, findings);
        let waiting = waits::waiting_after(starts);
        for fault in &run.history.faults {
            if let Some(first) = first_of_waiting(starts, &waiting, fault) {
                let us = (first.at - fault.ended_ns) / 1_000;
                let recovery = figures.recovery.entry(fault.kind.clone()).or_default();
                recovery.add_us(us);
            }
        }
    }
    takeovers(run, figures, findings);
    outages(run, figures, findings);
}

fn takeovers(run: &Run<'_>, figures: &Figures, findings: &mut Findings) {
    for (kind, span) in &figures.takeover_alone {
        let p99_ms = span.percentile_us(99.0) / 1_000;
        if p99_ms > run.recovery_ms {
            let detail = format!(
                "after {kind}: p99 {p99_ms} ms of {} takeovers",
                span.count()
            );
            findings.run(Promise::ComesBack, "tasks are taken over late", detail);
        }
    }
}

/// After a fault has struck the store, something is accepted again in time, by the plan's word.
/// Where sentinels took longer to agree on another master, those who use the store have a while
/// from then.
fn outages(run: &Run<'_>, figures: &mut Figures, findings: &mut Findings) {
    let limit_ms = run.history.plan.as_ref().map_or(0, |plan| plan.outage_ms);
    let acceptances = std::mem::take(&mut figures.acceptances);
    for (number, fault) in run.history.faults.iter().enumerate() {
        let struck = fault.struck_ns;
        // Without a word of when it struck, that is its end.
        if fault.target != Target::Store || struck >= fault.ended_ns {
            continue;
        }
        let later = acceptances.iter().filter(|(sent, _)| *sent >= struck);
        let Some(accepted) = later.map(|(_, answered)| *answered).min() else {
            continue;
        };
        let us = (accepted - struck) / 1_000;
        let mut agreed = run.history.fail_overs.iter().filter(|at| **at >= struck);
        let agreed = agreed.next().map_or(struck, |at| *at);
        let is_late = accepted.saturating_sub(agreed) > FOLLOW_MS * 1_000_000;
        let outage = figures.outage.entry(fault.kind.clone()).or_default();
        outage.add_us(us);
        if limit_ms > 0
            && us > limit_ms * 1_000
            && is_late
            && is_alone(run, number, (struck, accepted))
        {
            let (ms, id, kind) = (us / 1_000, fault.id, &fault.kind);
            let detail = format!("{ms} ms after fault {id} ({kind}) struck");
            let rule = "nothing was accepted for too long";
            findings.run(Promise::ComesBack, rule, detail);
        }
    }
}

/// The first start after `fault` of a task that was waiting when it ended.
fn first_of_waiting(starts: &[Began], waiting: &[u64], fault: &FaultSpan) -> Option<Began> {
    let next = starts.partition_point(|began| began.at < fault.ended_ns);
    if *waiting.get(next)? > fault.ended_ns {
        return None;
    }
    let mut later = starts.get(next..).unwrap_or_default().iter();
    later
        .find(|began| began.waited_from <= fault.ended_ns)
        .copied()
}

/// Whether no fault but `number` was under way in the span.
fn is_alone(run: &Run<'_>, number: usize, (from, until): (u64, u64)) -> bool {
    let faults = &run.history.faults;
    let others = faults
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != number);
    let mut others = others.map(|(_, other)| other);
    !others.any(|other| other.begun_ns <= until && other.ended_ns >= from)
}
