//! The claim: all the work that is due, and when to call again.

use std::time::Duration;

use super::error::Outcome;
use super::record::read_headers;
use super::stored::{Place, Stored, select_stored};
use super::tx::{Bucket, Tx, code, sql_count, sql_fence};
use crate::name::{TaskId, TaskType};
use crate::state::TaskState;
use crate::store::pace::Pace;
use crate::store::{
    CLOCK_GUARD, ClaimEnd, ClaimRequest, Claimed, EndCause, MAX_BATCH, Outlook, next_fence,
};
use crate::task::{ClaimedTask, Lock};
use crate::time::{Moment, Timestamp};

const SELECT_REACHED: &str = select_stored!(
    "INDEXED BY tasks_place WHERE type = ?1 AND state = ?2 AND at <= ?3 ORDER BY at, id LIMIT ?4"
);
const LOCK: &str =
    "UPDATE tasks SET state = 1, at = ?2, fence = ?3, lock_expiries = ?4 WHERE seq = ?1";
const UNLOCK: &str = "UPDATE tasks SET state = 0, at = ?2, fence = 0 WHERE seq = ?1";
const DIE: &str = "UPDATE tasks SET id = ?2, state = 2, at = ?3, lock_expiries = ?4, \
     last_error = ?5, fence = 0, cancel = 0 WHERE seq = ?1";

/// What a claim of a type that nobody has submitted to gets.
fn nothing(request: &ClaimRequest, moment: Moment) -> Claimed {
    Claimed {
        now: moment.now.min(request.caller_now.plus(CLOCK_GUARD)),
        store_now: moment.now,
        past: moment.past,
        high_water: 0,
        tasks: Vec::new(),
        ended: Vec::new(),
        unheard: 0,
        next_due: None,
        turn: Duration::ZERO,
    }
}

impl Tx<'_> {
    /// The answer to a claim that has nothing to change: the type is paused or unknown, or nothing is due.
    pub(super) fn idle_claim(
        &mut self,
        task_type: &TaskType,
        request: &ClaimRequest,
    ) -> Outcome<Option<Claimed>> {
        let moment = self.moment();
        match self.known(task_type)? {
            Some(bucket) => bucket.idle_claim(request),
            None => Ok(Some(nothing(request, moment))),
        }
    }

    pub(super) fn claim(
        &mut self,
        task_type: &TaskType,
        request: &ClaimRequest,
    ) -> Outcome<Claimed> {
        let moment = self.moment();
        match self.known(task_type)? {
            Some(mut bucket) => bucket.claim(request),
            None => Ok(nothing(request, moment)),
        }
    }
}

