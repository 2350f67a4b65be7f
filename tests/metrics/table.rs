//! The table of the guide, the table of the code, and what a recorder is told.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use delayq_plugin::store::MemoryStore;
use delayq_plugin::{METRICS, Metric, SECONDS_BUCKETS, TaskSubmitService};
use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};

/// A file of the workspace.
pub(crate) fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    std::fs::read_to_string(root.join(path)).unwrap()
}

fn row(metric: &Metric) -> String {
    let labels: Vec<_> = metric
        .labels
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    format!(
        "| `{}` | {} | {} | {} | {} |",
        metric.name,
        metric.kind.as_str(),
        metric.unit,
        labels.join(", "),
        metric.description
    )
    .replace("|  |", "| |")
}

#[test]
fn the_guide_lists_every_metric_with_its_kind_unit_labels_and_description() {
    let guide = read("docs/guide/metrics.md");
    let rows = guide.lines().filter(|line| line.starts_with("| `delayq_"));
    let rows: Vec<_> = rows.map(str::to_owned).collect();
    let wanted: Vec<_> = METRICS.iter().map(row).collect();
    assert_eq!(rows, wanted, "\n{}\n", wanted.join("\n"));
}

#[test]
fn names_end_as_their_kind_and_unit_say() {
    for metric in METRICS {
        let name = metric.name;
        assert_eq!(
            name.ends_with("_total"),
            metric.kind.as_str() == "counter",
            "{name}"
        );
        assert_eq!(
            name.ends_with("_seconds"),
            metric.unit == "seconds",
            "{name}"
        );
    }
}

#[test]
fn the_buckets_grow_from_a_millisecond_to_an_hour() {
    assert!(SECONDS_BUCKETS.is_sorted_by(|one, next| one < next));
    assert_eq!(SECONDS_BUCKETS.first(), Some(&0.001));
    assert_eq!(SECONDS_BUCKETS.last(), Some(&3_600.0));
}

/// Kind, unit and description of a metric.
type Said = (&'static str, Option<Unit>, String);

/// Keeps the descriptions.
#[derive(Default)]
struct Described(Mutex<BTreeMap<String, Said>>);

impl Described {
    fn note(&self, kind: &'static str, key: &KeyName, unit: Option<Unit>, text: &SharedString) {
        let said = (kind, unit, text.to_string());
        self.0.lock().unwrap().insert(key.as_str().to_owned(), said);
    }
}

impl Recorder for Described {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.note("counter", &key, unit, &text);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.note("gauge", &key, unit, &text);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.note("histogram", &key, unit, &text);
    }

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn a_recorder_is_told_every_unit_and_description() {
    let recorder = Described::default();
    with_local_recorder(&recorder, || {
        TaskSubmitService::new(Arc::new(MemoryStore::default())).with_metrics()
    });
    let described = recorder.0.lock().unwrap();
    assert_eq!(described.len(), METRICS.len());
    for metric in METRICS {
        let unit = match metric.unit {
            "seconds" => Unit::Seconds,
            _ => Unit::Count,
        };
        let wanted = (
            metric.kind.as_str(),
            Some(unit),
            metric.description.to_owned(),
        );
        assert_eq!(described[metric.name], wanted, "{}", metric.name);
    }
}
