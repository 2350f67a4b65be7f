//! The table of the server's own metrics: the only place with their names and descriptions. Those
//! of the plugin are in `delayq_plugin::METRICS`.

use delayq_plugin::MetricKind;
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};

pub const REQUESTS: &str = "delayq_server_requests_total";
pub const REQUEST_TIME: &str = "delayq_server_request_seconds";
pub const REFUSED: &str = "delayq_server_refused_total";
pub const LOGINS_FAILED: &str = "delayq_server_logins_failed_total";
pub const CONNECTIONS: &str = "delayq_server_connections";
pub const CONNECTIONS_REFUSED: &str = "delayq_server_connections_refused_total";
pub const BODIES_REFUSED: &str = "delayq_server_bodies_refused_total";
pub const PUSHES: &str = "delayq_server_pushes_total";
pub const TOKENS: &str = "delayq_server_tokens";
const BUILD_INFO: &str = "delayq_server_build_info";

/// The values of the label `reason` of [`REFUSED`].
pub const REFUSALS: [&str; 4] = ["unauthorized", "forbidden", "limit", "too-large"];

/// One metric of the server.
#[derive(Clone, Copy, Debug)]
pub struct ServerMetric {
    pub name: &'static str,
    pub kind: MetricKind,
    pub labels: &'static [&'static str],
    pub description: &'static str,
}

/// All metrics of the server's own.
pub const SERVER_METRICS: [ServerMetric; 10] = [
    ServerMetric {
        name: REQUESTS,
        kind: MetricKind::Counter,
        labels: &["route", "method", "status"],
        description: "Answered requests; status is that of HTTP, or the code of a gRPC call that failed, such as Unavailable",
    },
    ServerMetric {
        name: REQUEST_TIME,
        kind: MetricKind::Histogram,
        labels: &["route", "method"],
        description: "From a request to the beginning of its answer; requests that wait for a task take as long",
    },
    ServerMetric {
        name: REFUSED,
        kind: MetricKind::Counter,
        labels: &["reason"],
        description: "Refused requests: unauthorized, forbidden, limit, too-large",
    },
    ServerMetric {
        name: LOGINS_FAILED,
        kind: MetricKind::Counter,
        labels: &["listener"],
        description: "Logins with a wrong secret, and those refused after too many",
    },
    ServerMetric {
        name: CONNECTIONS,
        kind: MetricKind::Gauge,
        labels: &["listener"],
        description: "Open connections: http, admin, lmstfy, lmstfy_admin, grape, task_service, spring",
    },
    ServerMetric {
        name: CONNECTIONS_REFUSED,
        kind: MetricKind::Counter,
        labels: &["listener"],
        description: "Connections over connections.max",
    },
    ServerMetric {
        name: BODIES_REFUSED,
        kind: MetricKind::Counter,
        labels: &[],
        description: "Requests whose body had no room within connections.max_body_bytes",
    },
    ServerMetric {
        name: PUSHES,
        kind: MetricKind::Counter,
        labels: &["delayq_namespace", "kind", "outcome"],
        description: "Pushes to targets of the kinds http, grpc, kafka, service: done, failed, dead, given_back",
    },
    ServerMetric {
        name: TOKENS,
        kind: MetricKind::Gauge,
        labels: &["state"],
        description: "Tokens: valid; ending, which are valid ones of more than 30 days with less than 7 to go; ended",
    },
    ServerMetric {
        name: BUILD_INFO,
        kind: MetricKind::Gauge,
        labels: &["version"],
        description: "1, with the version of the server",
    },
];

/// Passes all descriptions to the recorder, and begins the counters that alerts ask for at 0, so
/// that the first refusal shows in `increase`.
pub(crate) fn describe_all() {
    for metric in SERVER_METRICS {
        let (name, text) = (metric.name, metric.description);
        match metric.kind {
            MetricKind::Gauge => describe_gauge!(name, Unit::Count, text),
            MetricKind::Histogram => describe_histogram!(name, Unit::Seconds, text),
            _ => describe_counter!(name, Unit::Count, text),
        }
    }
    gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1);
    counter!(BODIES_REFUSED).increment(0);
    for reason in REFUSALS {
        counter!(REFUSED, "reason" => reason).increment(0);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn row(metric: &ServerMetric) -> String {
        let labels = metric.labels.iter().map(|name| format!("`{name}`"));
        let labels: Vec<_> = labels.collect();
        let (name, kind) = (metric.name, metric.kind.as_str());
        let (labels, text) = (labels.join(", "), metric.description);
        format!("| `{name}` | {kind} | {labels} | {text} |").replace("|  |", "| |")
    }

    #[test]
    fn the_guide_lists_every_metric_of_the_server() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let guide = std::fs::read_to_string(root.join("docs/guide/server-operations.md")).unwrap();
        let rows = guide
            .lines()
            .filter(|line| line.starts_with("| `delayq_server"));
        let wanted = SERVER_METRICS.iter().map(row);
        assert!(
            rows.map(str::to_owned).eq(wanted.clone()),
            "\n{}\n",
            wanted.collect::<Vec<_>>().join("\n")
        );
    }
}
