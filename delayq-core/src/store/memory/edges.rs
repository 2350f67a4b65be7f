//! The edges of a task but the claim, one function each.

use std::time::Duration;

use super::bucket::Bucket;
use super::entry::{Entry, Place, Task, due_at};
use crate::error::{Error, Result};
use crate::job::{NewTask, OnConflict, When};
use crate::name::TaskId;
use crate::state::TaskState;
use crate::store::{
    AttemptEnd, CancelOutcome, ChangeOutcome, DeadFilter, ExtendOutcome, SettleOutcome, Settlement,
    SubmitOutcome,
};
use crate::task::{Lock, Trail};
use crate::time::Timestamp;

impl Bucket {
    pub(super) fn submit(&mut self, new: NewTask, now: Timestamp) -> Result<SubmitOutcome> {
        if let Some(refusal) = self.refusal(&new) {
            return Ok(refusal);
        }
        let replaced = self.task(&new.id).is_some();
        if !replaced {
            self.check_bound(&new)?;
        }
        self.take(&new.id);
        let id = new.id.clone();
        let due_at = due_at(new.when, self.moment);
        let task = Task::new(new, now, due_at);
        self.put(id, Entry::Live(task));
        Ok(SubmitOutcome::Accepted { due_at, replaced })
    }

    /// Refuses a new task that is one too many.
    fn check_bound(&mut self, new: &NewTask) -> Result<()> {
        let pending = self.count(TaskState::Scheduled) as u64;
        match self.max_pending {
            Some(limit) if pending >= limit => {
                self.refused = self.refused.saturating_add(1);
                Err(Error::QueueFull {
                    task_type: new.task_type.to_string(),
                    pending,
                    limit,
                })
            }
            _ => Ok(()),
        }
    }

    /// The answer to a submit that an existing or remembered task stands against.
    fn refusal(&self, new: &NewTask) -> Option<SubmitOutcome> {
        let old = self.entries.get(&new.id)?;
        let state = old.state();
        let is_same = old.is_same_request(new);
        let exists = SubmitOutcome::AlreadyExists { state };
        if state.is_ended() {
            return (is_same && new.on_conflict != OnConflict::Replace).then_some(exists);
        }
        match new.on_conflict {
            _ if is_same => Some(exists),
            OnConflict::Keep => Some(exists),
            OnConflict::Replace if state != TaskState::Running => None,
            OnConflict::Replace | OnConflict::Reject => Some(SubmitOutcome::Conflict { state }),
        }
    }

    pub(super) fn settle(&mut self, settlement: Settlement, now: Timestamp) -> SettleOutcome {
        let Settlement { lock, end } = settlement;
        let Some(task) = self.held(&lock) else {
            let settled = self.entries.get(&lock.id).and_then(Entry::settled);
            let is_repeat = settled == Some(lock.fence);
            return if is_repeat {
                SettleOutcome::Settled
            } else {
                SettleOutcome::LockLost
            };
        };
        let cancelled = task.cancel_requested;
        let again_at = |after| due_at(When::After(after), self.moment);
        let again_at = end.due_again_in().map_or(now, again_at);
        self.change(&lock.id, |task| task.settled = Some(lock.fence));
        match end {
            AttemptEnd::Done => self.end(&lock.id, TaskState::Done, now),
            AttemptEnd::Expired => self.end(&lock.id, TaskState::Expired, now),
            AttemptEnd::Retry { .. } | AttemptEnd::Release { .. } if cancelled => {
                self.end(&lock.id, TaskState::Cancelled, now);
            }
            AttemptEnd::Retry {
                error, succeeded, ..
            } => self.change(&lock.id, |task| {
                task.fail(&error);
                task.put_back(again_at, succeeded);
            }),
            AttemptEnd::Release { succeeded, .. } => self.change(&lock.id, |task| {
                task.trail.releases = task.trail.releases.saturating_add(1);
                task.put_back(again_at, succeeded);
            }),
            AttemptEnd::Dead { error, succeeded } => self.change(&lock.id, |task| {
                task.fail(&error);
                task.trail.succeeded = succeeded;
                task.die(now);
            }),
        }
        SettleOutcome::Settled
    }

