//! Registry of the workers of this process.

use delayq_core::{TaskType, TypePattern};

use super::options::{broken_rule, check_shards, shards_of};
use super::{BuiltWorker, TypeWorkers, Worker};
use crate::error::StartError;
use crate::recurring::Recurring;

/// All workers of this process.
#[derive(Debug, Default)]
pub(crate) struct WorkerRegistry {
    workers: Vec<Worker>,
    /// What is served; empty: everything that there are workers for.
    only: Vec<TypePattern>,
    recurring: Vec<Recurring>,
}

impl WorkerRegistry {
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
        // Successes are stored by name: two workers of one name and type would count as one.
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
        self.workers.push(Worker {
            name: name.into(),
            pattern,
            options,
            code: worker,
        });
        Ok(())
    }

    /// Serves only types that one of these patterns matches. Fails for one that no worker serves.
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

    /// Refuses a recurring task that nobody here would run.
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

    pub(crate) fn recurring(&self) -> &[Recurring] {
        &self.recurring
    }

    pub(crate) fn has_patterns(&self) -> bool {
        self.workers
            .iter()
            .any(|worker| worker.exact_type().is_none())
    }

    /// The types that are served by name, each once.
    pub(crate) fn exact_types(&self) -> Vec<TaskType> {
        let mut types: Vec<_> = self.workers.iter().filter_map(Worker::exact_type).collect();
        types.sort();
        types.dedup();
        types.into_iter().cloned().collect()
    }

    /// The workers of `task_type`: its own ones, else those of the longest pattern that matches it.
    /// `None` when there are none.
    pub(crate) fn of_type(&self, task_type: &TaskType) -> Option<TypeWorkers> {
        let mut only = self.only.iter();
        if !self.only.is_empty() && !only.any(|pattern| pattern.matches(task_type)) {
            return None;
        }
        let serving = self.workers.iter();
        let serving = serving.filter(|worker| worker.pattern.matches(task_type));
        let rank = serving.clone().map(|worker| worker.pattern.rank()).max()?;
        let closest = serving.filter(|worker| worker.pattern.rank() == rank);
        Some(TypeWorkers::new(closest.cloned().collect()))
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
        let patterns = self.workers.iter().map(|worker| worker.pattern.to_string());
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
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use delayq_core::{
        Delivery, Error, FleetLimits, TaskContext, TaskResult, TaskWorker, WorkerOptions, minutes,
    };

    use super::*;

    struct Nothing;

    #[async_trait]
    impl TaskWorker for Nothing {
        async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
            Ok(())
        }
    }

    fn built(pattern: &str, name: &str, options: WorkerOptions) -> BuiltWorker {
        BuiltWorker::new(pattern, name, options, Arc::new(Nothing))
    }

    fn registry(workers: &[(&str, &str, WorkerOptions)]) -> WorkerRegistry {
        let mut registry = WorkerRegistry::default();
        for (pattern, name, options) in workers {
            registry.add(built(pattern, name, *options)).unwrap();
        }
        registry
    }

    fn combined(workers: &[(&str, &str, WorkerOptions)]) -> WorkerOptions {
        let task_type = TaskType::new("a").unwrap();
        registry(workers).of_type(&task_type).unwrap().combined()
    }

    #[test]
    fn a_types_own_workers_come_before_those_of_patterns() {
        let default = WorkerOptions::DEFAULT;
        let exact = registry(&[("report.day", "day", default)]);
        assert!(!exact.has_patterns());
        let both = registry(&[("report.*", "any", default), ("report.day", "day", default)]);
        assert!(both.has_patterns());
        let names = |task_type: &str| {
            let workers = both.of_type(&TaskType::new(task_type).unwrap());
            format!("{:?}", workers.as_ref().map(TypeWorkers::names))
        };
        assert_eq!(names("report.day"), "Some([\"day\"])");
        assert_eq!(names("report.week"), "Some([\"any\"])");
        assert_eq!(names("mail"), "None");
    }

    #[test]
    fn of_overlapping_patterns_the_longest_one_serves_and_equal_ones_do_together() {
        let default = WorkerOptions::DEFAULT;
        let registry = registry(&[
            ("*", "all", default),
            ("report.sales.*", "sales", default),
            ("report.*", "any", default),
            ("report.*", "again", default),
        ]);
        let names = |task_type: &str| {
            let workers = registry.of_type(&TaskType::new(task_type).unwrap());
            format!("{:?}", workers.unwrap().names())
        };
        assert_eq!(names("report.sales.may"), "[\"sales\"]");
        assert_eq!(names("report.stock"), "[\"any\", \"again\"]");
        assert_eq!(names("mail"), "[\"all\"]");
    }

    #[test]
    fn only_what_matches_is_served_and_a_pattern_without_a_worker_is_refused() {
        let default = WorkerOptions::DEFAULT;
        let workers = [
            ("mail.*", "any", default),
            ("mail.vip", "vip", default),
            ("report.day", "day", default),
        ];
        let only = |patterns: &[&str]| {
            let mut registry = registry(&workers);
            let patterns: Vec<_> = patterns.iter().map(ToString::to_string).collect();
            registry.keep_only(&patterns).map(|()| registry)
        };
        let serves = |registry: &WorkerRegistry, name: &str| {
            registry.of_type(&TaskType::new(name).unwrap()).is_some()
        };
        let mails = only(&["mail.a.*"]).unwrap();
        assert!(serves(&mails, "mail.a.x") && mails.has_patterns());
        assert!(!serves(&mails, "mail.b") && !serves(&mails, "report.day"));
        assert_eq!(mails.describe(), "mail.* (only mail.a.*)");
        let exact = only(&["mail.vip", "report.*"]).unwrap();
        let exact_types: Vec<_> = exact
            .exact_types()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(exact_types, ["mail.vip", "report.day"]);
        assert!(!serves(&exact, "mail.a"));
        let refused = only(&["mail.*", "male.*", "day"]).unwrap_err().to_string();
        assert!(refused.contains("male.*, day"), "{refused}");
        assert!(
            refused.contains("mail.*, mail.vip, report.day"),
            "{refused}"
        );
        assert!(serves(&only(&[]).unwrap(), "report.day"));
    }

    #[test]
    fn a_type_runs_with_the_longest_times_and_the_smallest_concurrency_of_its_workers() {
        let options = |lock, timeout, concurrency, delivery| WorkerOptions {
            lock: minutes(lock),
            timeout: minutes(timeout),
            concurrency,
            delivery,
            ..WorkerOptions::DEFAULT
        };
        let both = |one, other| combined(&[("a", "one", one), ("a", "other", other)]);
        let (once, again) = (Delivery::AtMostOnce, Delivery::AtLeastOnce);
        let mixed = both(options(2, 3, 9, once), options(4, 1, 7, again));
        let found = (mixed.lock, mixed.timeout, mixed.concurrency, mixed.delivery);
        assert_eq!(found, (minutes(4), minutes(3), 7, again));
        let swapped = both(options(1, 5, 3, again), options(1, 6, 8, once));
        let found = (swapped.timeout, swapped.concurrency, swapped.delivery);
        assert_eq!(found, (minutes(6), 3, again));
        let both_once = both(options(1, 1, 1, once), options(1, 1, 1, once));
        assert_eq!(both_once.delivery, once);
    }

    #[test]
    fn a_type_keeps_the_tightest_fleet_limits_and_the_smallest_bound_of_its_workers() {
        let options = |concurrency, max_pending| WorkerOptions {
            fleet: FleetLimits {
                concurrency,
                rate: None,
            },
            max_pending,
            ..WorkerOptions::DEFAULT
        };
        let workers = [
            ("a", "one", options(Some(3), None)),
            ("a", "two", options(Some(2), Some(7))),
            ("a", "three", options(None, Some(9))),
        ];
        assert_eq!(combined(&workers), options(Some(2), Some(7)));
    }

    #[test]
    fn a_worker_with_a_fleet_limit_and_shards_is_refused() {
        let options = WorkerOptions {
            fleet: FleetLimits {
                concurrency: Some(3),
                rate: None,
            },
            shards: Some(4),
            ..WorkerOptions::DEFAULT
        };
        let refused = WorkerRegistry::default().add(built("mail.*", "any", options));
        let Err(StartError::Store(Error::FleetLimitOnShards { task_type, shards })) = refused
        else {
            panic!("{refused:?}")
        };
        assert_eq!((task_type.as_str(), shards), ("mail.*", 4));
    }
}
