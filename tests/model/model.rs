//! The trivial model: a list of tasks, searched from end to end. It shares no code with any store.

use std::time::Duration;

use delayq_core::job::{NewTask, OnConflict};
use delayq_core::operate::{DeadFilter, TypeStats};
use delayq_core::store::{
    CancelOutcome, ChangeOutcome, ClaimEnd, Claimed, ExtendOutcome, SettleOutcome, SubmitOutcome,
};
use delayq_core::{TaskId, TaskInfo, TaskState, Timestamp, When, millis};

use crate::op::{Claim, Ending, Op};
use crate::task::{Task, due_at};

/// What a step answers. In a claim, fences are the numbers of the locks: 0, 1, 2, ...
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Submit(SubmitOutcome),
    Claim(Claimed),
    Settle(SettleOutcome),
    Extend(ExtendOutcome),
    Cancel(CancelOutcome),
    Change(ChangeOutcome),
    Ids(Vec<TaskId>),
    Count(u64),
    Nothing,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Model {
    pub(crate) retention: Duration,
    pub(crate) paused_until: Timestamp,
    tasks: Vec<Task>,
    /// Whose lock each number was.
    locks: Vec<TaskId>,
}

impl Model {
    pub(crate) fn new(retention: Duration) -> Self {
        Self {
            retention,
            paused_until: Timestamp::ZERO,
            tasks: Vec::new(),
            locks: Vec::new(),
        }
    }

    /// Does a step at `now`, at which the claimer's clock shows `caller_now`.
    pub(crate) fn apply(&mut self, op: &Op, now: Timestamp, caller_now: Timestamp) -> Outcome {
        self.forget(now);
        let outcome = match op {
            Op::Submit(new) => Outcome::Submit(self.submit(new, now)),
            Op::Claim(claim) => {
                let guarded = now.min(caller_now.minus(claim.behind).plus(millis(500)));
                Outcome::Claim(self.claim(claim, guarded, now))
            }
            Op::Settle { lock, ending } => Outcome::Settle(self.settle(*lock, ending, now)),
            Op::Extend {
                lock,
                lock_for,
                is_alone,
            } => Outcome::Extend(self.extend(*lock, now.plus(*lock_for), *is_alone)),
            Op::Cancel(id) => Outcome::Cancel(self.cancel(id, now)),
            Op::Reschedule(id, when) => Outcome::Change(self.change(id, |task| {
                task.move_to(due_at(*when, now));
            })),
            Op::Update(id, message) => Outcome::Change(self.change(id, |task| {
                task.request.message.clone_from(message);
                task.info.message = Some(message.clone());
            })),
            Op::Requeue(filter, interval) => Outcome::Ids(self.requeue(filter, *interval, now)),
            Op::Discard(filter) => Outcome::Ids(self.discard(filter)),
            Op::Pause(until) => {
                self.paused_until = until.unwrap_or(Timestamp::MAX);
                Outcome::Nothing
            }
            Op::Resume => {
                self.paused_until = Timestamp::ZERO;
                Outcome::Nothing
            }
            Op::Purge(state) => {
                let before = self.tasks.len();
                self.tasks.retain(|task| task.info.state != *state);
                Outcome::Count((before - self.tasks.len()) as u64)
            }
            Op::Advance(_) => Outcome::Nothing,
        };
        self.forget(now);
        outcome
    }

    fn forget(&mut self, now: Timestamp) {
        let retention = self.retention;
        self.tasks
            .retain(|task| !task.info.state.is_ended() || task.info.at.plus(retention) > now);
    }

    pub(crate) fn find(&self, id: &TaskId) -> Option<TaskInfo> {
        self.tasks
            .iter()
            .find(|task| task.info.id == *id)
            .map(|task| task.info.clone())
    }

