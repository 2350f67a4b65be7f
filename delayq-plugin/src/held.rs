//! The locks that a handler holds, and what each of them needs next.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use delayq_core::{Lock, Trail};
use tokio::task::Id;
use tokio_util::sync::CancellationToken;

use crate::running::Running;

/// Numbers the attempts of one handler.
pub(crate) type Seq = u64;

/// How long a worker that was stopped is waited for, so that the next attempt does not begin beside it.
const STOPPED_WITHIN: Duration = Duration::from_millis(500);

/// The state of a held lock as this process sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// The lock is good.
    Good,
    /// An extension is under way.
    Extending,
    /// The lock has run out or somebody else has it; the worker has been told.
    Lost,
    /// Its time is up and the worker was stopped: the attempt is settled once that has come back, or else at this time.
    Stopping(Duration),
    /// The attempt is settled already; only the worker's thread has not come back yet.
    Concluded,
}

/// When a lock runs out, counted from before the call that took or extended it: never later than the store's. The
/// runtime looks at it, too, before the first line of the worker.
#[derive(Clone, Debug)]
pub(crate) struct RunOut(Arc<AtomicU64>);

impl RunOut {
    /// `sent_at` is [`Clock::elapsed`](delayq_core::Clock::elapsed).
    fn new(sent_at: Duration, lock_for: Duration) -> Self {
        let this = Self(Arc::default());
        this.put_off(sent_at, lock_for);
        this
    }

    pub(crate) fn at(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    fn put_off(&self, sent_at: Duration, lock_for: Duration) {
        let at = sent_at.saturating_add(lock_for).as_micros();
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        self.0.store(at, Ordering::Relaxed);
    }
}

/// One attempt under way.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) lock: Lock,
    pub(crate) attempt: u32,
    pub(crate) trail: Trail,
    cancel: CancellationToken,
    running: Running,
    run_out: RunOut,
    extend_at: Duration,
    limit_at: Duration,
    hold: Hold,
    /// The last extension had no answer.
    is_unsure: bool,
}

/// What [`HeldLocks::add`] needs to know of a new attempt.
#[derive(Debug)]
pub(crate) struct NewHold {
    pub(crate) lock: Lock,
    pub(crate) attempt: u32,
    pub(crate) trail: Trail,
    pub(crate) cancel: CancellationToken,
    pub(crate) running: Running,
    pub(crate) run_out: RunOut,
    /// `elapsed` before the claim was sent.
    pub(crate) claimed_at: Duration,
    /// `elapsed` at the start of the worker.
    pub(crate) started_at: Duration,
}

/// What is due, see [`HeldLocks::take_due`].
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// To extend now.
    pub(crate) extend: Vec<(Seq, Lock)>,
    /// To extend again, as the last answer was none.
    pub(crate) again: Vec<(Seq, Lock)>,
    /// Attempts whose time is up and whose workers have not come back, concluded by this call.
    pub(crate) timed_out: Vec<Seq>,
    /// Locks that have run out, lost by this call.
    pub(crate) run_out: Vec<Seq>,
}

/// All attempts of one handler that are under way. Times are `Clock::elapsed`; each step is O(log n).
#[derive(Debug)]
pub(crate) struct HeldLocks {
    lock_for: Duration,
    time_limit: Duration,
    next_seq: Seq,
    held: HashMap<Seq, Held>,
    by_task: HashMap<Id, Seq>,
    timers: BTreeSet<(Duration, Seq)>,
    /// Locks found lost before their attempts are settled; so that each is counted once.
    lost: HashSet<Lock>,
}

impl HeldLocks {
    pub(crate) fn new(lock_for: Duration, time_limit: Duration) -> Self {
        Self {
            lock_for,
            time_limit,
            next_seq: 0,
            held: HashMap::new(),
            by_task: HashMap::new(),
            timers: BTreeSet::new(),
            lost: HashSet::new(),
        }
    }

    /// How many workers are under way, those that outlived their lock or time limit included: each
    /// still takes its place.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The end of a lock whose claim was sent at `claimed_at`.
    pub(crate) fn run_out_of(&self, claimed_at: Duration) -> RunOut {
        RunOut::new(claimed_at, self.lock_for)
    }

    pub(crate) fn add(&mut self, new: NewHold) {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.by_task.insert(new.running.id(), seq);
        let held = Held {
            lock: new.lock,
            attempt: new.attempt,
            trail: new.trail,
            cancel: new.cancel,
            running: new.running,
            run_out: new.run_out,
            extend_at: new.claimed_at.saturating_add(self.lock_for / 3),
            limit_at: new.started_at.saturating_add(self.time_limit),
            hold: Hold::Good,
            is_unsure: false,
        };
        self.timers.extend(held.timer().map(|at| (at, seq)));
        self.held.insert(seq, held);
    }

    /// Forgets the attempt whose worker came back; `None` when it had been concluded before.
    pub(crate) fn remove(&mut self, task: Id) -> Option<Held> {
        let seq = self.by_task.remove(&task)?;
        let held = self.held.remove(&seq)?;
        self.timers.remove(&(held.timer()?, seq));
        Some(held)
    }

