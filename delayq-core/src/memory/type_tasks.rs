//! Tasks of one type: by id, and per state by time and id.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use super::entry::{Entry, Task};
use crate::fleet::FleetLimits;
use crate::history::{KeptMessage, LifeOutcome};
use crate::machine::{Bookkeeping, EndFacts, Ended, Gate, Settled};
use crate::name::TaskId;
use crate::operate::{Cursor, Page, TypeStats, TypeTotals};
use crate::state::TaskState;
use crate::store::{MAX_BATCH, cut_error};
use crate::task::{Lock, TaskInfo};
use crate::time::{Reading, Timestamp};

/// The states of ended tasks, which are only remembered.
const ENDED: [TaskState; 3] = [TaskState::Done, TaskState::Cancelled, TaskState::Expired];

/// Ids by time, then id: the order of every listing and of every claim.
pub(super) type Order = BTreeSet<(Timestamp, TaskId)>;

/// The tasks of one type. An id has one entry, so it is in exactly one state. Only
/// [`put`](Self::put) and [`take`](Self::take) change the orders, so they agree with the entries.
#[derive(Debug)]
pub(super) struct TypeTasks {
    pub(super) entries: BTreeMap<TaskId, Entry>,
    pub(super) orders: BTreeMap<TaskState, Order>,
    /// The largest fence issued so far.
    pub(super) high_water: u64,
    /// Paused while this is in the future; `MAX`: no end.
    pub(super) paused_until: Timestamp,
    /// See [`RateLimiter`](crate::machine::RateLimiter); microseconds.
    pub(super) tat: i64,
    /// A claim left due tasks behind because no slot was free: freeing one wakes the handlers.
    pub(super) held_back: bool,
    /// Maximum number of scheduled tasks.
    pub(super) max_pending: Option<u64>,
    /// Limits that replace the claimers' own.
    pub(super) fleet: FleetLimits,
    /// The part of the message that the record of an end keeps; `None`: ends are not recorded.
    pub(super) history: Option<KeptMessage>,
    /// The ends of this operation.
    pub(super) recorded: Vec<EndFacts>,
    /// Number of tasks refused because of `max_pending`.
    pub(super) refused: u64,
    /// Counts of ended tasks.
    pub(super) totals: TypeTotals,
    /// The time of this operation.
    pub(super) reading: Reading,
    retention: Retention,
    /// The end time of the latest task that was forgotten before its retention was over.
    forgotten: Timestamp,
}

/// How long ended tasks are remembered, and how many at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retention {
    pub(super) span: Duration,
    pub(super) most: usize,
}

/// The next event of a bucket: the end of its pause, then its first due time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    paused_until: Option<Timestamp>,
    due_at: Option<Timestamp>,
}

impl Head {
    /// True if the head moved earlier than `before`, so that a handler that planned by `before`
    /// would claim too late.
    pub(super) fn is_earlier_than(self, before: Self) -> bool {
        let pause_is_shorter = self.paused_until < before.paused_until;
        let is_sooner = match (self.due_at, before.due_at) {
            (Some(due_at), Some(before)) => due_at < before,
            (due_at, None) => due_at.is_some(),
            (None, Some(_)) => false,
        };
        pause_is_shorter || is_sooner
    }
}

impl TypeTasks {
    pub(super) fn new(retention: Retention) -> Self {
        Self {
            entries: BTreeMap::new(),
            orders: BTreeMap::new(),
            high_water: 0,
            paused_until: Timestamp::ZERO,
            tat: 0,
            held_back: false,
            max_pending: None,
            fleet: FleetLimits::NONE,
            history: None,
            recorded: Vec::new(),
            refused: 0,
            totals: TypeTotals::default(),
            reading: Reading::default(),
            retention,
            forgotten: Timestamp::ZERO,
        }
    }

    /// Resets to the state of a new type, except for the largest fence issued.
    pub(super) fn clear(&mut self) {
        let (high_water, history) = (self.high_water, self.history);
        *self = Self::new(self.retention);
        (self.high_water, self.history) = (high_water, history);
    }

    pub(super) fn find(&self, id: &TaskId) -> Option<TaskInfo> {
        let entry = self.entries.get(id)?;
        Some(entry.info(id, self.gate()))
    }

    fn gate(&self) -> Gate {
        Gate {
            reading: self.reading,
            paused_until: self.pause_at(self.reading.now),
            running: self.count(TaskState::Running),
            held_back: self.held_back,
            fleet: self.fleet,
            tat: self.tat,
        }
    }

    pub(super) fn state(&self, id: &TaskId) -> Option<TaskState> {
        self.entries.get(id).map(Entry::state)
    }

    /// The task, unless it has ended.
    pub(super) fn task(&self, id: &TaskId) -> Option<&Task> {
        match self.entries.get(id) {
            Some(Entry::Live(task)) => Some(task),
            _ => None,
        }
    }

