//! Request and answer of a claim.

use std::time::Duration;

use super::BucketState;
use crate::fleet::FleetLimits;
use crate::name::TaskId;
use crate::presence::InstanceId;
use crate::task::ClaimedTask;
use crate::time::Timestamp;

/// Maximum number of tasks of one claim, settle or extend step; larger batches are split. This
/// limits how long one step blocks all others (about 0.5 ms on Redis).
pub const MAX_BATCH: usize = 128;

/// How far a store's clock may run ahead of the claimer's before claims hold back.
///
/// For due times and expiries, a claim uses `min(store's clock, claimer's clock + CLOCK_GUARD)` as
/// the present time, so that a store clock that jumps forward does not start tasks early. Locks and
/// pauses follow only the store's clock.
pub const CLOCK_GUARD: Duration = Duration::from_millis(500);

/// From so many releases of a task on an expired lock of any holder counts. Among several servers
/// that live, each worker of a task may die with the lock of another one.
pub const MAX_UNCOUNTED: u32 = 5;

/// The parameters of a claim.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClaimRequest {
    /// Maximum number of tasks to take; never more than [`MAX_BATCH`]. With 0 a claim only says
    /// when to call again.
    pub limit: usize,
    /// How long the locks last.
    pub lock_for: Duration,
    /// The claimer's clock, see [`CLOCK_GUARD`].
    pub caller_now: Timestamp,
    /// A task whose lock has expired this many times is poison and goes to dead; default 3, 0 is
    /// treated as 1.
    pub max_lock_expiries: u32,
    /// The same number for a lock that expires while its holder ran nothing else, see
    /// [`Store::extend_alone`](super::Store::extend_alone). Default: `max_lock_expiries` alone
    /// decides. A larger number than that has no effect.
    pub max_alone_expiries: Option<u32>,
    /// Counts only expired locks of this claim's own holder. A task with another one's lock is
    /// given back without using up an attempt, [`MAX_UNCOUNTED`] times at most. For a server that
    /// hands tasks to workers: when a server has died, nobody knows whether the worker ever got the
    /// task. Default: false.
    pub counts_own_only: bool,
    /// Limits over all claimers of the type; default: none. A limit in the type's settings
    /// overrides the one here. A claim starts at most as many tasks as they allow; the others stay
    /// due.
    pub fleet: FleetLimits,
    /// The claiming instance, returned later by [`TaskInfo::holder`](crate::TaskInfo::holder);
    /// default: not known.
    pub holder: Option<InstanceId>,
}

impl ClaimRequest {
    /// A claim of up to `limit` tasks without fleet limits; `caller_now` is the claimer's clock.
    #[must_use]
    pub fn new(limit: usize, lock_for: Duration, caller_now: Timestamp) -> Self {
        Self {
            limit,
            lock_for,
            caller_now,
            max_lock_expiries: 3,
            max_alone_expiries: None,
            counts_own_only: false,
            fleet: FleetLimits::NONE,
            holder: None,
        }
    }

    /// Sets the number of lock expiries after which a task is poison.
    #[must_use]
    pub fn max_lock_expiries(mut self, expiries: u32) -> Self {
        self.max_lock_expiries = expiries;
        self
    }

    /// Sets the number of lock expiries after which a task that ran alone is poison.
    #[must_use]
    pub fn max_alone_expiries(mut self, expiries: u32) -> Self {
        self.max_alone_expiries = Some(expiries);
        self
    }

    /// Counts only expired locks of this claim's own holder.
    #[must_use]
    pub fn counting_own_only(mut self) -> Self {
        self.counts_own_only = true;
        self
    }

    /// True if an expired lock of `holder` counts as an attempt of a task that was given back
    /// `releases` times. The holder of a lock is known by the [short form](InstanceId::short) of
    /// its identity.
    #[must_use]
    pub fn counts(&self, holder: Option<&str>, releases: u32) -> bool {
        let own = self.holder.as_ref().map(InstanceId::short);
        releases >= self.uncounted() || own == holder
    }

