//! Accepted form of a job.

use std::fmt;
use std::time::Duration;

use super::throttle::Throttle;
use super::{Expiry, OnConflict, When};
use crate::error::Result;
use crate::name::{TaskId, TaskType};
use crate::redacted::{RedactedHeaders, RedactedMessage};
use crate::task::Headers;
use crate::time::Timestamp;

/// A task ready for a store: every field validated.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewTask {
    /// Its type.
    pub task_type: TaskType,
    /// Its id, unique within the type.
    pub id: TaskId,
    /// Its due time.
    pub when: When,
    /// Its expiry time.
    pub expiry: Option<Expiry>,
    /// The rule if the id is taken.
    pub on_conflict: OnConflict,
    /// True if it is to run after the task with its id, should that be running at the submit.
    pub again_if_running: bool,
    /// The message.
    pub message: Vec<u8>,
    /// The headers.
    pub headers: Headers,
}

impl fmt::Debug for NewTask {
    /// Shows only the length of the message and the names of the headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewTask")
            .field("task_type", &self.task_type)
            .field("id", &self.id)
            .field("when", &self.when)
            .field("expiry", &self.expiry)
            .field("on_conflict", &self.on_conflict)
            .field("again_if_running", &self.again_if_running)
            .field("message", &RedactedMessage(&self.message))
            .field("headers", &RedactedHeaders(&self.headers))
            .finish()
    }
}

impl NewTask {
    /// A task due now, with no options.
    #[must_use]
    pub fn new(task_type: TaskType, id: TaskId, message: Vec<u8>) -> Self {
        Self {
            task_type,
            id,
            when: When::After(Duration::ZERO),
            expiry: None,
            on_conflict: OnConflict::default(),
            again_if_running: false,
            message,
            headers: Headers::new(),
        }
    }

    /// The one task of its id and `window`, see
    /// [`DelayQueueJob::throttle`](super::DelayQueueJob::throttle). `now` is the caller's clock.
    ///
    /// # Errors
    /// [`Error::InvalidInput`](crate::Error::InvalidInput) for a window of 0 and for options that a
    /// throttle sets itself; [`Error::LimitExceeded`](crate::Error::LimitExceeded) if the id has no
    /// room for the window.
    pub fn throttled(mut self, window: Duration, now: Timestamp) -> Result<Self> {
        let throttle = Throttle(window);
        throttle.check(self.when, self.on_conflict)?;
        let end = throttle.end(now);
        self.id = TaskId::new(Throttle::task_id(self.id.as_str(), end)?)?;
        self.when = When::At(end);
        self.on_conflict = OnConflict::Keep;
        Ok(self)
    }
}