    /// What a listing of all pages shows.
    pub(crate) fn list(&self, state: TaskState) -> Vec<TaskInfo> {
        let mut infos: Vec<TaskInfo> = self.tasks.iter().map(|task| task.info.clone()).collect();
        infos.retain(|info| info.state == state);
        infos.sort_by_key(|info| (info.at, info.id.clone()));
        infos
    }

    pub(crate) fn stats(&self, now: Timestamp) -> TypeStats {
        let scheduled = self.list(TaskState::Scheduled);
        let mut stats = TypeStats::default();
        stats.now = now;
        stats.scheduled = scheduled.len() as u64;
        stats.due = scheduled.iter().filter(|info| info.at <= now).count() as u64;
        stats.running = self.list(TaskState::Running).len() as u64;
        stats.dead = self.list(TaskState::Dead).len() as u64;
        stats.next_due = scheduled.first().map(|info| info.at);
        stats.paused_until = (self.paused_until > now).then_some(self.paused_until);
        stats
    }

    fn task(&mut self, id: &TaskId) -> Option<&mut Task> {
        self.tasks.iter_mut().find(|task| task.info.id == *id)
    }

    fn submit(&mut self, new: &NewTask, now: Timestamp) -> SubmitOutcome {
        let (mut replaced, mut since) = (false, None);
        if let Some(old) = self.task(&new.id) {
            let state = old.info.state;
            let same = old.is_asked_for_by(new);
            if state == TaskState::Running && new.again_if_running {
                let due_at = old.run_again(new, now);
                return SubmitOutcome::RunsAgain { due_at };
            }
            let replace = new.on_conflict.replaces();
            let known = if state.is_ended() {
                same && !replace && !new.again_if_running
            } else {
                let moves =
                    replace && state != TaskState::Running && matches!(new.when, When::After(_));
                same && !moves || new.on_conflict == OnConflict::Keep
            };
            if known {
                return SubmitOutcome::AlreadyExists { state };
            }
            if !state.is_ended() && (!replace || state == TaskState::Running) {
                return SubmitOutcome::Conflict { state };
            }
            (replaced, since) = (!state.is_ended(), old.waiting_since());
        }
        self.tasks.retain(|task| task.info.id != new.id);
        let task = Task::new(new, since, now);
        let due_at = task.due_at;
        self.tasks.push(task);
        SubmitOutcome::Accepted { due_at, replaced }
    }

    fn claim(&mut self, claim: &Claim, now: Timestamp, store_now: Timestamp) -> Claimed {
        let mut claimed = Claimed::nothing(now, store_now);
        claimed.high_water = self.locks.len() as u64;
        if self.paused_until > store_now {
            if self.paused_until < Timestamp::MAX {
                claimed.next_in = Some(wait(&claimed, self.paused_until));
            }
            return claimed;
        }
        let mut found = self.list(TaskState::Running);
        found.retain(|info| info.at <= store_now);
        let due = self.list(TaskState::Scheduled);
        found.extend(due.into_iter().filter(|info| info.at <= now));
        found.truncate(claim.limit);
        for info in found {
            let number = self.locks.len();
            let task = self.task(&info.id).unwrap();
            match task.claim(claim, now, store_now, number) {
                Ok(task) => {
                    self.locks.push(info.id);
                    claimed.tasks.push(task);
                }
                Err(cause) => {
                    task.follow(store_now);
                    claimed.ended.push(ClaimEnd::new(info.id, cause));
                }
            }
        }
        let waiting = [TaskState::Scheduled, TaskState::Running].map(|state| self.list(state));
        let next = waiting.iter().flatten().map(|info| info.at).min();
        claimed.next_in = next.map(|next| wait(&claimed, next));
        claimed
    }