impl Bucket<'_> {
    fn nothing(&self, request: &ClaimRequest) -> Claimed {
        Claimed {
            high_water: self.row.fence,
            ..nothing(request, self.moment)
        }
    }

    fn idle_claim(&self, request: &ClaimRequest) -> Outcome<Option<Claimed>> {
        let mut claimed = self.nothing(request);
        if let Some(until) = self.row.pause_at(self.now) {
            claimed.next_due = Some(until).filter(|until| *until < Timestamp::MAX);
            return Ok(Some(claimed));
        }
        let pace = self.pace(request);
        let outlook = self.outlook(request, pace)?;
        claimed.next_due = outlook.next_call();
        let is_held_back = outlook.is_held_back();
        let is_due = outlook.due.is_some_and(|due| due <= claimed.now) && !is_held_back;
        let is_expired = outlook.lock.is_some_and(|lock| lock <= self.now);
        let may_start = request.limit > 0 && outlook.again_at.is_none();
        let is_set_back = pace.is_some_and(|pace| pace.tat() < self.row.bounds.tat);
        let has_to_note = is_set_back || (is_held_back && !self.row.bounds.held_back);
        let is_idle = !has_to_note && !(may_start && (is_due || is_expired));
        Ok(is_idle.then_some(claimed))
    }

    /// The starts that the request's rate allows.
    fn pace(&self, request: &ClaimRequest) -> Option<Pace> {
        let rate = request.fleet.rate?;
        Some(Pace::new(rate, self.row.bounds.tat, self.moment))
    }

    fn free_places(&self, request: &ClaimRequest) -> usize {
        let running = usize::try_from(self.row.count(TaskState::Running));
        request.free_places(running.unwrap_or(usize::MAX))
    }

    fn outlook(&self, request: &ClaimRequest, pace: Option<Pace>) -> Outcome<Outlook> {
        Ok(Outlook {
            now: self.nothing(request).now,
            due: self.first(TaskState::Scheduled)?,
            lock: self.first(TaskState::Running)?,
            is_full: self.free_places(request) == 0,
            again_at: pace.and_then(|pace| pace.again_at()),
        })
    }

    fn claim(&mut self, request: &ClaimRequest) -> Outcome<Claimed> {
        if let Some(claimed) = self.idle_claim(request)? {
            return Ok(claimed);
        }
        let mut claimed = self.nothing(request);
        let mut pace = self.pace(request);
        let allowed = pace.map_or(MAX_BATCH, |pace| pace.allowed());
        let limit = request.limit.min(allowed).min(MAX_BATCH);
        let expired = self.reached(TaskState::Running, self.now, limit)?;
        let rest = limit.saturating_sub(expired.len());
        let rest = rest.min(self.free_places(request));
        let due = self.reached(TaskState::Scheduled, claimed.now, rest)?;
        for task in expired {
            self.retake(task, request, &mut claimed)?;
        }
        for task in due {
            self.start(task, request, &mut claimed)?;
        }
        if let Some(pace) = &mut pace {
            pace.take(claimed.tasks.len());
            self.row.bounds.tat = pace.tat();
            self.row.touch();
        }
        let outlook = self.outlook(request, pace)?;
        if outlook.is_held_back() {
            self.row.bounds.held_back = true;
            self.row.touch();
        }
        claimed.next_due = outlook.next_call();
        Ok(claimed)
    }

    /// Gives a task back whose claim was never heard: as if it had not been claimed, but for its fence.
    pub(super) fn give_back(&mut self, task: &ClaimedTask) -> Outcome<()> {
        let place = self.place(&task.lock.id)?;
        let Some(place) = place.filter(|place| place.is_held_by(task.lock.fence)) else {
            return Ok(());
        };
        if place.cancel {
            return self.end(&place, TaskState::Cancelled, place.settled);
        }
        self.see_head()?;
        self.execute(UNLOCK, (place.seq, task.due_at.as_millis()))?;
        self.leave(&place);
        self.row.add(TaskState::Scheduled, 1);
        self.row.lower_head(task.due_at);
        Ok(())
    }

    /// Up to `limit` tasks in `state` whose time is not after `now`, in order.
    fn reached(&self, state: TaskState, now: Timestamp, limit: usize) -> Outcome<Vec<Stored>> {
        let key = (self.row.id, code(state), now.as_millis(), sql_count(limit));
        self.stored_rows(SELECT_REACHED, key, limit)
    }

    /// Takes an expired lock away. The task is started again, or ended for one of two causes.
    fn retake(
        &mut self,
        mut task: Stored,
        request: &ClaimRequest,
        claimed: &mut Claimed,
    ) -> Outcome<()> {
        self.leave(&task.place);
        self.row.add(TaskState::Scheduled, 1);
        let expiries = task.place.lock_expiries.saturating_add(1);
        task.trail.lock_expiries = expiries;
        task.place.lock_expiries = expiries;
        task.place.state = Some(TaskState::Scheduled);
        task.place.at = task.place.due;
        if task.place.cancel {
            self.end(&task.place, TaskState::Cancelled, task.place.settled)?;
            note(claimed, &task.id, EndCause::Cancelled);
            return Ok(());
        }
        if expiries < request.max_lock_expiries.max(1) {
            return self.start(task, request, claimed);
        }
        self.kill(&task, &poison_error(expiries), EndCause::Poison, claimed)
    }

    /// Locks a due task, unless its record is damaged or its expiry has passed.
    fn start(
        &mut self,
        task: Stored,
        request: &ClaimRequest,
        claimed: &mut Claimed,
    ) -> Outcome<()> {
        if let Some(damage) = task.damage() {
            return self.kill(&task, &damage, EndCause::Corrupt, claimed);
        }
        let Ok(id) = TaskId::new(&task.id) else {
            return self.kill(&task, &bad_id_error(&task.id), EndCause::Corrupt, claimed);
        };
        let expires_at = task.expires_at();
        if expires_at.is_some_and(|expires_at| expires_at <= claimed.now) {
            self.end(&task.place, TaskState::Expired, task.place.settled)?;
            note(claimed, &task.id, EndCause::Expired);
            return Ok(());
        }
        let lock_until = self.now.plus(request.lock_for);
        let fence = self.lock(&task.place, lock_until)?;
        claimed.tasks.push(ClaimedTask {
            lock: Lock { id, fence },
            lock_until,
            attempt: task.trail.next_attempt(),
            due_at: task.place.at,
            submitted_at: task.submitted,
            expires_at,
            headers: read_headers(task.headers.as_deref()).unwrap_or_default(),
            message: task.message,
            trail: task.trail,
        });
        Ok(())
    }

    /// Moves a task to running; returns the fence of its new lock.
    fn lock(&mut self, place: &Place, until: Timestamp) -> Outcome<u64> {
        let fence = next_fence(self.row.fence, self.now);
        self.row.fence = fence;
        self.execute(
            LOCK,
            (
                place.seq,
                until.as_millis(),
                sql_fence(fence),
                place.lock_expiries,
            ),
        )?;
        self.leave(place);
        self.row.add(TaskState::Running, 1);
        Ok(fence)
    }

    /// Parks a task that must not run. One whose id is damaged gets a new one, so that people can see it.
    fn kill(
        &mut self,
        task: &Stored,
        error: &str,
        cause: EndCause,
        claimed: &mut Claimed,
    ) -> Outcome<()> {
        let id = match TaskId::new(&task.id) {
            Ok(id) => id.to_string(),
            Err(_) => format!("corrupt-{}", TaskId::generate()),
        };
        let place = &task.place;
        self.execute(
            DIE,
            (
                place.seq,
                id.as_str(),
                self.now.as_millis(),
                place.lock_expiries,
                error,
            ),
        )?;
        self.leave(place);
        self.row.add(TaskState::Dead, 1);
        note(claimed, &id, cause);
        Ok(())
    }
}

/// Tells the claimer of a task that it will not get.
fn note(claimed: &mut Claimed, id: &str, cause: EndCause) {
    if let Ok(id) = TaskId::new(id) {
        claimed.ended.push(ClaimEnd { id, cause });
    }
}

/// The cause of death of a task whose lock expired too often.
fn poison_error(expiries: u32) -> String {
    format!("poison: its lock expired {expiries} times; its process may have crashed")
}

/// The cause of death of a task whose stored id is no id.
fn bad_id_error(id: &str) -> String {
    format!("corrupt: its stored id {id:?} is not a task id")
}
