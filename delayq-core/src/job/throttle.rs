//! Windows of a throttle, with one task of an id in each.

use std::time::Duration;

use super::{OnConflict, When};
use crate::error::{Error, Result};
use crate::name::MAX_TASK_ID_BYTES;
use crate::time::{Timestamp, duration_ms};

/// Length of the windows of a throttled job, which are counted from the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Throttle(pub(super) Duration);

impl Throttle {
    /// Refuses options that a throttle sets itself.
    pub(super) fn check(self, when: When, on_conflict: OnConflict) -> Result<()> {
        let reason = if self.0.is_zero() {
            "the window is 0: write such as 1m"
        } else if when != When::After(Duration::ZERO) {
            "the task is due at the end of its window: leave out .after(..) and .at(..)"
        } else if on_conflict.replaces() {
            "the first message of a window is kept: leave out .replace() and .debounce(..)"
        } else {
            return Ok(());
        };
        Err(Error::invalid("throttle", reason))
    }

    /// The end of the window that contains `now`.
    pub(super) fn end(self, now: Timestamp) -> Timestamp {
        let window = duration_ms(self.0).max(1);
        let begin = now.as_millis() / window * window;
        Timestamp::from_millis(begin).plus(self.0)
    }

    /// The task id for `id` in the window that ends at `end`.
    pub(super) fn task_id(id: &str, end: Timestamp) -> Result<String> {
        let task_id = format!("{id}@{end}");
        if task_id.len() <= MAX_TASK_ID_BYTES {
            return Ok(task_id);
        }
        Err(Error::LimitExceeded {
            what: "length of the id of a throttled job, in bytes",
            actual: id.len() as u64,
            limit: MAX_TASK_ID_BYTES.saturating_sub(task_id.len() - id.len()) as u64,
        })
    }
}
