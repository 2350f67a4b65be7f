//! The known events of a task, in order.

use std::time::Duration;

use delayq_plugin::{Result, TaskInfo, TaskState, TaskSubmitService, Timestamp};
use serde::Serialize;

use crate::explain::{Explanation, Holder, Subject};
use crate::span::{self, said};

/// One moment of a task's life.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Moment {
    /// The time, by the store's clock; `None` if only the number of such moments is stored.
    pub at: Option<Timestamp>,
    /// The past, present or future event. In JSON its fields are flattened into this object.
    #[serde(flatten)]
    pub kind: MomentKind,
    /// The event as an English phrase, without line breaks.
    pub text: String,
}

/// The kind of a moment. In JSON an object whose `what` is the name in snake case.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "what")]
#[non_exhaustive]
pub enum MomentKind {
    /// The store accepted the task.
    Submitted,
    /// The due time set by its last submit, reschedule or requeue; earlier ones are not kept.
    Due,
    /// Attempts that failed or lost their lock and whose errors are no longer kept.
    Forgotten {
        /// Their number.
        attempts: u32,
    },
    /// It was given back without counting an attempt; the time is not kept.
    Released {
        /// The number of times.
        times: u32,
    },
    /// An operator took it out of dead; the time is not kept.
    Requeued {
        /// The number of times.
        times: u32,
    },
    /// An attempt failed, or its lock expired.
    Failed {
        /// The attempt.
        attempt: u32,
        /// Its error, cut to 200 bytes; or the expiry of its lock, with its holder.
        error: String,
        /// The instance that made it, if known.
        holder: Option<Holder>,
    },
    /// An attempt was claimed and started: a failed one, the present one, or the last one of a task
    /// that is done.
    Started {
        /// The attempt.
        attempt: u32,
        /// The instance that runs it, if known; not kept for a task that is done.
        holder: Option<Holder>,
        /// Its due time; `None` if that is not kept: see
        /// [`due_at`](delayq_plugin::PastError::due_at), and for a task that is done.
        due_at: Option<Timestamp>,
        /// How long after that it started.
        #[serde(rename = "late_ms", serialize_with = "span::optional_millis")]
        late: Option<Duration>,
    },
    /// It ended, or died.
    Ended {
        /// The state in which it ended.
        state: TaskState,
        /// Its last error, if kept.
        error: Option<String>,
    },
    /// The present, and the reason for the task's state: [`Explanation::sentence`].
    Now,
    /// Its next attempt is due.
    Next {
        /// The number of that attempt.
        attempt: u32,
    },
    /// Its lock expires, unless its holder extends it, as a living holder does.
    LockExpires,
    /// The request to run it again after its end is due.
    Again,
    /// From here on it does not start any more.
    Expires,
}

/// The life of a task: submitted, due, each known attempt, the present, and the next events. Empty
/// for a task unknown to the store.
///
/// The store keeps the last five failed attempts of a task, each with its due time, start, end and
/// holder, and counts the others. For an ended task it keeps the start and the end of its last
/// attempt.
///
/// Makes the same calls as [`explain`](crate::explain()).
///
/// # Errors
/// As [`explain`](crate::explain()).
pub async fn timeline(tasks: &TaskSubmitService, task_type: &str, id: &str) -> Result<Vec<Moment>> {
    let subject = Subject::read(tasks, task_type, id).await?;
    let explained = subject.explanation(tasks).await?;
    let moments = subject.task.as_ref().map(|task| {
        let mut moments = past(&subject, task);
        moments.extend(present(&subject, task, &explained));
        moments.extend(to_come(task, explained.now));
        // Moments without a time come right after the submit.
        moments.sort_by_key(|moment| moment.at.or(task.submitted_at));
        moments
    });
    Ok(moments.unwrap_or_default())
}

fn moment(at: Option<Timestamp>, kind: MomentKind, text: impl Into<String>) -> Moment {
    let text = text.into();
    Moment { at, kind, text }
}

