//! A real Prometheus that scrapes a real server and a real plugin, with the rules of
//! `docs/monitoring`: of all states that a type can be in, only the wrong ones raise an alert.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, also in its helpers"
)]
#![allow(clippy::print_stderr, reason = "what is left out is said")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use delayq_plugin::{
    DelayQueuePlugin, SECONDS_BUCKETS, TaskContext, TaskResult, TaskWorker, WorkerOptions,
    async_trait,
};
use delayq_tests::redis_server::free_port;
use delayq_tests::rig::until;
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::Value;

use self::server::Server;

mod server;

/// The labels that Kubernetes gives a target: none of ours may have such a name.
const KUBERNETES: &str =
    "namespace: live, pod: web-0, container: web, service: web, node: n, endpoint: http";

struct Idle;

#[async_trait]
impl TaskWorker for Idle {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

/// A program that is stopped at the end of the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A request over HTTP/1.0, so that the body is not in chunks, and the body of its answer.
fn ask(address: &str, token: &str, line: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let length = body.len();
    write!(
        stream,
        "{line} HTTP/1.0\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    if head.starts_with("HTTP/1.0 20") {
        Ok(body.to_owned())
    } else {
        Err(std::io::Error::other(format!("{line}: {text}")))
    }
}

fn ask_json(address: &str, line: &str) -> Option<Value> {
    serde_json::from_str(&ask(address, "", line, "").ok()?).ok()
}

/// The rules of the project, made impatient.
fn write_rules(folder: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let rules = std::fs::read_to_string(root.join("docs/monitoring/alerts.yml")).unwrap();
    let lines = rules.lines().map(|line| {
        if line.trim_start().starts_with("for: ") {
            "        for: 2s".to_owned()
        } else {
            line.replace(
                "delayq_oldest_due_seconds) > 300",
                "delayq_oldest_due_seconds) > 1",
            )
        }
    });
    let rules: Vec<_> = lines.collect();
    std::fs::write(folder.join("alerts.yml"), rules.join("\n")).unwrap();
}

/// Starts Prometheus; `None` if it is not installed.
fn prometheus(folder: &Path, targets: &[(&str, &str)]) -> Option<(Started, String)> {
    write_rules(folder);
    let mut config = "global: { scrape_interval: 1s, evaluation_interval: 1s }\n\
                      rule_files: [alerts.yml]\nscrape_configs:\n"
        .to_owned();
    for (job, address) in targets {
        write!(
            config,
            "  - job_name: {job}\n    authorization: {{ credentials_file: token }}\n    \
             static_configs: [{{ targets: [\"{address}\"], labels: {{ {KUBERNETES} }} }}]\n"
        )
        .unwrap();
    }
    std::fs::write(folder.join("prometheus.yml"), config).unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let started = Command::new("prometheus")
        .current_dir(folder)
        .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
        .arg(format!("--web.listen-address={address}"))
        .stderr(Stdio::null())
        .spawn();
    match started {
        Ok(child) => Some((Started(child), address)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!(
                "LEFT OUT: prometheus is not installed; `cargo xtask test --only install` installs \
                 it on Debian"
            );
            None
        }
        Err(error) => panic!("prometheus: {error}"),
    }
}

/// The alerts that fire, each with the job and the type that it is about.
fn firing(prometheus: &str) -> Option<BTreeSet<String>> {
    let answer = ask_json(prometheus, "GET /api/v1/alerts")?;
    let alerts = answer["data"]["alerts"].as_array()?.iter();
    let firing = alerts.filter(|alert| alert["state"] == "firing");
    let shown = firing.map(|alert| {
        let label = |name: &str| {
            alert["labels"][name]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        format!("{} {} {}", label("alertname"), label("job"), label("type"))
    });
    Some(shown.collect())
}

/// Runs promtool's check of the metrics of a process.
fn check_metrics(text: &str) {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = promtool.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    let output = promtool.wait_with_output().unwrap();
    let said = [&*output.stdout, &*output.stderr].concat();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&said)
    );
}

