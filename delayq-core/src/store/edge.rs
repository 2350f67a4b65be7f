//! What goes into and comes out of the edges of a store.

use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::name::{Namespace, TaskId, TaskType};
use crate::state::TaskState;
use crate::task::{Lock, TaskInfo};
use crate::time::Timestamp;

/// Most tasks of one claim, settle or extend step; larger batches are split. It bounds how long one
/// step keeps everybody else waiting (about 0.5 ms on Redis).
pub const MAX_BATCH: usize = 128;

/// Longest error text that a store keeps with a task; longer ones are cut at a character boundary.
pub const MAX_ERROR_BYTES: usize = 1_024;

/// How far a store's clock may run ahead of the claimer's before claims hold back.
///
/// A claim treats `min(store's clock, claimer's clock + CLOCK_GUARD)` as now for due times and
/// expiries, so that a store clock that jumps forward does not start tasks early. Locks and pauses live
/// on the store's clock alone.
pub const CLOCK_GUARD: Duration = Duration::from_millis(500);

/// How long a store remembers a task that has ended, by default.
pub const DEFAULT_RETENTION: Duration = Duration::from_mins(10);

/// Most ended tasks of one type that a store has to remember; above this the oldest may be forgotten
/// before their retention is over (a store may keep up to twice as many). It bounds the memory of a type that ends 100,000 tasks a second.
pub const MAX_RETAINED: usize = 50_000;

/// What an acknowledged submit survives, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// Lost with the store's process.
    Memory,
    /// Survives a crash of the store's process, not a power loss of its machine.
    Process,
    /// Survives a power loss of the store's machine: written to disk and synced before the answer.
    Disk,
    /// Survives the loss of a machine: acknowledged by a replica, too.
    Replicated,
}

impl Durability {
    /// The class's name as written in a store URL: `memory`, `process`, `disk`, `replicated`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Process => "process",
            Self::Disk => "disk",
            Self::Replicated => "replicated",
        }
    }
}

/// Reads the name that [`Durability::as_str`] gives.
impl FromStr for Durability {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let classes = [Self::Memory, Self::Process, Self::Disk, Self::Replicated];
        let class = classes.into_iter().find(|class| class.as_str() == name);
        class.ok_or_else(|| {
            let forms = "memory, process, disk or replicated";
            Error::InvalidInput(format!("unknown durability {name:?}: {forms}"))
        })
    }
}

/// What every store is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// The namespace that the store serves; default `default`.
    pub namespace: Namespace,
    /// The weakest class that an acknowledgement may have; default [`Durability::Process`]. A store
    /// that cannot keep it refuses to open, and says what to change.
    pub durability: Durability,
    /// How long ended tasks are remembered; default [`DEFAULT_RETENTION`], zero: not at all.
    pub retention: Duration,
    /// How long one call may take before it fails; default 5 s. The largest batches take milliseconds,
    /// so a longer wait means that the store is down. At least 1 ms; more than a day counts as a day.
    pub call_timeout: Duration,
}

/// Longest time that a call may be given: a day is for ever, and can be reckoned with.
#[cfg(any(feature = "sqlite", feature = "redis"))]
const MAX_CALL_TIMEOUT: Duration = Duration::from_hours(24);

impl StoreOptions {
    /// What a store can go by.
    ///
    /// # Errors
    /// `InvalidInput` when no call could be answered in time.
    #[cfg(any(feature = "sqlite", feature = "redis"))]
    pub(crate) fn checked(self) -> Result<Self> {
        let timeout = self.call_timeout;
        if timeout < Duration::from_millis(1) {
            let text =
                format!("the call timeout is {timeout:?}: give at least 1 ms, better seconds");
            return Err(Error::InvalidInput(text));
        }
        Ok(Self {
            call_timeout: timeout.min(MAX_CALL_TIMEOUT),
            ..self
        })
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            namespace: Namespace::default(),
            durability: Durability::Process,
            retention: DEFAULT_RETENTION,
            call_timeout: Duration::from_secs(5),
        }
    }
}

/// The outcome of submitting one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitOutcome {
    /// The task is stored and will run.
    Accepted {
        /// When it is due, on the store's clock.
        due_at: Timestamp,
        /// Whether it took the place of a scheduled or dead task (`OnConflict::Replace`).
        replaced: bool,
    },
    /// The same request was accepted before, or an existing task was kept (`OnConflict::Keep`).
    AlreadyExists {
        /// Where the existing task is; an ended one is known until its retention is over.
        state: TaskState,
    },
    /// Another task has this id; nothing changed.
    Conflict {
        /// Where it is.
        state: TaskState,
    },
}

/// One task to settle: the lock that proves the right to do so, and the end of the attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The lock of the attempt.
    pub lock: Lock,
    /// How it ended.
    pub end: AttemptEnd,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// Success: the task is done.
    Done,
    /// Failure, to be repeated: scheduled again, due after the wait; counts one failure. After a cancel
    /// request the task is cancelled instead.
    Retry {
        /// From now, on the store's clock.
        after: Duration,
        /// What went wrong.
        error: String,
        /// The workers of the type that have succeeded, this attempt's and earlier ones'.
        succeeded: Vec<String>,
    },
    /// Given back: scheduled again, due after the wait; counts one release, no attempt. After a cancel
    /// request the task is cancelled instead.
    Release {
        /// From now, on the store's clock.
        after: Duration,
        /// As for `Retry`.
        succeeded: Vec<String>,
    },
    /// Failure for good: the task is dead; counts one failure.
    Dead {
        /// What went wrong.
        error: String,
        /// As for `Retry`: a requeue leaves them out.
        succeeded: Vec<String>,
    },
    /// Not worth running any more: the task is expired.
    Expired,
}

