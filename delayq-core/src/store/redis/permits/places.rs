//! What one instance holds of the limits of split types.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::fleet::FleetLimits;
use crate::name::{TaskId, TaskType};
use crate::task::{ClaimedTask, Lock};

/// How much longer than its locks an instance has its places. A claim is sent only after they were granted, so its locks
/// end a little later in the store; its workers have been stopped by then, as their time counts from before that.
const SLACK: Duration = Duration::from_millis(500);
/// So many starts are asked for at least: others have none of them until what is not used is given back.
const LEAST_WANT: usize = 16;
/// A lock without an end is reckoned to last so long.
const LONGEST: Duration = Duration::from_hours(24 * 365 * 100);

/// What one store holds of the limits, by type.
#[derive(Debug, Default)]
pub(in crate::store::redis) struct Permits(Mutex<HashMap<TaskType, Arc<Desk>>>);

/// What is held of one type.
#[derive(Debug, Default)]
pub(super) struct Desk {
    /// The number of the last statement. One is made after another.
    pub(super) last: tokio::sync::Mutex<u64>,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) limits: FleetLimits,
    /// Of claims that are under way, and until when their locks last at most.
    reserved: usize,
    reserved_until: Option<Instant>,
    /// Tasks under way: the fence, and until when the lock lasts at most.
    locks: HashMap<TaskId, (u64, Instant)>,
    /// Some have become free since the last statement.
    pub(super) has_freed: bool,
    /// How many tasks the last claim that might take some has taken.
    used: usize,
    /// Starts to give back, and when they were granted, by the clock of the store, microseconds.
    pub(super) back: (usize, u64),
}

/// When it is worth to ask for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::redis) enum Again {
    AtOnce,
    At(Instant),
    /// Nobody knows, but somebody will tell.
    WhenTold,
}

/// What a claim may start.
#[derive(Debug)]
pub(in crate::store::redis) struct Permit {
    desk: Arc<Desk>,
    pub(in crate::store::redis) starts: usize,
    granted_at: u64,
    unused: usize,
    /// Whether fewer were granted than asked for as no place is left.
    pub(in crate::store::redis) is_full: bool,
    pub(in crate::store::redis) again: Again,
}

impl Permits {
    pub(super) fn desk(&self, task_type: &TaskType) -> Arc<Desk> {
        Arc::clone(self.all().entry(task_type.clone()).or_default())
    }

    pub(super) fn known(&self, task_type: &TaskType) -> Option<Arc<Desk>> {
        self.all().get(task_type).cloned()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<TaskType, Arc<Desk>>> {
        // No panic leaves it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    pub(super) fn places(&self) -> MutexGuard<'_, Places> {
        // No panic leaves it half changed.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    /// How many are held, and for how long at least, as of a statement that is about to be sent.
    pub(super) fn stated(&mut self, now: Instant, until: Instant) -> (usize, Duration) {
        self.locks.retain(|_, (_, until)| *until > now);
        self.has_freed = false;
        let reserved = self.reserved_until.filter(|_| self.reserved > 0);
        let ends = self.locks.values().map(|(_, until)| *until);
        let longest = ends.chain(reserved).fold(until, Instant::max);
        let keep = longest.saturating_duration_since(now) + SLACK;
        (self.reserved + self.locks.len(), keep)
    }

    /// Several are reckoned to be as old as the oldest: what a grant took from a rate comes back by itself.
    pub(super) fn give_back(&mut self, starts: usize, granted_at: u64) {
        if starts > 0 {
            let (back, since) = self.back;
            let since = if back == 0 {
                granted_at
            } else {
                since.min(granted_at)
            };
            self.back = (back.saturating_add(starts), since);
            self.has_freed = true;
        }
    }

    /// Gives the place of a lock back, if it has one.
    pub(super) fn free(&mut self, Lock { id, fence }: &Lock) {
        if self.locks.get(id).is_some_and(|(held, _)| held == fence) {
            self.locks.remove(id);
            self.has_freed = true;
        }
    }

    /// Notes until when a lock lasts: at least, or exactly. Returns whether it has a place.
    pub(super) fn note_end(&mut self, lock: &Lock, until: Instant, is_exact: bool) -> bool {
        let Some((held, end)) = self.locks.get_mut(&lock.id) else {
            return false;
        };
        if *held == lock.fence && (is_exact || *end < until) {
            *end = until;
        }
        *held == lock.fence
    }

    /// How many starts to ask for: twice as many as were used last, as nobody knows how much is due.
    pub(super) fn next_want(&self) -> usize {
        self.used.saturating_mul(2).max(LEAST_WANT)
    }

    /// When the first of the locks ends.
    pub(super) fn first_end(&self) -> Option<Instant> {
        self.locks.values().map(|(_, until)| *until).min()
    }

    pub(super) fn reserve(&mut self, places: usize, until: Instant) {
        self.reserved += places;
        self.reserved_until = self.reserved_until.max(Some(until));
    }
}

impl Permit {
    pub(super) fn new(desk: Arc<Desk>, (starts, granted_at): (usize, u64)) -> Self {
        Self {
            desk,
            starts,
            granted_at,
            unused: starts,
            is_full: false,
            again: Again::AtOnce,
        }
    }

    /// Turns what was used into places of these tasks, and returns how much was not: that is given back with the next
    /// statement.
    pub(in crate::store::redis) fn used_by(
        mut self,
        tasks: &[ClaimedTask],
        lock_for: Duration,
    ) -> usize {
        let until = ends_at(Instant::now(), lock_for);
        let mut places = self.desk.places();
        if self.starts > 0 {
            places.used = tasks.len();
        }
        if places.limits.concurrency.is_some() {
            let locks = tasks.iter().map(|task| &task.lock);
            let held = locks.map(|lock| (lock.id.clone(), (lock.fence, until)));
            places.locks.extend(held);
        }
        drop(places);
        self.unused = self.starts.saturating_sub(tasks.len());
        self.unused
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut places = self.desk.places();
        places.reserved = places.reserved.saturating_sub(self.starts);
        places.give_back(self.unused, self.granted_at);
    }
}

/// A time that far ahead; no later than a clock can tell.
pub(super) fn ends_at(now: Instant, span: Duration) -> Instant {
    now + span.min(LONGEST)
}
