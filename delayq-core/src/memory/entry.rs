//! Entry of one id: its task, or the record of an ended one.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::history::{KeptMessage, LifeOutcome};
use crate::job::{Expiry, NewTask, OnConflict};
use crate::machine::{
    Accepted, Asked, Bookkeeping, EndFacts, Ended, ErrorLog, Existing, Gate, Stored, accepted,
};
use crate::name::TaskId;
use crate::state::TaskState;
use crate::task::{AttemptHistory, Headers, TaskInfo};
use crate::time::{Reading, Timestamp, duration_ms};

/// The content of a bucket under one id.
#[derive(Debug)]
pub(super) enum Entry {
    /// Scheduled, running or dead.
    Live(Box<Task>),
    /// Ended, and remembered for the retention.
    Ended(Remembered),
}

/// A task that has not ended.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) book: Bookkeeping,
    expiry: Option<Expiry>,
    pub(super) submitted_at: Timestamp,
    pub(super) message: Vec<u8>,
    pub(super) headers: Headers,
    pub(super) last_error: Option<String>,
    pub(super) succeeded: Vec<String>,
    pub(super) note: Option<String>,
    /// See [`ErrorLog`].
    pub(super) errors: String,
    /// The short form of the identity of its last holder.
    pub(super) holder: Option<String>,
    /// The task that replaces it when it ends.
    pub(super) follow_up: Option<Box<Task>>,
}

/// The record of an ended task.
#[derive(Debug)]
pub(super) struct Remembered {
    pub(super) ended: Ended,
    /// Checksum of message, headers and expiry, to recognise the same request.
    checksum: u64,
    /// The reason of its failure, for a task that was settled before it started.
    pub(super) last_error: Option<String>,
}

impl Entry {
    pub(super) fn state(&self) -> TaskState {
        match self {
            Self::Live(task) => task.book.state,
            Self::Ended(task) => task.ended.state,
        }
    }

    /// The time by which it is ordered among those in its state.
    pub(super) fn at(&self) -> Timestamp {
        match self {
            Self::Live(task) => task.book.at,
            Self::Ended(task) => task.ended.at,
        }
    }

    /// This entry as an existing task for `new`. The requested time of an ended task is not
    /// remembered.
    pub(super) fn existing(&self, new: &NewTask) -> Existing {
        let is_same_request = match self {
            Self::Live(task) => task.is_same_request(new),
            Self::Ended(task) => task.checksum == checksum(&new.message, &new.headers, new.expiry),
        };
        Existing {
            state: self.state(),
            is_same_request,
        }
    }

    /// Its submit time, if it has not been tried yet.
    pub(super) fn waiting_since(&self) -> Option<Timestamp> {
        match self {
            Self::Live(task) if task.book.is_untried() => Some(task.submitted_at),
            _ => None,
        }
    }

    pub(super) fn info(&self, id: &TaskId, gate: Gate) -> TaskInfo {
        match self {
            Self::Live(task) => task.info(id, gate),
            Self::Ended(task) => {
                let Ended {
                    state,
                    at,
                    attempt,
                    settled,
                } = task.ended;
                let mut info = TaskInfo::new(id.clone(), state, at);
                info.attempt = attempt;
                info.settled_fence = (settled.fence > 0).then_some(settled.fence);
                info.history.last_error.clone_from(&task.last_error);
                info
            }
        }
    }
}

impl Task {
    /// `waiting_since`: see [`accepted`].
    pub(super) fn new(new: NewTask, waiting_since: Option<Timestamp>, reading: Reading) -> Self {
        let Accepted { book, submitted_at } = accepted(&new, waiting_since, reading);
        Self {
            book,
            expiry: new.expiry,
            submitted_at,
            message: new.message,
            headers: new.headers,
            last_error: None,
            succeeded: Vec::new(),
            note: None,
            errors: String::new(),
            holder: None,
            follow_up: None,
        }
    }

