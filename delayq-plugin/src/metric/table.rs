//! The table of all metrics: the only place with their names, units and descriptions.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// The meaning of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// Only grows, from zero at the start of the process.
    Counter,
    /// The present value.
    Gauge,
    /// Counts values in buckets.
    Histogram,
}

impl MetricKind {
    /// The name of the kind as in Prometheus: `counter`, `gauge`, `histogram`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric of delayq, see [`METRICS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name, which begins with `delayq_`.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: MetricKind,
    /// The unit of its values: `seconds`, or `count`.
    pub unit: &'static str,
    /// The names of its labels, in addition to `delayq_namespace`.
    pub labels: &'static [&'static str],
    /// Its meaning.
    pub description: &'static str,
}

/// Buckets for delayq's histograms, in seconds: 1 ms to 1 h, wide enough for both the lateness of a
/// timer and the run of a long report. Pass them to an exporter for Prometheus.
pub const SECONDS_BUCKETS: &[f64] = &[
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0,
    300.0, 600.0, 1_800.0, 3_600.0,
];

pub(super) const SUBMITTED: &str = "delayq_submitted_total";
pub(super) const REFUSED: &str = "delayq_submit_refused_total";
pub(super) const CLAIMED: &str = "delayq_claimed_total";
pub(super) const STARTED: &str = "delayq_started_total";
pub(super) const SETTLED: &str = "delayq_settled_total";
pub(super) const FAILED: &str = "delayq_attempts_failed_total";
pub(super) const LOCK_EXPIRIES: &str = "delayq_lock_expiries_total";
pub(super) const LOCKS_LOST: &str = "delayq_locks_lost_total";
pub(super) const WAKE_UPS: &str = "delayq_wakeups_total";
pub(super) const STORE_LOSSES: &str = "delayq_store_losses_total";
pub(super) const LATENESS: &str = "delayq_lateness_seconds";
pub(super) const RUN_TIME: &str = "delayq_run_seconds";
pub(super) const TASKS: &str = "delayq_tasks";
pub(super) const DUE: &str = "delayq_due_tasks";
pub(super) const OLDEST_DUE: &str = "delayq_oldest_due_seconds";
pub(super) const OLDEST_DEAD: &str = "delayq_oldest_dead_seconds";
pub(super) const PAUSED: &str = "delayq_paused";
pub(super) const SERVED: &str = "delayq_served";
pub(super) const CLOCK_SKEW: &str = "delayq_clock_skew_seconds";
pub(super) const CALLS: &str = "delayq_store_calls_total";
pub(super) const CALL_TIME: &str = "delayq_store_call_seconds";
pub(super) const INSTANCES: &str = "delayq_instances";
pub(super) const SAMPLED: &str = "delayq_sampled_timestamp_seconds";
pub(super) const HISTORY_WAITING: &str = "delayq_history_waiting";
pub(super) const HISTORY_BEHIND: &str = "delayq_history_behind_seconds";
pub(super) const HISTORY_FILL: &str = "delayq_history_fill_ratio";
pub(super) const HISTORY_LOST: &str = "delayq_history_lost_total";
pub(super) const HISTORY_SHIPPED: &str = "delayq_history_shipped_total";
pub(super) const BUILD_INFO: &str = "delayq_build_info";

/// The label of the namespace of delayq. Kubernetes gives each target a `namespace` of its own, and
/// Prometheus would rename a label of this name to `exported_namespace`.
pub(super) const NAMESPACE: &str = "delayq_namespace";

const COUNT: &str = "count";
const SECONDS: &str = "seconds";
const TYPE: &[&str] = &["type"];

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    description: &'static str,
) -> Metric {
    Metric {
        name,
        kind: MetricKind::Counter,
        unit: COUNT,
        labels,
        description,
    }
}

const fn seconds(
    name: &'static str,
    labels: &'static [&'static str],
    description: &'static str,
) -> Metric {
    Metric {
        name,
        kind: MetricKind::Histogram,
        unit: SECONDS,
        labels,
        description,
    }
}

const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    description: &'static str,
) -> Metric {
    Metric {
        name,
        kind: MetricKind::Gauge,
        unit: COUNT,
        labels,
        description,
    }
}

const fn gauge_of_seconds(
    name: &'static str,
    labels: &'static [&'static str],
    description: &'static str,
) -> Metric {
    Metric {
        unit: SECONDS,
        ..gauge(name, labels, description)
    }
}