    pub(super) fn extend(&mut self, lock: &Lock, lock_until: Timestamp) -> ExtendOutcome {
        let Some(task) = self.held(lock) else {
            return ExtendOutcome::LockLost;
        };
        let cancelled = task.cancel_requested;
        let fence = lock.fence;
        self.change(&lock.id, |task| {
            task.place = Place::Running { fence, lock_until }
        });
        if cancelled {
            return ExtendOutcome::CancelRequested(lock_until);
        }
        ExtendOutcome::Extended(lock_until)
    }

    pub(super) fn cancel(&mut self, id: &TaskId, now: Timestamp) -> CancelOutcome {
        match self.state(id) {
            None => CancelOutcome::NotFound,
            Some(TaskState::Scheduled) => {
                self.end(id, TaskState::Cancelled, now);
                CancelOutcome::Cancelled
            }
            Some(TaskState::Running) => {
                self.change(id, |task| task.cancel_requested = true);
                CancelOutcome::Running
            }
            Some(state) => CancelOutcome::Finished(state),
        }
    }

    pub(super) fn reschedule(&mut self, id: &TaskId, when: When) -> ChangeOutcome {
        let due_at = due_at(when, self.moment);
        self.change_scheduled(id, |task| task.schedule(due_at))
    }

    pub(super) fn update(&mut self, id: &TaskId, message: Vec<u8>) -> ChangeOutcome {
        self.change_scheduled(id, |task| task.message = message)
    }

    fn change_scheduled(&mut self, id: &TaskId, change: impl FnOnce(&mut Task)) -> ChangeOutcome {
        match self.state(id) {
            None => ChangeOutcome::NotFound,
            Some(TaskState::Scheduled) => {
                self.change(id, change);
                let due_at = self.task(id).map_or(Timestamp::ZERO, Task::at);
                ChangeOutcome::Changed { due_at }
            }
            Some(TaskState::Running) => ChangeOutcome::Running,
            Some(state) => ChangeOutcome::Finished(state),
        }
    }

    pub(super) fn requeue_dead(
        &mut self,
        filter: &DeadFilter,
        interval: Duration,
        now: Timestamp,
    ) -> Vec<TaskId> {
        let ids = self.dead(filter);
        let mut due_at = now;
        for id in &ids {
            self.change(id, |task| {
                task.trail = Trail {
                    failures: 0,
                    lock_expiries: 0,
                    releases: 0,
                    requeues: task.trail.requeues.saturating_add(1),
                    last_error: task.trail.last_error.take(),
                    succeeded: std::mem::take(&mut task.trail.succeeded),
                };
                task.schedule(due_at);
            });
            due_at = due_at.plus(interval);
        }
        ids
    }

    pub(super) fn discard_dead(&mut self, filter: &DeadFilter) -> Vec<TaskId> {
        let ids = self.dead(filter);
        for id in &ids {
            self.take(id);
        }
        ids
    }

    /// The dead tasks that `filter` means, each once.
    fn dead(&self, filter: &DeadFilter) -> Vec<TaskId> {
        match filter {
            DeadFilter::Ids(ids) => {
                let mut seen = std::collections::BTreeSet::new();
                let dead = |id: &&TaskId| self.state(id) == Some(TaskState::Dead);
                let once = |id: &&TaskId| seen.insert((*id).clone());
                ids.iter().filter(dead).filter(once).cloned().collect()
            }
            DeadFilter::Matching {
                died_before,
                error_contains,
                limit,
            } => {
                let has_error = |id: &TaskId| {
                    let trail = self.task(id).map(|task| &task.trail);
                    let error = trail.and_then(|trail| trail.last_error.as_deref());
                    error_contains
                        .as_deref()
                        .is_none_or(|text| error.is_some_and(|e| e.contains(text)))
                };
                let died_in_time = |at: Timestamp| died_before.is_none_or(|before| at < before);
                let meant = |(at, id): &&(Timestamp, TaskId)| died_in_time(*at) && has_error(id);
                let dead = self.all(TaskState::Dead).filter(meant);
                dead.take(*limit).map(|(_, id)| id.clone()).collect()
            }
        }
    }

    pub(super) fn purge(&mut self, state: TaskState) -> u64 {
        let ids: Vec<TaskId> = self.all(state).map(|(_, id)| id.clone()).collect();
        for id in &ids {
            self.take(id);
        }
        ids.len() as u64
    }
}
