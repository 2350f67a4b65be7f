//! An error of an earlier attempt.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Maximum number of errors of one task shown by a query: the last ones.
pub const MAX_PAST_ERRORS: usize = 5;

/// Maximum length of the text of a [`PastError`], in bytes.
pub const MAX_PAST_ERROR_BYTES: usize = 200;

/// The text for an expired lock, and the text before its holder, if that is known.
pub(crate) const LOCK_EXPIRED: &str = "its lock expired";
pub(crate) const HELD_BY: &str = ", held by ";

/// The failure of one attempt, or the expiry of its lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PastError {
    /// The time when it was stored, by the store's clock. For an expired lock: when a claim found
    /// it.
    pub at: Timestamp,
    /// The attempt, counted as in [`TaskInfo::attempt`](super::TaskInfo::attempt); 0 if none was
    /// made.
    pub attempt: u32,
    /// The beginning of the error, at most [`MAX_PAST_ERROR_BYTES`], with spaces instead of control
    /// characters; or `its lock expired`, with its holder.
    pub error: String,
    /// The time when the attempt was claimed, see
    /// [`TaskInfo::started_at`](super::TaskInfo::started_at); `None` if none was made, and for an
    /// error stored by an earlier release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// The due time of the attempt; `None` if the store does not know: after a release, and if a
    /// later reschedule or requeue set another time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// The instance that made the attempt, by the short form of its identity, see
    /// [`short`](crate::presence::InstanceId::short); `None` if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

    /// True if this is the expiry of a lock, and no failure.
    #[must_use]
    pub fn is_expired_lock(&self) -> bool {
        self.error == LOCK_EXPIRED || self.expired_holder().is_some()
    }

    /// The holder of the expired lock that ended the attempt, by the short form of its identity;
    /// `None` for an attempt that failed, and if the holder is not known.
    #[must_use]
    pub fn expired_holder(&self) -> Option<&str> {
        self.error.strip_prefix(LOCK_EXPIRED)?.strip_prefix(HELD_BY)
    }
}
