//! The claim: all the work that is due, and when to call again.

use std::time::Duration;

use super::bucket::Bucket;
use super::entry::Place;
use crate::name::TaskId;
use crate::state::TaskState;
use crate::store::pace::Pace;
use crate::store::{ClaimEnd, ClaimRequest, Claimed, EndCause, MAX_BATCH, Outlook, next_fence};
use crate::task::{ClaimedTask, Lock};
use crate::time::Timestamp;

impl Bucket {
    /// `now` is held back by the guard; locks and pauses are measured on `store_now`.
    pub(super) fn claim(
        &mut self,
        request: &ClaimRequest,
        now: Timestamp,
        store_now: Timestamp,
    ) -> Claimed {
        let mut claimed = Claimed {
            now,
            store_now,
            past: self.moment.past,
            high_water: self.high_water,
            tasks: Vec::new(),
            ended: Vec::new(),
            unheard: 0,
            next_due: None,
            turn: Duration::ZERO,
        };
        if let Some(until) = self.pause_at(store_now) {
            claimed.next_due = Some(until).filter(|until| *until < Timestamp::MAX);
            return claimed;
        }
        let mut pace = request
            .fleet
            .rate
            .map(|rate| Pace::new(rate, self.tat, self.moment));
        let allowed = pace.map_or(MAX_BATCH, |pace| pace.allowed());
        let limit = request.limit.min(allowed).min(MAX_BATCH);
        let expired = self.reached(TaskState::Running, store_now, limit);
        let places = request.free_places(self.count(TaskState::Running));
        let rest = (limit - expired.len()).min(places);
        let due = self.reached(TaskState::Scheduled, now, rest);
        for id in expired {
            match self.expire_lock(&id, request.max_lock_expiries, store_now) {
                Some(cause) => claimed.ended.push(ClaimEnd { id, cause }),
                None => self.start(id, request, &mut claimed),
            }
        }
        for id in due {
            self.start(id, request, &mut claimed);
        }
        if let Some(pace) = &mut pace {
            pace.take(claimed.tasks.len());
            self.tat = pace.tat();
        }
        let outlook = Outlook {
            now,
            due: self.first(TaskState::Scheduled),
            lock: self.first(TaskState::Running),
            is_full: request.free_places(self.count(TaskState::Running)) == 0,
            again_at: pace.and_then(|pace| pace.again_at()),
        };
        self.held_back |= outlook.is_held_back();
        claimed.next_due = outlook.next_call();
        claimed
    }

    /// Takes an expired lock away. The task is scheduled again, or ended for one of two causes.
    fn expire_lock(
        &mut self,
        id: &TaskId,
        max_lock_expiries: u32,
        now: Timestamp,
    ) -> Option<EndCause> {
        self.change(id, |task| {
            task.trail.lock_expiries = task.trail.lock_expiries.saturating_add(1);
            task.place = Place::Scheduled {
                due_at: task.due_at,
            };
        });
        let task = self.task(id)?;
        let expiries = task.trail.lock_expiries;
        if task.cancel_requested {
            self.end(id, TaskState::Cancelled, now);
            return Some(EndCause::Cancelled);
        }
        if expiries < max_lock_expiries.max(1) {
            return None;
        }
        self.change(id, |task| {
            task.trail.last_error = Some(poison_error(expiries));
            task.die(now);
        });
        Some(EndCause::Poison)
    }

    /// Locks a due task, unless its expiry has passed.
    fn start(&mut self, id: TaskId, request: &ClaimRequest, claimed: &mut Claimed) {
        let expires_at = self.task(&id).and_then(super::entry::Task::expires_at);
        if expires_at.is_some_and(|expires_at| expires_at <= claimed.now) {
            self.end(&id, TaskState::Expired, claimed.store_now);
            let cause = EndCause::Expired;
            claimed.ended.push(ClaimEnd { id, cause });
            return;
        }
        self.high_water = next_fence(self.high_water, claimed.store_now);
        let fence = self.high_water;
        let lock_until = claimed.store_now.plus(request.lock_for);
        let due_at = self.task(&id).map(super::entry::Task::at);
        self.change(&id, |task| {
            task.place = Place::Running { fence, lock_until }
        });
        if let (Some(task), Some(due_at)) = (self.task(&id), due_at) {
            claimed.tasks.push(ClaimedTask {
                lock: Lock { id, fence },
                lock_until,
                attempt: task.attempt(),
                due_at,
                submitted_at: task.submitted_at,
                expires_at,
                message: task.message.clone(),
                headers: task.headers.clone(),
                trail: task.trail.clone(),
            });
        }
    }
}

/// The cause of death of a task whose lock expired too often.
fn poison_error(expiries: u32) -> String {
    format!("poison: its lock expired {expiries} times; its process may have crashed")
}
