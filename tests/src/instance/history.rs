//! What a fleet of instances did, held against the promises.

use std::collections::BTreeMap;
use std::time::Duration;

use delayq_plugin::{TaskState, TaskSubmitService, Timestamp};

use super::log::{Event, What};
use super::plan::Outcome;
use super::scene::Fault;
use super::stalls::{Stall, between};

/// How many milliseconds after a stall, at most, tasks are started again whose locks of a second
/// ended by it.
const CATCHES_UP: i64 = 3_000;
/// How long the shortest lock of all tests with processes lasts, in milliseconds.
const LEAST_LOCK: i64 = 1_000;

/// One start of a worker, and its end if it was reached.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The instance.
    pub name: String,
    /// When the worker was started.
    pub at: i64,
    /// The attempt's number.
    pub attempt: u32,
    /// The lock.
    pub fence: u64,
    /// When it was due.
    pub due: i64,
    /// When it was handed out, on the store's clock.
    pub claimed: i64,
    /// When the worker returned what, and whether it had been told to stop.
    pub end: Option<(i64, Outcome, bool)>,
}

/// A task that was accepted.
#[derive(Clone, Copy, Debug)]
pub struct Accepted {
    /// It must not start before.
    pub not_before: i64,
    /// Its due time, unless a lost answer hid it.
    pub due: Option<i64>,
}

/// The events of all instances, by task.
#[derive(Debug, Default)]
pub struct History {
    /// The tasks whose acceptance some submitter saw.
    pub accepted: BTreeMap<String, Accepted>,
    /// The starts of each task, by fence.
    pub attempts: BTreeMap<String, Vec<Attempt>>,
    /// Submits that failed: instance, error, whether transient.
    pub refused: Vec<(String, String, bool)>,
    faults: Vec<Fault>,
}

impl History {
    /// Sorts the events of instances, given by name.
    #[must_use]
    pub fn new(logs: impl IntoIterator<Item = (String, Vec<Event>)>, faults: Vec<Fault>) -> Self {
        let mut history = Self {
            faults,
            ..Self::default()
        };
        for (name, events) in logs {
            for event in events {
                history.add(&name, event);
            }
        }
        for attempts in history.attempts.values_mut() {
            attempts.sort_by_key(|attempt| attempt.fence);
        }
        history
    }

    /// The most workers that were under way at a time. One that ended in the millisecond in which
    /// another began was before it.
    ///
    /// # Panics
    /// When a worker has not ended.
    #[must_use]
    pub fn most_at_a_time(&self) -> i64 {
        let end = |start: &Attempt| start.end.expect("every worker has ended").0;
        let begins = self.starts().map(|start| (start.at, 1));
        let ends = self.starts().map(|start| (end(start), -1));
        let mut steps: Vec<(i64, i64)> = begins.chain(ends).collect();
        steps.sort_unstable();
        let running = steps.into_iter().scan(0, |running, (_, step)| {
            *running += step;
            Some(*running)
        });
        running.max().unwrap_or(0)
    }

    fn add(&mut self, name: &str, Event { at, what }: Event) {
        match what {
            What::Sent {
                task,
                not_before,
                due,
            } => {
                self.accepted.insert(task, Accepted { not_before, due });
            }
            What::Start {
                task,
                attempt,
                fence,
                due,
                claimed,
            } => {
                let attempt = Attempt {
                    name: name.to_owned(),
                    at,
                    attempt,
                    fence,
                    due,
                    claimed,
                    end: None,
                };
                self.attempts.entry(task).or_default().push(attempt);
            }
            What::End {
                task,
                fence,
                outcome,
                told,
            } => {
                let mut attempts = self.attempts.get_mut(&task).into_iter().flatten();
                let meant = attempts.find(|attempt| attempt.fence == fence && attempt.name == name);
                meant.expect("a worker that ends has started").end = Some((at, outcome, told));
            }
            What::Refused {
                error, transient, ..
            } => self.refused.push((name.to_owned(), error, transient)),
            // Stalls are read from the logs by themselves.
            What::Stalled { .. }
            | What::Up
            | What::Quiet
            | What::Blocked
            | What::Unblocked
            | What::Down { .. } => {}
        }
    }

    /// All starts, of any task.
    pub fn starts(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.values().flatten()
    }

    /// How many tasks `name` has started first.
    #[must_use]
    pub fn share_of(&self, name: &str) -> usize {
        let first = self
            .attempts
            .values()
            .filter_map(|attempts| attempts.first());
        first.filter(|attempt| attempt.name == name).count()
    }

