//! The reading side: the files of a run, folded into one ordered history a task.
//!
//! A million tasks have to fit: a [`Row`] is small and holds no text, names are kept once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use delayq_core::{TaskState, Timestamp};

use crate::event::{
    Asked, CancelAnswer, ChangeAnswer, ConflictRule, End, Explains, ExtendAnswer, Plan,
    SettleAnswer, Target, TypeChange,
};

mod build;
mod clock;
mod print;
mod read;

pub use build::HistoryBuilder;
pub use clock::ClockMap;
pub use read::HistoryError;

/// When a call was answered that never was.
pub const NEVER: u64 = u64::MAX;

/// Everything that is known of a run.
#[derive(Debug, Default)]
pub struct History {
    /// The plan, if the driver wrote one.
    pub plan: Option<Plan>,
    /// Names of the tasks (`type/id`); a row's `task` is a place in here.
    pub tasks: Vec<String>,
    /// What happened, by task and time.
    pub rows: Vec<Row>,
    /// Where the store has each task at the end, by task.
    pub stored: Vec<Option<Stored>>,
    /// The incarnations of all processes.
    pub processes: Vec<Process>,
    /// The claims that were answered.
    pub claims: Vec<ClaimCall>,
    /// The claims whose answer is not known.
    pub lost_claims: Vec<LostClaim>,
    /// Pauses, resumes and purges.
    pub type_calls: Vec<TypeCall>,
    /// What submits said about expiry; a row's `expiry` is a place in here, after 0 for none.
    pub expiries: Vec<Asked>,
    /// Requeues and discards by a filter, whose answer is not known: type, when, whether a requeue.
    pub lost_operations: Vec<(String, u64, bool)>,
    /// The faults.
    pub faults: Vec<FaultSpan>,
    /// When processes were not run, as they saw it themselves.
    pub stops: Vec<Stop>,
    /// Shortages of processor or disk that the run's own processes caused, by kind: they allow
    /// nothing.
    pub own_shortages: BTreeMap<String, u64>,
    /// When another server was the master than before; monotonic.
    pub fail_overs: Vec<u64>,
    /// From the monotonic clock to the time of day.
    pub clock: ClockMap,
    /// The types whose tasks are settled before they are started.
    pub at_most_once: BTreeSet<String>,
    /// What audits found: type, id, what is wrong.
    pub problems: Vec<(String, String, String)>,
    /// How many tasks had not ended when all had had their time; `None`: nobody said so.
    pub left: Option<u64>,
    /// The store's clock after the final dump; `None`: there was none.
    pub dumped: Option<Timestamp>,
    ranges: Vec<Range<usize>>,
}

impl History {
    /// The rows of task number `task`, by time of invocation.
    #[must_use]
    pub fn rows_of(&self, task: usize) -> &[Row] {
        let range = self.ranges.get(task).cloned().unwrap_or_default();
        self.rows.get(range).unwrap_or_default()
    }

    /// The process of a row.
    #[must_use]
    pub fn process_of(&self, row: &Row) -> Option<&Process> {
        self.processes.get(usize::from(row.process))
    }

    /// The expiry that a submit asked for.
    #[must_use]
    pub fn expiry(&self, place: u32) -> Option<Asked> {
        let place = usize::try_from(place).ok()?.checked_sub(1)?;
        self.expiries.get(place).copied()
    }

    /// When an incarnation was gone for certain.
    #[must_use]
    pub fn gone_ns(&self, process: &Process) -> u64 {
        if process.is_down {
            return process.last_ns;
        }
        let later = self.processes.iter();
        let later = later
            .filter(|other| other.name == process.name && other.incarnation > process.incarnation);
        later.map(|other| other.up_ns).min().unwrap_or(NEVER)
    }

    /// The claim that a lock came from.
    #[must_use]
    pub fn claim(&self, call: u32) -> Option<&ClaimCall> {
        self.claims.get(usize::try_from(call).ok()?)
    }
}

/// One incarnation of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// Which incarnation.
    pub incarnation: u32,
    /// The namespace of its store.
    pub namespace: String,
    /// When it began; monotonic.
    pub up_ns: u64,
    /// When it wrote its last event; monotonic.
    pub last_ns: u64,
    /// Whether it ended in order.
    pub is_down: bool,
}

/// A claim whose answer is not known: it may have locked tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostClaim {
    /// The type.
    pub task_type: String,
    /// The process, as a place in [`History::processes`].
    pub process: u16,
    /// When it was invoked; monotonic.
    pub from: u64,
    /// When it failed; [`NEVER`] without an answer.
    pub to: u64,
}

