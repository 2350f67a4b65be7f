//! Options of workers, as changed by the configuration.

use delayq_core::{TaskType, TypePattern};

use super::Worker;
use super::options::{broken_rule, check_shards, shards_of};
use super::worker::overlap;
use crate::config::{Config, ConfigError};

/// Refuses a table that no worker in `registered` serves, and options that contradict each other.
pub(super) fn check_config(
    workers: &[Worker],
    registered: &[TypePattern],
    config: &Config,
) -> Result<(), ConfigError> {
    for pattern in config.patterns() {
        if !registered.iter().any(|one| overlap(one, pattern)) {
            let names = registered.iter().map(ToString::to_string);
            let mut names: Vec<_> = names.collect();
            names.sort();
            names.dedup();
            let names = names.join(", ");
            let reason = format!("no worker serves that; registered: {names}");
            return Err(config.refused(pattern, reason));
        }
    }
    for worker in workers {
        let closest = covering(config, &worker.pattern);
        let narrower = config.patterns().filter(|pattern| {
            overlap(pattern, &worker.pattern) && pattern.rank() > worker.pattern.rank()
        });
        for pattern in closest.into_iter().chain(narrower) {
            check(config, pattern, worker)?;
        }
    }
    Ok(())
}

/// Applies the table of `task_type` over the options of its workers.
pub(super) fn configure(config: &Config, task_type: &TaskType, workers: &mut [Worker]) {
    let pattern = covering(config, &TypePattern::Exact(task_type.clone()));
    if let Some(options) = pattern.and_then(|pattern| config.options(pattern)) {
        for worker in workers {
            // It was checked before.
            worker.options = options.over(worker.options).unwrap_or(worker.options);
        }
    }
}

/// The longest pattern of `config` that matches every type that `pattern` does.
fn covering<'a>(config: &'a Config, pattern: &TypePattern) -> Option<&'a TypePattern> {
    let covers = |one: &&TypePattern| match (*one, pattern) {
        (one, TypePattern::Exact(task_type)) => one.matches(task_type),
        (TypePattern::Prefix(one), TypePattern::Prefix(other)) => other.starts_with(one.as_str()),
        (TypePattern::Exact(_), TypePattern::Prefix(_)) => false,
    };
    config
        .patterns()
        .filter(covers)
        .max_by_key(|one| one.rank())
}

fn check(config: &Config, pattern: &TypePattern, worker: &Worker) -> Result<(), ConfigError> {
    let refused = |reason: &str| {
        let name = &worker.name;
        config.refused(pattern, format!("worker {name:?}: {reason}"))
    };
    let Some(options) = config.options(pattern) else {
        return Ok(());
    };
    let options = options.over(worker.options).map_err(refused)?;
    if let Some(reason) = broken_rule(&options) {
        return Err(refused(reason));
    }
    check_shards(&pattern.to_string(), &options, shards_of(&options))
        .map_err(|error| refused(&error.to_string()))
}
