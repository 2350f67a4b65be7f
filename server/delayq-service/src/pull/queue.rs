//! Waiting requests, and one line for each type that they wait for.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use delayq_plugin::TaskType;
use delayq_plugin::store::MAX_BATCH;

use super::handover::Handover;
use super::type_line::{TypeLine, WaiterId};
use super::waiter::{LockTerms, Waiter};

/// How long a type without waiters is remembered.
const REMEMBERED: Duration = Duration::from_mins(1);
/// The maximum age of a type's list of buckets.
const LIST_AGE: Duration = Duration::from_secs(30);
/// The largest number of waiters that one claim inspects to find matching ones.
const MOST_PASSED: usize = 1_000;

/// All waiters. A waiter for several types stands in several lines.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) lines: HashMap<TaskType, TypeLine>,
    pub(super) waiters: HashMap<WaiterId, Waiter>,
    hasty: Vec<WaiterId>,
    last_id: WaiterId,
}

impl Queue {
    /// Adds a waiter to the end of the lines of its types.
    pub(super) fn enter(&mut self, waiter: Waiter, now: Duration) {
        self.last_id += 1;
        let id = self.last_id;
        for task_type in &waiter.demand.types {
            let line = self.lines.entry(task_type.clone()).or_default();
            line.used_at = now;
            line.waiters.push_back(id);
        }
        if waiter.is_hasty {
            self.hasty.push(id);
        }
        self.waiters.insert(id, waiter);
    }

    /// Returns true if the buckets of a type are unknown or their list is too old.
    pub(super) fn needs_list(&self, task_type: &TaskType, now: Duration) -> bool {
        let line = self.lines.get(task_type);
        line.is_some_and(|line| line.buckets.is_empty() || now >= line.listed_at + LIST_AGE)
    }

    /// The types with at least one waiter.
    pub(super) fn waited_types(&self) -> Vec<TaskType> {
        let waited = self.lines.iter();
        let waited = waited.filter(|(_, line)| !line.waiters.is_empty());
        waited.map(|(task_type, _)| task_type.clone()).collect()
    }

    /// Removes waiters that are gone, and lines that have been unused for a while.
    pub(super) fn forget_the_gone(&mut self, now: Duration) {
        self.waiters
            .retain(|_, waiter| waiter.is_reserved() || !waiter.is_gone());
        let waiters = &self.waiters;
        self.lines.retain(|_, line| {
            line.waiters.retain(|id| waiters.contains_key(id));
            if !line.waiters.is_empty() {
                line.used_at = now;
            }
            now < line.used_at + REMEMBERED
        });
    }

    /// Reserves waiters for one claim: the first ones with equal lock terms. Returns them, the
    /// number of tasks that they want, and the terms.
    pub(super) fn reserve(&mut self, task_type: &TaskType) -> (Vec<WaiterId>, usize, LockTerms) {
        let (mut reserved, mut limit, mut terms) = (Vec::new(), 0, LockTerms::default());
        let Some(line) = self.lines.get_mut(task_type) else {
            return (reserved, limit, terms);
        };
        let mut passed = std::mem::take(&mut line.waiters);
        let mut kept = VecDeque::new();
        while let Some(id) = passed.pop_front() {
            if limit >= MAX_BATCH || kept.len() >= MOST_PASSED {
                passed.push_front(id);
                break;
            }
            let Some(waiter) = self.waiters.get(&id) else {
                continue;
            };
            if waiter.is_gone() {
                self.waiters.remove(&id);
                continue;
            }
            kept.push_back(id);
            let is_fit = reserved.is_empty() || waiter.demand.terms() == terms;
            let mut earlier = waiter.demand.types.iter();
            let mut earlier = earlier.by_ref().take_while(|one| *one != task_type);
            let is_first = earlier.all(|one| self.lines.get(one).is_none_or(TypeLine::is_quiet));
            if waiter.is_reserved() || !is_fit || !is_first {
                continue;
            }
            terms = waiter.demand.terms();
            limit += waiter.demand.limit;
            reserved.push(id);
        }
        kept.append(&mut passed);
        if let Some(line) = self.lines.get_mut(task_type) {
            line.waiters = kept;
        }
        for id in &reserved {
            if let Some(waiter) = self.waiters.get_mut(id) {
                waiter.reserve();
            }
        }
        (reserved, limit.min(MAX_BATCH), terms)
    }

    /// Answers waiters with an error of the store.
    pub(super) fn fail(
        &mut self,
        waiters: impl IntoIterator<Item = WaiterId>,
        error: &delayq_plugin::Error,
    ) {
        for id in waiters {
            if let Some(waiter) = self.waiters.remove(&id) {
                waiter.answer(Err(error.clone()));
            }
        }
    }

    /// Answers waiters without a wait for whom no task is due.
    pub(super) fn answer_hasty(&mut self) {
        let mut at = 0;
        while let Some(id) = self.hasty.get(at) {
            let Some(waiter) = self.waiters.get(id) else {
                self.hasty.swap_remove(at);
                continue;
            };
            let lines = waiter
                .demand
                .types
                .iter()
                .filter_map(|one| self.lines.get(one));
            if waiter.is_reserved() || !lines.clone().all(TypeLine::is_quiet) {
                at += 1;
                continue;
            }
            let error = lines.clone().find_map(TypeLine::error).cloned();
            let answer = error.map_or_else(|| Ok(Handover::nothing()), Err);
            let id = self.hasty.swap_remove(at);
            if let Some(waiter) = self.waiters.remove(&id) {
                waiter.answer(answer);
            }
        }
    }
}
