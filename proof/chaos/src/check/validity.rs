//! Whether a run proves anything.

use super::figures::Figures;
use super::view::Run;
use crate::event::EFFECT_LOG;
use crate::history::NEVER;

/// Why it does not; empty: it does.
pub(super) fn check(run: &Run<'_>, figures: &Figures) -> Vec<String> {
    let mut invalid = Vec::new();
    let history = run.history;
    if history.clock.is_empty() {
        invalid.push("no process recorded the time of day: starts cannot be compared".to_owned());
    }
    if history.dumped.is_none() {
        invalid.push("the store was not dumped to the end: lost tasks cannot be seen".to_owned());
    }
    if figures.accepted == 0 {
        invalid.push("no task was accepted".to_owned());
    }
    if !run.has_starts && !history.claims.is_empty() {
        invalid.push("no worker recorded a start: nobody knows what was run".to_owned());
    }
    for fault in history
        .faults
        .iter()
        .filter(|fault| fault.ended_ns == NEVER)
    {
        invalid.push(format!(
            "fault {} ({}) never ended: it would explain everything after it",
            fault.id, fault.kind
        ));
    }
    let Some(plan) = &history.plan else {
        invalid.push("no plan was recorded: nobody knows what should have happened".to_owned());
        return invalid;
    };
    for kind in &plan.kinds {
        if !figures.faults.contains_key(kind) {
            invalid.push(format!("the planned fault {kind} never fired"));
        }
    }
    if plan.effect_log && figures.unwitnessed > 0 {
        invalid.push(format!(
            "the effect log knows nothing of {} attempts that ended well: the record is not whole",
            figures.unwitnessed
        ));
    }
    for process in history.processes.iter().filter(|_| plan.effect_log) {
        let mut others = history.processes.iter();
        let is_last = !others
            .any(|other| other.name == process.name && other.incarnation > process.incarnation);
        // The effect log ends last, and is ended.
        if is_last && !process.is_down && process.name != EFFECT_LOG {
            invalid.push(format!(
                "{} did not end in order: its record may not be whole",
                process.name
            ));
        }
    }
    let expired = figures
        .repeats
        .keys()
        .any(|cause| cause.starts_with("expired lock"));
    // Its holder may have been killed before it heard that it had it.
    let expired = expired || figures.unseen_expiries > 0;
    if plan.expects_repeats && !expired {
        invalid.push("no lock expired, although the plan has holders die".to_owned());
    }
    invalid
}
