//! The verbs of Grape, asked without a network, on memory stores.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use delayq_plugin::store::{MemoryStore, StoreOptions};
use delayq_plugin::{Namespace, SystemClock, TaskState};
use delayq_service::access::Scope;
use delayq_service::config::{Config, TokenRule};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::router;
use crate::tests::server::Server;

mod replay;

struct Site {
    server: Server,
    api: Router,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
    body: Value,
}

impl Site {
    async fn open(token: TokenRule) -> Self {
        let mut config = Config {
            store: "memory:".to_owned(),
            durability: "memory".to_owned(),
            ..Config::default()
        };
        config.namespaces.insert(
            "shop".to_owned(),
            delayq_service::config::NamespaceConfig::default(),
        );
        config.grape.token = token;
        config.grape.max_executions = 4;
        let server = Server::open(config).await.unwrap();
        Self {
            api: router(server.app.clone()),
            server,
        }
    }

    async fn ask(&self, request: Request<Body>) -> Answer {
        Answer::of(self.api.clone(), request).await
    }

    async fn call(&self, method: &str, verb: &str, query: &str, body: &[u8]) -> Value {
        let uri = format!("/api/{verb}?{query}");
        let request = Request::builder().method(method).uri(uri);
        let answer = self
            .ask(request.body(Body::from(body.to_vec())).unwrap())
            .await;
        assert_eq!(answer.status, 200, "{verb} {query}: {}", answer.text);
        answer.body
    }

    async fn tube(&self) {
        self.call("POST", "tube/create", "tube=t", b"").await;
    }

    async fn stats(&self) -> [u64; 3] {
        let stats = self.call("GET", "tube/stats/t", "", b"").await;
        ["delayQueueSize", "retainQueueSize", "failedQueueSize"]
            .map(|name| stats[name].as_u64().unwrap())
    }
}

impl Answer {
    async fn of(router: Router, request: Request<Body>) -> Self {
        let response = router.oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Self {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8_lossy(&bytes).into_owned(),
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        }
    }
}

#[tokio::test]
async fn finishing_or_burying_a_job_that_waits_leaves_it_there() {
    let site = Site::open(TokenRule::Optional).await;
    site.tube().await;
    let job = "tube=t&jid=a";
    site.call("POST", "job/produce", &format!("{job}&dtr=60000"), b"x")
        .await;
    assert_eq!(site.call("DELETE", "job/finish", job, b"").await, false);
    assert_eq!(site.call("PUT", "job/bury", job, b"").await, false);
    assert_eq!(site.call("PUT", "job/release", job, b"").await, false);
    assert_eq!(site.stats().await, [1, 0, 0]);
}

#[tokio::test]
async fn a_job_that_runs_has_no_second_copy_and_its_id_is_free_once_it_is_done() {
    let site = Site::open(TokenRule::Optional).await;
    site.tube().await;
    let job = "tube=t&jid=a&ttr=60000";
    for round in 0..3 {
        assert_eq!(
            site.call("POST", "job/produce", job, b"x").await,
            true,
            "{round}"
        );
        assert_eq!(site.call("POST", "job/produce", job, b"x").await, false);
        let jobs = site.call("GET", "job/consume", "tube=t&max=10", b"").await;
        assert_eq!(jobs[0]["data"], "eA");
        assert_eq!(site.call("POST", "job/produce", job, b"x").await, false);
        assert_eq!(site.call("POST", "job/produce", job, b"other").await, false);
        assert_eq!(site.call("DELETE", "job/delete", job, b"").await, false);
        assert_eq!(site.stats().await, [0, 1, 0]);
        assert_eq!(site.call("DELETE", "job/finish", job, b"").await, true);
        assert_eq!(site.stats().await, [0, 0, 0]);
    }
}

#[tokio::test]
async fn every_byte_of_a_body_and_every_id_comes_back() {
    let site = Site::open(TokenRule::Optional).await;
    site.tube().await;
    let body: Vec<u8> = (0..=255).collect();
    site.call(
        "POST",
        "job/produce",
        "tube=t&jid=a%20%2F%E8%AE%A2&ttr=60000",
        &body,
    )
    .await;
    let jobs = site.call("GET", "job/consume", "tube=t", b"").await;
    assert_eq!(jobs[0]["id"], "a /\u{8ba2}");
    let decoded = URL_SAFE_NO_PAD.decode(jobs[0]["data"].as_str().unwrap());
    assert_eq!(decoded.unwrap(), body);
}

