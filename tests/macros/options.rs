//! Every option arrives as it was written, and the others keep their defaults.

use std::time::Duration;

use delayq_core::registry::WorkerSchedule;
use delayq_plugin::{
    Backoff, Delivery, FleetLimits, LatePolicy, OnLate, Rate, RetryPolicy, TaskContext, TaskResult,
    TaskWorker, WorkerOptions, days, hours, millis, minutes, seconds, task_worker,
};

use crate::tools::worker;

const DEFAULT: WorkerOptions = WorkerOptions::DEFAULT;

/// A worker for each line, in a module of its own.
macro_rules! workers {
    ($($name:ident: ($task_type:literal $(, $($options:tt)*)?);)*) => {
        $(mod $name {
            use super::*;

            #[task_worker(type = $task_type $(, $($options)*)?)]
            async fn with_options() -> TaskResult {
                Ok(())
            }
        })*
    };
}

workers! {
    none: ("option.none");
    every: ("option.every",
        name = "own-name",
        retry(max = 7, backoff = fixed, base = "1m 30s", cap = "2h", jitter = 0.29),
        max_releases = 20,
        timeout = "250ms",
        lock = "1s",
        concurrency = 1,
        pool = "post",
        weight = 3,
        delivery = at_least_once,
        blocking,
        on_late = dead,
        late_after = "7d",
        fleet_concurrency = 10,
        fleet_rate = "100/s",
        max_pending = 100_000,);
    shards: ("option.shards", shards = 6);
    fleet_concurrency: ("option.fleet-concurrency", fleet_concurrency = 3);
    rate_a_minute: ("option.rate-a-minute", fleet_rate = "10/min");
    rate_an_hour: ("option.rate-an-hour", fleet_rate = "5 / h");
    never: ("option.never", retry = never);
    never_in_quotes: ("option.never-in-quotes", retry = "never");
    part: ("option.part", retry(max = 2));
    empty: ("option.empty", retry());
    no_jitter: ("option.no-jitter", retry(jitter = 0));
    full_jitter: ("option.full-jitter", retry(jitter = 1.0));
    long_fixed: ("option.long-fixed", retry(backoff = "fixed", base = "1h"));
    once: ("option.once", delivery = at_most_once);
    once_in_quotes: ("option.once-in-quotes", delivery = "at_most_once");
    once_and_never: ("option.once-and-never", delivery = at_most_once, retry = never);
    late_drop: ("option.late-drop", on_late = drop, late_after = "10m");
    late_spread: ("option.late-spread", on_late = spread, late_after = "10m", late_spread = "1h");
    late_run: ("option.late-run", on_late = "run");
    recurs: ("option.recurs", every = "0 9 * * MON-FRI", zone = "Europe/Berlin", version = 2);
    recurs_in_utc: ("option.recurs-in-utc", every = "0 9 1 * *");
    recurs_often: ("option.recurs-often", every = "1m 30s");
    words: ("option.words", timeout = "1 hour 30 minutes", lock = "PT45S");
}

#[test]
fn a_schedule_arrives_as_it_is_written() {
    for (task_type, every, zone) in [
        ("option.recurs", "0 9 * * MON-FRI", Some("Europe/Berlin")),
        ("option.recurs-in-utc", "0 9 1 * *", None),
        ("option.recurs-often", "1m 30s", None),
    ] {
        let schedule = Some(WorkerSchedule { every, zone });
        assert_eq!(worker(task_type).schedule, schedule, "{task_type}");
    }
    assert_eq!(worker("option.none").schedule, None);
    let version = |task_type| worker(task_type).version;
    assert_eq!((version("option.recurs"), version("option.none")), (2, 1));
}

fn assert_options(task_type: &str, expected: WorkerOptions) {
    assert_eq!(worker(task_type).options, expected, "{task_type}");
}

fn with_retry(retry: RetryPolicy) -> WorkerOptions {
    WorkerOptions { retry, ..DEFAULT }
}