    /// Makes `new` follow this task. Returns the due time of the task that now follows it.
    pub(super) fn run_again(&mut self, new: NewTask, reading: Reading) -> Timestamp {
        let next = match self.follow_up.take() {
            Some(waiting) if new.on_conflict == OnConflict::Keep => waiting,
            waiting => {
                let waiting_since = waiting.map(|task| task.submitted_at);
                Box::new(Self::new(new, waiting_since, reading))
            }
        };
        self.follow_up.insert(next).book.at
    }

    pub(super) fn expires_at(&self) -> Option<Timestamp> {
        self.expiry.map(|expiry| match expiry {
            Expiry::At(time) => time,
            Expiry::AfterDue(span) => self.book.asked_due.plus(span),
        })
    }

    /// The record to remember; the message is freed here.
    pub(super) fn remember(self, ended: Ended) -> Remembered {
        Remembered {
            ended,
            checksum: checksum(&self.message, &self.headers, self.expiry),
            last_error: None,
        }
    }

    fn is_same_request(&self, new: &NewTask) -> bool {
        Asked::new(&self.book, self.submitted_at).is_repeated_by(new.when)
            && self.message == new.message
            && self.headers == new.headers
            && expiry_ms(self.expiry) == expiry_ms(new.expiry)
    }

    /// Changes the bookkeeping after an error that ended an attempt, and records the error.
    pub(super) fn end_attempt(&mut self, book: Bookkeeping, now: Timestamp, error: &str) {
        let line = ErrorLog::line(&self.book, &book, now, error);
        let holder = self.holder.as_deref().unwrap_or("-");
        self.errors = ErrorLog::noted(&self.errors, &format!("{line}{holder}\n"));
        self.book = book;
    }

    /// The facts for the record of its end, if ends are recorded: as if it ended now, in its
    /// present state.
    pub(super) fn facts(
        &self,
        id: &TaskId,
        outcome: LifeOutcome,
        kept: Option<KeptMessage>,
    ) -> Option<EndFacts> {
        let message = kept?.of(&self.message);
        Some(EndFacts {
            id: id.clone(),
            outcome,
            submitted_at: self.submitted_at,
            due_at: self.book.asked_due,
            ended_at: self.book.at,
            fence: self.book.settled.fence,
            is_running: false,
            attempts: self.book.attempt(),
            headers: self.headers.clone(),
            holder: self.holder.clone(),
            error: self.last_error.clone(),
            errors: self.errors.clone(),
            message_bytes: self.message.len() as u64,
            message,
        })
    }

    /// What happened to it so far.
    pub(super) fn history(&self) -> AttemptHistory {
        let (error, succeeded) = (self.last_error.clone(), self.succeeded.clone());
        self.book.history(error, succeeded, self.note.clone())
    }

    fn info(&self, id: &TaskId, gate: Gate) -> TaskInfo {
        let book = &self.book;
        let stored = Stored {
            asked_due: book.asked_due,
            fence: book.fence,
            holder: self.holder.as_deref(),
            errors: &self.errors,
        };
        let mut info = TaskInfo {
            submitted_at: Some(self.submitted_at),
            expires_at: self.expires_at(),
            attempt: book.attempt(),
            message: Some(self.message.clone()),
            headers: self.headers.clone(),
            history: self.history(),
            cancel_requested: book.cancel_requested,
            again_at: self.follow_up.as_ref().map(|task| task.book.at),
            ..TaskInfo::new(id.clone(), book.state, book.at)
        };
        gate.explain(&mut info, stored);
        info
    }
}

fn checksum(message: &[u8], headers: &Headers, expiry: Option<Expiry>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (message, headers, expiry_ms(expiry)).hash(&mut hasher);
    hasher.finish()
}

/// An expiry in the resolution used for comparison.
fn expiry_ms(expiry: Option<Expiry>) -> Option<(bool, i64)> {
    expiry.map(|expiry| match expiry {
        Expiry::At(time) => (true, time.as_millis()),
        Expiry::AfterDue(span) => (false, duration_ms(span)),
    })
}
