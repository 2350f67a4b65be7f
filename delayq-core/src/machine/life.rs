//! The record of a life, made from the stored form of its task.

use crate::history::{Life, LifeOutcome, PROJECT_HEADER, label};
use crate::job::GROUP_HEADER;
use crate::name::{TaskId, TaskType};
use crate::task::{Headers, TaskInfo};
use crate::time::Timestamp;

use super::ErrorLog;

/// What a store knows of a task that ends.
#[derive(Clone, Debug)]
pub struct EndFacts {
    /// The task.
    pub id: TaskId,
    /// The way in which it ends.
    pub outcome: LifeOutcome,
    /// The time when it was accepted.
    pub submitted_at: Timestamp,
    /// The requested due time.
    pub due_at: Timestamp,
    /// The time of its end.
    pub ended_at: Timestamp,
    /// The fence of its present lock, or else of the one settled last; 0 for none.
    pub fence: u64,
    /// True if it was running until now.
    pub is_running: bool,
    /// Attempts made, with the one that ends.
    pub attempts: u32,
    /// Its headers.
    pub headers: Headers,
    /// Its last holder.
    pub holder: Option<String>,
    /// Its last error.
    pub error: Option<String>,
    /// The stored log of its errors.
    pub errors: String,
    /// The size of its message in bytes.
    pub message_bytes: u64,
    /// The part of its message that is kept.
    pub message: Option<Vec<u8>>,
}

impl EndFacts {
    /// The record of the life that ends.
    #[must_use]
    pub fn into_life(mut self, task_type: TaskType) -> Life {
        let ended_at = self.ended_at;
        if TaskInfo::claimed_at(self.fence) < self.submitted_at {
            // The lock was that of an earlier life.
            self.fence = 0;
        }
        let started_at = (self.fence > 0).then(|| TaskInfo::claimed_at(self.fence).min(ended_at));
        let run = started_at
            .filter(|_| self.is_running)
            .map(|start| ended_at.since(start).as_millis());
        let mut life = Life::new(task_type, self.id, self.outcome, ended_at);
        life.submitted_at = self.submitted_at;
        life.due_at = self.due_at;
        life.started_at = started_at;
        life.run_ms = run.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX));
        life.fence = self.fence;
        life.attempts = self.attempts;
        life.group = self.headers.remove(GROUP_HEADER).map(|text| label(&text));
        life.project = self.headers.remove(PROJECT_HEADER).map(|text| label(&text));
        life.holder = self.holder;
        life.error = self.error;
        life.errors = ErrorLog::read(&self.errors, self.due_at).errors;
        life.message_bytes = self.message_bytes;
        life.message = self.message;
        life
    }
}
