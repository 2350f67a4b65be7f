//! Claim: how many tasks may start, and what becomes of an expired lock.

use crate::fleet::FleetLimits;
use crate::state::TaskState;
use crate::store::{ClaimRequest, MAX_BATCH};
use crate::time::{Reading, Timestamp};

use super::{Bookkeeping, Ended, RateLimiter};

/// How many tasks a claim may take.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// The state of the fleet rate, if there is one.
    pub rate: Option<RateLimiter>,
    /// Most tasks in all.
    pub limit: usize,
    /// Free slots of the fleet concurrency.
    slots: usize,
    fleet: FleetLimits,
}

impl Quota {
    /// The quota of `request` in a bucket whose rate was left at `tat` and of which `running` tasks
    /// run.
    #[must_use]
    pub fn new(request: &ClaimRequest, tat: i64, reading: Reading, running: usize) -> Self {
        let fleet = request.fleet;
        let rate = fleet.rate.map(|rate| RateLimiter::new(rate, tat, reading));
        let allowed = rate.map_or(MAX_BATCH, |rate| rate.allowed());
        Self {
            rate,
            limit: request.limit.min(allowed).min(MAX_BATCH),
            slots: fleet.free_slots(running),
            fleet,
        }
    }

    /// Most due tasks after so many expired locks: a lock that is taken over keeps its slot.
    #[must_use]
    pub fn due(&self, expired: usize) -> usize {
        self.limit.saturating_sub(expired).min(self.slots)
    }

    /// Whether every slot of the fleet concurrency is taken when `running` tasks run.
    #[must_use]
    pub fn is_full(&self, running: usize) -> bool {
        self.fleet.free_slots(running) == 0
    }

    /// When the rate allows starts again, if it allows none now.
    #[must_use]
    pub fn again_at(&self) -> Option<Timestamp> {
        self.rate.and_then(|rate| rate.again_at())
    }

    /// Counts so many starts; returns the [state of the rate](RateLimiter::tat) to keep, if there
    /// is one.
    pub fn take(&mut self, starts: usize) -> Option<i64> {
        let rate = self.rate.as_mut()?;
        rate.take(starts);
        Some(rate.tat())
    }
}

/// What becomes of a task whose lock has expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpiredLock {
    /// It is due again, at the time asked for.
    Due(Bookkeeping),
    /// A cancel was requested: it has ended.
    Cancelled(Ended),
    /// Its lock has expired too often: it is dead, of this error.
    Poison(Bookkeeping, String),
}

/// Takes the expired lock of a running task away: one more lock expiry, and what follows from it.
#[must_use]
pub fn lock_expired(task: &Bookkeeping, max_lock_expiries: u32, now: Timestamp) -> ExpiredLock {
    let expiries = task.lock_expiries.saturating_add(1);
    let due = Bookkeeping {
        lock_expiries: expiries,
        ..task.put_back(task.asked_due)
    };
    if task.cancel_requested {
        return ExpiredLock::Cancelled(due.ended(TaskState::Cancelled, now));
    }
    if expiries < max_lock_expiries.max(1) {
        return ExpiredLock::Due(due);
    }
    let error = format!("poison: its lock expired {expiries} times; its process may have crashed");
    ExpiredLock::Poison(due.died(now), error)
}