    /// The number of releases from which on an expired lock of any holder counts.
    #[must_use]
    pub fn uncounted(&self) -> u32 {
        if self.counts_own_only {
            MAX_UNCOUNTED
        } else {
            0
        }
    }

    /// The number of lock expiries with which a task is poison, if its last lock was marked as
    /// alone or not.
    #[must_use]
    pub fn most_expiries(&self, is_alone: bool) -> u32 {
        let alone = self.max_alone_expiries.filter(|_| is_alone);
        let most = alone.map_or(self.max_lock_expiries, |alone| {
            alone.min(self.max_lock_expiries)
        });
        most.max(1)
    }

    /// Sets the claiming instance.
    #[must_use]
    pub fn holder(mut self, instance: &InstanceId) -> Self {
        self.holder = Some(instance.clone());
        self
    }

    /// The same claim in a store with limits of its own: each of those that is set overrides the
    /// claimer's.
    #[must_use]
    pub fn under(self, stored: FleetLimits) -> Self {
        let fleet = stored.or(self.fleet);
        Self { fleet, ..self }
    }

    /// Sets limits over all claimers of the type.
    #[must_use]
    pub fn fleet(mut self, fleet: FleetLimits) -> Self {
        self.fleet = fleet;
        self
    }
}

/// The tasks that a claim took, and the time of the next call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claimed {
    /// The time that due times were compared with: the store's present time, limited by
    /// [`CLOCK_GUARD`].
    pub now: Timestamp,
    /// The store's present time, by which locks are measured; far after `now` if the two clocks
    /// disagree.
    pub store_now: Timestamp,
    /// The largest fence issued in the bucket before this claim, 0 for none. It never becomes
    /// smaller unless the store has lost data: it was emptied, or an older copy of it was restored.
    pub high_water: u64,
    /// The tasks, locked: first those whose lock had expired, then by due time and id.
    pub tasks: Vec<ClaimedTask>,
    /// Tasks that the claim ended instead of handing them out.
    pub ended: Vec<ClaimEnd>,
    /// Time after this claim at which another one can find something: the next due time, the next
    /// expiry of a lock (of any holder), or the end of a pause. Zero if more is already due. `None`
    /// if nothing is scheduled or running, or the pause has no end. A store may add a stagger so
    /// that instances that wait for the same task come one after the other. For tasks held back by
    /// a fleet rate, it is the time when the rate allows starts again; a free slot of a fleet
    /// concurrency is announced by a wake-up instead.
    pub next_in: Option<Duration>,
    /// The state of the bucket.
    pub bucket: BucketState,
}

impl Claimed {
    /// A claim at these times that found nothing and expects nothing.
    #[must_use]
    pub fn nothing(now: Timestamp, store_now: Timestamp) -> Self {
        Self {
            now,
            store_now,
            high_water: 0,
            tasks: Vec::new(),
            ended: Vec::new(),
            next_in: None,
            bucket: BucketState::Open,
        }
    }

    /// The number of tasks it took or ended, all of which count towards the limit.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.tasks.len() + self.ended.len()
    }
}

/// A task that a claim ended instead of handing it out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimEnd {
    /// The task.
    pub id: TaskId,
    /// The cause.
    pub cause: EndCause,
}

impl ClaimEnd {
    /// The end of a task.
    #[must_use]
    pub fn new(id: TaskId, cause: EndCause) -> Self {
        Self { id, cause }
    }
}

/// The reason why a claim ended a task instead of handing it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndCause {
    /// Its expiry had passed: now expired.
    Expired,
    /// Its lock expired after a cancel request: now cancelled.
    Cancelled,
    /// Its lock expired too often (it seems to kill its process): now dead.
    Poison,
    /// Its stored record is damaged: now dead.
    Corrupt,
}
