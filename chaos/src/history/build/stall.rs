//! Processes that the machine did not run, and a disk that it did not serve.

use super::HistoryBuilder;
use crate::event::{DRIVER, Explains, Target};
use crate::history::FaultSpan;

/// The kinds of the faults that are not planned.
const NO_PROCESSOR: &str = "no-processor";
const NO_DISK: &str = "no-disk";
/// A planned fault that stops a process, and that no lock may be lost by.
const PAUSE_SHORT: &str = "pause-short";

/// A span in which a process, or the store, was not run.
#[derive(Debug)]
pub(super) struct Stall {
    /// `None`: the store.
    process: Option<String>,
    from: u64,
    to: u64,
}

impl HistoryBuilder {
    pub(super) fn stalled(&mut self, process: Option<u16>, (from, to): (u64, u64)) {
        let process = process.and_then(|process| self.history.processes.get(usize::from(process)));
        let name = process.map(|process| process.name.clone());
        self.stalls.push(Stall {
            // All calls of a server pass through it.
            process: name.filter(|name| name != DRIVER),
            from,
            to,
        });
    }

    /// A process that was not run for so long that it may have lost a lock is a fault that nobody planned,
    /// unless it belongs to one that somebody did. The same of the disk of the store, which nobody stops.
    pub(super) fn blame_the_machine(&mut self) {
        let plan = self.history.plan.as_ref();
        // One extension comes too late, and the next one, too.
        let least_ns = plan.map_or(0, |plan| plan.lock_ms * 1_000_000 / 3);
        let mut stalls = std::mem::take(&mut self.stalls);
        // Short ones, of one thread and another, would add up to an excuse for anything.
        stalls.retain(|stall| stall.to - stall.from >= least_ns / 2);
        for stall in merged(stalls) {
            let target = stall.process.map_or(Target::Store, Target::Process);
            let mut planned = self.faults.values();
            let is_planned = planned.any(|fault| {
                let stops =
                    fault.kind == PAUSE_SHORT || fault.explains.contains(&Explains::LostLock);
                let is_then = fault.begun_ns <= stall.to && fault.ended_ns >= stall.from;
                stops && is_then && fault.target == target
            });
            if is_planned || stall.to - stall.from < least_ns {
                continue;
            }
            self.not_planned(NO_PROCESSOR, target, (stall.from, stall.to));
        }
        for (from, to) in std::mem::take(&mut self.disk_stalls) {
            if to - from >= least_ns {
                self.not_planned(NO_DISK, Target::Store, (from, to));
            }
        }
    }

    fn not_planned(&mut self, kind: &str, target: Target, (from, to): (u64, u64)) {
        let id = self.faults.last_key_value().map_or(1, |(last, _)| last + 1);
        let fault = FaultSpan {
            id,
            kind: kind.to_owned(),
            target,
            begun_ns: from,
            struck_ns: to,
            ended_ns: to,
            explains: vec![Explains::LostLock],
        };
        self.faults.insert(id, fault);
    }
}

/// Those of one process that overlap, or follow on each other, are one: several of its threads may have seen it.
fn merged(mut stalls: Vec<Stall>) -> Vec<Stall> {
    stalls.sort_by(|one, other| (&one.process, one.from).cmp(&(&other.process, other.from)));
    let mut merged: Vec<Stall> = Vec::with_capacity(stalls.len());
    for stall in stalls {
        match merged.last_mut() {
            Some(last) if last.process == stall.process && stall.from <= last.to => {
                last.to = last.to.max(stall.to);
            }
            _ => merged.push(stall),
        }
    }
    merged
}
