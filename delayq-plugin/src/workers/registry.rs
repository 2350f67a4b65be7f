//! Registry of the workers of this process.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use delayq_core::{TaskType, TypePattern};

use super::options::{broken_rule, check_shards, shards_of};
use super::{BuiltWorker, TypeWorkers, Worker, configured};
use crate::batch::BATCH_TYPE;
use crate::config::{Config, ConfigError};
use crate::error::StartError;
use crate::recurring::Recurring;
use crate::slots::Slots;
use crate::watcher::{self, Watcher};

/// All workers of this process.
#[derive(Debug, Default)]
pub(crate) struct WorkerRegistry {
    workers: Vec<Worker>,
    /// Workers added while the plugin runs: one for each pattern.
    later: RwLock<Vec<Worker>>,
    /// The patterns of all workers, including those left out by `only`.
    registered: Vec<TypePattern>,
    /// The patterns to serve; if empty, everything that has a worker.
    only: Vec<TypePattern>,
    recurring: Vec<Recurring>,
    /// The framework's own worker.
    watcher: Option<Worker>,
    /// The tables of types, applied over the workers' own options.
    config: RwLock<Arc<Config>>,
}

impl WorkerRegistry {
    /// Adds the worker that watches batches, regardless of [`keep_only`](Self::keep_only). It is
    /// served once there is a batch: an application without batches has no handler for it.
    pub(crate) fn watch_batches(&mut self, watcher: Watcher) -> Result<(), StartError> {
        let (pattern, options) = (TypePattern::new(BATCH_TYPE)?, watcher::OPTIONS);
        if let Some(other) = self.workers.iter().find(|other| other.pattern == pattern) {
            return Err(StartError::InvalidOption {
                task_type: BATCH_TYPE.to_owned(),
                name: other.name.to_string(),
                reason: "the type is delayq's own: give the worker another one",
            });
        }
        self.watcher = Some(Worker {
            name: BATCH_TYPE.into(),
            pattern,
            options,
            code: Arc::new(watcher),
        });
        Ok(())
    }

    pub(crate) fn add(&mut self, built: BuiltWorker) -> Result<(), StartError> {
        let BuiltWorker {
            task_type,
            name,
            options,
            schedule,
            version,
            worker,
        } = built;
        if let Some(reason) = broken_rule(&options) {
            return Err(StartError::InvalidOption {
                task_type,
                name,
                reason,
            });
        }
        check_shards(&task_type, &options, shards_of(&options))?;
        let pattern = TypePattern::new(&task_type)?;
        // Successes are stored by name: two workers with the same name and type would count as one.
        let is_same = |other: &Worker| other.overlaps(&pattern) && *other.name == *name;
        if self.workers.iter().any(is_same) {
            return Err(StartError::DuplicateWorker { task_type, name });
        }
        if let Some(schedule) = schedule {
            let TypePattern::Exact(task_type) = &pattern else {
                let reason = "a pattern is no type that could recur: declare the types with \
                              .recurring(..)";
                return Err(invalid_recurring(&task_type, reason));
            };
            let recurring = Recurring::of_schedule(task_type.clone(), schedule);
            self.declare(recurring.of_version(version))?;
        }
        self.registered.push(pattern.clone());
        self.workers.push(Worker {
            name: name.into(),
            pattern,
            options,
            code: worker,
        });
        Ok(())
    }

    /// Adds a worker while the plugin runs, replacing the one that was added for its pattern.
    pub(crate) fn add_later(&self, built: BuiltWorker) -> Result<TypePattern, StartError> {
        let BuiltWorker {
            task_type,
            name,
            options,
            worker,
            ..
        } = built;
        let pattern = TypePattern::new(&task_type)?;
        let from_start = self.workers.iter().chain(&self.watcher);
        let reason = if from_start.into_iter().any(|one| one.pattern == pattern) {
            Some("a worker serves it since the start: leave that one out, or give it another type")
        } else if options.pool.is_some() {
            Some("a worker that comes later has no pool: leave it out")
        } else {
            broken_rule(&options)
        };
        if let Some(reason) = reason {
            return Err(StartError::InvalidOption {
                task_type,
                name,
                reason,
            });
        }
        check_shards(&task_type, &options, shards_of(&options))?;
        let worker = Worker {
            name: name.into(),
            pattern: pattern.clone(),
            options,
            code: worker,
        };
        let mut later = self.later.write().unwrap_or_else(PoisonError::into_inner);
        later.retain(|other| other.pattern != pattern);
        later.push(worker);
        Ok(pattern)
    }