impl AttemptEnd {
    /// How soon the task is due again; `None` when it has ended.
    #[must_use]
    pub fn due_again_in(&self) -> Option<Duration> {
        match self {
            Self::Retry { after, .. } | Self::Release { after, .. } => Some(*after),
            Self::Done | Self::Dead { .. } | Self::Expired => None,
        }
    }
}

/// The outcome of settling one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleOutcome {
    /// The attempt is settled (also when the same settlement had been applied before).
    Settled,
    /// Somebody else holds or held the task since, or it has ended: nothing changed.
    LockLost,
    /// Nobody knows: the part of the store that has the task gave no answer, while others did. It may be applied,
    /// also later. Ask again.
    Unknown,
}

/// The outcome of extending one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtendOutcome {
    /// The lock now expires at this time, on the store's clock.
    Extended(Timestamp),
    /// As `Extended`, and somebody asked to cancel the task: the worker should stop.
    CancelRequested(Timestamp),
    /// Somebody else holds or held the task since, or it has ended: nothing changed.
    LockLost,
    /// Nobody knows, as for [`SettleOutcome::Unknown`]: the lock lasts at least as long as before. Ask again.
    Unknown,
}

/// The outcome of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It will never start (again); its memory is freed.
    Cancelled,
    /// It runs. Its worker is asked to stop, and no further attempt will start.
    Running,
    /// It had ended or is dead.
    Finished(TaskState),
    /// There is no such task, or it ended longer ago than the retention.
    NotFound,
}

/// The outcome of a reschedule or update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// The change is stored; the task is scheduled for this time.
    Changed {
        /// When it is due.
        due_at: Timestamp,
    },
    /// It runs; nothing changed.
    Running,
    /// It had ended or is dead; nothing changed.
    Finished(TaskState),
    /// There is no such task, or it ended longer ago than the retention.
    NotFound,
}

/// Numbers of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeStats {
    /// The time of these numbers, on the store's clock.
    pub now: Timestamp,
    /// Scheduled tasks, the due ones included.
    pub scheduled: u64,
    /// Scheduled tasks that are due.
    pub due: u64,
    /// Running tasks.
    pub running: u64,
    /// Dead tasks.
    pub dead: u64,
    /// Due time of the first scheduled task.
    pub next_due: Option<Timestamp>,
    /// When a pause ends ([`Timestamp::MAX`]: it has no end), while paused.
    pub paused_until: Option<Timestamp>,
    /// Most scheduled tasks before new ones are refused; `None`: no bound.
    pub max_pending: Option<u64>,
    /// How many tasks this bound has refused so far.
    pub refused: u64,
}

impl TypeStats {
    /// How long the first task has been due; zero when none is.
    #[must_use]
    pub fn oldest_age(&self) -> Duration {
        self.next_due
            .map_or(Duration::ZERO, |due| self.now.since(due))
    }
}

/// One page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The tasks, by their `at` and id.
    pub tasks: Vec<TaskInfo>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<Cursor>,
}

/// A place in a listing: after this task. It stays valid while tasks come and go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The `at` of the last task seen.
    pub at: Timestamp,
    /// Its id.
    pub id: TaskId,
}

/// Which dead tasks are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadFilter {
    /// These.
    Ids(Vec<TaskId>),
    /// The first ones by time of death that fulfil all conditions.
    Matching {
        /// Died before this time.
        died_before: Option<Timestamp>,
        /// The last error contains this text.
        error_contains: Option<String>,
        /// At most so many.
        limit: usize,
    },
}

impl DeadFilter {
    /// All dead tasks of the type.
    #[must_use]
    pub fn all() -> Self {
        Self::Matching {
            died_before: None,
            error_contains: None,
            limit: usize::MAX,
        }
    }
}

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Tasks looked at.
    pub checked: u64,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// One structural damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The id concerned, as stored (damage may have made it invalid).
    pub id: String,
    /// What is wrong, for people.
    pub what: String,
    /// Whether this audit mended it.
    pub repaired: bool,
}

/// What handlers hear from the store: whether to look again before their time, or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// The first task of this type became earlier, its pause ended, or a place became free.
    Type(TaskType),
    /// Wake-ups may have been missed: any type.
    All,
    /// Who waits for what was due need not come: another instance has taken it.
    Taken(Taken),
}

/// What another instance's claim has left of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The type.
    pub task_type: TaskType,
    /// The last fence that it gave. A claim that has found a larger one knows better than this.
    pub fence: u64,
    /// As [`Claimed::next_due`](super::Claimed::next_due).
    pub next_due: Option<Timestamp>,
    /// As [`Claimed::turn`](super::Claimed::turn).
    pub turn: Duration,
}

/// `error` cut to [`MAX_ERROR_BYTES`] at a character boundary.
#[must_use]
pub fn cut_error(error: &str) -> &str {
    error
        .get(..error.floor_char_boundary(MAX_ERROR_BYTES))
        .unwrap_or(error)
}

/// The first fence of a claim: above every earlier one, and not below the time in microseconds, so that
/// a store that lost its last writes (failover, restored backup) still hands out larger fences. Below
/// 2^53 until the year 2255, so that Lua keeps it exact.
pub(crate) fn next_fence(high_water: u64, now: Timestamp) -> u64 {
    let time = u64::try_from(now.as_millis().saturating_mul(1_000)).unwrap_or(0);
    time.max(high_water.saturating_add(1))
}
