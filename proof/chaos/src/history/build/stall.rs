//! Shortages: processes that had no processor, and a disk that did not answer.

use super::HistoryBuilder;
use crate::event::{DRIVER, Explains, Target};
use crate::history::{FaultSpan, Stop};

/// Kinds of the faults that are not planned.
const NO_PROCESSOR: &str = "no-processor";
const NO_DISK: &str = "no-disk";
/// A planned fault that stops a process, and that no lock may be lost by.
const PAUSE_SHORT: &str = "pause-short";
/// How many bytes a slow disk takes in a microsecond.
const SLOW_DISK: u64 = 20;
/// Bytes written so long before a stall of the disk may still be on their way to it.
const WRITE_BACK_NS: u64 = 1_000_000_000;

/// A span in which a process, or the store, was not run.
#[derive(Debug)]
pub(super) struct Stall {
    /// `None`: the store.
    process: Option<String>,
    from: u64,
    to: u64,
}

/// What the run's own processes used of the machine from one sample to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) processor_ns: u64,
    pub(super) written_bytes: u64,
}

impl HistoryBuilder {
    pub(super) fn stalled(&mut self, process: Option<u16>, (from, to): (u64, u64)) {
        if let Some(process) = process {
            self.history.stops.push(Stop { process, from, to });
        }
        let process = process.and_then(|process| self.history.processes.get(usize::from(process)));
        let name = process.map(|process| process.name.clone());
        self.stalls.push(Stall {
            // All calls of a server pass through it.
            process: name.filter(|name| name != DRIVER),
            from,
            to,
        });
    }

    /// A stall that is long enough to cost a lock becomes a fault of its own, unless it belongs to
    /// a planned one. What the run's own processes caused becomes none: it is counted.
    pub(super) fn find_shortages(&mut self) {
        let plan = self.history.plan.as_ref();
        // One extension comes too late, and the next one, too.
        let least_ns = plan.map_or(0, |plan| plan.lock_ms * 1_000_000 / 3);
        let mut stalls = std::mem::take(&mut self.stalls);
        // Short ones, of one thread and another, would add up to an allowance for anything.
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
        if self.is_own((from, to)) {
            *self
                .history
                .own_shortages
                .entry(kind.to_owned())
                .or_default() += 1;
            return;
        }
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

    /// Whether the run's own processes used half of the processors in the span, or wrote as much as
    /// a slow disk takes in it.
    fn is_own(&self, (from, to): (u64, u64)) -> bool {
        let processors = self.history.plan.as_ref().map_or(0, |plan| plan.processors);
        let half = u64::from(processors) * (to - from) / 2;
        let used = self.used((from, to), |usage| usage.processor_ns);
        let written_from = from.saturating_sub(WRITE_BACK_NS);
        let written = self.used((written_from, to), |usage| usage.written_bytes);
        processors > 0 && used >= half || written >= (to - from) / 1_000 * SLOW_DISK
    }

    /// The sum over the samples, of each as much as falls into the span.
    fn used(&self, (from, to): (u64, u64), what: impl Fn(&Usage) -> u64) -> u64 {
        let parts = self.usage.iter().map(|usage| {
            let within = to.min(usage.to).saturating_sub(from.max(usage.from));
            let length = usage.to.saturating_sub(usage.from).max(1);
            let part = u128::from(what(usage)) * u128::from(within) / u128::from(length);
            u64::try_from(part).unwrap_or(u64::MAX)
        });
        parts.sum()
    }
}

/// Stalls of one process that overlap, or follow on each other, are one: several of its threads may
/// have seen it.
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