/// The moments before the present attempt.
fn past(subject: &Subject, task: &TaskInfo) -> Vec<Moment> {
    let mut moments = Vec::new();
    if let Some(at) = task.submitted_at {
        moments.push(moment(
            Some(at),
            MomentKind::Submitted,
            "accepted by the store",
        ));
    }
    let history = &task.history;
    if history.requeues > 0 {
        let (times, text) = (
            history.requeues,
            times("taken out of dead", history.requeues),
        );
        moments.push(moment(None, MomentKind::Requeued { times }, text));
    }
    if history.releases > 0 {
        let (times, text) = (history.releases, times("given back", history.releases));
        moments.push(moment(None, MomentKind::Released { times }, text));
    }
    let kept = u32::try_from(task.errors.len()).unwrap_or(u32::MAX);
    let failed = history.failures.saturating_add(history.lock_expiries);
    let attempts = failed.saturating_sub(kept);
    if attempts > 0 {
        let text = format!("{attempts} earlier failed attempts, whose errors are not kept");
        moments.push(moment(None, MomentKind::Forgotten { attempts }, text));
    }
    if let Some(at) = task.due_at {
        let text = "due, by its last submit, reschedule or requeue";
        moments.push(moment(Some(at), MomentKind::Due, text));
    }
    for failed in task.errors.iter().rev() {
        let attempt = failed.attempt;
        let holder = failed.holder.as_deref().or(failed.expired_holder());
        let holder = holder.map(|one| subject.holder(one));
        if let Some(at) = failed.started_at {
            moments.push(start(attempt, holder.clone(), failed.due_at, Some(at)));
        }
        let text = format!("attempt {attempt}: {}", failed.error);
        let kind = MomentKind::Failed {
            attempt,
            error: failed.error.clone(),
            holder,
        };
        moments.push(moment(Some(failed.at), kind, text));
    }
    moments
}

fn times(what: &str, times: u32) -> String {
    match times {
        1 => format!("{what} once"),
        _ => format!("{what} {times} times"),
    }
}

/// The present attempt or the end, and the reason.
fn present(subject: &Subject, task: &TaskInfo, explained: &Explanation) -> Vec<Moment> {
    let mut moments = Vec::new();
    if matches!(task.state, TaskState::Running | TaskState::Done) {
        let holder = task.holder.as_deref().map(|one| subject.holder(one));
        let (due_at, at) = (task.attempt_due_at, task.last_started_at());
        moments.push(start(task.attempt, holder, due_at, at));
    }
    if !matches!(task.state, TaskState::Scheduled | TaskState::Running) {
        let error = task.history.last_error.clone();
        let text = task.state.to_string();
        let state = task.state;
        let kind = MomentKind::Ended { state, error };
        moments.push(moment(Some(task.at), kind, text));
    }
    let now = Some(explained.now);
    moments.push(moment(now, MomentKind::Now, &explained.sentence));
    moments
}

/// The start of an attempt.
fn start(
    attempt: u32,
    holder: Option<Holder>,
    due_at: Option<Timestamp>,
    at: Option<Timestamp>,
) -> Moment {
    let place = holder.as_ref().map(|one| format!(" {one}"));
    let late = at.zip(due_at).map(|(at, due_at)| at.since(due_at));
    let after = late.map(|late| format!(", {} after its due time", said(late)));
    let text = format!(
        "attempt {attempt} started{}{}",
        place.unwrap_or_default(),
        after.unwrap_or_default()
    );
    let kind = MomentKind::Started {
        attempt,
        holder,
        due_at,
        late,
    };
    moment(at, kind, text)
}

/// The moments after `now`.
fn to_come(task: &TaskInfo, now: Timestamp) -> Vec<Moment> {
    let mut moments = Vec::new();
    let at = Some(task.at);
    match task.state {
        TaskState::Scheduled if task.at > now => {
            let attempt = task.history.next_attempt();
            let text = format!("attempt {attempt} is due");
            moments.push(moment(at, MomentKind::Next { attempt }, text));
        }
        TaskState::Running => {
            let text = "its lock expires, unless its holder extends it";
            moments.push(moment(at, MomentKind::LockExpires, text));
        }
        _ => {}
    }
    if let Some(at) = task.again_at {
        let text = "due again, by the request that waits for its end";
        moments.push(moment(Some(at), MomentKind::Again, text));
    }
    if let Some(at) = task.expires_at {
        let text = "not started any more from here on";
        moments.push(moment(Some(at), MomentKind::Expires, text));
    }
    moments
}
