//! Counts of a batch, as passed to its completion task.

use serde::{Deserialize, Serialize};

use crate::state::TaskState;

/// The header of a completion task: the [`BatchEnd`] as JSON.
pub const BATCH_HEADER: &str = "delayq-batch";

/// A batch and the ends of its members; the counts add up to [`ended`](Self::ended).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct BatchEnd {
    /// The batch's name.
    pub name: String,
    /// Number of members.
    pub total: u64,
    /// Members whose workers succeeded.
    pub done: u64,
    /// Members that were dead when they were looked at.
    pub dead: u64,
    /// Members that were cancelled.
    pub cancelled: u64,
    /// Members that expired.
    pub expired: u64,
    /// Members with an unknown end: they ended longer ago than the retention when they were looked
    /// at, or more than `remembered` tasks of their type have ended since, or they were discarded.
    pub forgotten: u64,
}

impl BatchEnd {
    /// A batch with `total` members, none of which has ended.
    #[must_use]
    pub fn new(name: impl Into<String>, total: u64) -> Self {
        Self {
            name: name.into(),
            total,
            ..Self::default()
        }
    }

    /// The number of members that have ended or are dead.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.done + self.dead + self.cancelled + self.expired + self.forgotten
    }

    /// Counts a member that was found in this state, or not at all. Returns true if it had ended or
    /// was dead; others are not counted.
    #[doc(hidden)]
    pub fn count(&mut self, state: Option<TaskState>) -> bool {
        let count = match state {
            None => &mut self.forgotten,
            Some(TaskState::Done) => &mut self.done,
            Some(TaskState::Dead) => &mut self.dead,
            Some(TaskState::Cancelled) => &mut self.cancelled,
            Some(TaskState::Expired) => &mut self.expired,
            Some(TaskState::Scheduled | TaskState::Running) => return false,
        };
        *count += 1;
        true
    }
}
