//! What a worker leaves in the file that all instances write to.

use serde::{Deserialize, Serialize};

/// One line of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// The instance, by the name that the driver gave it.
    pub instance: String,
    /// The task's type.
    pub kind: String,
    /// The task's id.
    pub id: String,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The fence of its lock.
    pub fence: u64,
    /// When it was due, ms since the epoch.
    pub due: i64,
    /// When this line was written, ms since the epoch.
    pub at: i64,
    /// Its message.
    pub message: String,
    /// What happened.
    pub what: What,
}

/// What happened to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// It started.
    Started,
    /// It is about to succeed.
    Done,
    /// It is about to fail.
    Failed,
    /// It was told to stop, and does.
    Stopped,
}