    /// Removes the worker that was added for `pattern` while the plugin runs. Returns true if there
    /// was one.
    pub(crate) fn remove_later(&self, pattern: &TypePattern) -> bool {
        let mut later = self.later.write().unwrap_or_else(PoisonError::into_inner);
        let before = later.len();
        later.retain(|other| other.pattern != *pattern);
        later.len() < before
    }

    fn later(&self) -> RwLockReadGuard<'_, Vec<Worker>> {
        self.later.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves only types that one of these patterns matches. Fails for a pattern that no worker
    /// serves.
    pub(crate) fn keep_only(&mut self, patterns: &[String]) -> Result<(), StartError> {
        let mut missing = Vec::new();
        for pattern in patterns {
            let pattern = TypePattern::new(pattern)?;
            if !self.workers.iter().any(|worker| worker.may_serve(&pattern)) {
                missing.push(pattern.to_string());
            }
            self.only.push(pattern);
        }
        if !missing.is_empty() {
            let (missing, registered) = (missing.join(", "), self.describe_all());
            return Err(StartError::OnlyUnserved {
                missing,
                registered,
            });
        }
        let only = &self.only;
        self.workers.retain(|worker| {
            only.is_empty() || only.iter().any(|pattern| worker.may_serve(pattern))
        });
        let declared = std::mem::take(&mut self.recurring).into_iter();
        let served = declared.filter(|one| self.of_type(&one.task_type).is_some());
        self.recurring = served.collect();
        Ok(())
    }