    fn settle(&mut self, lock: usize, ending: &Ending, now: Timestamp) -> SettleOutcome {
        let id = self.locks[lock].clone();
        let kind = ending.end.kind();
        let Some(task) = self.task(&id) else {
            return SettleOutcome::LockLost;
        };
        if task.lock != Some(lock) {
            let again = task.settled == Some((lock, kind));
            return if again {
                SettleOutcome::Settled
            } else {
                SettleOutcome::LockLost
            };
        }
        task.settle(ending, now);
        task.settled = Some((lock, kind));
        task.follow(now);
        SettleOutcome::Settled
    }

    fn extend(&mut self, lock: usize, until: Timestamp, is_alone: bool) -> ExtendOutcome {
        let id = self.locks[lock].clone();
        match self.task(&id) {
            Some(task) if task.lock == Some(lock) => {
                task.info.at = until;
                task.is_alone = is_alone;
                if task.info.cancel_requested {
                    ExtendOutcome::CancelRequested(until)
                } else {
                    ExtendOutcome::Extended(until)
                }
            }
            _ => ExtendOutcome::LockLost,
        }
    }

    fn cancel(&mut self, id: &TaskId, now: Timestamp) -> CancelOutcome {
        let Some(task) = self.task(id) else {
            return CancelOutcome::NotFound;
        };
        match task.info.state {
            TaskState::Scheduled => {
                task.forget_follow_up();
                task.end(TaskState::Cancelled, now);
                CancelOutcome::Cancelled
            }
            TaskState::Running => {
                task.forget_follow_up();
                task.info.cancel_requested = true;
                CancelOutcome::Running
            }
            state => CancelOutcome::Finished(state),
        }
    }

    fn change(&mut self, id: &TaskId, change: impl FnOnce(&mut Task)) -> ChangeOutcome {
        let Some(task) = self.task(id) else {
            return ChangeOutcome::NotFound;
        };
        match task.info.state {
            TaskState::Scheduled => {
                change(task);
                let due_at = task.info.at;
                ChangeOutcome::Changed { due_at }
            }
            TaskState::Running => ChangeOutcome::Running,
            state => ChangeOutcome::Finished(state),
        }
    }

    fn dead(&self, filter: &DeadFilter) -> Vec<TaskId> {
        let dead = self.list(TaskState::Dead);
        let mut meant: Vec<TaskId> = Vec::new();
        match filter {
            DeadFilter::Ids(ids) => {
                for id in ids {
                    if dead.iter().any(|info| info.id == *id) && !meant.contains(id) {
                        meant.push(id.clone());
                    }
                }
            }
            DeadFilter::Matching {
                died_before,
                error_contains,
                limit,
            } => {
                for info in dead {
                    let error = info.history.last_error.unwrap();
                    let in_time = died_before.is_none_or(|before| info.at < before);
                    let text = error_contains.as_deref().unwrap_or("");
                    if in_time && error.contains(text) && meant.len() < *limit {
                        meant.push(info.id);
                    }
                }
            }
        }
        meant
    }

    fn requeue(&mut self, filter: &DeadFilter, interval: Duration, now: Timestamp) -> Vec<TaskId> {
        let ids = self.dead(filter);
        let mut due_at = now;
        for id in &ids {
            let task = self.task(id).unwrap();
            task.info.attempt = 0;
            task.info.history.failures = 0;
            task.info.history.lock_expiries = 0;
            task.info.history.releases = 0;
            task.info.history.requeues += 1;
            task.move_to(due_at);
            due_at = due_at.plus(interval);
        }
        ids
    }

    fn discard(&mut self, filter: &DeadFilter) -> Vec<TaskId> {
        let ids = self.dead(filter);
        self.tasks.retain(|task| !ids.contains(&task.info.id));
        ids
    }
}

/// How long after the claim. While the guard holds back, the two clocks disagree, and a store
/// counts from either: then it is only compared whether there is something to wait for.
pub(crate) fn wait(claimed: &Claimed, time: Timestamp) -> Duration {
    if claimed.now == claimed.store_now {
        time.since(claimed.now)
    } else {
        Duration::ZERO
    }
}