    /// Puts an entry under a free id.
    pub(super) fn put(&mut self, id: TaskId, entry: Entry) {
        let order = self.orders.entry(entry.state()).or_default();
        order.insert((entry.at(), id.clone()));
        self.entries.insert(id, entry);
    }

    /// Frees an id.
    pub(super) fn take(&mut self, id: &TaskId) -> Option<Entry> {
        let entry = self.entries.remove(id)?;
        if let Some(order) = self.orders.get_mut(&entry.state()) {
            order.remove(&(entry.at(), id.clone()));
        }
        Some(entry)
    }

    /// Changes a task that has not ended.
    pub(super) fn change(&mut self, id: &TaskId, change: impl FnOnce(&mut Task)) {
        let mut entry = self.take(id);
        if let Some(Entry::Live(task)) = &mut entry {
            change(task);
        }
        if let Some(entry) = entry {
            self.put(id.clone(), entry);
        }
    }

    /// Replaces `id` by the task that follows it, if there is one. `settled` was the last lock.
    pub(super) fn follow(&mut self, id: &TaskId, settled: Settled) -> bool {
        let now = self.reading.now;
        let mut is_followed = false;
        self.change(id, |task| {
            if let Some(mut next) = task.follow_up.take() {
                next.book = next.book.following(settled, now);
                *task = *next;
                is_followed = true;
            }
        });
        is_followed
    }

    /// Ends a task: frees its message, and remembers the rest for the retention. If a task follows
    /// it, that one replaces it instead.
    pub(super) fn end(&mut self, id: &TaskId, ended: Ended) {
        self.totals.count(ended.state);
        self.record_end(id, ended);
        if self.follow(id, ended.settled) {
            return;
        }
        let Some(Entry::Live(task)) = self.take(id) else {
            return;
        };
        self.put(id.clone(), Entry::Ended(task.remember(ended)));
        self.forget(ended.at);
    }

    /// Records the end of a task that has not left its state yet.
    fn record_end(&mut self, id: &TaskId, ended: Ended) {
        let (Some(task), Some(outcome)) = (self.task(id), LifeOutcome::of(ended.state)) else {
            return;
        };
        let fence = task.book.fence.max(ended.settled.fence);
        let is_running = task.book.state == TaskState::Running;
        let facts = task.facts(id, outcome, self.history);
        self.recorded.extend(facts.map(|facts| EndFacts {
            ended_at: ended.at,
            attempts: ended.attempt,
            fence,
            is_running,
            ..facts
        }));
    }

    /// Records that a task has died. `before` is its bookkeeping until then.
    pub(super) fn record_death(&mut self, id: &TaskId, before: &Bookkeeping) {
        let Some(task) = self.task(id) else {
            return;
        };
        let facts = task.facts(id, LifeOutcome::Dead, self.history);
        let fence = before.fence.max(task.book.settled.fence);
        let is_running = before.state == TaskState::Running;
        self.recorded.extend(facts.map(|facts| EndFacts {
            fence,
            is_running,
            ..facts
        }));
    }

    /// Records that an operator removes a task, unless it has ended before.
    pub(super) fn record_removal(&mut self, id: &TaskId) {
        let Some(task) = self.task(id) else {
            return;
        };
        let facts = task.facts(id, LifeOutcome::Discarded, self.history);
        let ended_at = self.reading.now;
        self.recorded
            .extend(facts.map(|facts| EndFacts { ended_at, ..facts }));
    }

    /// Records the error of the task that `lock` has settled as done.
    pub(super) fn note_failure(&mut self, lock: &Lock, error: &str) -> bool {
        let Some(Entry::Ended(task)) = self.entries.get_mut(&lock.id) else {
            return false;
        };
        let is_meant =
            task.ended.state == TaskState::Done && task.ended.settled.fence == lock.fence;
        if !is_meant || task.last_error.is_some() {
            return false;
        }
        task.last_error = Some(cut_error(error).to_owned());
        self.totals.failed += 1;
        true
    }

    /// Forgets ended tasks after their retention, and the oldest ones beyond the limit.
    pub(super) fn forget(&mut self, now: Timestamp) {
        while let Some((ended_at, id)) = self.oldest_ended() {
            let is_over = ended_at.plus(self.retention.span) <= now;
            if !is_over && self.remembered() <= self.retention.most {
                return;
            }
            if !is_over {
                self.forgotten = self.forgotten.max(ended_at);
            }
            self.take(&id);
        }
    }

    fn remembered(&self) -> usize {
        ENDED.iter().map(|state| self.count(*state)).sum()
    }

    fn oldest_ended(&self) -> Option<(Timestamp, TaskId)> {
        let firsts = ENDED.iter().filter_map(|state| self.order(*state)?.first());
        firsts.min().cloned()
    }

    fn order(&self, state: TaskState) -> Option<&Order> {
        self.orders.get(&state)
    }

    pub(super) fn count(&self, state: TaskState) -> usize {
        self.order(state).map_or(0, Order::len)
    }

