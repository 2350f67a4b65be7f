//! Commands to an instance, a line each, and its answers, a line each.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What an instance prints once its plugin has started.
pub const READY: &str = "ready";

/// One command. Times are spans in milliseconds from now.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Command {
    /// Sends a task; the answer is its receipt.
    Send {
        /// Its type.
        kind: String,
        /// Its id.
        id: String,
        /// Its message: what the worker does, see `workers.rs`.
        message: String,
        /// Its delay.
        after_ms: u64,
        /// What happens when its id is taken.
        known: Known,
        /// Its group, if it is not empty.
        group: String,
    },
    /// A `TaskInfo`, or null.
    Find(String, String),
    /// Cancels a task by its type and id.
    Cancel(String, String),
    /// Moves a task.
    Reschedule(String, String, u64),
    /// Makes a task due now.
    RunNow(String, String),
    /// Changes the message of a task.
    Update(String, String, String),
    /// Schedules the dead tasks of a type again; the answer is their ids.
    Requeue(String),
    /// Removes the dead tasks of a type; the answer is their ids.
    Discard(String),
    /// Up to 128 tasks of a type in this state.
    List(String, String),
    /// How many tasks of a type are in a group.
    Count(String, String),
    /// Cancels the tasks of a group; the answer is how many.
    CancelAll(String, String),
    /// Moves the tasks of a group; the answer is how many.
    RescheduleAll(String, String, u64),
    /// `TypeStats`.
    Stats(String),
    /// Pauses a type.
    Pause(String),
    /// Ends a pause.
    Resume(String),
    /// Most scheduled tasks of a type.
    MaxPending(String, Option<u64>),
    /// Problems in what is stored of a type.
    Audit(String),
    /// The names of the listed types.
    Types,
    /// How many instances the store lists.
    Instances,
    /// What recurs: a list of schedules.
    Recurring,
    /// Whether tasks with the message `hold` go on running, and those with `die` fail.
    Mood {
        /// `hold` waits.
        holds: bool,
        /// `die` fails for good.
        dies: bool,
    },
    /// Shuts the plugin down, and ends.
    Stop,
}

/// What a send does when its id is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Known {
    /// It is refused, or answered `already_exists`.
    Refuse,
    /// It takes the place of the task.
    Replace,
    /// It moves the task, which waits for so long without a further send.
    Debounce,
    /// It runs the task again after the present run.
    Again,
}

/// What came of a command: its answer, or the error as text.
pub type Answer = Result<Value, String>;
