//! Processes that the machine did not run.

use super::HistoryBuilder;
use crate::event::{Explains, Target};
use crate::history::FaultSpan;

/// The process that all calls of a server pass through, if it says when it stalls.
const DRIVER: &str = "driver";
/// The kind of the fault that is not planned.
const NO_PROCESSOR: &str = "no-processor";

/// A span in which a process was not run.
#[derive(Debug)]
pub(super) struct Stall {
    pub(super) process: u16,
    pub(super) from: u64,
    pub(super) to: u64,
}

impl HistoryBuilder {
    /// A process that was not run for so long that it may have lost a lock is a fault that nobody planned,
    /// unless it belongs to one that somebody did.
    pub(super) fn blame_the_machine(&mut self) {
        let plan = self.history.plan.as_ref();
        // One extension comes too late, and the next one, too.
        let least_ns = plan.map_or(0, |plan| plan.lock_ms * 1_000_000 / 3);
        for stall in std::mem::take(&mut self.stalls) {
            let Some(process) = self.history.processes.get(usize::from(stall.process)) else {
                continue;
            };
            let target = if process.name == DRIVER {
                Target::Store
            } else {
                Target::Process(process.name.clone())
            };
            let mut planned = self.faults.values();
            let is_planned = planned.any(|fault| {
                fault.target == target && fault.begun_ns <= stall.to && fault.ended_ns >= stall.from
            });
            if is_planned || stall.to - stall.from < least_ns {
                continue;
            }
            let id = self.faults.last_key_value().map_or(1, |(last, _)| last + 1);
            let fault = FaultSpan {
                id,
                kind: NO_PROCESSOR.to_owned(),
                target,
                begun_ns: stall.from,
                struck_ns: stall.to,
                ended_ns: stall.to,
                explains: vec![Explains::LostLock],
            };
            self.faults.insert(id, fault);
        }
    }
}
