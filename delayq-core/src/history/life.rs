//! The record of one life.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::LifeOutcome;
use crate::name::{TaskId, TaskType};
use crate::redacted::RedactedMessage;
use crate::task::PastError;
use crate::time::{Timestamp, duration_ms};

/// The header that names the project of a task. The group is in
/// [`GROUP_HEADER`](crate::job::GROUP_HEADER).
pub const PROJECT_HEADER: &str = "project";

/// Maximum length of a group or project in a record, in bytes: what an index of any database takes.
pub const MAX_LABEL: usize = 512;

/// A group or project as a record has it: without zero characters, which PostgreSQL refuses, and
/// cut to [`MAX_LABEL`].
#[must_use]
pub fn label(text: &str) -> String {
    let clean = text.replace('\0', "\u{fffd}");
    let end = clean.floor_char_boundary(MAX_LABEL);
    clean.get(..end).unwrap_or_default().to_owned()
}

/// The bytes of a record besides its texts and its message.
const FIXED_BYTES: u64 = 64;

/// The record of one life of a task: from its submit to its end.
///
/// Type, id, [`submitted_at`](Self::submitted_at), [`ended_at`](Self::ended_at),
/// [`fence`](Self::fence) and [`outcome`](Self::outcome) tell it from every other life in its
/// namespace. In JSON its times are milliseconds since the epoch.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Life {
    /// The type of the task.
    #[serde(rename = "type")]
    pub task_type: TaskType,
    /// The task.
    pub id: TaskId,
    /// The way in which it ended.
    pub outcome: LifeOutcome,
    /// The time when it was accepted.
    pub submitted_at: Timestamp,
    /// The due time set by its last submit, reschedule or requeue.
    pub due_at: Timestamp,
    /// The time when its last attempt was claimed, if that is known.
    pub started_at: Option<Timestamp>,
    /// The time of its end.
    pub ended_at: Timestamp,
    /// The run time of the attempt that ended with the task, in milliseconds; `None` if none did.
    pub run_ms: Option<u64>,
    /// The fence of its last lock; 0 if it had none.
    pub fence: u64,
    /// Attempts made since its submit or last requeue.
    pub attempts: u32,
    /// Its group, from its headers.
    pub group: Option<String>,
    /// Its project, from its headers.
    pub project: Option<String>,
    /// The instance that made the last attempt, by the short form of its identity.
    pub holder: Option<String>,
    /// Its last error.
    pub error: Option<String>,
    /// Its last errors and expired locks, newest first, at most
    /// [`MAX_PAST_ERRORS`](crate::task::MAX_PAST_ERRORS).
    pub errors: Vec<PastError>,
    /// The size of its message in bytes.
    pub message_bytes: u64,
    /// The kept part of its message; `None` if nothing of it is kept.
    #[serde(serialize_with = "crate::task::message")]
    pub message: Option<Vec<u8>>,
}

impl Life {
    /// A life that ended at `ended_at`, accepted and due then, with all other fields empty.
    #[must_use]
    pub fn new(task_type: TaskType, id: TaskId, outcome: LifeOutcome, ended_at: Timestamp) -> Self {
        Self {
            task_type,
            id,
            outcome,
            submitted_at: ended_at,
            due_at: ended_at,
            started_at: None,
            ended_at,
            run_ms: None,
            fence: 0,
            attempts: 0,
            group: None,
            project: None,
            holder: None,
            error: None,
            errors: Vec::new(),
            message_bytes: 0,
            message: None,
        }
    }

    /// What tells it from every other life in its namespace, as text: type, id, times of its submit
    /// and its end, fence and outcome.
    #[must_use]
    pub fn key(&self) -> String {
        let (submitted, ended) = (self.submitted_at.as_millis(), self.ended_at.as_millis());
        format!(
            "{}/{}/{submitted}/{ended}/{}/{}",
            self.task_type, self.id, self.fence, self.outcome
        )
    }

    /// How long after its due time its first known attempt started; `None` if none is known.
    #[must_use]
    pub fn late(&self) -> Option<Duration> {
        let earlier = self.errors.iter().filter_map(|error| error.started_at);
        let starts = earlier.chain(self.started_at);
        let first = starts.filter(|start| *start >= self.due_at).min()?;
        Some(first.since(self.due_at))
    }

    /// [`late`](Self::late) in milliseconds, for a database.
    #[must_use]
    pub fn late_ms(&self) -> Option<i64> {
        self.late().map(duration_ms)
    }

    /// The bytes that it counts in a [bound](super::EndsStatus::limit): its texts, its message and
    /// 64.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let texts = [&self.group, &self.project, &self.holder, &self.error];
        let texts = texts.into_iter().flatten().map(String::len);
        let errors = self.errors.iter().map(|error| error.error.len() + 32);
        let message = self.message.as_ref().map_or(0, Vec::len);
        let parts = texts.chain(errors).chain([self.id.as_str().len(), message]);
        FIXED_BYTES + parts.sum::<usize>() as u64
    }

    /// Its errors as a JSON array, for a database; `None` if there are none.
    #[must_use]
    pub fn errors_text(&self) -> Option<String> {
        if self.errors.is_empty() {
            return None;
        }
        serde_json::to_string(&self.errors).ok()
    }

    /// Errors from their form in a database. A damaged text reads as none.
    #[must_use]
    pub fn read_errors(text: Option<&str>) -> Vec<PastError> {
        let read = text.and_then(|text| serde_json::from_str(text).ok());
        read.unwrap_or_default()
    }
}

impl fmt::Debug for Life {
    /// Shows only the length of the message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Life")
            .field("task_type", &self.task_type)
            .field("id", &self.id)
            .field("outcome", &self.outcome)
            .field("submitted_at", &self.submitted_at)
            .field("due_at", &self.due_at)
            .field("started_at", &self.started_at)
            .field("ended_at", &self.ended_at)
            .field("run_ms", &self.run_ms)
            .field("fence", &self.fence)
            .field("attempts", &self.attempts)
            .field("group", &self.group)
            .field("project", &self.project)
            .field("holder", &self.holder)
            .field("error", &self.error)
            .field("errors", &self.errors)
            .field("message_bytes", &self.message_bytes)
            .field("message", &self.message.as_deref().map(RedactedMessage))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_as_late_as_its_first_known_attempt() {
        let at = Timestamp::from_millis;
        let (task_type, id) = (TaskType::new("a").unwrap(), TaskId::new("b").unwrap());
        let mut life = Life::new(task_type, id, LifeOutcome::Done, at(900));
        life.due_at = at(100);
        assert_eq!(life.late_ms(), None);
        life.started_at = Some(at(800));
        assert_eq!(life.late_ms(), Some(700));
        let mut first = PastError::new(at(300), 1, "no van");
        first.started_at = Some(at(130));
        let mut before_a_requeue = PastError::new(at(80), 3, "no van");
        before_a_requeue.started_at = Some(at(70));
        life.errors = vec![first, before_a_requeue];
        assert_eq!(life.late_ms(), Some(30));
        let text = life.errors_text();
        assert_eq!(Life::read_errors(text.as_deref()), life.errors);
        assert_eq!(Life::read_errors(Some("[")), []);
    }
}
