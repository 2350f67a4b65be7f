//! Claim: the number of tasks that may start, and the handling of expired locks.

use crate::fleet::FleetLimits;
use crate::state::TaskState;
use crate::store::{ClaimRequest, Claimed, EndCause, MAX_BATCH};
use crate::time::{Reading, Timestamp};

use super::{Bookkeeping, Ended, RateLimiter, next_fence};

/// The number of tasks that a claim may take.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// The state of the fleet rate, if there is one.
    pub rate: Option<RateLimiter>,
    /// Maximum number of tasks in all.
    pub limit: usize,
    /// Free slots of the fleet concurrency.
    slots: usize,
    fleet: FleetLimits,
}

impl Quota {
    /// The quota of `request` in a bucket with the rate state `tat` and `running` running tasks.
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

    /// Maximum number of due tasks after this many expired locks: a lock that is taken over keeps
    /// its slot.
    #[must_use]
    pub fn due(&self, expired: usize) -> usize {
        self.limit.saturating_sub(expired).min(self.slots)
    }

    /// True if every slot of the fleet concurrency is taken when `running` tasks run.
    #[must_use]
    pub fn is_full(&self, running: usize) -> bool {
        self.fleet.free_slots(running) == 0
    }

    /// The time when the rate allows starts again, if it allows none now.
    #[must_use]
    pub fn again_at(&self) -> Option<Timestamp> {
        self.rate.and_then(|rate| rate.again_at())
    }

    /// Counts starts. Returns the new [state of the rate](RateLimiter::tat), if there is one.
    pub fn take(&mut self, starts: usize) -> Option<i64> {
        let rate = self.rate.as_mut()?;
        rate.take(starts);
        Some(rate.tat())
    }
}

/// Takes the expired lock of a running task away and counts one lock expiry, or a release if the
/// request does not count locks of `holder`. The task is due again at its requested due time, or
/// ends.
///
/// # Errors
/// The end: cancelled if that was requested, or dead after too many lock expiries.
pub fn lock_expired(
    task: &Bookkeeping,
    holder: Option<&str>,
    request: &ClaimRequest,
    now: Timestamp,
) -> Result<Bookkeeping, Claiming> {
    let counts = request.counts(holder, task.releases);
    let expiries = task.lock_expiries.saturating_add(u32::from(counts));
    let due = if counts {
        Bookkeeping {
            lock_expiries: expiries,
            ..task.put_back(task.asked_due)
        }
    } else {
        task.released().put_back(task.asked_due)
    };
    if task.cancel_requested {
        let ended = due.ended(TaskState::Cancelled, now);
        return Err(Claiming::Ended(ended, EndCause::Cancelled));
    }
    if !counts || expiries < request.most_expiries(task.is_alone) {
        return Ok(due);
    }
    let company = if task.is_alone {
        ", at last while it ran alone"
    } else {
        ""
    };
    let error =
        format!("poison: its lock expired {expiries} times{company}; its process may have crashed");
    Err(Claiming::Dead(due.died(now), EndCause::Poison, error))
}

/// The facts from a task's record that a claim needs besides its bookkeeping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The short form of the identity of its last holder, if known.
    pub holder: Option<String>,
    /// The time when the task stops being worth running.
    pub expires_at: Option<Timestamp>,
    /// The reason why it cannot run.
    pub damage: Option<String>,
}

/// The result of a claim for one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claiming {
    /// It runs.
    Started {
        /// Its new bookkeeping, with its lock.
        task: Bookkeeping,
        /// The due time of this attempt.
        due_at: Timestamp,
    },
    /// It has ended.
    Ended(Ended, EndCause),
    /// It is dead, with this error.
    Dead(Bookkeeping, EndCause, String),
}

/// The result of a claim for a task that is due or whose lock has expired; `claimed` is the claim's
/// answer. Fences continue from `high_water`; `None` if none is left.
#[must_use]
pub fn claim(
    task: &Bookkeeping,
    record: Record,
    high_water: u64,
    request: &ClaimRequest,
    claimed: &Claimed,
) -> Option<Claiming> {
    let now = claimed.store_now;
    let mut task = *task;
    if task.state == TaskState::Running {
        task = match lock_expired(&task, record.holder.as_deref(), request, now) {
            Ok(due) => due,
            Err(end) => return Some(end),
        };
    }
    if let Some(damage) = record.damage {
        return Some(Claiming::Dead(task.died(now), EndCause::Corrupt, damage));
    }
    if record.expires_at.is_some_and(|time| time <= claimed.now) {
        let ended = task.ended(TaskState::Expired, now);
        return Some(Claiming::Ended(ended, EndCause::Expired));
    }
    let fence = next_fence(high_water, now)?;
    Some(Claiming::Started {
        task: task.locked(fence, now.plus(request.lock_for)),
        due_at: task.at,
    })
}
