//! Rule for an id that is taken.

use std::time::Duration;

/// The rule if the type already has a task with this id that has not ended.
///
/// The same request sent again (same message, headers, times) is answered `AlreadyExists`, except
/// for `Replace` with a delay, which restarts the delay, and `Debounce`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Answer `Conflict` and change nothing.
    #[default]
    Reject,
    /// Answer `AlreadyExists` and keep the old task.
    Keep,
    /// Replace a scheduled or dead task; answer `Conflict` while it runs.
    Replace,
    /// Like `Replace`, but a scheduled task that has not been tried yet keeps its submit time, and
    /// the new due time is at most `max_wait` after that.
    Debounce {
        /// Longest wait of the task, from the first submit.
        max_wait: Duration,
    },
}

impl OnConflict {
    /// True if a new task replaces a scheduled or dead one, and also an ended one for the same
    /// request.
    #[must_use]
    pub fn replaces(self) -> bool {
        matches!(self, Self::Replace | Self::Debounce { .. })
    }
}
