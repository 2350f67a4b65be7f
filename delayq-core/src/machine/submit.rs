//! Submit: whether a task is accepted, and what stands against it.

use crate::job::{NewTask, OnConflict, When};
use crate::state::TaskState;
use crate::store::SubmitOutcome;
use crate::time::{Reading, Timestamp, duration_ms};

use super::Bookkeeping;

/// The task that has the id of a submit already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Existing {
    /// Where it is.
    pub state: TaskState,
    /// Whether the submit asks again for what it is or was: the same message, headers and expiry
    /// and, unless it has ended, [the same time](Asked::is_repeated_by).
    pub is_same_request: bool,
}

/// How many scheduled tasks a type has, and how many it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Those it has.
    pub pending: u64,
    /// Those it may have; `None`: any number.
    pub limit: Option<u64>,
}

impl Bound {
    /// The limit, when it leaves no room.
    #[must_use]
    pub fn reached(self) -> Option<u64> {
        self.limit.filter(|limit| self.pending >= *limit)
    }
}

/// What follows from a submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// The task is accepted.
    Accepted {
        /// Whether it takes the place of one that has not ended. An ended one is overwritten in any
        /// case.
        replaced: bool,
    },
    /// This is the answer, and nothing changes.
    Answered(SubmitOutcome),
    /// The task runs now, and this one follows it: instead of one that waits to do so, but for
    /// `OnConflict::Keep`.
    RunsAgain,
    /// The type is full; it has this limit.
    Full {
        /// The most scheduled tasks that it may have.
        limit: u64,
    },
}

/// What follows from the submit of `new`, whose id is free or taken by `existing`.
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

/// The answer that an existing task stands for; `None` when it gives way.
fn answer(existing: Existing, new: &NewTask) -> Option<SubmitOutcome> {
    let Existing {
        state,
        is_same_request,
    } = existing;
    let (exists, on_conflict) = (SubmitOutcome::AlreadyExists { state }, new.on_conflict);
    // A delay counts from now: asked for again, it is another time.
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

/// A task that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its bookkeeping.
    pub book: Bookkeeping,
    /// When it counts as submitted.
    pub submitted_at: Timestamp,
}

/// The beginning of `new`. `waiting_since`: when the task was submitted that it takes the place of,
/// if that has not been tried yet.
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

/// The time that a task was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// See [`Bookkeeping::delay_ms`].
    pub delay_ms: Option<i64>,
    /// See [`Bookkeeping::asked_due`].
    pub due: Timestamp,
    /// When the task was accepted.
    pub submitted_at: Timestamp,
}

impl Asked {
    /// The time that this task, accepted at `submitted_at`, was asked for.
    #[must_use]
    pub fn new(task: &Bookkeeping, submitted_at: Timestamp) -> Self {
        Self {
            delay_ms: task.delay_ms,
            due: task.asked_due,
            submitted_at,
        }
    }

    /// Whether `when` asks for the same: the same delay, or the same time.
    #[must_use]
    pub fn is_repeated_by(&self, when: When) -> bool {
        match (self.delay_ms, when) {
            (Some(delay), When::After(asked)) => delay == duration_ms(asked),
            (None, When::At(asked)) => self.due == asked.max(self.submitted_at),
            _ => false,
        }
    }
}
