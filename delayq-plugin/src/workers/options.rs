//! Rules for the options of a worker, beyond their types.

use std::time::Duration;

use delayq_core::operate::MAX_SHARDS;
use delayq_core::time::MAX_DELAY;
use delayq_core::{Delivery, Error, FleetLimits, OnLate, WorkerOptions, seconds};

use crate::slots::MAX_WEIGHT;

/// The new options of a worker, without those that need a restart.
pub(crate) fn effective(now: WorkerOptions, wanted: WorkerOptions) -> WorkerOptions {
    WorkerOptions {
        lock: now.lock,
        pool: now.pool,
        weight: now.weight,
        delivery: now.delivery,
        blocking: now.blocking,
        shards: now.shards,
        history: now.history,
        ..wanted
    }
}

/// The rule that `options` violate, if any.
pub(crate) fn broken_rule(options: &WorkerOptions) -> Option<&'static str> {
    if options.lock < seconds(1) {
        return Some("lock must be at least 1 s: shorter ones expire under an ordinary hiccup");
    }
    if options.lock > MAX_DELAY {
        return Some("lock must be at most 10 years");
    }
    if options.concurrency == 0 {
        return Some("concurrency must be at least 1");
    }
    if !(1..=MAX_WEIGHT).contains(&options.weight) {
        return Some("weight must be 1 to 100");
    }
    if options.weight != 1 && options.pool.is_none() {
        return Some("weight is a share of a pool: name the pool, too, or leave the weight at 1");
    }
    if options.late.action == OnLate::Spread(Duration::ZERO) {
        return Some("OnLate::Spread takes a span longer than 0: with 0 nothing would be spread");
    }
    if options.retry.max_attempts == 0 {
        return Some("max_attempts must be at least 1, which is one attempt and no retry");
    }
    if options.max_releases == 0 {
        return Some("max_releases must be at least 1");
    }
    if options.retry.jitter_percent > 100 {
        return Some("jitter_percent must be at most 100");
    }
    if options.timeout.is_zero() {
        return Some("timeout must be longer than 0");
    }
    if options.delivery == Delivery::AtMostOnce && options.fleet.concurrency.is_some() {
        return Some(
            "fleet_concurrency counts locks, which an at-most-once type gives up before its \
             tasks start: use concurrency or fleet_rate",
        );
    }
    if options.max_pending == Some(0) {
        return Some("max_pending must be at least 1: with 0 no task would ever be accepted");
    }
    if !(1..=MAX_SHARDS).contains(&options.shards.unwrap_or(1)) {
        return Some("shards must be 1 to 256");
    }
    options.fleet.problem()
}

/// Refuses a fleet limit on a type that has or will get several shards.
pub(crate) fn check_shards(
    task_type: &str,
    options: &WorkerOptions,
    shards: usize,
) -> Result<(), Error> {
    if options.fleet == FleetLimits::NONE || shards <= 1 {
        return Ok(());
    }
    Err(Error::FleetLimitOnShards {
        task_type: task_type.to_owned(),
        shards: u32::try_from(shards).unwrap_or(u32::MAX),
    })
}

/// The number of shards that `options` ask for.
pub(crate) fn shards_of(options: &WorkerOptions) -> usize {
    usize::try_from(options.shards.unwrap_or(1)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use delayq_core::{RetryPolicy, millis};

    use super::*;

    fn is_refused(options: WorkerOptions) -> bool {
        broken_rule(&options).is_some()
    }

    #[test]
    fn options_are_refused_beyond_their_limits_and_not_at_them() {
        let lock = |lock| WorkerOptions {
            lock,
            ..WorkerOptions::DEFAULT
        };
        assert!(!is_refused(lock(seconds(1))) && is_refused(lock(millis(999))));
        assert!(!is_refused(lock(MAX_DELAY)) && is_refused(lock(MAX_DELAY + millis(1))));
        let jitter = |jitter_percent| WorkerOptions {
            retry: RetryPolicy {
                jitter_percent,
                ..RetryPolicy::DEFAULT
            },
            ..WorkerOptions::DEFAULT
        };
        assert!(!is_refused(jitter(100)) && is_refused(jitter(101)));
    }

    #[test]
    fn shards_are_refused_beyond_their_limits_and_not_at_them() {
        let shards = |shards| WorkerOptions {
            shards,
            ..WorkerOptions::DEFAULT
        };
        assert!(is_refused(shards(Some(0))) && is_refused(shards(Some(257))));
        for good in [None, Some(1), Some(256)] {
            assert!(!is_refused(shards(good)));
        }
    }

    #[test]
    fn a_fleet_limit_and_several_shards_exclude_each_other() {
        let limited = WorkerOptions {
            fleet: FleetLimits {
                concurrency: Some(3),
                rate: None,
            },
            ..WorkerOptions::DEFAULT
        };
        assert_eq!(check_shards("mail", &limited, 1), Ok(()));
        assert_eq!(check_shards("mail", &WorkerOptions::DEFAULT, 9), Ok(()));
        let refused = check_shards("mail", &limited, 2).unwrap_err();
        let shards = |error| matches!(error, Error::FleetLimitOnShards { shards: 2, .. });
        assert!(shards(refused));
    }
}
