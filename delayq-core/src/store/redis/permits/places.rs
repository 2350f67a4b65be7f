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
    /// Of statements on the connection of claims one is made after another. Those of extensions wait for none of them.
    pub(super) turn: tokio::sync::Mutex<()>,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) limits: FleetLimits,
    /// The number of the last statement.
    last: u64,
    /// Of claims that are under way, and until when their locks last at most. What is asked for counts like what is
    /// granted until it is known how much that is: the next statement may be made before.
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

/// What a statement says of the instance that makes it.
#[derive(Debug)]
pub(super) struct Stated {
    pub(super) number: u64,
    pub(super) limits: FleetLimits,
    pub(super) held: usize,
    /// For how long at least.
    pub(super) keep: Duration,
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
    /// That of its statement.
    number: u64,
    /// So many are asked for, and once that is answered, granted.
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

    /// What a statement that is about to be sent says, and what it asks for, to start what has locks until `until`.
    pub(super) fn state(
        self: &Arc<Self>,
        want: usize,
        now: Instant,
        until: Instant,
    ) -> (Stated, Permit) {
        // In one step: a later number never says less than this one may be granted.
        let mut places = self.places();
        places.last += 1;
        let (held, keep) = places.stated(now, until);
        let stated = Stated {
            number: places.last,
            limits: places.limits,
            held,
            keep,
            back: std::mem::take(&mut places.back),
        };
        places.reserve(want, until);
        let permit = Permit {
            desk: Arc::clone(self),
            number: stated.number,
            starts: want,
            granted_at: 0,
            unused: 0,
            is_full: false,
            again: Again::AtOnce,
        };
        (stated, permit)
    }
}

impl Places {
    fn stated(&mut self, now: Instant, until: Instant) -> (usize, Duration) {
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

    fn reserve(&mut self, places: usize, until: Instant) {
        if places > 0 {
            self.reserved += places;
            self.reserved_until = self.reserved_until.max(Some(until));
        }
    }
}

impl Permit {
    /// Notes how many are granted. Returns whether a statement that was made meanwhile has said more.
    pub(super) fn granted(&mut self, starts: usize, granted_at: u64) -> bool {
        let mut places = self.desk.places();
        let less = self.starts.saturating_sub(starts);
        places.reserved = places.reserved.saturating_sub(less);
        let is_overstated = less > 0 && places.last > self.number;
        places.has_freed |= is_overstated;
        drop(places);
        (self.starts, self.unused) = (starts, starts);
        self.granted_at = granted_at;
        is_overstated
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
        // Its answer was lost: what it asked for may be known as held.
        places.has_freed |= self.granted_at == 0 && self.starts > 0;
    }
}

/// A time that far ahead; no later than a clock can tell.
pub(super) fn ends_at(now: Instant, span: Duration) -> Instant {
    now + span.min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(desk: &Arc<Desk>) -> (u64, usize) {
        let now = Instant::now();
        let (stated, _) = desk.state(0, now, now);
        (stated.number, stated.held)
    }

    /// Whatever order they arrive in, the last one that counts says no less than is granted.
    #[test]
    fn what_is_asked_for_is_held_until_it_is_known_how_much_is_granted() {
        let (desk, now) = (Arc::default(), Instant::now());
        let until = now + Duration::from_secs(9);
        let (stated, mut permit) = Desk::state(&desk, 5, now, until);
        assert_eq!((stated.number, stated.held), (1, 0));
        let (meanwhile, _) = desk.state(0, now, now);
        assert_eq!((meanwhile.number, meanwhile.held), (2, 5));
        assert_eq!(meanwhile.keep, until - now + SLACK);
        assert!(permit.granted(2, 7), "another one has said five");
        assert!(desk.places().has_freed);
        assert_eq!(held(&desk), (3, 2));
        drop(permit);
        assert_eq!(desk.places().back, (2, 7));
        assert_eq!(held(&desk), (4, 0));
    }

    #[test]
    fn what_nobody_else_has_said_has_not_to_be_taken_back() {
        let (desk, now) = (Arc::default(), Instant::now());
        let (_, mut permit) = Desk::state(&desk, 5, now, now);
        assert!(!permit.granted(2, 7) && !desk.places().has_freed);
        drop(permit);
        let (_, mut permit) = Desk::state(&desk, 2, now, now);
        held(&desk);
        assert!(!permit.granted(2, 7), "all of it");
        let (_, lost) = Desk::state(&desk, 5, now, now);
        drop(permit);
        held(&desk);
        drop(lost);
        assert!(desk.places().has_freed, "nobody knows what was granted");
        assert_eq!(held(&desk).1, 0);
    }

    /// A statement under way.
    struct Sent {
        by: usize,
        stated: Stated,
        want: usize,
        /// `None` once its caller has gone.
        permit: Option<Permit>,
        /// Once it was heard.
        granted: Option<usize>,
    }

    /// What `permit.lua` knows of its instance: the number of the last statement, and the places.
    type Known = (u64, usize);

    /// As `permit.lua` does.
    fn hear(sent: &mut Sent, known: &mut [Known; 3], most: usize) {
        let of_all: usize = known.iter().map(|(_, places)| places).sum();
        let (last, places) = &mut known[sent.by];
        let (held, mut granted) = (sent.stated.held, 0);
        if *last < sent.stated.number {
            granted = sent
                .want
                .min((most + *places).saturating_sub(of_all + held));
            (*last, *places) = (sent.stated.number, held + granted);
        }
        sent.granted = Some(granted);
    }

    /// Statements are heard in any order, callers go away, and answers are late.
    #[test]
    fn no_order_of_statements_exceeds_a_limit() {
        for seed in 0..1_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (most, now) = (random.usize(1..6), Instant::now());
            let desks: [Arc<Desk>; 3] = Default::default();
            let mut known = [(0, 0); 3];
            let (mut sent, mut running): (Vec<Sent>, Vec<Permit>) = Default::default();
            for _ in 0..200 {
                let any = random.usize(..);
                let one = (!sent.is_empty()).then(|| any % sent.len());
                match (random.u8(..6), one) {
                    (0, _) => {
                        let (by, want) = (random.usize(..3), random.usize(..8));
                        let (stated, permit) = desks[by].state(want, now, now);
                        sent.push(Sent {
                            by,
                            stated,
                            want,
                            permit: Some(permit),
                            granted: None,
                        });
                    }
                    (1, _) if !running.is_empty() => {
                        running.swap_remove(any % running.len());
                    }
                    (2, Some(one)) => sent[one].permit = None,
                    (_, Some(one)) if sent[one].granted.is_none() => {
                        hear(&mut sent[one], &mut known, most);
                    }
                    (_, Some(one)) => {
                        let Sent {
                            permit, granted, ..
                        } = sent.swap_remove(one);
                        if let (Some(mut permit), Some(granted)) = (permit, granted) {
                            permit.granted(granted, 1);
                            running.push(permit);
                        }
                    }
                    _ => {}
                }
                let starts: usize = running.iter().map(|permit| permit.starts).sum();
                assert!(starts <= most, "seed {seed}");
            }
        }
    }
}
