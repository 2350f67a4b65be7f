//! The text that Prometheus reads.

use std::collections::BTreeMap;

use delayq_plugin::SECONDS_BUCKETS;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

/// A recorder, and what shows its text.
pub(crate) fn recorder() -> (PrometheusRecorder, PrometheusHandle) {
    let builder = PrometheusBuilder::new();
    let builder = builder.set_buckets(SECONDS_BUCKETS).unwrap();
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    (recorder, handle)
}

/// The series of a text, each with its labels in the order of their names, and its value.
pub(crate) fn series(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.is_empty());
    let lines = lines.filter(|line| !line.starts_with('#'));
    lines.map(series_of_line).collect()
}

fn series_of_line(line: &str) -> (String, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = series.split_once('{').unwrap();
    let mut labels: Vec<_> = labels.trim_end_matches('}').split(',').collect();
    labels.sort_unstable();
    (
        format!("{name}{{{}}}", labels.join(",")),
        value.parse().unwrap(),
    )
}

/// The series of these metrics that are not zero, of the namespace `default`, without its label.
pub(crate) fn not_zero(handle: &PrometheusHandle, names: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (series, value) in series(&handle.render()) {
        let (name, _) = series.split_once('{').unwrap();
        if names.contains(&name) && value != 0.0 {
            let series = series.replace("delayq_namespace=\"default\",", "");
            found.push(format!("{} {value}", series.replace('"', "")));
        }
    }
    found
}