#[test]
fn every_option_arrives_exactly() {
    assert_options("option.none", DEFAULT);
    let every = WorkerOptions {
        retry: RetryPolicy {
            max_attempts: 7,
            backoff: Backoff::Fixed,
            base: seconds(90),
            cap: hours(2),
            jitter_percent: 29,
        },
        max_releases: 20,
        timeout: millis(250),
        lock: seconds(1),
        concurrency: 1,
        pool: Some("post"),
        weight: 3,
        delivery: Delivery::AtLeastOnce,
        blocking: true,
        late: LatePolicy {
            action: OnLate::Dead,
            after: days(7),
        },
        fleet: FleetLimits {
            concurrency: Some(10),
            rate: Some(Rate::per_second(100)),
        },
        max_pending: Some(100_000),
        shards: None,
        history: None,
        history_retention: None,
    };
    assert_options("option.every", every);
    let shards = Some(6);
    assert_options("option.shards", WorkerOptions { shards, ..DEFAULT });
    assert_eq!(worker("option.every").name, "own-name");
    assert_eq!(worker("option.none").name, "with_options");
}

#[test]
fn one_limit_of_the_fleet_leaves_the_other_out() {
    let limited = |concurrency, rate| WorkerOptions {
        fleet: FleetLimits { concurrency, rate },
        ..DEFAULT
    };
    assert_options("option.fleet-concurrency", limited(Some(3), None));
    let rate = |rate| limited(None, Some(rate));
    assert_options("option.rate-a-minute", rate(Rate::per_minute(10)));
    assert_options("option.rate-an-hour", rate(Rate::per_hour(5)));
}

#[test]
fn a_retry_keeps_the_defaults_that_are_not_named() {
    let policy = RetryPolicy::DEFAULT;
    assert_options("option.never", with_retry(RetryPolicy::NEVER));
    assert_options("option.never-in-quotes", with_retry(RetryPolicy::NEVER));
    assert_options("option.empty", DEFAULT);
    assert_options(
        "option.part",
        with_retry(RetryPolicy {
            max_attempts: 2,
            ..policy
        }),
    );
    for (task_type, jitter_percent) in [("option.no-jitter", 0), ("option.full-jitter", 100)] {
        let expected = RetryPolicy {
            jitter_percent,
            ..policy
        };
        assert_options(task_type, with_retry(expected));
    }
}

/// A fixed wait above the default cap would otherwise be cut to it in silence.
#[test]
fn a_long_fixed_wait_is_kept() {
    let policy = worker("option.long-fixed").options.retry;
    assert_eq!((policy.base, policy.cap), (hours(1), hours(1)));
    assert!(policy.wait_after(1).is_some_and(|wait| wait > minutes(50)));
}

/// The macro checks against these limits at compile time, where it cannot ask delayq-core.
#[test]
fn the_limits_that_the_macro_repeats_are_those_of_the_core() {
    assert_eq!(RetryPolicy::DEFAULT.cap, minutes(10));
    assert_eq!(delayq_core::time::MAX_DELAY, days(3650));
}

#[test]
fn delivery_and_lateness_are_words_with_or_without_quotes() {
    let once = WorkerOptions {
        delivery: Delivery::AtMostOnce,
        ..DEFAULT
    };
    assert_options("option.once", once);
    assert_options("option.once-in-quotes", once);
    let never = WorkerOptions {
        retry: RetryPolicy::NEVER,
        ..once
    };
    assert_options("option.once-and-never", never);
    let late = LatePolicy {
        action: OnLate::Drop,
        after: minutes(10),
    };
    assert_options("option.late-drop", WorkerOptions { late, ..DEFAULT });
    let late = LatePolicy {
        action: OnLate::Spread(hours(1)),
        ..late
    };
    assert_options("option.late-spread", WorkerOptions { late, ..DEFAULT });
    assert_options("option.late-run", DEFAULT);
}

#[test]
fn durations_are_read_in_words_and_as_iso_8601() {
    let options = worker("option.words").options;
    assert_eq!(options.timeout, minutes(90));
    assert_eq!(options.lock, Duration::from_secs(45));
}

#[derive(Default)]
struct OnImpl;

#[task_worker(type = "option.impl", name = "impl", retry = never, concurrency = 256, timeout = "5s")]
impl TaskWorker for OnImpl {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

#[test]
fn an_impl_has_the_same_options() {
    let expected = WorkerOptions {
        retry: RetryPolicy::NEVER,
        timeout: seconds(5),
        ..DEFAULT
    };
    assert_options("option.impl", expected);
    assert_eq!(worker("option.impl").name, "impl");
}