/// A call that concerns all tasks of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeCall {
    /// The type.
    pub task_type: String,
    /// The process, as a place in [`History::processes`].
    pub process: u16,
    /// When it was invoked; monotonic.
    pub from: u64,
    /// When it was answered; [`NEVER`] without an answer.
    pub to: u64,
    /// What was asked for.
    pub change: TypeChange,
    /// How many tasks it removed.
    pub removed: u64,
}

/// A claim that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimCall {
    /// The store's clock.
    pub store_now: Timestamp,
    /// The same, held back by the guard.
    pub now: Timestamp,
}

/// A span in which a process, or a thread of it, was not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The process, as a place in [`History::processes`].
    pub process: u16,
    /// When it was run last; monotonic.
    pub from: u64,
    /// When it was run again; monotonic.
    pub to: u64,
}

/// A fault, from its beginning to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultSpan {
    /// Its number.
    pub id: u64,
    /// Its kind.
    pub kind: String,
    /// What it was done to.
    pub target: Target,
    /// When it began; monotonic.
    pub begun_ns: u64,
    /// When it had done what it does; the end, if nobody said so.
    pub struck_ns: u64,
    /// When it was over; [`NEVER`] if nobody said so.
    pub ended_ns: u64,
    /// What it may explain.
    pub explains: Vec<Explains>,
}

/// A task as the store showed it at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its state.
    pub state: TaskState,
    /// Its time, by state.
    pub at: Timestamp,
    /// The current attempt, else the number of attempts made.
    pub attempt: u32,
    /// Failures, lock expiries, releases and requeues, if somebody looked.
    pub trail: Option<(u32, u32, u32, u32)>,
}

/// One thing that happened to one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The task, as a place in [`History::tasks`].
    pub task: u32,
    /// The process, as a place in [`History::processes`].
    pub process: u16,
    /// When it happened, or the call was invoked; monotonic.
    pub from: u64,
    /// When the call was answered; the same as `from` for what is no call; [`NEVER`] without an
    /// answer.
    pub to: u64,
    /// What.
    pub step: Step,
}

/// What became of a submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitResult {
    /// It is in the store.
    Accepted {
        /// When it is due.
        due: Timestamp,
        /// Whether it took another one's place.
        replaced: bool,
    },
    /// It had been there.
    Exists(TaskState),
    /// Another one has its id.
    Conflict(TaskState),
    /// Certainly not in the store.
    Refused,
    /// Its answer was lost.
    InDoubt,
}

/// What happened to a task. `None` as an answer: not known, it may have been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the fields are those of the events, documented there"
)]
pub enum Step {
    /// It was sent.
    Submit {
        digest: u64,
        headers: u32,
        when: Asked,
        expiry: u32,
        on_conflict: ConflictRule,
        result: SubmitResult,
    },
    /// A claim handed it out.
    Claim {
        call: u32,
        fence: u64,
        attempt: u32,
        due: Timestamp,
        until: Timestamp,
    },
    /// A claim ended it.
    EndedByClaim { state: TaskState, damaged: bool },
    /// An attempt was settled.
    Settle {
        fence: u64,
        end: End,
        answer: Option<SettleAnswer>,
    },
    /// A lock was extended.
    Extend {
        fence: u64,
        answer: Option<ExtendAnswer>,
    },
    /// A cancel.
    Cancel { answer: Option<CancelAnswer> },
    /// A new due time.
    Reschedule {
        when: Asked,
        answer: Option<ChangeAnswer>,
    },
    /// A new message.
    Update {
        digest: u64,
        answer: Option<ChangeAnswer>,
    },
    /// A dead task runs again; `certain`: it was answered.
    Requeue { certain: bool },
    /// A dead task was removed; `certain`: it was answered.
    Discard { certain: bool },
    /// A worker started.
    Start {
        worker: u16,
        right_type: bool,
        attempt: u32,
        fence: u64,
        due: Timestamp,
        digest: u64,
        headers: u32,
    },
    /// A worker is about to return.
    End {
        worker: u16,
        fence: u64,
        end: End,
        told: bool,
    },
    /// The effect log took an effect.
    EffectAccepted { fence: u64 },
    /// The effect log refused one.
    EffectRefused { fence: u64 },
    /// An effect began.
    EffectBegun { fence: u64, others: u32 },
    /// An effect ended.
    EffectEnded { fence: u64 },
}