/// The metrics of this process, as a plugin's application would serve them.
async fn exporter() -> String {
    let builder = PrometheusBuilder::new()
        .set_buckets(SECONDS_BUCKETS)
        .unwrap();
    let handle = builder.install_recorder().unwrap();
    let render = move || async move { handle.render() };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let router = Router::new().route("/metrics", get(render));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Brings types into all states, and waits until the server knows who serves them.
async fn bring_into_all_states(first: &str, token: &str) {
    let types = "/v1/default/types";
    for (task_type, delay) in [
        ("by.plugin", "1h"),
        ("by.pull", "1h"),
        ("by.push", "1h"),
        ("by.nobody", "0s"),
        ("paused", "0s"),
    ] {
        let line = format!("POST {types}/{task_type}/tasks?delay={delay}");
        ask(first, token, &line, "1").unwrap();
    }
    ask(first, token, &format!("POST {types}/paused/pause"), "").unwrap();
    let target = r#"{"http":{"url":"https://shop.example/hook"}}"#;
    ask(first, token, &format!("PUT {types}/by.push/target"), target).unwrap();
    let (address, secret) = (first.to_owned(), token.to_owned());
    std::thread::spawn(move || {
        let line = "POST /v1/default/types/by.pull/claim?wait=60s";
        ask(&address, &secret, line, "").ok();
    });
    let wanted = BTreeSet::from(["by.plugin", "by.pull", "by.push"].map(str::to_owned));
    let mut seen = BTreeSet::new();
    for _ in 0..300 {
        let overview = ask(first, token, "GET /v1/default/overview", "").unwrap();
        let overview: Value = serde_json::from_str(&overview).unwrap();
        let types = overview["types"].as_array().unwrap().iter();
        let served = types.filter(|one| one["serving"].as_u64() > Some(0));
        seen = served
            .map(|one| one["task_type"].as_str().unwrap().to_owned())
            .collect();
        if seen == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(seen, wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_wrong_raises_an_alert() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("tasks.sqlite");
    let config = folder.path().join("server.toml");
    let text = format!(
        "store = \"sqlite:{}\"\n[namespaces.default]\n[namespaces.empty]\n",
        store.display()
    );
    std::fs::write(&config, text).unwrap();
    let options = ["--config", config.to_str().unwrap()];
    let first = Server::start(&options, "127.0.0.1:0", true);
    let token = first.token.clone().unwrap();
    std::fs::write(folder.path().join("token"), &token).unwrap();
    let application = exporter().await;
    let plugin = DelayQueuePlugin::builder()
        .url(format!("sqlite:{}", store.display()))
        .without_registered_workers()
        .worker("by.plugin", WorkerOptions::default(), Idle);
    let serving = plugin.start().await.unwrap();
    bring_into_all_states(&first.address, &token).await;

    // Gauges are read at a start and then every 15 s, so these two have all at once.
    let mut scraped = Server::start(&options, "127.0.0.1:0", false);
    let counting = DelayQueuePlugin::builder()
        .url(format!("sqlite:{}", store.display()))
        .without_registered_workers()
        .worker("by.plugin", WorkerOptions::default(), Idle)
        .metrics();
    let counting = counting.start().await.unwrap();
    let targets = [("server", &*scraped.address), ("shop", &*application)];
    let Some((_prometheus, prometheus)) = prometheus(folder.path(), &targets) else {
        return;
    };
    let wanted = [
        "DelayqTasksLate server by.nobody",
        "DelayqTasksLate shop by.nobody",
        "DelayqTypeNotServed server by.nobody",
        "DelayqTypeNotServed shop by.nobody",
    ];
    let wanted: BTreeSet<_> = wanted.map(str::to_owned).into();
    let seen = until("the alerts fire", || async {
        firing(&prometheus).filter(|seen| seen.is_superset(&wanted))
    })
    .await;
    assert_eq!(seen, wanted);
    let labels = ask_json(&prometheus, "GET /api/v1/labels").unwrap();
    assert!(!labels.to_string().contains("exported_"), "{labels}");
    for (address, token) in [(&*scraped.address, &*token), (&*application, "")] {
        check_metrics(&ask(address, token, "GET /metrics", "").unwrap());
    }

    // A server that is gone is told from one that Prometheus never reached.
    scraped.kill();
    let gone = "DelayqDown server ".to_owned();
    until("the end of the server is seen", || async {
        firing(&prometheus).filter(|seen| seen.contains(&gone))
    })
    .await;
    counting.shutdown(Duration::ZERO).await;
    serving.shutdown(Duration::ZERO).await;
}
