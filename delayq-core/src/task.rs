//! Tasks and locks as returned by a store's operations.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::name::TaskId;
use crate::redacted::{RedactedHeaders, RedactedMessage};
pub use crate::state::TaskState;
use crate::time::Timestamp;

mod past_error;
mod waits_for;

pub(crate) use past_error::{HELD_BY, LOCK_EXPIRED};
pub use past_error::{MAX_PAST_ERROR_BYTES, MAX_PAST_ERRORS, PastError};
pub use waits_for::WaitsFor;

/// Headers of a task: names and values that travel with the message.
pub type Headers = BTreeMap<String, String>;

/// Sets new values for headers, but only for headers that exist.
pub fn replace_headers(headers: &mut Headers, values: &Headers) {
    for (name, value) in values {
        if let Some(present) = headers.get_mut(name) {
            present.clone_from(value);
        }
    }
}

/// A bucket's view of a task: its id and its due time.
///
/// Ordered like the tasks of a bucket: by due time, then by id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskDetail {
    /// The time when the task should start next.
    pub due_at: Timestamp,
    /// The task.
    pub id: TaskId,
}

/// The lease that a claim takes on one task, proven by its fence.
///
/// The fence strictly increases from one lock of a task to the next, also across restarts of the
/// store. Pass it to the systems that the worker writes to: a system that refuses a fence smaller
/// than the largest it has seen is safe from a holder that has lost its lock without knowing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    /// The locked task.
    pub id: TaskId,
    /// The number of this lock; below 2^53.
    pub fence: u64,
}

/// The history of a task, apart from its first submission; all zero for most tasks.
///
/// Starts - 1 = failures + lock expiries + releases since it was submitted or last requeued.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AttemptHistory {
    /// Attempts that ended in an error.
    pub failures: u32,
    /// Attempts whose lock expired: their holder crashed, hung or lost the store.
    pub lock_expiries: u32,
    /// Times the task was given back without using up an attempt.
    pub releases: u32,
    /// Times an operator took the task out of dead.
    pub requeues: u32,
    /// The last error, or the cause of death; at most
    /// [`MAX_ERROR_BYTES`](crate::store::MAX_ERROR_BYTES).
    pub last_error: Option<String>,
    /// Workers of the type that have already succeeded; a retry leaves them out. The plugin writes
    /// them.
    pub succeeded: Vec<String>,
    /// The [note](crate::store::Settlement::note) of the last settlement that had one, at most
    /// [`MAX_NOTE_BYTES`](crate::store::MAX_NOTE_BYTES). A requeue keeps it; a task that is
    /// submitted anew, also in the place of another one, begins without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl AttemptHistory {
    /// The number of attempts that a retry policy counts, the next or present one included. An
    /// attempt whose lock expired is none of them: its process may have ended for any reason.
    #[must_use]
    pub fn tried(&self) -> u32 {
        self.failures.saturating_add(1)
    }

    /// The number of the next attempt: 1 for a task that never ran.
    #[must_use]
    pub fn next_attempt(&self) -> u32 {
        self.failures
            .saturating_add(self.lock_expiries)
            .saturating_add(1)
    }
}

/// A task as returned by a claim.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimedTask {
    /// Proof of the claim.
    pub lock: Lock,
    /// The time when the lock expires, by the store's clock.
    pub lock_until: Timestamp,
    /// 1-based count of starts since the submit or the last requeue; a release does not count.
    pub attempt: u32,
    /// The due time of this attempt. For the repeat of an expired lock: the due time set by the
    /// last submit, reschedule or requeue.
    pub due_at: Timestamp,
    /// The time when the task was accepted.
    pub submitted_at: Timestamp,
    /// The time when it stops being worth running, if it has an expiry.
    pub expires_at: Option<Timestamp>,
    /// The message, byte for byte as sent.
    pub message: Vec<u8>,
    /// The headers as sent.
    pub headers: Headers,
    /// The history before this attempt.
    pub history: AttemptHistory,
    /// True if this claim took the task over from a holder whose lock had expired.
    pub is_taken_over: bool,
}

impl fmt::Debug for ClaimedTask {
    /// Shows only the length of the message and the names of the headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimedTask")
            .field("lock", &self.lock)
            .field("lock_until", &self.lock_until)
            .field("attempt", &self.attempt)
            .field("due_at", &self.due_at)
            .field("submitted_at", &self.submitted_at)
            .field("expires_at", &self.expires_at)
            .field("message", &RedactedMessage(&self.message))
            .field("headers", &RedactedHeaders(&self.headers))
            .field("history", &self.history)
            .field("is_taken_over", &self.is_taken_over)
            .finish()
    }
}