    /// When something is due next.
    pub(crate) fn next_timer(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Takes what is due at `now`: fires `cancelled()` of lost attempts and of those whose time is up, and stops the
    /// workers of the latter.
    pub(crate) fn take_due(&mut self, now: Duration) -> Due {
        let mut due = Due::default();
        while let Some((at, seq)) = self.timers.first().copied()
            && at <= now
        {
            self.change(seq, |held| {
                if matches!(held.hold, Hold::Stopping(_) | Hold::Lost) {
                    held.conclude();
                    due.timed_out.push(seq);
                } else if held.limit_at <= now {
                    held.stop(now);
                } else if held.run_out.at() <= now {
                    held.lose();
                    due.run_out.push(seq);
                } else {
                    held.hold = Hold::Extending;
                    let extend = if held.is_unsure {
                        &mut due.again
                    } else {
                        &mut due.extend
                    };
                    extend.push((seq, held.lock.clone()));
                }
            });
        }
        let run_out = due.run_out.iter().filter_map(|seq| self.held.get(seq));
        self.lost.extend(run_out.map(|held| held.lock.clone()));
        due
    }

    /// An extension sent at `sent_at` was applied.
    pub(crate) fn extended(&mut self, seq: Seq, sent_at: Duration) {
        let lock_for = self.lock_for;
        self.change(seq, |held| {
            if held.hold == Hold::Extending {
                held.hold = Hold::Good;
                held.is_unsure = false;
                held.run_out.put_off(sent_at, lock_for);
                held.extend_at = sent_at.saturating_add(lock_for / 3);
            }
        });
    }

    /// An extension failed, or nobody knows; the next try is at `retry_at`, beside those of other locks.
    pub(crate) fn extend_failed(&mut self, seq: Seq, retry_at: Duration) {
        self.change(seq, |held| {
            if held.hold == Hold::Extending {
                held.hold = Hold::Good;
                held.is_unsure = true;
                held.extend_at = retry_at;
            }
        });
    }

    /// The store says that somebody else has the lock. Returns whether that is news; of an attempt whose time is up
    /// its settlement tells.
    pub(crate) fn lose(&mut self, seq: Seq) -> bool {
        self.change(seq, Held::lose);
        self.held
            .get(&seq)
            .filter(|held| held.hold == Hold::Lost)
            .is_some_and(|held| self.lost.insert(held.lock.clone()))
    }

    /// The attempt has been settled, well or not. Returns whether its lock was known to be lost.
    pub(crate) fn settled(&mut self, lock: &Lock) -> bool {
        self.lost.remove(lock)
    }

    /// Somebody asked to cancel the task.
    pub(crate) fn request_cancel(&mut self, seq: Seq) {
        if let Some(held) = self.held.get(&seq) {
            held.cancel.cancel();
        }
    }

    /// Whether an extension has to be asked for again.
    pub(crate) fn has_unsure(&self) -> bool {
        let is_open = |held: &Held| matches!(held.hold, Hold::Good | Hold::Extending);
        let mut held = self.held.values();
        held.any(|held| held.is_unsure && is_open(held))
    }

    pub(crate) fn get(&self, seq: Seq) -> Option<&Held> {
        self.held.get(&seq)
    }

    /// Fires `cancelled()` of every attempt.
    pub(crate) fn cancel_all(&self) {
        self.held.values().for_each(|held| held.cancel.cancel());
    }

    /// Stops every worker that can be stopped, and returns the locks that are not settled yet.
    pub(crate) fn conclude_all(&mut self) -> Vec<(Lock, Trail)> {
        self.timers.clear();
        let open = self
            .held
            .values_mut()
            .filter(|held| held.hold != Hold::Concluded);
        open.map(|held| {
            held.conclude();
            (held.lock.clone(), held.trail_so_far())
        })
        .collect()
    }

    /// Changes one attempt and keeps its timer in step.
    fn change(&mut self, seq: Seq, change: impl FnOnce(&mut Held)) {
        let Some(held) = self.held.get_mut(&seq) else {
            return;
        };
        if let Some(at) = held.timer() {
            self.timers.remove(&(at, seq));
        }
        change(held);
        self.timers.extend(held.timer().map(|at| (at, seq)));
    }
}

impl Held {
    /// The trail, with the workers that have succeeded in this attempt so far.
    pub(crate) fn trail_so_far(&self) -> Trail {
        self.running.trail_so_far(&self.trail)
    }

    fn timer(&self) -> Option<Duration> {
        match self.hold {
            Hold::Good => Some(self.extend_at.min(self.run_out.at()).min(self.limit_at)),
            Hold::Extending => Some(self.run_out.at().min(self.limit_at)),
            Hold::Lost => Some(self.limit_at),
            Hold::Stopping(until) => Some(until),
            Hold::Concluded => None,
        }
    }

    /// Whether its time is up.
    pub(crate) fn is_stopping(&self) -> bool {
        matches!(self.hold, Hold::Stopping(_))
    }

    /// Stops the worker, and leaves half of what is left of the lock for the settlement.
    fn stop(&mut self, now: Duration) {
        self.conclude();
        let patience = STOPPED_WITHIN.min(self.run_out.at().saturating_sub(now) / 2);
        self.hold = Hold::Stopping(now.saturating_add(patience));
    }

    fn lose(&mut self) {
        if !matches!(self.hold, Hold::Stopping(_) | Hold::Concluded) {
            self.hold = Hold::Lost;
            self.cancel.cancel();
        }
    }

    fn conclude(&mut self) {
        self.hold = Hold::Concluded;
        self.cancel.cancel();
        self.running.stop();
    }
}

#[cfg(test)]
mod tests;
