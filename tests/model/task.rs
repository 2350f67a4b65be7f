//! One task of the model.

use delayq_core::job::{Expiry, NewTask, OnConflict, When};
use delayq_core::store::{AttemptEnd, EndCause, EndKind};
use delayq_core::{ClaimedTask, Lock, TaskInfo, TaskState, Timestamp};

use crate::op::{Claim, Ending};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Task {
    /// What `find` answers.
    pub(crate) info: TaskInfo,
    /// What was asked for, with all changes made since; kept after the end, unlike a store does.
    pub(crate) request: NewTask,
    /// When the request is due, retries aside.
    pub(crate) due_at: Timestamp,
    pub(crate) submitted_at: Timestamp,
    /// The number of the lock that holds it.
    pub(crate) lock: Option<usize>,
    /// Its holder runs nothing else.
    pub(crate) is_alone: bool,
    /// The number of the lock settled last, and by what.
    pub(crate) settled: Option<(usize, EndKind)>,
    /// What it becomes at its end.
    follow_up: Option<Box<Task>>,
}

impl Task {
    /// `since`: when the task was submitted that it takes the place of, if that was never tried.
    pub(crate) fn new(new: &NewTask, since: Option<Timestamp>, now: Timestamp) -> Self {
        let mut info = TaskInfo::new(new.id.clone(), TaskState::Scheduled, now);
        info.submitted_at = Some(now);
        info.message = Some(new.message.clone());
        info.headers = new.headers.clone();
        let mut task = Self {
            info,
            request: new.clone(),
            due_at: now,
            submitted_at: now,
            lock: None,
            is_alone: false,
            settled: None,
            follow_up: None,
        };
        let mut due = due_at(new.when, now);
        task.request.when = new.when;
        if let (OnConflict::Debounce { max_wait }, Some(first)) = (new.on_conflict, since) {
            due = due.min(first.plus(max_wait)).max(now).max(first);
            task.submitted_at = first;
            task.info.submitted_at = Some(first);
            task.request.when = When::After(due.since(first));
        }
        let when = task.request.when;
        task.move_to(due);
        task.request.when = when;
        task
    }

    /// When it was submitted, if it waits and was never tried.
    pub(crate) fn waiting_since(&self) -> Option<Timestamp> {
        let history = &self.info.history;
        let tries = [history.failures, history.lock_expiries, history.releases];
        let waits = self.info.state == TaskState::Scheduled && tries == [0; 3];
        waits.then_some(self.submitted_at)
    }

    /// Has `new` follow it; when what follows is due.
    pub(crate) fn run_again(&mut self, new: &NewTask, now: Timestamp) -> Timestamp {
        let since = self.follow_up.as_ref().map(|task| task.submitted_at);
        if since.is_none() || new.on_conflict != OnConflict::Keep {
            self.follow_up = Some(Box::new(Self::new(new, since, now)));
        }
        self.info.again_at = self.follow_up.as_ref().map(|task| task.due_at);
        self.info.again_at.unwrap()
    }

    pub(crate) fn forget_follow_up(&mut self) {
        self.follow_up = None;
        self.info.again_at = None;
    }

    /// What follows it takes its place, if it has come to its end.
    pub(crate) fn follow(&mut self, now: Timestamp) {
        let is_over = self.info.state == TaskState::Dead || self.info.state.is_ended();
        if let Some(next) = self.follow_up.take_if(|_| is_over) {
            let settled = self.settled;
            *self = *next;
            self.settled = settled;
            self.info.at = self.info.at.max(now);
        }
    }

    pub(crate) fn is_asked_for_by(&self, new: &NewTask) -> bool {
        let same_time = match (self.request.when, new.when) {
            (When::After(delay), When::After(asked)) => delay == asked,
            (When::At(_), When::At(asked)) => self.due_at == asked.max(self.submitted_at),
            _ => false,
        };
        let same_content = self.request.message == new.message
            && self.request.headers == new.headers
            && self.request.expiry == new.expiry;
        same_content && (same_time || self.info.state.is_ended())
    }

    /// Schedules it because somebody said so.
    pub(crate) fn move_to(&mut self, due_at: Timestamp) {
        self.due_at = due_at;
        self.request.when = When::At(due_at);
        self.info.state = TaskState::Scheduled;
        self.info.at = due_at;
        self.info.due_at = Some(due_at);
        self.info.expires_at = match self.request.expiry {
            None => None,
            Some(Expiry::At(time)) => Some(time),
            Some(Expiry::AfterDue(span)) => Some(due_at.plus(span)),
        };
    }

