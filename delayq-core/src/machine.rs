//! Decisions of the operations, without any I/O.
//!
//! [`Bookkeeping`] is the part of a task that operations read and change before it has ended;
//! [`Ended`] is the record of an ended one. A store reads the first, asks for a decision, and
//! writes the result. The memory store and the SQLite store share these functions; `delayq-redis`
//! has the same decisions in Lua, because they have to be taken inside the server.

mod bookkeeping;
mod claim;
mod error_log;
mod fence;
mod gate;
mod life;
mod outlook;
mod rate_limiter;
mod settle;
mod submit;

pub use bookkeeping::{Bookkeeping, Ended, Settled};
pub use claim::{Claiming, Quota, Record, claim, lock_expired};
pub use error_log::{ERROR_LOG_CHARS, ErrorLog, expiry_text, one_line};
pub use fence::{MAX_FENCE, loss, next_fence};
pub use gate::{Gate, Stored};
pub use life::EndFacts;
pub use outlook::Outlook;
pub use rate_limiter::RateLimiter;
pub use settle::{Settling, extend, settle, settle_ended};
pub use submit::{Accepted, Asked, Bound, Existing, Submission, accepted, submit};

use crate::job::When;
use crate::state::TaskState;
use crate::store::{CancelOutcome, ChangeOutcome};
use crate::time::{MAX_DELAY, Reading, Timestamp};

/// The due time for `when` at `reading`. A past time means now. A delay counts from the reading
/// rounded up, so that it is never cut short; one beyond [`MAX_DELAY`] is that long.
#[must_use]
pub fn due_at(when: When, reading: Reading) -> Timestamp {
    match when {
        When::After(delay) if delay.is_zero() => reading.now,
        When::After(delay) => reading.rounded_up().plus(delay.min(MAX_DELAY)),
        When::At(time) => time.max(reading.now),
    }
}

/// The answer to a cancel. On `Cancelled` the task ends as cancelled; on `Running` its bookkeeping
/// gets a cancel request; else nothing changes.
pub fn cancel(state: Option<TaskState>) -> CancelOutcome {
    match state {
        None => CancelOutcome::NotFound,
        Some(TaskState::Scheduled) => CancelOutcome::Cancelled,
        Some(TaskState::Running) => CancelOutcome::Running,
        Some(state) => CancelOutcome::Finished(state),
    }
}

/// The answer to a reschedule or an update after which the task is due at `due_at`. Anything
/// changes only on `Changed`.
pub fn change(state: Option<TaskState>, due_at: Timestamp) -> ChangeOutcome {
    match state {
        None => ChangeOutcome::NotFound,
        Some(TaskState::Scheduled) => ChangeOutcome::Changed { due_at },
        Some(TaskState::Running) => ChangeOutcome::Running,
        Some(state) => ChangeOutcome::Finished(state),
    }
}

#[cfg(test)]
mod tests;
