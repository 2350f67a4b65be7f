//! What really happened to the task of a case, and whether the promises were kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delayq_core::store::{AttemptEnd, CancelOutcome, EndCause, SettleOutcome, Settlement};
use delayq_core::{AttemptHistory, ClaimedTask, Clock, TaskContext, Timestamp};
use delayq_testing::Observed;

/// One start of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) worker: &'static str,
    /// The number of the process, from 1.
    pub(crate) process: usize,
    pub(crate) fence: u64,
    pub(crate) at: Timestamp,
}

/// Everything that was seen, and every promise that was broken.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    claims: Vec<(u64, AttemptHistory)>,
    pub(crate) starts: Vec<Start>,
    /// Starts that have not ended: worker, process, and whether it was told to stop.
    active: Vec<(&'static str, usize, TaskContext)>,
    /// By requeues so far: what ended the task, and under which fence.
    ends: BTreeMap<u32, BTreeSet<(u64, &'static str)>>,
    /// No start before this time is allowed.
    not_before: Timestamp,
    /// No start any more.
    is_final: bool,
    at_most_once: bool,
    /// The clock of the store, where no time passes between its step and its answer.
    exact: Option<Arc<dyn Clock>>,
    put_back: BTreeSet<u64>,
    pub(crate) broken: Vec<String>,
}

impl Log {
    fn expect(&mut self, holds: bool, promise: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(promise());
        }
    }

    fn requeues(&self) -> u32 {
        self.claims
            .last()
            .map_or(0, |(_, history)| history.requeues)
    }

    fn on_claim(&mut self, task: &ClaimedTask) {
        let (fence, history) = (task.lock.fence, &task.history);
        let last = self.claims.last().map_or(0, |(fence, _)| *fence);
        self.expect(fence > last, || format!("fence {fence} after {last}"));
        let same_life = self
            .claims
            .iter()
            .filter(|(_, t)| t.requeues == history.requeues);
        let before = same_life.count();
        let explained = history.failures + history.lock_expiries + history.releases;
        self.expect(explained as usize == before, || {
            format!("{before} earlier claims, explained by {history:?}")
        });
        self.claims.push((fence, history.clone()));
    }

    fn on_settled(&mut self, settlement: &Settlement, outcome: SettleOutcome) {
        let what = match settlement.end {
            _ if outcome != SettleOutcome::Settled => return,
            AttemptEnd::Done => "done",
            AttemptEnd::Dead { .. } => "dead",
            AttemptEnd::Expired => "expired",
            // Of a cancelled task, its end; the final state tells.
            AttemptEnd::Retry { after, .. } | AttemptEnd::Release { after, .. } => {
                return self.on_put_back(settlement.lock.fence, after);
            }
            _ => return,
        };
        let claims = self.claims.iter();
        let life = claims.filter(|(fence, _)| *fence == settlement.lock.fence);
        let life = life
            .map(|(_, history)| history.requeues)
            .next()
            .unwrap_or(0);
        self.end(life, settlement.lock.fence, what);
    }

    /// Not due again before the wait is over, which begins when the settlement is applied, once.
    fn on_put_back(&mut self, fence: u64, after: Duration) {
        if let Some(clock) = &self.exact
            && self.put_back.insert(fence)
        {
            self.not_before = clock.now().plus(after);
        }
    }

    fn end(&mut self, life: u32, fence: u64, what: &'static str) {
        let ends = self.ends.entry(life).or_default();
        ends.insert((fence, what));
        let ends = ends.clone();
        self.expect(ends.len() == 1, || format!("ended twice: {ends:?}"));
    }

    /// Whether this process may start, as the promises have it.
    fn on_start(&mut self, start: Start, cx: &TaskContext) {
        let Start {
            worker,
            process,
            fence,
            at,
        } = start;
        let not_before = self.not_before;
        self.expect(at >= not_before, || {
            let early = not_before.since(at);
            format!("started {early:?} early")
        });
        let is_final = self.is_final;
        self.expect(!is_final, || "started after its end".to_owned());
        let twice = self
            .starts
            .iter()
            .any(|s| s.worker == worker && s.fence == fence);
        self.expect(!twice, || {
            format!("{worker} started twice under fence {fence}")
        });
        let known = self.claims.iter().any(|(claimed, _)| *claimed == fence);
        self.expect(known, || {
            format!("started under fence {fence}, which nobody gave")
        });
        let holds =
            |(other, _, cx): &(&str, usize, TaskContext)| *other == worker && !cx.is_cancelled();
        let holds = self.active.iter().any(holds);
        self.expect(!holds, || {
            format!("{worker} started while it ran and had not been told to stop")
        });
        let again = self.at_most_once && !self.starts.is_empty();
        self.expect(!again, || "an at-most-once task started twice".to_owned());
        self.active.push((worker, process, cx.clone()));
        self.starts.push(start);
    }
}