    /// Fails unless each of these types is served.
    pub(crate) fn expect(&self, types: &[String]) -> Result<(), StartError> {
        let mut missing = Vec::new();
        for expected in types {
            if self.of_type(&TaskType::new(expected)?).is_none() {
                missing.push(expected.as_str());
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let (missing, registered) = (missing.join(", "), self.describe());
        Err(StartError::MissingTypes {
            missing,
            registered,
        })
    }

    /// Adds a recurring task.
    pub(crate) fn declare(&mut self, recurring: Recurring) -> Result<(), StartError> {
        let key = |one: &Recurring| (one.task_type.clone(), one.name.clone());
        if self.recurring.iter().any(|one| key(one) == key(&recurring)) {
            let reason = "it is declared twice: give one another name with .name(..), and leave \
                          `every` to one worker of the type";
            return Err(invalid_recurring(recurring.task_type.as_str(), reason));
        }
        self.recurring.push(recurring);
        Ok(())
    }

    /// Refuses a recurring task that no worker here would run.
    pub(crate) fn check_recurring(&self) -> Result<(), StartError> {
        let types = self.recurring.iter().map(|one| &one.task_type);
        match types.into_iter().find(|one| self.of_type(one).is_none()) {
            None => Ok(()),
            Some(unserved) => {
                let reason = format!("no worker serves the type; registered: {}", self.describe());
                Err(invalid_recurring(unserved.as_str(), &reason))
            }
        }
    }

    /// Refuses a pool that is not declared or has no worker, and a weight that applies to no
    /// worker.
    pub(crate) fn check_pools(&self, slots: &Slots) -> Result<(), StartError> {
        let declared = slots.pools();
        let refused = |pool: &str, reason| {
            let pool = pool.to_owned();
            Err(StartError::InvalidPool { pool, reason })
        };
        for worker in &self.workers {
            if let Some(pool) = worker.options.pool
                && !declared.iter().any(|name| name == pool)
            {
                let (name, pattern) = (&worker.name, &worker.pattern);
                let reason = format!(
                    "worker {name:?} of type {pattern} names it: declare how many slots it has \
                     with .pool({pool:?}, 16) of the builder"
                );
                return refused(pool, reason);
            }
        }
        let pooled = || self.workers.iter().filter(|one| one.options.pool.is_some());
        for pool in &declared {
            if !pooled().any(|worker| worker.options.pool == Some(pool)) {
                let reason = format!(
                    "no worker uses it: write pool = {pool:?} in a #[task_worker(..)], or remove \
                     .pool({pool:?}, ..)"
                );
                return refused(pool, reason);
            }
        }
        for pattern in slots.weighed() {
            if !pooled().any(|worker| worker.may_serve(&pattern)) {
                let (pattern, registered) = (pattern.to_string(), self.describe());
                return Err(StartError::WeightUnserved {
                    pattern,
                    registered,
                });
            }
        }
        Ok(())
    }

    /// True if a worker here serves, or may later serve, a type that `pattern` matches.
    pub(crate) fn may_serve(&self, pattern: &TypePattern) -> bool {
        let later = self.later();
        let mut workers = self.workers.iter().chain(later.iter());
        workers.any(|worker| worker.may_serve(pattern))
    }

    pub(crate) fn recurring(&self) -> &[Recurring] {
        &self.recurring
    }

    pub(crate) fn has_patterns(&self) -> bool {
        let later = self.later();
        let mut workers = self.workers.iter().chain(later.iter());
        workers.any(|worker| worker.exact_type().is_none())
    }

    /// The types served by name, each once.
    pub(crate) fn exact_types(&self) -> Vec<TaskType> {
        let later = self.later();
        let workers = self.workers.iter().chain(later.iter());
        let mut types: Vec<_> = workers.filter_map(Worker::exact_type).cloned().collect();
        types.sort();
        types.dedup();
        types
    }

    /// Applies the tables of `config`, which was checked, over the workers' own options for every
    /// [`of_type`](Self::of_type) from now on.
    pub(crate) fn configure(&self, config: Arc<Config>) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// Refuses a table that no worker serves, and options that contradict each other.
    pub(crate) fn check_config(&self, config: &Config) -> Result<(), ConfigError> {
        configured::check_config(&self.workers, &self.registered, config)
    }

    /// The workers of `task_type`, with the options of its table in the configuration: its own
    /// workers, or else those of the longest pattern that matches. `None` if there are none.
    pub(crate) fn of_type(&self, task_type: &TaskType) -> Option<TypeWorkers> {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner);
        self.of_type_by(&config, task_type)
    }

    /// The same with the tables of `config`.
    pub(crate) fn of_type_by(&self, config: &Config, task_type: &TaskType) -> Option<TypeWorkers> {
        let watcher = self.watcher.as_ref();
        if let Some(watcher) = watcher.filter(|one| one.pattern.matches(task_type)) {
            // The framework's own worker: a table for `*` is meant for the application's workers.
            return Some(TypeWorkers::new(vec![watcher.clone()]));
        }
        let mut workers = self.closest(task_type)?;
        configured::configure(config, task_type, &mut workers);
        Some(TypeWorkers::new(workers))
    }

    /// The application's workers of `task_type`, with their own options.
    fn closest(&self, task_type: &TaskType) -> Option<Vec<Worker>> {
        let mut only = self.only.iter();
        let is_wanted = self.only.is_empty() || only.any(|pattern| pattern.matches(task_type));
        let (from_start, later) = (self.workers.iter(), self.later());
        let serving = from_start.filter(|_| is_wanted).chain(later.iter());
        let serving = serving.filter(|worker| worker.pattern.matches(task_type));
        let rank = serving.clone().map(|worker| worker.pattern.rank()).max()?;
        let closest = serving.filter(|worker| worker.pattern.rank() == rank);
        Some(closest.cloned().collect())
    }

    /// The types and patterns served, for logs and errors.
    pub(crate) fn describe(&self) -> String {
        if self.only.is_empty() {
            return self.describe_all();
        }
        let only: Vec<_> = self.only.iter().map(TypePattern::to_string).collect();
        format!("{} (only {})", self.describe_all(), only.join(", "))
    }

    fn describe_all(&self) -> String {
        let later = self.later();
        let workers = self.workers.iter().chain(later.iter());
        let patterns = workers.map(|worker| worker.pattern.to_string());
        let mut names: Vec<_> = patterns.collect();
        names.sort();
        names.dedup();
        names.join(", ")
    }
}

fn invalid_recurring(task_type: &str, reason: &str) -> StartError {
    let (task_type, reason) = (task_type.to_owned(), reason.to_owned());
    StartError::InvalidRecurring { task_type, reason }
}

#[cfg(test)]
mod tests;