    /// The time of the first task in `state`.
    pub(super) fn first(&self, state: TaskState) -> Option<Timestamp> {
        self.order(state)?.first().map(|(at, _)| *at)
    }

    /// The times and ids in `state`, in order, from `after` (exclusive) on.
    fn after(
        &self,
        state: TaskState,
        after: Bound<(Timestamp, TaskId)>,
    ) -> impl Iterator<Item = &(Timestamp, TaskId)> {
        let order = self.order(state).into_iter();
        order.flat_map(move |order| order.range((after.clone(), Bound::Unbounded)))
    }

    /// Every time and id in `state`, in order.
    pub(super) fn all(&self, state: TaskState) -> impl Iterator<Item = &(Timestamp, TaskId)> {
        self.after(state, Bound::Unbounded)
    }

    /// Up to `limit` ids in `state` with a time up to `now`, in order.
    pub(super) fn reached(&self, state: TaskState, now: Timestamp, limit: usize) -> Vec<TaskId> {
        let reached = self.all(state).take_while(|(at, _)| *at <= now);
        reached.take(limit).map(|(_, id)| id.clone()).collect()
    }

    /// The end of the pause, while paused.
    pub(super) fn pause_at(&self, now: Timestamp) -> Option<Timestamp> {
        (self.paused_until > now).then_some(self.paused_until)
    }

    pub(super) fn head(&self, now: Timestamp) -> Head {
        Head {
            paused_until: self.pause_at(now),
            due_at: self.first(TaskState::Scheduled),
        }
    }

    pub(super) fn stats(&self, now: Timestamp) -> TypeStats {
        let due = self.reached(TaskState::Scheduled, now, usize::MAX);
        TypeStats {
            now,
            scheduled: self.count(TaskState::Scheduled) as u64,
            due: due.len() as u64,
            running: self.count(TaskState::Running) as u64,
            dead: self.count(TaskState::Dead) as u64,
            next_due: self.first(TaskState::Scheduled),
            paused_until: self.pause_at(now),
            max_pending: self.max_pending,
            fleet_concurrency: self.fleet.concurrency,
            fleet_rate: self.fleet.rate,
            history: self.history.map(KeptMessage::limit),
            refused: self.refused,
            totals: self.totals,
            remembered: self.remembered() as u64,
            remembered_since: Some(now.minus(self.retention.span).max(self.forgotten)),
        }
    }

    pub(super) fn list(&self, state: TaskState, cursor: Option<&Cursor>, limit: usize) -> Page {
        let bound = cursor.map_or(Bound::Unbounded, |cursor| {
            Bound::Excluded((cursor.at, cursor.id.clone()))
        });
        let order = self.order(state).into_iter();
        let rest: Box<dyn Iterator<Item = _>> = if state.is_ended() {
            let before = (Bound::Unbounded, bound);
            Box::new(order.flat_map(move |order| order.range(before.clone()).rev()))
        } else {
            Box::new(self.after(state, bound))
        };
        let mut rest = rest.peekable();
        let shown = rest.by_ref().take(limit.clamp(1, MAX_BATCH));
        let tasks: Vec<TaskInfo> = shown.filter_map(|(_, id)| self.find(id)).collect();
        let last = tasks.last().filter(|_| rest.peek().is_some());
        let next = last.map(|task| Cursor {
            at: task.at,
            id: task.id.clone(),
        });
        Page { tasks, next }
    }

    pub(super) fn due_histogram(&self, from: Timestamp, to: Timestamp, steps: usize) -> Vec<u64> {
        let mut counts = vec![0; steps];
        let span = to.since(from).as_millis();
        for (due_at, _) in self.all(TaskState::Scheduled) {
            let part = due_at.since(from).as_millis() * steps as u128 / span;
            let count = usize::try_from(part).ok().and_then(|n| counts.get_mut(n));
            if let Some(count) = count.filter(|_| *due_at >= from) {
                *count += 1;
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::super::operations::{cancel, submit};
    use super::*;
    use crate::job::{DelayQueueJob, Limits};
    use crate::time::days;

    #[test]
    fn no_more_ended_tasks_are_remembered_than_the_most_and_the_oldest_go_first() {
        let (span, most) = (days(1), 9);
        let mut bucket = TypeTasks::new(Retention { span, most });
        let id = |n: usize| TaskId::new(n.to_string()).unwrap();
        for n in 0..=most {
            let job = DelayQueueJob::raw("a", "x").id(n.to_string());
            let task = job.into_task(&Limits::default(), Timestamp::ZERO).unwrap();
            let now = Timestamp::from_millis(i64::try_from(n).unwrap());
            bucket.reading = now.into();
            submit(&mut bucket, task).unwrap();
            let _ = cancel(&mut bucket, &id(n), now);
        }
        assert_eq!(bucket.entries.len(), most);
        assert!(bucket.find(&id(0)).is_none());
        assert!(bucket.find(&id(1)).is_some());
    }
}