/// All metrics of a process with [`metrics`](crate::DelayQueuePluginBuilder::metrics).
pub const METRICS: &[Metric] = &[
    counter(
        SUBMITTED,
        &["type", "outcome"],
        "Requests that the store answered: accepted, replaced, runs_again, already_exists",
    ),
    counter(
        REFUSED,
        &["type", "reason"],
        "Requests that failed: invalid, conflict, queue_full, full, read_only, unavailable, \
         in_doubt, closed, other",
    ),
    counter(CLAIMED, TYPE, "Tasks that claims of this process locked"),
    counter(STARTED, TYPE, "Attempts that were handed to the workers"),
    counter(
        SETTLED,
        &["type", "outcome"],
        "Ends that the store has: done, retried, released, dead, expired, cancelled",
    ),
    counter(
        FAILED,
        &["type", "cause"],
        "Attempts that failed: error, panic, time_limit, stopped",
    ),
    counter(
        LOCK_EXPIRIES,
        TYPE,
        "Expired locks, of any process, that claims of this process found",
    ),
    counter(
        LOCKS_LOST,
        TYPE,
        "Attempts of this process that lost their lock; each may run again elsewhere",
    ),
    counter(
        WAKE_UPS,
        TYPE,
        "Wake-ups that reached a handler before its time",
    ),
    counter(
        STORE_LOSSES,
        TYPE,
        "Times that the store was found to have lost data",
    ),
    seconds(
        LATENESS,
        TYPE,
        "From the due time to the claim, of each attempt",
    ),
    seconds(
        RUN_TIME,
        TYPE,
        "From the start to the end of each attempt's workers",
    ),
    gauge(
        TASKS,
        &["type", "state"],
        "Tasks in the store: scheduled, running, dead",
    ),
    gauge(DUE, TYPE, "Scheduled tasks that are due"),
    gauge_of_seconds(
        OLDEST_DUE,
        TYPE,
        "How long the first scheduled task has been due; 0 when none is",
    ),
    gauge_of_seconds(
        OLDEST_DEAD,
        TYPE,
        "How long the first dead task has been dead; 0 when there is none",
    ),
    gauge(PAUSED, TYPE, "1 while the type is paused, else 0"),
    gauge(
        SERVED,
        TYPE,
        "1 while a running instance serves the type, else 0",
    ),
    gauge_of_seconds(
        CLOCK_SKEW,
        TYPE,
        "How far the store's clock is ahead of this host's; 0 within 0.5 s",
    ),
    counter(
        CALLS,
        &["call", "outcome"],
        "Calls to the store: ok, refused, unavailable, in_doubt, full, read_only, damaged, closed",
    ),
    seconds(
        CALL_TIME,
        &["call"],
        "From a call to the store to its answer or error",
    ),
    gauge(
        INSTANCES,
        &[],
        "Running plugins and servers that announced themselves",
    ),
    gauge_of_seconds(
        SAMPLED,
        &[],
        "When the store was last asked for these gauges, in seconds since 1970",
    ),
    gauge(
        HISTORY_WAITING,
        &[],
        "Records of ended tasks that wait to be shipped to the history",
    ),
    gauge_of_seconds(
        HISTORY_BEHIND,
        &[],
        "How long the first of them has waited; 0 when none does",
    ),
    gauge(
        HISTORY_FILL,
        &[],
        "The part of their bound that they fill, 0 to 1",
    ),
    counter(
        HISTORY_LOST,
        &[],
        "Records that were dropped at the bound, by any process",
    ),
    counter(
        HISTORY_SHIPPED,
        &[],
        "Records that this process has shipped to the history",
    ),
    gauge(BUILD_INFO, &["version"], "1, with the version of delayq"),
];

/// Passes all units and descriptions to the recorder.
pub(super) fn describe_all() {
    for metric in METRICS {
        let unit = match metric.unit {
            SECONDS => Unit::Seconds,
            _ => Unit::Count,
        };
        match metric.kind {
            MetricKind::Counter => describe_counter!(metric.name, unit, metric.description),
            MetricKind::Gauge => describe_gauge!(metric.name, unit, metric.description),
            MetricKind::Histogram => describe_histogram!(metric.name, unit, metric.description),
        }
    }
}
