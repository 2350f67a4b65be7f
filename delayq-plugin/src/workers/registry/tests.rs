//! Which workers serve a type, and with what options.

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
    let Err(StartError::Store(Error::FleetLimitOnShards { task_type, shards })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!((task_type.as_str(), shards), ("mail.*", 4));
}
