//! Findings of a check of a store.

use delayq_plugin::TaskType;
use serde::Serialize;

/// One problem, or possible problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The kind of problem.
    pub symptom: Symptom,
    /// The type concerned; `None` for the store or its instances.
    pub task_type: Option<TaskType>,
    /// The finding, with its figures.
    pub found: String,
    /// The reason why it matters.
    pub why: String,
    /// The action to take, or the line to change.
    pub fix: String,
}

/// The severity of a finding; a larger one is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Tasks are late, or need somebody's attention.
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
    /// A type has reached its limit of scheduled tasks.
    Full,
    /// Locks remain after their expiry, or belong to instances that are gone.
    Locks,
}
