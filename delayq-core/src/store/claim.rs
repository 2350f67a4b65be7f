//! Request and answer of a claim.

use std::time::Duration;

use super::BucketState;
use crate::fleet::FleetLimits;
use crate::name::TaskId;
use crate::presence::InstanceId;
use crate::task::ClaimedTask;
use crate::time::Timestamp;

/// Most tasks of one claim, settle or extend step; larger batches are split. It bounds how long one
/// step keeps everybody else waiting (about 0.5 ms on Redis).
pub const MAX_BATCH: usize = 128;

/// How far a store's clock may run ahead of the claimer's before claims hold back.
///
/// A claim treats `min(store's clock, claimer's clock + CLOCK_GUARD)` as now for due times and
/// expiries, so that a store clock that jumps forward does not start tasks early. Locks and pauses
/// live on the store's clock alone.
pub const CLOCK_GUARD: Duration = Duration::from_millis(500);

/// What to claim.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClaimRequest {
    /// Most tasks to take; at most [`MAX_BATCH`] are. With 0 a claim only says when to call again.
    pub limit: usize,
    /// How long the locks last.
    pub lock_for: Duration,
    /// The claimer's clock, see [`CLOCK_GUARD`].
    pub caller_now: Timestamp,
    /// A task whose lock has expired this often is poison and goes to dead; default 3, 0 is read as
    /// 1.
    pub max_lock_expiries: u32,
    /// Limits over all claimers of the type; default: none. A limit in the type's settings takes
    /// the place of the one here. A claim starts at most as many tasks as they leave; what they
    /// hold back stays due.
    pub fleet: FleetLimits,
    /// Who claims, as [`TaskInfo::holder`](crate::TaskInfo::holder) then says; default: nobody that
    /// is known.
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
            fleet: FleetLimits::NONE,
            holder: None,
        }
    }

    /// A task whose lock has expired this often is poison.
    #[must_use]
    pub fn max_lock_expiries(mut self, expiries: u32) -> Self {
        self.max_lock_expiries = expiries;
        self
    }

    /// Who claims.
    #[must_use]
    pub fn holder(mut self, instance: &InstanceId) -> Self {
        self.holder = Some(instance.clone());
        self
    }

    /// The same claim where the store has limits of its own, as every store keeps them: each that
    /// is set takes the place of the claimer's.
    #[must_use]
    pub fn under(self, stored: FleetLimits) -> Self {
        let fleet = stored.or(self.fleet);
        Self { fleet, ..self }
    }

    /// Limits over all claimers of the type.
    #[must_use]
    pub fn fleet(mut self, fleet: FleetLimits) -> Self {
        self.fleet = fleet;
        self
    }
}

/// What a claim took, and when to call again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claimed {
    /// The time that due times were compared with: the store's now, held back by [`CLOCK_GUARD`].
    pub now: Timestamp,
    /// The store's now; far after `now` when the two clocks disagree. Locks are measured on it.
    pub store_now: Timestamp,
    /// The largest fence of the bucket given before this claim, 0 for none. It never becomes
    /// smaller unless the store has lost data: it was emptied, or an older copy of it was restored.
    pub high_water: u64,
    /// The tasks, locked: first those whose lock had expired, then by due time and id.
    pub tasks: Vec<ClaimedTask>,
    /// Tasks that the claim ended instead of handing them out.
    pub ended: Vec<ClaimEnd>,
    /// How long after this claim another one can find something: until the next due time, the next
    /// expiry of a lock (of anybody), or the end of a pause with an end. Zero when more is due
    /// already. `None` when nothing is scheduled or running, or the pause has no end. A store may
    /// add a stagger so that instances that wait for the same task come one after the other. What a
    /// fleet rate holds back counts from when it allows starts again; a free slot of a fleet
    /// concurrency is announced by a wake-up.
    pub next_in: Option<Duration>,
    /// Whether the bucket still takes new tasks.
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

    /// How many tasks it took or ended: what counts towards the limit.
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
    /// Why.
    pub cause: EndCause,
}

impl ClaimEnd {
    /// The end of a task.
    #[must_use]
    pub fn new(id: TaskId, cause: EndCause) -> Self {
        Self { id, cause }
    }
}

/// Why a claim ended a task instead of handing it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndCause {
    /// Its expiry had passed: now expired.
    Expired,
    /// Its lock expired and a cancel was requested before: now cancelled.
    Cancelled,
    /// Its lock expired too often (it seems to kill its process): now dead.
    Poison,
    /// Its stored record is damaged: now dead.
    Corrupt,
}
