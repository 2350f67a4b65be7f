//! This server's figures of the lmstfy API, under the names of the original.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The prefix of every name.
const PREFIX: &str = "infra_lmstfy_";

/// The meaning of each figure, by its name without the prefix.
const HELP: [(&str, &str); 20] = [
    ("http_http_codes", "Answered requests"),
    (
        "http_latency_milliseconds",
        "From a request to its answer, of requests that succeeded",
    ),
    (
        "http_rate_limit",
        "Requests refused by the limit of a token",
    ),
    ("redis_consume_multi_jobs", "Jobs consumed"),
    ("redis_consume_queue_jobs", "Jobs consumed, by queue"),
    (
        "redis_deadletter_respawn_jobs",
        "Dead jobs that were respawned",
    ),
    ("redis_deadletter_sizes", "Dead jobs of a queue"),
    (
        "redis_job_ack_elapsed_ms",
        "The age of a job when it was deleted",
    ),
    (
        "redis_job_elapsed_ms",
        "The age of a job when it was consumed",
    ),
    ("redis_pool_add_jobs", "Jobs stored"),
    ("redis_pool_delete_jobs", "Jobs deleted"),
    ("redis_pool_get_jobs", "Jobs read to be consumed"),
    ("redis_publish_jobs", "Jobs published"),
    ("redis_publish_queue_jobs", "Jobs published, by queue"),
    (
        "redis_queue_direct_push_jobs",
        "Jobs published without a delay",
    ),
    ("redis_queue_pop_jobs", "Jobs taken from their queue"),
    ("redis_queue_sizes", "Jobs of a queue that are ready"),
    ("redis_timer_add_jobs", "Jobs published with a delay"),
    (
        "redis_timer_due_jobs",
        "Jobs consumed that had a delay or were tried again",
    ),
    (
        "redis_timer_sizes",
        "Jobs that wait for their time or are being worked on",
    ),
];

/// The two lines before the values of a figure.
fn head(text: &mut String, name: &str, kind: &str) {
    if let Some((_, help)) = HELP.iter().find(|(known, _)| *known == name) {
        writeln!(text, "# HELP {PREFIX}{name} {help}").ok();
    }
    writeln!(text, "# TYPE {PREFIX}{name} {kind}").ok();
}

/// Counts and histograms, by name and labels.
#[derive(Debug, Default)]
pub(super) struct Figures(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    counts: BTreeMap<&'static str, BTreeMap<String, u64>>,
    histograms: BTreeMap<&'static str, BTreeMap<String, DurationHistogram>>,
}

impl Figures {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds to a counter.
    pub(super) fn add(&self, name: &'static str, labels: String, many: u64) {
        let mut kept = self.kept();
        *kept
            .counts
            .entry(name)
            .or_default()
            .entry(labels)
            .or_default() += many;
    }

    /// Adds one to a counter.
    pub(super) fn one(&self, name: &'static str, labels: String) {
        self.add(name, labels, 1);
    }

    /// Records the duration of a request, in milliseconds.
    pub(super) fn latency(&self, name: &'static str, labels: String, ms: f64) {
        self.observe(name, labels, ms, DurationHistogram::of_requests);
    }

    /// Records the age of a job, in milliseconds.
    pub(super) fn age(&self, name: &'static str, labels: String, ms: f64) {
        self.observe(name, labels, ms, DurationHistogram::of_jobs);
    }

    fn observe(&self, name: &'static str, labels: String, ms: f64, new: fn() -> DurationHistogram) {
        let mut kept = self.kept();
        let named = kept.histograms.entry(name).or_default();
        named.entry(labels).or_insert_with(new).observe(ms);
    }

    /// All figures as text.
    pub(super) fn render(&self) -> String {
        let (kept, mut text) = (self.kept(), String::new());
        for (name, counts) in &kept.counts {
            head(&mut text, name, "counter");
            for (labels, count) in counts {
                writeln!(text, "{PREFIX}{name}{{{labels}}} {count}").ok();
            }
        }
        for (name, histograms) in &kept.histograms {
            head(&mut text, name, "histogram");
            for (labels, histogram) in histograms {
                histogram.render(&format!("{PREFIX}{name}"), labels, &mut text);
            }
        }
        text
    }
}

/// A gauge as text.
pub(super) fn gauge(text: &mut String, name: &str, values: &[(String, u64)]) {
    head(text, name, "gauge");
    for (labels, value) in values {
        writeln!(text, "{PREFIX}{name}{{{labels}}} {value}").ok();
    }
}

/// Labels as text.
pub(super) fn labels(pairs: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        let comma = if text.is_empty() { "" } else { "," };
        let value = value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        write!(text, "{comma}{name}=\"{value}\"").ok();
    }
    text
}

/// A histogram of durations.
#[derive(Clone, Debug)]
struct DurationHistogram {
    /// Upper bounds in milliseconds, each with the number of values up to it.
    buckets: Vec<(f64, u64)>,
    sum: f64,
    count: u64,
}

impl DurationHistogram {
    fn new(factor: f64, count: i32) -> Self {
        let bounds = (0..count).map(|power| 15.0 * factor.powi(power));
        Self {
            buckets: bounds.map(|bound| (bound, 0)).collect(),
            sum: 0.0,
            count: 0,
        }
    }

    /// A histogram for requests.
    fn of_requests() -> Self {
        Self::new(2.5, 9)
    }

    /// A histogram for jobs.
    fn of_jobs() -> Self {
        Self::new(3.5, 7)
    }

    fn observe(&mut self, ms: f64) {
        for (bound, count) in &mut self.buckets {
            *count += u64::from(ms <= *bound);
        }
        self.sum += ms;
        self.count += 1;
    }

    fn render(&self, name: &str, labels: &str, text: &mut String) {
        for (bound, count) in &self.buckets {
            writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}").ok();
        }
        let (sum, count) = (self.sum, self.count);
        writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}").ok();
        writeln!(text, "{name}_sum{{{labels}}} {sum}").ok();
        writeln!(text, "{name}_count{{{labels}}} {count}").ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_its_meaning() {
        let code = [
            include_str!("admin.rs"),
            include_str!("api.rs"),
            include_str!("call.rs"),
        ]
        .concat();
        let words = code.split('"').skip(1).step_by(2);
        let is_figure = |word: &&str| word.starts_with("http_") || word.starts_with("redis_");
        let mut used: Vec<_> = words.filter(is_figure).collect();
        used.sort_unstable();
        used.dedup();
        assert_eq!(used, HELP.map(|(name, _)| name));
    }
}