impl Ledger {
    pub(crate) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store did something.
    pub(crate) fn saw(&self, seen: Observed<'_>) {
        let mut log = self.log();
        match seen {
            Observed::Claim { claimed, .. } => {
                claimed.tasks.iter().for_each(|task| log.on_claim(task));
                for end in &claimed.ended {
                    let what = match end.cause {
                        EndCause::Expired => "expired",
                        EndCause::Cancelled => "cancelled",
                        EndCause::Poison => "dead",
                        _ => "corrupt",
                    };
                    let life = log.requeues();
                    log.end(life, 0, what);
                }
            }
            Observed::Settle {
                settlements,
                outcomes,
                ..
            } => {
                for (settlement, outcome) in settlements.iter().zip(outcomes) {
                    log.on_settled(settlement, *outcome);
                }
            }
            Observed::Cancel(CancelOutcome::Cancelled) => {
                let life = log.requeues();
                log.end(life, 0, "cancelled");
            }
            _ => {}
        }
    }

    /// A worker started; returns how many times it had before.
    pub(crate) fn started(&self, start: Start, cx: &TaskContext) -> usize {
        let mut log = self.log();
        let before = log
            .starts
            .iter()
            .filter(|s| s.worker == start.worker)
            .count();
        log.on_start(start, cx);
        before
    }

    pub(crate) fn ended(&self, worker: &'static str, process: usize) {
        let mut log = self.log();
        let is_it = |(w, p, _): &(&str, usize, TaskContext)| (*w, *p) == (worker, process);
        if let Some(first) = log.active.iter().position(is_it) {
            log.active.remove(first);
        }
    }

    /// The process is gone, and its workers with it.
    pub(crate) fn crashed(&self, process: usize) {
        self.log().active.retain(|(_, of, _)| *of != process);
    }

    pub(crate) fn starts(&self) -> usize {
        self.log().starts.len()
    }

    /// From now on no start is early that is not before `time`.
    pub(crate) fn allow_from(&self, time: Timestamp) {
        self.log().not_before = time;
    }

    /// No start is allowed any more.
    pub(crate) fn forbid(&self) {
        let mut log = self.log();
        // An at-most-once task has its end before it starts.
        log.is_final = !log.at_most_once;
    }

    /// The type is at most once.
    pub(crate) fn at_most_once(&self) {
        self.log().at_most_once = true;
    }

    /// Waits between attempts are checked to the millisecond.
    pub(crate) fn check_waits_by(&self, clock: Arc<dyn Clock>) {
        self.log().exact = Some(clock);
    }

    /// How many locks have expired and been taken over, at least.
    pub(crate) fn lock_expiries(&self) -> u32 {
        let log = self.log();
        let mut by_life = BTreeMap::new();
        for (_, history) in &log.claims {
            by_life.insert(history.requeues, history.lock_expiries);
        }
        by_life.values().sum()
    }
}
