//! The gauges of `/metrics`: what alerts ask for.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use delayq_plugin::store::{MemoryStore, StoreOptions};
use delayq_plugin::{
    DelayQueueJob, DelayQueuePlugin, Namespace, Store, SystemClock, TaskContext, TaskResult,
    TaskWorker, TypePattern, WorkerOptions, async_trait, hours,
};
use delayq_service::access::Scope;
use delayq_service::config::{Config, NamespaceConfig};
use delayq_service::space::Space;
use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;

use super::Site;

struct Idle;

#[async_trait]
impl TaskWorker for Idle {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

/// A server in memory with this namespace on a store.
async fn server(namespace: &Namespace, store: &Arc<dyn Store>) -> Site {
    let config = Config {
        store: "memory:".to_owned(),
        durability: "memory".to_owned(),
        namespaces: [namespace.as_str(), "gauges-empty"]
            .map(|name| (name.to_owned(), NamespaceConfig::default()))
            .into(),
        ..Config::default()
    };
    let site = Site::of(config).await;
    let spaces = &site.server.app.spaces;
    spaces.offer(namespace.clone(), Arc::clone(store)).await;
    site
}

/// Whoever reads the metrics of a server.
struct Scraper {
    site: Site,
    token: String,
}

impl Scraper {
    async fn new(site: Site) -> Self {
        let token = site.token(&[Scope::Read], "*", &[]).await;
        Self { site, token }
    }

    /// The metrics of this server and of all others in this process.
    async fn scrape(&self) -> String {
        let bearer = format!("Bearer {}", self.token);
        let request = Request::get("/metrics").header("authorization", bearer);
        let request = request.body(Body::empty()).unwrap();
        let response = self.site.app.clone().oneshot(request).await.unwrap();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    /// The metrics once they have all these lines.
    async fn scrape_until(&self, wanted: &[String]) -> String {
        let until = tokio::time::Instant::now() + Duration::from_secs(40);
        loop {
            let text = self.scrape().await;
            let is_missing = |line: &&String| !text.lines().any(|one| one == line.as_str());
            let missing: Vec<_> = wanted.iter().filter(is_missing).collect();
            if missing.is_empty() {
                return text;
            }
            assert!(
                tokio::time::Instant::now() < until,
                "not seen: {missing:#?}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn of_type(name: &str, task_type: &str, value: u32) -> String {
    format!("{name}{{delayq_namespace=\"gauges\",type=\"{task_type}\"}} {value}")
}

fn number(text: &str, name: &str, namespace: &str) -> f64 {
    let series = format!("{name}{{delayq_namespace=\"{namespace}\"}} ");
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(&series));
    value.unwrap().parse().unwrap()
}

const SERVED: [&str; 4] = ["gauge.plugin", "gauge.pull", "gauge.push", "gauge.paused"];
const NOBODY: &str = "gauge.nobody";

/// Waits until the overview has all of them as served, and nothing else.
async fn until_served(space: &Space) {
    let served = async {
        loop {
            let seen = delayq_ops::overview(&space.tasks, "gauge.*").await.unwrap();
            let served = seen.types.iter().filter(|one| one.serving > 0);
            let served: Vec<_> = served.map(|one| one.task_type.as_str()).collect();
            if SERVED.iter().all(|one| served.contains(one)) {
                assert_eq!(served.len(), SERVED.len(), "{served:?}");
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let served = tokio::time::timeout(Duration::from_secs(20), served).await;
    served.expect("all announce themselves");
}

#[tokio::test]
async fn a_type_is_served_by_a_plugin_a_pull_worker_or_a_push_and_else_by_nobody() {
    let namespace = Namespace::new("gauges").unwrap();
    let options = StoreOptions {
        namespace: namespace.clone(),
        ..StoreOptions::default()
    };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::new(SystemClock), options));
    let one = server(&namespace, &store).await;
    let space = one.server.app.spaces.of(&namespace).await.unwrap();
    for task_type in SERVED.into_iter().chain([NOBODY]) {
        let job = DelayQueueJob::raw(task_type, "x").after(hours(1));
        space.tasks.send(job).await.unwrap();
    }
    space.tasks.pause("gauge.paused", None).await.unwrap();
    let plugin = DelayQueuePlugin::builder()
        .store(Arc::clone(&store))
        .without_registered_workers()
        .worker("gauge.plugin", WorkerOptions::default(), Idle);
    let plugin = plugin.start().await.unwrap();
    let pushing = Arc::clone(&space);
    tokio::spawn(async move { pushing.push.run().await });
    let push = TypePattern::new("gauge.push").unwrap();
    let target = json!({"http": {"url": "https://shop.example/hook"}});
    let target = serde_json::from_value(target).unwrap();
    space.push.set(&push, target).await.unwrap();
    let work = one.token(&[Scope::Work], "gauges", &[]).await;
    let pull = "/v1/gauges/types/gauge.pull,gauge.paused/claim?wait=60s";
    let pull = one.ask(&work, "POST", pull, "");
    let look = async {
        // The gauges are read at once, and then every 15 s: all that serve are there before.
        until_served(&space).await;
        let other = Scraper::new(server(&namespace, &store).await).await;
        tokio::spawn(Arc::clone(&other.site.server.app.spaces).run());
        let served = SERVED.map(|task_type| of_type("delayq_served", task_type, 1));
        let mut wanted = served.to_vec();
        wanted.extend([
            of_type("delayq_served", NOBODY, 0),
            of_type("delayq_due_tasks", NOBODY, 0),
            of_type("delayq_paused", "gauge.paused", 1),
            of_type("delayq_paused", "gauge.pull", 0),
            "delayq_instances{delayq_namespace=\"gauges-empty\"} 0".to_owned(),
        ]);
        let text = other.scrape_until(&wanted).await;
        // The plugin, the pull and the push.
        assert!(number(&text, "delayq_instances", "gauges") >= 3.0);
        // Nothing of an empty namespace is old.
        assert!(number(&text, "delayq_sampled_timestamp_seconds", "gauges-empty") > 1.7e9);
    };
    tokio::select! {
        answer = pull => panic!("the claim waits: {answer:?}"),
        () = look => {}
    }
    plugin.shutdown(Duration::ZERO).await;
    space.push.close(Duration::ZERO).await;
}
