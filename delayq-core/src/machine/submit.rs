//! Submit: the decision to accept a task.

use crate::job::{NewTask, OnConflict, When};
use crate::state::TaskState;
use crate::store::SubmitOutcome;
use crate::time::{Reading, Timestamp, duration_ms};

use super::Bookkeeping;

/// The task that already has the id of a submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Existing {
    /// Its state.
    pub state: TaskState,
    /// True if the submit repeats the task's request: the same message, headers and expiry and,
    /// unless it has ended, [the same time](Asked::is_repeated_by).
    pub is_same_request: bool,
}

/// The number of scheduled tasks of a type, and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The present number.
    pub pending: u64,
    /// The limit; `None`: no limit.
    pub limit: Option<u64>,
}

impl Bound {
    /// The limit, if it leaves no room.
    #[must_use]
    pub fn reached(self) -> Option<u64> {
        self.limit.filter(|limit| self.pending >= *limit)
    }
}

/// The result of a submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// The task is accepted.
    Accepted {
        /// True if it replaces a task that has not ended. An ended one is always overwritten.
        replaced: bool,
    },
    /// Nothing changes; this is the answer.
    Answered(SubmitOutcome),
    /// The task is running now, and this one follows it. It replaces one that already waits to do
    /// so, except with `OnConflict::Keep`.
    RunsAgain,
    /// The type has reached this limit.
    Full {
        /// The maximum number of scheduled tasks.
        limit: u64,
    },
}

/// The result for a submit of `new`, whose id is free or taken by `existing`.
#[must_use]
pub fn submit(existing: Option<Existing>, new: &NewTask, bound: Bound) -> Submission {
    let is_running = existing.is_some_and(|existing| existing.state == TaskState::Running);
    if is_running && new.again_if_running {
        return Submission::RunsAgain;
    }
    let answer = existing.and_then(|existing| answer(existing, new));
    if let Some(answer) = answer {
        return Submission::Answered(answer);
    }
    let replaced = existing.is_some_and(|existing| !existing.state.is_ended());
    match bound.reached() {
        Some(limit) if !replaced => Submission::Full { limit },
        _ => Submission::Accepted { replaced },
    }
}

/// The answer because of an existing task; `None` if that task gives way.
fn answer(existing: Existing, new: &NewTask) -> Option<SubmitOutcome> {
    let Existing {
        state,
        is_same_request,
    } = existing;
    let (exists, on_conflict) = (SubmitOutcome::AlreadyExists { state }, new.on_conflict);
    // A delay counts from now, so a repeated request means a later time.
    let moves =
        on_conflict.replaces() && state != TaskState::Running && matches!(new.when, When::After(_));
    if state.is_ended() {
        let runs_again = on_conflict.replaces() || new.again_if_running;
        return (is_same_request && !runs_again).then_some(exists);
    }
    match on_conflict {
        _ if is_same_request && !moves => Some(exists),
        OnConflict::Keep => Some(exists),
        _ if on_conflict.replaces() && state != TaskState::Running => None,
        _ => Some(SubmitOutcome::Conflict { state }),
    }
}

/// An accepted task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its bookkeeping.
    pub book: Bookkeeping,
    /// Its submit time.
    pub submitted_at: Timestamp,
}

/// The accepted form of `new`. `waiting_since` is the submit time of the task that it replaces, if
/// that has not been tried yet.
#[must_use]
pub fn accepted(new: &NewTask, waiting_since: Option<Timestamp>, reading: Reading) -> Accepted {
    let book = Bookkeeping::accepted(new.when, reading);
    match (new.on_conflict, waiting_since) {
        (OnConflict::Debounce { max_wait }, Some(first)) => Accepted {
            book: book.debounced(first, max_wait, reading.now),
            submitted_at: first,
        },
        _ => Accepted {
            book,
            submitted_at: reading.now,
        },
    }
}

/// The requested time of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// See [`Bookkeeping::delay_ms`].
    pub delay_ms: Option<i64>,
    /// See [`Bookkeeping::asked_due`].
    pub due: Timestamp,
    /// The time when the task was accepted.
    pub submitted_at: Timestamp,
}

impl Asked {
    /// The requested time of this task, which was accepted at `submitted_at`.
    #[must_use]
    pub fn new(task: &Bookkeeping, submitted_at: Timestamp) -> Self {
        Self {
            delay_ms: task.delay_ms,
            due: task.asked_due,
            submitted_at,
        }
    }

    /// True if `when` requests the same: the same delay, or the same time.
    #[must_use]
    pub fn is_repeated_by(&self, when: When) -> bool {
        match (self.delay_ms, when) {
            (Some(delay), When::After(asked)) => delay == duration_ms(asked),
            (None, When::At(asked)) => self.due == asked.max(self.submitted_at),
            _ => false,
        }
    }
}
