//! Counts of a batch, as its completion task gets them.

use serde::{Deserialize, Serialize};

use crate::state::TaskState;

/// The header of a completion task: the [`BatchEnd`] as JSON.
pub const BATCH_HEADER: &str = "delayq-batch";

/// A batch and what became of its members; they add up to [`ended`](Self::ended).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct BatchEnd {
    /// The batch's name.
    pub name: String,
    /// Its members.
    pub total: u64,
    /// Those whose workers succeeded.
    pub done: u64,
    /// Those that were dead when they were looked at.
    pub dead: u64,
    /// Those that were cancelled.
    pub cancelled: u64,
    /// Those that expired.
    pub expired: u64,
    /// Those that ended longer before they were looked at than the retention, or before more ends
    /// of their type than are `remembered`, or were discarded: how is not known.
    pub forgotten: u64,
}

impl BatchEnd {
    /// A batch of so many members, none of which has ended.
    #[must_use]
    pub fn new(name: impl Into<String>, total: u64) -> Self {
        Self {
            name: name.into(),
            total,
            ..Self::default()
        }
    }

    /// How many members have ended, or are dead.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.done + self.dead + self.cancelled + self.expired + self.forgotten
    }

    /// Counts a member that was found in this state, or not at all. Returns whether it had ended or
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