    /// Holds every start against the promises: never early, fences strictly increase, no two
    /// holders at a time, no repeat without a cause, attempts counted right.
    ///
    /// # Panics
    /// When a promise is broken.
    pub fn check_starts(&self) {
        for (task, attempts) in &self.attempts {
            let why = |rule: &str| format!("{task} {rule}: {attempts:#?}\n{:#?}", self.faults);
            for attempt in attempts {
                assert!(attempt.at >= attempt.due, "{}", why("started early"));
            }
            if let (Some(accepted), Some(first)) = (self.accepted.get(task), attempts.first()) {
                assert!(first.at >= accepted.not_before, "{}", why("started early"));
                let is_late = |fault: &Fault| match fault {
                    Fault::Outage { .. } => true,
                    Fault::Stalled(Stall { from, to }) => {
                        from.as_millis() <= first.claimed
                            && accepted.due.is_none_or(|due| due <= to.as_millis())
                    }
                    _ => false,
                };
                // A claim whose answer came too late is given back unstarted, due at that time.
                if !self.faults.iter().any(is_late)
                    && let (Some(due), 1) = (accepted.due, first.attempt)
                {
                    assert_eq!(first.due, due, "{}", why("was due when its receipt said"));
                }
            }
            for (one, next) in attempts.iter().zip(attempts.iter().skip(1)) {
                assert!(
                    next.fence > one.fence,
                    "{}",
                    why("has fences that increase")
                );
                assert!(
                    self.explains(one, next),
                    "{}",
                    why("was repeated for a cause")
                );
                let released = matches!(one.end, Some((_, Outcome::Release, _)));
                let counted = next.attempt > one.attempt;
                let same = next.attempt == one.attempt;
                assert!(
                    counted || released && same,
                    "{}",
                    why("has attempts that count")
                );
            }
        }
    }

    /// Whether `one` had ended before `next` began, and somebody had a reason to begin it.
    fn explains(&self, one: &Attempt, next: &Attempt) -> bool {
        let fault = self.faults.iter().any(|fault| match fault {
            Fault::Killed { name, from, .. } => *name == one.name && next.at >= from.as_millis(),
            Fault::Stopped { name } | Fault::Crashed { name } => *name == one.name,
            // The lock counts from the moment at which the claim was sent, which the server may
            // have done only after the outage.
            Fault::Outage { from, to } => {
                one.claimed <= to.as_millis() + LEAST_LOCK && next.at >= from.as_millis()
            }
            Fault::Stalled(Stall { from, to }) => {
                let (from, to) = (from.as_millis(), to.as_millis());
                let had_ended = one.end.is_some_and(|(end, ..)| end < from - LEAST_LOCK);
                let is_lost = next.claimed - one.claimed >= LEAST_LOCK && !had_ended;
                is_lost && one.claimed <= to && (from..=to + CATCHES_UP).contains(&next.at)
            }
        });
        let again = |(end, outcome, _): (i64, Outcome, bool)| {
            end <= next.at && matches!(outcome, Outcome::Retry | Outcome::Release)
        };
        fault || one.end.is_some_and(again)
    }

    /// Holds every accepted task against the store: it is done, and its last start is the one that
    /// ended it. Returns how many there are.
    ///
    /// # Panics
    /// When one is not done, or the store does not answer.
    pub async fn check_done(&self, service: &TaskSubmitService) -> usize {
        for task in self.accepted.keys() {
            let (task_type, id) = task.split_once('/').expect("a type and an id");
            let found = service
                .find(task_type, id)
                .await
                .expect("the store answers");
            let state = found.as_ref().map(|info| info.state);
            assert_eq!(
                state,
                Some(TaskState::Done),
                "{task} was accepted: {found:?}"
            );
            let attempts = self
                .attempts
                .get(task)
                .map(Vec::as_slice)
                .unwrap_or_default();
            let last = attempts
                .last()
                .unwrap_or_else(|| panic!("{task} is done, never started"));
            assert!(
                matches!(last.end, Some((_, Outcome::Done, _))),
                "{task} is done, but its last start did not succeed: {attempts:#?}"
            );
            let made = found.map(|info| info.attempt);
            assert_eq!(
                made,
                Some(last.attempt),
                "{task} counts its attempts: {attempts:#?}"
            );
        }
        self.accepted.len()
    }

    /// How long the tasks of killed holders waited for their next start, the longest wait: counted
    /// from the last kill before that start, because the next holder may have been killed, too.
    ///
    /// # Panics
    /// When one was not started again.
    #[must_use]
    pub fn slowest_takeover(&self) -> Option<Duration> {
        let kills = || {
            self.faults.iter().filter_map(|fault| match fault {
                Fault::Killed { name, to, .. } => Some((name, to.as_millis())),
                _ => None,
            })
        };
        let stalls = self.faults.iter().filter_map(|fault| match fault {
            Fault::Stalled(stall) => Some(*stall),
            _ => None,
        });
        let stalls: Vec<_> = stalls.collect();
        let mut waits = Vec::new();
        for (task, attempts) in &self.attempts {
            for (index, attempt) in attempts.iter().enumerate() {
                let killed = kills().any(|(name, _)| *name == attempt.name);
                if attempt.end.is_some() || !killed {
                    continue;
                }
                let Some(next) = attempts.get(index + 1) else {
                    panic!(
                        "{task} was not started again after its holder was killed: {attempts:#?}"
                    )
                };
                let last = kills().map(|(_, at)| at).filter(|at| *at <= next.at).max();
                waits.extend(last.map(|last| between(last, next.at, &stalls)));
            }
        }
        waits.into_iter().max()
    }

    /// The first start after `time` that `is_meant`.
    #[must_use]
    pub fn first_start_after(
        &self,
        time: Timestamp,
        is_meant: impl Fn(&str, &Attempt) -> bool,
    ) -> Option<i64> {
        let meant = self
            .attempts
            .iter()
            .flat_map(|(task, attempts)| attempts.iter().filter(|attempt| is_meant(task, attempt)));
        let later = meant
            .map(|attempt| attempt.at)
            .filter(|at| *at > time.as_millis());
        later.min()
    }
}
