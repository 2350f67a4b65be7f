//! What a look at a store found.

use delayq_plugin::TaskType;
use serde::Serialize;

/// One thing that is wrong, or may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What kind of thing it is.
    pub symptom: Symptom,
    /// The type that it is about; `None`: the store or its instances.
    pub task_type: Option<TaskType>,
    /// What was found, with its figures.
    pub found: String,
    /// Why it matters.
    pub why: String,
    /// What to do, or the line to change.
    pub fix: String,
}

/// How bad a finding is; a larger one is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Tasks are late, or need somebody.
    Warning,
    /// Tasks do not start, are refused, or are not as safe as promised.
    Error,
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Symptom {
    /// The store cannot be reached, or its settings or data break a promise.
    Store,
    /// The store keeps tasks in memory only.
    Volatile,
    /// The clocks of this host and of the store differ by more than 500 ms.
    Clocks,
    /// Instances of several releases run.
    Versions,
    /// No announced instance serves a type with scheduled tasks.
    Unserved,
    /// A paused type has due tasks.
    Paused,
    /// The first task of a served type has been due for more than a minute.
    Overdue,
    /// A type has dead tasks.
    Dead,
    /// A type has as many scheduled tasks as it may have.
    Full,
    /// Locks lie expired, or belong to instances that are gone.
    Locks,
}