    /// Locks it, or ends it.
    pub(crate) fn claim(
        &mut self,
        claim: &Claim,
        now: Timestamp,
        store_now: Timestamp,
        number: usize,
    ) -> Result<ClaimedTask, EndCause> {
        let mut due = self.info.at;
        let is_taken_over = self.info.state == TaskState::Running;
        if is_taken_over {
            due = self.due_at;
            self.info.history.lock_expiries += 1;
            self.lock = None;
            let expiries = self.info.history.lock_expiries;
            if self.info.cancel_requested {
                self.end(TaskState::Cancelled, store_now);
                return Err(EndCause::Cancelled);
            }
            let (most, company) = match claim.max_alone_expiries {
                Some(alone) if self.is_alone => (alone.min(claim.max_lock_expiries), true),
                _ => (claim.max_lock_expiries, self.is_alone),
            };
            if expiries >= most {
                self.die(store_now);
                let company = if company {
                    ", at last while it ran alone"
                } else {
                    ""
                };
                self.info.history.last_error = Some(format!(
                    "poison: its lock expired {expiries} times{company}; its process may have \
                     crashed"
                ));
                return Err(EndCause::Poison);
            }
        }
        if self.info.expires_at.is_some_and(|time| time <= now) {
            self.end(TaskState::Expired, store_now);
            return Err(EndCause::Expired);
        }
        self.info.state = TaskState::Running;
        self.info.at = store_now.plus(claim.lock_for);
        self.info.attempt += 1;
        self.lock = Some(number);
        self.is_alone = false;
        let lock = Lock {
            id: self.info.id.clone(),
            fence: number as u64,
        };
        let mut claimed = ClaimedTask::new(lock, self.info.at, self.submitted_at);
        claimed.attempt = self.info.attempt;
        claimed.due_at = due;
        claimed.expires_at = self.info.expires_at;
        claimed.message.clone_from(&self.request.message);
        claimed.headers.clone_from(&self.request.headers);
        claimed.history.clone_from(&self.info.history);
        claimed.is_taken_over = is_taken_over;
        Ok(claimed)
    }

    pub(crate) fn settle(&mut self, ending: &Ending, now: Timestamp) {
        self.lock = None;
        if ending.note.is_some() {
            self.info.history.note.clone_from(&ending.note);
        }
        match &ending.end {
            AttemptEnd::Done => self.end(TaskState::Done, now),
            AttemptEnd::Expired => self.end(TaskState::Expired, now),
            AttemptEnd::Dead { error, succeeded } => {
                self.fail(error);
                self.info.history.succeeded.clone_from(succeeded);
                self.die(now);
            }
            _ if self.info.cancel_requested => self.end(TaskState::Cancelled, now),
            AttemptEnd::Retry {
                after,
                error,
                succeeded,
            } => {
                self.fail(error);
                self.put_back(now.plus(*after), succeeded);
            }
            AttemptEnd::Release { after, succeeded } => {
                self.info.history.releases += 1;
                self.info.attempt -= 1;
                self.put_back(now.plus(*after), succeeded);
            }
            end => unreachable!("the model does not know {end:?}"),
        }
    }

    fn fail(&mut self, error: &str) {
        self.info.history.failures += 1;
        self.info.history.last_error = Some(error.to_owned());
    }

    fn put_back(&mut self, at: Timestamp, succeeded: &[String]) {
        self.info.state = TaskState::Scheduled;
        self.info.at = at;
        self.info.history.succeeded = succeeded.to_vec();
    }

    fn die(&mut self, now: Timestamp) {
        self.info.state = TaskState::Dead;
        self.info.at = now;
        self.info.cancel_requested = false;
    }

    pub(crate) fn end(&mut self, state: TaskState, now: Timestamp) {
        let attempt = self.info.attempt;
        self.info = TaskInfo::new(self.info.id.clone(), state, now);
        self.info.attempt = attempt;
    }
}

/// A past time means now.
pub(crate) fn due_at(when: When, now: Timestamp) -> Timestamp {
    match when {
        When::After(delay) => now.plus(delay),
        When::At(time) => time.max(now),
    }
}
