//! What processes of a run record: one [`Event`] a line, in a file of each process's own.
//!
//! A call of the store is two events, invoked and answered, joined by the number of the call. A
//! call without an answer was cut off: it may have been applied. Names of tasks are `type/id`.

use delayq_core::Timestamp;
use serde::{Deserialize, Serialize};

mod fault;
mod operation;

pub use fault::{DRIVER, EFFECT_LOG, Explains, Phase, Plan, StoredTask, Target};
pub use operation::{
    Asked, CancelAnswer, Change, ChangeAnswer, ClaimedLock, ConflictRule, End, EndedByClaim,
    ExtendAnswer, HeldLock, SettleAnswer, SettledLock, SubmitAnswer, Submitted, TypeChange,
};

/// Something that happened, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The kernel's monotonic clock, in nanoseconds: the same in all processes of a machine, never
    /// set.
    pub at_ns: u64,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The process has begun, or begun again: the calls that it had under way before are cut off.
    Up {
        /// The process's name, the same in all its incarnations.
        name: String,
        /// Its process id.
        pid: u32,
        /// 1 for the first one of this name, then 2, 3, ..
        incarnation: u32,
        /// The namespace that its store serves.
        namespace: String,
    },
    /// The process ends in order.
    Down,
    /// What time of day it was, by a process whose clock nobody shifts.
    Clock {
        /// Nanoseconds since the epoch.
        real_ns: u64,
        /// The event's `at_ns` and `real_ns` were read within this span.
        spread_ns: u64,
    },
    /// The process, or a thread of it, was not run between then and now: somebody stopped it, or
    /// the machine had no processor for it, seen by a thread that does nothing but look; or its
    /// record was waited for as long.
    Stalled {
        /// When it was run last; as `at_ns`.
        since_ns: u64,
    },
    /// The store was not run between then and now: its server did not answer though it was not at
    /// work, or the thread that writes to SQLite had no processor while it may have had the file's
    /// lock.
    StoreStalled {
        /// When it was run last; as `at_ns`.
        since_ns: u64,
    },
    /// The disk was busy with one small write between then and now. Seen by a thread of the driver
    /// that does nothing but write.
    DiskStalled {
        /// When it was written; as `at_ns`.
        since_ns: u64,
    },
    /// What the processes of the run used of the machine between then and now. By the driver.
    Usage {
        /// When the last sample was taken; as `at_ns`.
        since_ns: u64,
        /// Processor time.
        processor_ns: u64,
        /// Bytes handed to disks.
        written_bytes: u64,
    },
    /// What the run is about to do; by the driver, first.
    Plan(Plan),
    /// Tasks of this type are settled before they are started; by whoever serves it.
    AtMostOnce {
        /// The type.
        task_type: String,
    },

    /// Tasks are sent.
    SubmitInvoked {
        /// Number of the call, unique in this incarnation.
        call: u64,
        /// The tasks.
        tasks: Vec<Submitted>,
    },
    /// One answer a task, in order.
    SubmitAnswered {
        /// Number of the call.
        call: u64,
        /// The answers.
        answers: Vec<SubmitAnswer>,
    },
    /// Cancel, reschedule or update is asked for.
    ChangeInvoked {
        /// Number of the call.
        call: u64,
        /// The task.
        task: String,
        /// Which of these.
        change: Change,
    },
    /// A cancel was answered.
    CancelAnswered {
        /// Number of the call.
        call: u64,
        /// The answer.
        answer: CancelAnswer,
    },
    /// Any other change was answered.
    ChangeAnswered {
        /// Number of the call.
        call: u64,
        /// The answer.
        answer: ChangeAnswer,
    },
    /// An operator requeues or discards dead tasks.
    DeadInvoked {
        /// Number of the call.
        call: u64,
        /// The type.
        task_type: String,
        /// Whether they are to run again, with their attempts counted anew; else they are removed.
        requeue: bool,
        /// The ids; empty: whichever fit a filter.
        ids: Vec<String>,
    },
    /// Which dead tasks were requeued or discarded.
    DeadAnswered {
        /// Number of the call.
        call: u64,
        /// The ids.
        ids: Vec<String>,
    },
    /// Something is asked for that concerns all tasks of a type.
    TypeInvoked {
        /// Number of the call.
        call: u64,
        /// The type.
        task_type: String,
        /// What.
        change: TypeChange,
    },
    /// It is done.
    TypeAnswered {
        /// Number of the call.
        call: u64,
        /// How many tasks it removed.
        #[serde(default)]
        removed: u64,
    },
    /// Due tasks are claimed.
    ClaimInvoked {
        /// Number of the call.
        call: u64,
        /// The type.
        task_type: String,
    },
    /// What was claimed.
    ClaimAnswered {
        /// Number of the call.
        call: u64,
        /// The type.
        task_type: String,
        /// The store's clock: locks are measured on it.
        store_now: Timestamp,
        /// The store's clock held back by the guard: due times are compared with it.
        now: Timestamp,
        /// The tasks handed out, with their locks.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tasks: Vec<ClaimedLock>,
        /// Tasks ended instead.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ended: Vec<EndedByClaim>,
    },
    /// Attempts are settled.
    SettleInvoked {
        /// Number of the call.
        call: u64,
        /// The type.
        task_type: String,
        /// The locks, and how each attempt ended.
        locks: Vec<SettledLock>,
    },
    /// One answer a lock, in order.
    SettleAnswered {
        /// Number of the call.
        call: u64,
        /// The answers.
        answers: Vec<SettleAnswer>,
    },
    /// Locks are to last longer.
    ExtendInvoked {
        /// Number of the call.
        call: u64,
        /// The type.
        task_type: String,
        /// The locks.
        locks: Vec<HeldLock>,
    },
    /// One answer a lock, in order.
    ExtendAnswered {
        /// Number of the call.
        call: u64,
        /// The answers.
        answers: Vec<ExtendAnswer>,
    },
    /// A call of any kind failed.
    Failed {
        /// Number of the call.
        call: u64,
        /// Whether the store says that it was certainly not applied.
        certain: bool,
        /// The error.
        error: String,
    },

    /// A worker has been started; written by the worker itself.
    WorkerStart {
        /// The task.
        task: String,
        /// The worker's name; several workers of one type each run every attempt.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        worker: String,
        /// The type or pattern that the worker serves; empty: not known.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        serves: String,
        /// 1-based count of starts.
        attempt: u32,
        /// The lock.
        fence: u64,
        /// When the attempt was due.
        due: Timestamp,
        /// [`digest`](crate::record::digest) of the message as the worker got it.
        digest: u64,
        /// Digest of the headers as the worker got them; `None` without any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        headers: Option<u64>,
    },
    /// A worker is about to return.
    WorkerEnd {
        /// The task.
        task: String,
        /// The worker's name.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        worker: String,
        /// The lock.
        fence: u64,
        /// What it returns.
        end: End,
        /// Whether it had been told to stop.
        told: bool,
    },

    /// The effect log took an effect: its fence is not below the largest seen.
    EffectAccepted {
        /// The task.
        task: String,
        /// The fence that came with the effect.
        fence: u64,
    },
    /// The effect log refused an effect: it has seen a larger fence.
    EffectRefused {
        /// The task.
        task: String,
        /// The fence that came with the effect.
        fence: u64,
    },
    /// A worker began its effect.
    EffectBegun {
        /// The task.
        task: String,
        /// The lock.
        fence: u64,
        /// How many were in the middle of theirs under another lock, for the same task.
        others: u32,
    },
    /// A worker finished its effect.
    EffectEnded {
        /// The task.
        task: String,
        /// The lock.
        fence: u64,
    },

    /// A fault begins or is over.
    Fault {
        /// Number of the fault in the run; both phases have it.
        id: u64,
        /// Its kind, as in [`Plan::kinds`].
        kind: String,
        /// What it is done to.
        target: Target,
        /// Which phase; a fault without length has both.
        phase: Phase,
        /// What it may explain; at its end what is left of that.
        explains: Vec<Explains>,
    },

    /// Another server is the master now, or serves slots, than when somebody looked last.
    FailedOver,

    /// Nobody sends any more, and the tasks had time to end.
    Drained {
        /// How many have not.
        left: u64,
    },
    /// Where the store has a task when all is over. Tasks without such an event are not in the
    /// store.
    Stored(StoredTask),
    /// What an audit of the store found when all was over.
    Audited {
        /// The type.
        task_type: String,
        /// The id and what is wrong with it.
        problems: Vec<(String, String)>,
    },
    /// All [`Stored`](Self::Stored) and [`Audited`](Self::Audited) events have been written.
    Dumped {
        /// The store's clock.
        store_now: Timestamp,
    },
}
