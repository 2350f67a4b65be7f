//! What is kept of one id: its task, or a few numbers once that has ended.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crate::job::{Expiry, NewTask, When};
use crate::name::TaskId;
use crate::state::TaskState;
use crate::store::cut_error;
use crate::task::{Headers, TaskInfo, Trail};
use crate::time::{Moment, Timestamp, duration_ms};

/// What a bucket holds under one id.
#[derive(Debug)]
pub(super) enum Entry {
    Live(Task),
    Ended(Ended),
}

/// A task that has not ended.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) place: Place,
    /// The due time that the last submit, reschedule or requeue gave; a retry does not move it.
    pub(super) due_at: Timestamp,
    /// The delay it was submitted with; `None` for an absolute time, and after a reschedule or requeue.
    delay: Option<Duration>,
    expiry: Option<Expiry>,
    pub(super) submitted_at: Timestamp,
    pub(super) message: Vec<u8>,
    pub(super) headers: Headers,
    pub(super) trail: Trail,
    /// Only while it runs.
    pub(super) cancel_requested: bool,
    /// The fence of the lock settled last, so that repeating the settlement is recognised.
    pub(super) settled: Option<u64>,
}

/// The state of a task, with what only this state knows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Scheduled { due_at: Timestamp },
    Running { fence: u64, lock_until: Timestamp },
    Dead { died_at: Timestamp },
}

/// What is remembered of an ended task for the retention.
#[derive(Debug)]
pub(super) struct Ended {
    state: TaskState,
    at: Timestamp,
    attempt: u32,
    /// Of message, headers and expiry, to recognise the same request.
    checksum: u64,
    settled: Option<u64>,
}

impl Entry {
    pub(super) fn state(&self) -> TaskState {
        match self {
            Self::Live(task) => task.state(),
            Self::Ended(ended) => ended.state,
        }
    }

    /// The time that orders it among those in its state.
    pub(super) fn at(&self) -> Timestamp {
        match self {
            Self::Live(task) => task.at(),
            Self::Ended(ended) => ended.at,
        }
    }

    pub(super) fn settled(&self) -> Option<u64> {
        match self {
            Self::Live(task) => task.settled,
            Self::Ended(ended) => ended.settled,
        }
    }

    /// Whether `new` asks again for what this entry is or was. The time of an ended one is not known.
    pub(super) fn is_same_request(&self, new: &NewTask) -> bool {
        match self {
            Self::Live(task) => task.is_same_request(new),
            Self::Ended(ended) => {
                ended.checksum == checksum(&new.message, &new.headers, new.expiry)
            }
        }
    }

    pub(super) fn info(&self, id: &TaskId) -> TaskInfo {
        match self {
            Self::Live(task) => task.info(id),
            Self::Ended(ended) => ended.info(id),
        }
    }
}

impl Task {
    pub(super) fn new(new: NewTask, now: Timestamp, due_at: Timestamp) -> Self {
        Self {
            place: Place::Scheduled { due_at },
            due_at,
            delay: match new.when {
                When::After(delay) => Some(delay),
                When::At(_) => None,
            },
            expiry: new.expiry,
            submitted_at: now,
            message: new.message,
            headers: new.headers,
            trail: Trail::default(),
            cancel_requested: false,
            settled: None,
        }
    }

    fn state(&self) -> TaskState {
        match self.place {
            Place::Scheduled { .. } => TaskState::Scheduled,
            Place::Running { .. } => TaskState::Running,
            Place::Dead { .. } => TaskState::Dead,
        }
    }

    pub(super) fn at(&self) -> Timestamp {
        match self.place {
            Place::Scheduled { due_at } => due_at,
            Place::Running { lock_until, .. } => lock_until,
            Place::Dead { died_at } => died_at,
        }
    }

    /// The current attempt while it runs, else the number of attempts made.
    pub(super) fn attempt(&self) -> u32 {
        let next = self.trail.next_attempt();
        match self.place {
            Place::Running { .. } => next,
            Place::Scheduled { .. } | Place::Dead { .. } => next - 1,
        }
    }

    pub(super) fn expires_at(&self) -> Option<Timestamp> {
        self.expiry.map(|expiry| match expiry {
            Expiry::At(time) => time,
            Expiry::AfterDue(span) => self.due_at.plus(span),
        })
    }

    /// Schedules it for `due_at` by somebody's order: from now on that is the time asked for.
    pub(super) fn schedule(&mut self, due_at: Timestamp) {
        self.due_at = due_at;
        self.delay = None;
        self.place = Place::Scheduled { due_at };
    }

    /// Schedules the next attempt.
    pub(super) fn put_back(&mut self, due_at: Timestamp, succeeded: Vec<String>) {
        self.trail.succeeded = succeeded;
        self.place = Place::Scheduled { due_at };
    }

    /// Counts a failed attempt.
    pub(super) fn fail(&mut self, error: &str) {
        self.trail.failures = self.trail.failures.saturating_add(1);
        self.trail.last_error = Some(cut_error(error).to_owned());
    }

    /// Parks it; a cancel request has had its answer.
    pub(super) fn die(&mut self, died_at: Timestamp) {
        self.place = Place::Dead { died_at };
        self.cancel_requested = false;
    }

    /// What is remembered when it ends; the message is freed here.
    pub(super) fn end(self, state: TaskState, now: Timestamp) -> Ended {
        Ended {
            state,
            at: now,
            attempt: self.attempt(),
            checksum: checksum(&self.message, &self.headers, self.expiry),
            settled: self.settled,
        }
    }

    fn is_same_request(&self, new: &NewTask) -> bool {
        let same_time = match (self.delay, new.when) {
            (Some(delay), When::After(asked)) => duration_ms(delay) == duration_ms(asked),
            (None, When::At(asked)) => self.due_at == asked.max(self.submitted_at),
            _ => false,
        };
        same_time
            && self.message == new.message
            && self.headers == new.headers
            && expiry_ms(self.expiry) == expiry_ms(new.expiry)
    }

    fn info(&self, id: &TaskId) -> TaskInfo {
        TaskInfo {
            id: id.clone(),
            state: self.state(),
            at: self.at(),
            submitted_at: Some(self.submitted_at),
            expires_at: self.expires_at(),
            attempt: self.attempt(),
            message: Some(self.message.clone()),
            headers: self.headers.clone(),
            trail: self.trail.clone(),
            cancel_requested: self.cancel_requested,
        }
    }
}

impl Ended {
    fn info(&self, id: &TaskId) -> TaskInfo {
        TaskInfo {
            id: id.clone(),
            state: self.state,
            at: self.at,
            submitted_at: None,
            expires_at: None,
            attempt: self.attempt,
            message: None,
            headers: Headers::new(),
            trail: Trail::default(),
            cancel_requested: false,
        }
    }
}

/// When a task asked for now is due: a past time means now.
pub(super) fn due_at(when: When, moment: Moment) -> Timestamp {
    match when {
        When::After(Duration::ZERO) => moment.now,
        When::After(delay) => moment.rounded_up().plus(delay),
        When::At(time) => time.max(moment.now),
    }
}

fn checksum(message: &[u8], headers: &Headers, expiry: Option<Expiry>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (message, headers, expiry_ms(expiry)).hash(&mut hasher);
    hasher.finish()
}

/// An expiry in the resolution in which expiries are compared.
fn expiry_ms(expiry: Option<Expiry>) -> Option<(bool, i64)> {
    expiry.map(|expiry| match expiry {
        Expiry::At(time) => (true, time.as_millis()),
        Expiry::AfterDue(span) => (false, duration_ms(span)),
    })
}