impl ClaimedTask {
    /// A task locked until `lock_until`, first attempt, due and submitted now, with an empty
    /// message.
    #[must_use]
    pub fn new(lock: Lock, lock_until: Timestamp, now: Timestamp) -> Self {
        Self {
            lock,
            lock_until,
            attempt: 1,
            due_at: now,
            submitted_at: now,
            expires_at: None,
            message: Vec::new(),
            headers: Headers::new(),
            history: AttemptHistory::default(),
            is_taken_over: false,
        }
    }
}

/// The state of a task, as returned by queries.
///
/// In JSON its times are milliseconds since the epoch, and its message is text, or an array of
/// bytes if it is not UTF-8.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TaskInfo {
    /// The task.
    pub id: TaskId,
    /// Its state.
    pub state: TaskState,
    /// By state: when it is due (scheduled), when its lock expires (running), when it died (dead),
    /// or when it ended.
    pub at: Timestamp,
    /// The time when it was accepted; `None` once ended.
    pub submitted_at: Option<Timestamp>,
    /// The due time set by the last submit, reschedule or requeue; `None` once ended. The end of a
    /// retry's or a release's wait is only in `at`.
    pub due_at: Option<Timestamp>,
    /// Its expiry time, if it has an expiry and has not ended.
    pub expires_at: Option<Timestamp>,
    /// The number of the current attempt while running, or else of the attempts made.
    pub attempt: u32,
    /// The message; `None` once ended (its memory is freed at once).
    #[serde(serialize_with = "message")]
    pub message: Option<Vec<u8>>,
    /// The headers; empty once ended.
    pub headers: Headers,
    /// The history so far; default once ended.
    pub history: AttemptHistory,
    /// True if a cancel was requested while it runs.
    pub cancel_requested: bool,
    /// The time when the waiting request to run the task again after its end is due, if there is
    /// one.
    pub again_at: Option<Timestamp>,
    /// The time when the present attempt was claimed, by the store's clock, to the millisecond;
    /// only while it runs. Derived from the fence of the lock, so it is later than the real time,
    /// at most now, if more than a thousand tasks of the type were claimed in one millisecond, or
    /// after the store's clock was set back.
    pub started_at: Option<Timestamp>,
    /// The due time of the present attempt; only while it runs, and `None` if the store does not
    /// keep it: as [`PastError::due_at`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt_due_at: Option<Timestamp>,
    /// The instance that holds the lock, by the short form of its identity, see
    /// [`short`](crate::presence::InstanceId::short); only while it runs. `None` if an earlier
    /// release claimed it. While it is alive, the list of
    /// [instances](crate::presence::Presence::instances) shows its host.
    pub holder: Option<String>,
    /// The last errors and expired locks, newest first, at most [`MAX_PAST_ERRORS`]; empty once
    /// ended. They are kept through a requeue. An error stored by an earlier release is only in
    /// [`last_error`](AttemptHistory::last_error), and on Redis replaces the earlier ones.
    pub errors: Vec<PastError>,
    /// The reason why it waits; only while it is scheduled.
    pub waits_for: Option<WaitsFor>,
    /// The fence of its lock; only while it runs. A caller that ends or extends an attempt by the
    /// id alone, as protocols without locks do, reads it here first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// The fence of the lock that was settled last; only once ended, and `None` if there was none.
    /// The kept [reply](crate::replies::Replies) with the same fence belongs to this task, and not
    /// to an earlier one with its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_fence: Option<u64>,
}

#[allow(clippy::ref_option, reason = "serde passes the field")]
pub(crate) fn message<S: Serializer>(
    message: &Option<Vec<u8>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match message
        .as_deref()
        .map(|bytes| (str::from_utf8(bytes), bytes))
    {
        None => serializer.serialize_none(),
        Some((Ok(text), _)) => serializer.serialize_some(text),
        Some((Err(_), bytes)) => serializer.serialize_some(bytes),
    }
}

