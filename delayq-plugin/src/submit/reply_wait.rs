//! Waiting for the end of a task and for its worker's reply.

use std::time::Duration;

use delayq_core::reply::KeptReply;
use delayq_core::{Error, Result, TaskId, TaskInfo, TaskState, TaskType, millis};
use serde::de::DeserializeOwned;

use super::TaskSubmitService;
use crate::events::EndAlarm;

/// The first and the longest pause between two polls; each pause is twice the one before.
const FIRST_PAUSE: Duration = millis(5);
const LONGEST_PAUSE: Duration = millis(250);

/// The result of waiting for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskReply {
    /// The task's type.
    pub task_type: TaskType,
    /// The task's id, for waiting again after a time-out.
    pub id: TaskId,
    /// How the task ended, if it has.
    pub outcome: ReplyOutcome,
}

/// The end of a task, as its waiter sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyOutcome {
    /// The task is done, and its worker replied.
    Replied(KeptReply),
    /// The task is done. Its worker gave no reply, or the reply's retention is over.
    Done,
    /// The task is dead: it waits for an operator.
    Dead {
        /// The reason.
        error: String,
    },
    /// The task was cancelled.
    Cancelled,
    /// The task was too late to be worth running.
    Expired,
    /// The task has not ended in time, and goes on.
    TimedOut,
    /// No such task is known: there never was one, it was discarded, or it ended longer ago than
    /// the retention.
    Unknown,
}

impl TaskReply {
    /// The answer for a task that has not ended yet.
    #[must_use]
    pub fn pending(task_type: TaskType, id: TaskId) -> Self {
        Self {
            task_type,
            id,
            outcome: ReplyOutcome::TimedOut,
        }
    }

    /// The body of the reply; `None` for any other outcome.
    #[must_use]
    pub fn body(&self) -> Option<&[u8]> {
        match &self.outcome {
            ReplyOutcome::Replied(reply) => Some(&reply.body),
            _ => None,
        }
    }

    /// Parses the reply as JSON.
    ///
    /// # Errors
    /// `InvalidInput` if there is no reply (the error says how the task ended), and for a reply
    /// that is not the JSON of an `R`.
    pub fn json<R: DeserializeOwned>(&self) -> Result<R> {
        let refused = |reason: String| Error::invalid("reply", reason);
        let (task_type, id) = (&self.task_type, &self.id);
        let body = self.body().ok_or_else(|| {
            let outcome = &self.outcome;
            refused(format!("{id} of {task_type} has none: {outcome:?}"))
        })?;
        serde_json::from_slice(body).map_err(|error| refused(format!("of {id}: {error}")))
    }
}

/// A wait for the end of a task.
#[derive(Debug)]
pub(super) struct ReplyWait<'a> {
    service: &'a TaskSubmitService,
    task_type: TaskType,
    id: TaskId,
    alarm: EndAlarm,
}

impl<'a> ReplyWait<'a> {
    /// From now on an end in this process is noticed at once.
    pub(super) fn new(service: &'a TaskSubmitService, task_type: TaskType, id: TaskId) -> Self {
        Self {
            alarm: service.telemetry.hub.alarm(&task_type, &id),
            service,
            task_type,
            id,
        }
    }

    /// Waits for the end of the task, until `until` by the clock's elapsed time.
    pub(super) async fn end(self, until: Duration) -> Result<TaskReply> {
        let clock = &self.service.clock;
        let mut pause = FIRST_PAUSE;
        let outcome = loop {
            let asked = self.ask().await;
            let now = clock.elapsed();
            match asked {
                Ok(Some(outcome)) => break outcome,
                Ok(None) if now >= until => break ReplyOutcome::TimedOut,
                Err(error) if now >= until || !error.is_transient() => return Err(error),
                Ok(None) | Err(_) => {}
            }
            let next = now.saturating_add(pause).min(until);
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
            tokio::select! {
                () = self.alarm.rung() => {}
                () = clock.sleep_until(next) => {}
            }
        };
        Ok(TaskReply {
            task_type: self.task_type,
            id: self.id,
            outcome,
        })
    }

    /// The end of the task; `None` before it has ended.
    async fn ask(&self) -> Result<Option<ReplyOutcome>> {
        let store = self.service.store();
        let found = store.find(&self.task_type, &self.id).await?;
        let state = found.as_ref().map(|task| task.state);
        Ok(match (state, found) {
            (Some(TaskState::Scheduled | TaskState::Running), _) => None,
            (Some(TaskState::Cancelled), _) => Some(ReplyOutcome::Cancelled),
            (Some(TaskState::Expired), _) => Some(ReplyOutcome::Expired),
            (Some(TaskState::Dead), Some(task)) => Some(ReplyOutcome::Dead {
                error: task.history.last_error.unwrap_or_default(),
            }),
            (_, found) => Some(self.reply_of(found.as_ref()).await?),
        })
    }

    /// The reply of a task that is done, or is no longer known.
    async fn reply_of(&self, done: Option<&TaskInfo>) -> Result<ReplyOutcome> {
        let kept = match self.service.store().reply(&self.task_type, &self.id).await {
            // A store that does not support replies keeps none.
            Err(Error::Unsupported(_)) => None,
            kept => kept?,
        };
        // Drops a reply with another fence: it is from an attempt that did not end the task, or
        // from an earlier task.
        let settled = done.and_then(|task| task.settled_fence);
        let own = kept.filter(|reply| settled.is_none_or(|fence| fence == reply.fence));
        Ok(match (own, done) {
            (Some(reply), _) => ReplyOutcome::Replied(reply),
            (None, Some(_)) => ReplyOutcome::Done,
            (None, None) => ReplyOutcome::Unknown,
        })
    }
}
