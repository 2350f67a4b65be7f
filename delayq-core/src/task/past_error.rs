//! An error of an earlier attempt.

use serde::Serialize;

use crate::time::Timestamp;

/// Most errors that a query shows of one task: the last ones.
pub const MAX_PAST_ERRORS: usize = 5;

/// Most bytes of a text that [`PastError`] shows.
pub const MAX_PAST_ERROR_BYTES: usize = 200;

/// What is noted of an expired lock, and what stands before its holder, if that is known.
pub(crate) const LOCK_EXPIRED: &str = "its lock expired";
pub(crate) const HELD_BY: &str = ", held by ";

/// How one attempt failed, or that its lock expired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PastError {
    /// When it was stored, on the store's clock. That of an expired lock: when a claim found it.
    pub at: Timestamp,
    /// The attempt, as [`TaskInfo::attempt`](super::TaskInfo::attempt) counts; 0 if none was made.
    pub attempt: u32,
    /// The beginning of the error, at most [`MAX_PAST_ERROR_BYTES`], its control characters as
    /// blanks; or `its lock expired`, with its holder.
    pub error: String,
    /// When the attempt was claimed, see [`TaskInfo::started_at`](super::TaskInfo::started_at);
    /// `None` where none was made, and of what an earlier release has stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When the attempt was due; `None` where that is not kept: after a release, and where a later
    /// reschedule or requeue gave another time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// The instance that made the attempt, by the short form of its identity, see
    /// [`short`](crate::presence::InstanceId::short); `None` where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
}

impl PastError {
    /// The error of an attempt.
    #[must_use]
    pub fn new(at: Timestamp, attempt: u32, error: impl Into<String>) -> Self {
        let error = error.into();
        Self {
            at,
            attempt,
            error,
            started_at: None,
            due_at: None,
            holder: None,
        }
    }

    /// Who held the lock by whose expiry the attempt ended, by the short form of its identity;
    /// `None` of an attempt that failed, and where the holder is not known.
    #[must_use]
    pub fn expired_holder(&self) -> Option<&str> {
        self.error.strip_prefix(LOCK_EXPIRED)?.strip_prefix(HELD_BY)
    }
}