#[tokio::test]
async fn a_job_fails_after_the_most_executions() {
    let site = Site::open(TokenRule::Optional).await;
    site.tube().await;
    let job = "tube=t&jid=a";
    site.call("POST", "job/produce", &format!("{job}&ttr=60000"), b"x")
        .await;
    for noe in 0..4 {
        let jobs = site.call("GET", "job/consume", "tube=t", b"").await;
        assert_eq!(jobs[0]["noe"], noe);
        assert_eq!(site.call("PUT", "job/release", job, b"").await, true);
    }
    assert_eq!(site.stats().await, [0, 0, 1]);
    let failed = site.call("GET", "job/peek", "tube=t&max=5", b"").await;
    assert_eq!(failed[0]["noe"], 4);
}

#[tokio::test]
async fn a_lock_of_its_own_keeps_a_late_consumer_from_the_job_of_the_next() {
    let site = Site::open(TokenRule::Optional).await;
    site.tube().await;
    site.call("POST", "job/produce", "tube=t&jid=a&ttr=60000", b"x")
        .await;
    let consume = || {
        Request::get("/api/job/consume?tube=t")
            .body(Body::empty())
            .unwrap()
    };
    let first = site.ask(consume()).await.headers["delayq-locks"]
        .to_str()
        .unwrap()
        .to_owned();
    site.call("PUT", "job/release", "tube=t&jid=a", b"").await;
    let second = site.ask(consume()).await.headers["delayq-locks"]
        .to_str()
        .unwrap()
        .to_owned();
    let finish = async |lock: &str| {
        let query = format!("tube=t&jid=a&lock={lock}");
        site.call("DELETE", "job/finish", &query, b"").await
    };
    assert_eq!(finish(&first).await, false);
    assert_eq!(finish(&second).await, true);
}

#[tokio::test]
async fn a_tube_is_deleted_with_whatever_is_in_it() {
    let site = Site::open(TokenRule::Optional).await;
    site.tube().await;
    for (id, dtr) in [("a", 0), ("b", 0), ("c", 60_000)] {
        let query = format!("tube=t&jid={id}&dtr={dtr}&ttr=60000");
        site.call("POST", "job/produce", &query, b"x").await;
    }
    site.call("GET", "job/consume", "tube=t&max=2", b"").await;
    site.call("PUT", "job/bury", "tube=t&jid=a", b"").await;
    assert_eq!(site.stats().await, [1, 1, 1]);
    assert_eq!(site.call("POST", "tube/delete", "tube=t", b"").await, true);
    assert_eq!(site.call("GET", "tube/list", "", b"").await, json!([]));
    site.tube().await;
    assert_eq!(site.stats().await, [0, 0, 0]);
}

/// The password of clients that know only users and passwords.
#[tokio::test]
async fn a_token_is_a_password_as_well_and_its_tubes_are_in_its_namespace() {
    let site = Site::open(TokenRule::Required).await;
    let token = site
        .server
        .new_token("test", &[Scope::Submit], "shop", &["t"]);
    let basic = STANDARD.encode(format!("any:{}", token.await));
    for path in ["/api/tube/create?tube=t", "/api/job/produce?tube=t&jid=a"] {
        let request = Request::post(path).header("authorization", format!("Basic {basic}"));
        let answer = site.ask(request.body(Body::from("x")).unwrap()).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    }
    let spaces = &site.server.app.spaces;
    let shop = spaces.of(&Namespace::new("shop").unwrap()).await.unwrap();
    let task = shop.tasks.find("t", "a").await.unwrap().unwrap();
    assert_eq!(task.state, TaskState::Scheduled);
}

#[tokio::test]
async fn servers_on_one_store_know_each_others_tubes_jobs_and_sessions() {
    let store: Arc<dyn delayq_plugin::Store> = Arc::new(MemoryStore::new(
        Arc::new(SystemClock),
        StoreOptions::default(),
    ));
    let sites = [
        Site::open(TokenRule::Optional).await,
        Site::open(TokenRule::Optional).await,
    ];
    for site in &sites {
        site.server
            .app
            .spaces
            .offer(Namespace::default(), Arc::clone(&store))
            .await;
    }
    let [one, other] = sites;
    one.tube().await;
    other
        .call("POST", "job/produce", "tube=t&jid=a&ttr=60000", b"x")
        .await;
    let jobs = one.call("GET", "job/consume", "tube=t", b"").await;
    assert_eq!(jobs[0]["id"], "a");
    assert_eq!(
        other
            .call("DELETE", "job/finish", "tube=t&jid=a", b"")
            .await,
        true
    );
    let list = other.call("GET", "tube/list", "", b"").await;
    assert_eq!(list, json!(["t"]));
    // A tube that one has deleted is unknown to the other a moment later.
    one.call("POST", "tube/delete", "tube=t", b"").await;
    let unknown = async {
        loop {
            let consume = Request::get("/api/job/consume?tube=t");
            let answer = other.ask(consume.body(Body::empty()).unwrap()).await;
            if answer.body["code"] == 1_000 {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), unknown)
        .await
        .expect("it is unknown");
}