impl fmt::Debug for TaskInfo {
    /// Shows only the length of the message and the names of the headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskInfo")
            .field("id", &self.id)
            .field("state", &self.state)
            .field("at", &self.at)
            .field("submitted_at", &self.submitted_at)
            .field("due_at", &self.due_at)
            .field("expires_at", &self.expires_at)
            .field("attempt", &self.attempt)
            .field("message", &self.message.as_deref().map(RedactedMessage))
            .field("headers", &RedactedHeaders(&self.headers))
            .field("history", &self.history)
            .field("cancel_requested", &self.cancel_requested)
            .field("again_at", &self.again_at)
            .field("started_at", &self.started_at)
            .field("attempt_due_at", &self.attempt_due_at)
            .field("holder", &self.holder)
            .field("errors", &self.errors)
            .field("waits_for", &self.waits_for)
            .field("fence", &self.fence)
            .field("settled_fence", &self.settled_fence)
            .finish()
    }
}

impl TaskInfo {
    /// The time when a fence was issued. A fence is never below that time in microseconds. It is
    /// above it only if more than a thousand were issued in one millisecond, or the clock was set
    /// back.
    pub(crate) fn claimed_at(fence: u64) -> Timestamp {
        Timestamp::from_millis(i64::try_from(fence / 1_000).unwrap_or(i64::MAX))
    }

    /// The time when the last attempt was claimed: the present one, see
    /// [`started_at`](Self::started_at), or the one settled last if the task has ended. `None`
    /// between attempts.
    #[must_use]
    pub fn last_started_at(&self) -> Option<Timestamp> {
        let settled = self.settled_fence.map(Self::claimed_at);
        self.started_at.or(settled.map(|start| start.min(self.at)))
    }

    /// A task in `state` at `at`, with all other fields empty.
    #[must_use]
    pub fn new(id: TaskId, state: TaskState, at: Timestamp) -> Self {
        Self {
            id,
            state,
            at,
            submitted_at: None,
            due_at: None,
            expires_at: None,
            attempt: 0,
            message: None,
            headers: Headers::new(),
            history: AttemptHistory::default(),
            cancel_requested: false,
            again_at: None,
            started_at: None,
            attempt_due_at: None,
            holder: None,
            errors: Vec::new(),
            waits_for: None,
            fence: None,
            settled_fence: None,
        }
    }

    /// The bucket's view of a scheduled task.
    #[must_use]
    pub fn detail(&self) -> Option<TaskDetail> {
        let scheduled = self.state == TaskState::Scheduled;
        scheduled.then(|| TaskDetail {
            due_at: self.at,
            id: self.id.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::{Cursor, Page};

    #[test]
    fn a_task_as_json_has_its_message_as_text_where_it_is_text() {
        let id = TaskId::new("order-42").unwrap();
        let mut info = TaskInfo::new(id.clone(), TaskState::Dead, Timestamp::from_millis(7));
        let message = |info: &TaskInfo| serde_json::to_value(info).unwrap()["message"].clone();
        assert!(message(&info).is_null());
        info.message = Some(b"{\"a\":1}".to_vec());
        assert_eq!(message(&info), "{\"a\":1}");
        info.waits_for = Some(WaitsFor::Pause { until: None });
        info.errors = vec![PastError::new(info.at, 2, "no van")];
        let json = serde_json::to_value(&info).unwrap();
        let waits_for = serde_json::json!({"reason": "pause", "until": null});
        assert_eq!(json["waits_for"], waits_for);
        let errors = serde_json::json!([{"at": 7, "attempt": 2, "error": "no van"}]);
        assert_eq!((&json["errors"], &json["holder"]), (&errors, &().into()));
        assert_eq!(json["history"].get("note"), None);
        info.history.note = Some("pri=7".to_owned());
        let json = serde_json::to_value(&info).unwrap();
        assert_eq!(json["history"]["note"], "pri=7");
        info.message = Some(vec![255, 0]);
        assert_eq!(message(&info), serde_json::json!([255, 0]));
        let page = Page {
            tasks: vec![info],
            next: Some(Cursor::new(Timestamp::from_millis(7), id)),
        };
        let page = serde_json::to_value(&page).unwrap();
        assert_eq!(page["tasks"][0]["id"], "order-42");
        assert_eq!(
            (&page["tasks"][0]["state"], &page["tasks"][0]["at"]),
            (&"dead".into(), &7.into())
        );
        let cursor: Cursor = serde_json::from_value(page["next"].clone()).unwrap();
        assert_eq!(cursor.at, Timestamp::from_millis(7));
        assert!(serde_json::from_str::<TaskId>("\"a b\"").is_err());
    }
}
