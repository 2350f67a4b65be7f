//! Rule for an id that is taken.

use std::time::Duration;

/// What to do when the type already has a task with this id that has not ended.
///
/// The same request sent again (same message, headers, times) is answered `AlreadyExists`, but for
/// `Replace` with a delay, which counts anew, and `Debounce`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Answer `Conflict` and change nothing.
    #[default]
    Reject,
    /// Answer `AlreadyExists` and keep the old task.
    Keep,
    /// Put the new task in the place of a scheduled or dead one; `Conflict` while it runs.
    Replace,
    /// As `Replace`, but a scheduled task that has not been tried yet keeps the time at which it
    /// was submitted, and the new due time is at most `max_wait` after that.
    Debounce {
        /// Longest wait of the task, from the first submit on.
        max_wait: Duration,
    },
}

impl OnConflict {
    /// Whether a new task takes the place of a scheduled or dead one, and of an ended one even for
    /// the same request.
    #[must_use]
    pub fn replaces(self) -> bool {
        matches!(self, Self::Replace | Self::Debounce { .. })
    }
}
