//! The dashboard and the alert rules: what they ask for exists.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use delayq_plugin::METRICS;
use serde_json::Value;

use crate::table::read;

const SERVER_PAGE: &str = "docs/guide/server-operations.md";
const ALERTS: &str = "docs/monitoring/alerts.yml";
const ALERT_TESTS: &str = "docs/monitoring/alerts.test.yml";
const DASHBOARD: &str = "docs/monitoring/grafana-dashboard.json";

/// The series that `text` names.
fn series(text: &str) -> BTreeSet<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_name(c));
    words.filter(|word| word.starts_with("delayq_")).collect()
}

/// Names and kinds of all metrics: those of the plugin, and those of the server from the table of
/// its page, which a test of the server compares with the code.
fn metrics() -> Vec<(String, String)> {
    let of_plugin = METRICS.iter();
    let mut all: Vec<_> = of_plugin
        .map(|metric| (metric.name.to_owned(), metric.kind.as_str().to_owned()))
        .collect();
    let page = read(SERVER_PAGE);
    let rows = page.lines().filter(|line| line.starts_with("| `delayq_"));
    all.extend(rows.map(|row| {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let name = cells.next().unwrap().trim_matches('`');
        (name.to_owned(), cells.next().unwrap().to_owned())
    }));
    assert!(all.len() > METRICS.len() + 5, "{all:?}");
    all
}

/// Why no metric makes the series, if so.
fn unknown(series: &str) -> Option<String> {
    let parts = ["_bucket", "_sum", "_count"];
    let is_made = metrics().iter().any(|(name, kind)| {
        let is_histogram = kind == "histogram";
        let part = series.strip_prefix(name.as_str());
        part.is_some_and(|part| {
            part.is_empty() != is_histogram && (part.is_empty() || parts.contains(&part))
        })
    });
    // The label.
    let is_made = is_made || series == "delayq_namespace";
    (!is_made).then(|| format!("{series} is no series of a metric"))
}

/// The queries of the dashboard, with Grafana's variables filled in.
fn queries(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array());
    let queries = targets
        .flatten()
        .map(|target| target["expr"].as_str().unwrap());
    let filled = queries.map(|query| query.replace("$__rate_interval", "5m"));
    filled
        .map(|query| query.replace("$job", ".*").replace("$namespace", ".*"))
        .map(|query| query.replace("$type", ".*"))
        .collect()
}

#[test]
fn the_alerts_ask_for_metrics_that_exist_and_each_is_tested() {
    let alerts = read(ALERTS);
    let unknown: Vec<_> = series(&alerts).into_iter().filter_map(unknown).collect();
    assert_eq!(unknown, Vec::<String>::new());
    let tests = read(ALERT_TESTS);
    let names = alerts
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let names: Vec<_> = names.collect();
    assert!(names.len() > 5, "{names:?}");
    for name in names {
        let tested = format!("alertname: {name}\n        exp_alerts:");
        assert!(
            tests.contains(&tested),
            "{ALERT_TESTS} never expects {name}"
        );
    }
}

#[test]
fn the_dashboard_shows_every_metric_and_no_other() {
    let text = read(DASHBOARD);
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let queries = queries(&dashboard).join("\n");
    let shown = series(&queries);
    let unknown: Vec<_> = shown.iter().copied().filter_map(unknown).collect();
    assert_eq!(unknown, Vec::<String>::new());
    let is_missing = |(name, _): &(String, String)| {
        let is_shown = |series: &&str| series.starts_with(name.as_str());
        !shown.iter().any(is_shown)
    };
    let missing: Vec<_> = metrics().into_iter().filter(is_missing).collect();
    assert_eq!(missing, Vec::new());
    let panels = dashboard["panels"].as_array().unwrap();
    assert_eq!(panels[0]["type"], "row");
    let rows = panels.iter().filter(|panel| panel["type"] == "row");
    let rows: Vec<_> = rows.map(|row| row["title"].as_str().unwrap()).collect();
    assert_eq!(rows.last(), Some(&"Server"), "{rows:?}");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let of_job = query.matches(r#"{job=~"$job""#).count();
            assert!(of_job > 0, "{query}");
            assert_eq!(query.matches('{').count(), of_job, "{query}");
        }
        assert_ne!(panel["description"], "", "{panel}");
    }
    let ids: Vec<_> = panels.iter().map(|panel| &panel["id"]).collect();
    let distinct: BTreeSet<_> = ids.iter().map(ToString::to_string).collect();
    assert_eq!(distinct.len(), ids.len(), "panels share an id");
}

#[test]
fn a_series_that_no_metric_makes_is_found() {
    assert_eq!(unknown("delayq_lateness_seconds_bucket"), None);
    assert_eq!(unknown("delayq_paused"), None);
    for wrong in [
        "delayq_lateness_seconds",
        "delayq_paused_sum",
        "delayq_none_total",
    ] {
        assert!(unknown(wrong).is_some(), "{wrong}");
    }
}

/// Runs promtool of Prometheus, in the folder of the workspace. Whether it is there.
fn promtool(arguments: &[&str]) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let run = Command::new("promtool")
        .args(arguments)
        .current_dir(root)
        .output();
    let output = match run {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!(
                "LEFT OUT: promtool is not installed; the package prometheus has it, and \
                 `cargo xtask test --only install` installs it on Debian"
            );
            return false;
        }
        Err(error) => panic!("promtool: {error}"),
    };
    let said = [&*output.stdout, &*output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "promtool {arguments:?}:\n{said}");
    true
}

#[test]
fn prometheus_loads_the_alerts_and_they_fire_as_they_should() {
    if promtool(&["check", "rules", ALERTS]) {
        promtool(&["test", "rules", ALERT_TESTS]);
    }
}

#[test]
fn prometheus_understands_the_queries_of_the_dashboard() {
    let dashboard = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let queries = queries(&dashboard);
    let rules = queries.iter().enumerate().map(
        |(index, query)| serde_json::json!({ "record": format!("query:{index}"), "expr": query }),
    );
    let rules: Vec<_> = rules.collect();
    // JSON is YAML.
    let file = serde_json::json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queries.yml");
    std::fs::write(&path, file.to_string()).unwrap();
    promtool(&["check", "rules", path.to_str().unwrap()]);
}
