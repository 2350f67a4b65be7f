//! What is done to a run, and what is left of it.

use delayq_core::{TaskState, Timestamp};
use serde::{Deserialize, Serialize};

/// The process that takes the effects of the workers.
pub const EFFECT_LOG: &str = "effects";
/// The process that does the faults.
pub const DRIVER: &str = "driver";

/// What a run is about to do, and what it is judged by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a rule that holds or does not"
)]
pub struct Plan {
    /// The kinds of faults that must fire at least once; a run in which one did not is invalid.
    pub kinds: Vec<String>,
    /// The kinds that fit the store, and that the machine could not do.
    pub skipped: Vec<String>,
    /// Whether every effect of a worker stands in the effect log, and every process ends in order:
    /// or the record is not whole, and the run is invalid.
    pub effect_log: bool,
    /// Whether some fault must lead to a repeat (kills, long stops): without one the run is
    /// invalid.
    pub expects_repeats: bool,
    /// How long the longest lock lasts, in milliseconds.
    pub lock_ms: u64,
    /// How long after a fault due tasks may take to start, in milliseconds; 0: `lock_ms` + 1,000.
    pub recovery_ms: u64,
    /// How far the clocks of servers that take each other's place are apart, in milliseconds.
    pub skew_ms: u64,
    /// How long after a fault of the store has struck nothing may be accepted, in milliseconds; 0:
    /// not judged.
    pub outage_ms: u64,
    /// How long ended tasks are remembered, in milliseconds; 0: not at all.
    pub retention_ms: u64,
    /// Whether the final dump has looked every task up, those that have ended too.
    pub dumps_ended: bool,
    /// Types that have no tasks but single ones, due at once: their handlers sleep, and are woken
    /// for each.
    pub idle_types: Vec<String>,
    /// Whether a server stands before the store, which gives back at once what a claim has locked
    /// whose answer reached nobody.
    pub gives_back: bool,
    /// Whether tasks are moved from one store to another: one that is moved late, as a store was
    /// away, is due when it was moved.
    #[serde(default)]
    pub moves: bool,
    /// How many processors the run may use; 0: nobody counted them.
    pub processors: u32,
    /// What makes the run repeatable.
    pub seed: u64,
}

/// What a fault is done to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The store, and with it everybody.
    Store,
    /// One process, or its connection.
    Process(String),
    /// One task: its record, or the worker that runs it.
    Task(String),
}

/// The two ends of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// About to be done: written before it is.
    Begun,
    /// Done, and it does nothing more: what comes later, it does not undo. Only where that matters.
    Struck,
    /// Over: written after everything works again.
    Ended,
}

/// What a fault may be the cause of. Whatever no fault explains is a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Explains {
    /// A lock of the target that expires, so that its tasks are repeated; a start that comes late.
    LostLock,
    /// Answered changes that are undone, from so many milliseconds before the fault began until it
    /// has [struck](Phase::Struck), or else is over.
    Rollback {
        /// The window of the store's durability class.
        window_ms: u64,
    },
    /// Stored bytes that differ: a damaged task goes to dead, an audit finds it. Never altered
    /// bytes in a worker.
    Damage,
    /// A store clock that is wrong, while the fault lasts: due times that it sets, and locks that
    /// it gives or takes. A process as the target: the clock that the store has there (an embedded
    /// one has that of its process), and so the clock of whoever claims, too.
    StoreClock {
        /// Up to so many milliseconds ahead; behind, if negative.
        ahead_ms: i64,
    },
    /// Records that somebody removes: the tasks are lost.
    Emptied,
}

/// A task as the store shows it at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTask {
    /// The task.
    pub task: String,
    /// Its state.
    pub state: TaskState,
    /// By state: when it is due, when its lock expires, when it died or ended.
    pub at: Timestamp,
    /// The current attempt, else the number of attempts made.
    pub attempt: u32,
    /// Failures, lock expiries, releases and requeues, as the store counts them until the task
    /// ends; `None` where nobody looked.
    #[serde(default)]
    pub trail: Option<(u32, u32, u32, u32)>,
}
