//! The task service, asked without a network, with targets on this machine.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use delayq_plugin::{Clock, SystemClock};
use delayq_service::access::Scope;
use delayq_service::config::Config;
use delayq_service::push::PushConfig;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tower::ServiceExt;

use super::router;
use crate::tests::server::Server;

mod grpc;
#[cfg(feature = "kafka")]
mod kafka;

/// A request that a target has got.
#[derive(Debug)]
struct Got {
    method: Method,
    headers: HeaderMap,
    body: Bytes,
    at: i64,
}

struct Site {
    app: Router,
    token: String,
    url: String,
    got: mpsc::UnboundedReceiver<Got>,
    /// How many requests the target fails before it succeeds.
    failures: Arc<Mutex<usize>>,
    server: Server,
}

fn now() -> i64 {
    SystemClock.now().as_millis()
}

impl Site {
    async fn open() -> Self {
        Self::with(PushConfig {
            allow_http: true,
            allow_networks: vec!["127.0.0.0/8".to_owned()],
            ..PushConfig::default()
        })
        .await
    }

    async fn with(push: PushConfig) -> Self {
        let config = Config {
            store: "memory:".to_owned(),
            durability: "memory".to_owned(),
            push,
            ..Config::default()
        };
        let server = Server::open(config).await.unwrap();
        let scopes = [Scope::Submit, Scope::Read, Scope::Operate];
        let token = server.new_token("test", &scopes, "default", &[]).await;
        tokio::spawn(Arc::clone(&server.app.spaces).run());
        let (sender, got) = mpsc::unbounded_channel();
        let failures = Arc::new(Mutex::new(0));
        let left = Arc::clone(&failures);
        let take = move |method: Method, headers: HeaderMap, body: Bytes| async move {
            let at = now();
            sender
                .send(Got {
                    method,
                    headers,
                    body,
                    at,
                })
                .ok();
            let mut left = left.lock().unwrap();
            if *left == 0 {
                return StatusCode::NO_CONTENT;
            }
            *left -= 1;
            StatusCode::INTERNAL_SERVER_ERROR
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(take)).await });
        Self {
            app: router(server.app.clone()),
            token,
            url,
            got,
            failures,
            server,
        }
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {}", self.token))
            .body(Body::from(body.to_string()))
            .unwrap();
        let response = self.app.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (
            status,
            serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        )
    }

    async fn next(&mut self) -> Got {
        let next = tokio::time::timeout(Duration::from_secs(20), self.got.recv());
        next.await.expect("a call comes").unwrap()
    }

    /// Waits until a task is in a state.
    async fn until(&self, task_id: &str, state: &str) -> Value {
        let wait = async {
            loop {
                let (_, task) = self
                    .ask("GET", &format!("/v1/tasks/{task_id}"), json!({}))
                    .await;
                if task["state"] == state {
                    return task;
                }
                tokio::task::yield_now().await;
            }
        };
        let wait = tokio::time::timeout(Duration::from_secs(20), wait);
        wait.await
            .unwrap_or_else(|_| panic!("{task_id} is not {state}"))
    }

    async fn close(self) {
        self.server.close().await;
    }
}

#[tokio::test]
async fn a_task_is_known_at_once_runs_at_its_time_and_succeeds() {
    let mut site = Site::open().await;
    let trigger_at = now() + 400;
    let task = json!({
        "project": "shop", "group": "orders", "trigger_at": trigger_at, "request_id": "order 42",
        "retry": {"count": 2, "interval": 5}, "format": "json", "body": {"order": 42},
        "url": site.url, "method": "PUT", "headers": {"x-shop": "7"},
    });
    let (status, made) = site.ask("POST", "/CreateHttpTask", task.clone()).await;
    assert_eq!(
        (status, &made["created"], &made["state"]),
        (201, &json!(true), &json!("waiting"))
    );
    let (status, known) = site
        .ask("POST", "/QueryTask", json!({"task_id": made["task_id"]}))
        .await;
    assert_eq!(status, 200, "{known}");
    for (field, value) in [
        ("project", json!("shop")),
        ("group", json!("orders")),
        ("state", json!("waiting")),
        ("kind", json!("http")),
        ("trigger_at", json!(trigger_at)),
        ("retry", json!({"count": 2, "interval": 5})),
        ("format", json!("json")),
        ("body", json!("{\"order\":42}")),
        ("request_id", json!("order 42")),
        ("attempts", json!(0)),
    ] {
        assert_eq!(known[field], value, "{field}");
    }
    // The same request once more, with a time that was computed anew.
    let mut again = task.clone();
    again["trigger_at"] = json!(trigger_at + 5_000);
    let (status, second) = site.ask("POST", "/v1/tasks/http", again.clone()).await;
    assert_eq!((status, &second["created"]), (200, &json!(false)));
    assert_eq!(second["task_id"], made["task_id"]);
    let got = site.next().await;
    assert!(got.at >= trigger_at, "{} ms early", trigger_at - got.at);
    assert_eq!(
        (got.method.as_str(), &got.body[..]),
        ("PUT", &br#"{"order":42}"#[..])
    );
    assert_eq!(got.headers["content-type"], "application/json");
    assert_eq!(got.headers["x-shop"], "7");
    let task_id = made["task_id"].as_str().unwrap().to_owned();
    let done = site.until(&task_id, "success").await;
    for (field, value) in [
        ("project", json!("shop")),
        ("attempts", json!(1)),
        ("trigger_at", json!(trigger_at)),
        ("body", json!("{\"order\":42}")),
        ("retry", json!({"count": 2, "interval": 5})),
    ] {
        assert_eq!(done[field], value, "{field}");
    }
    // Also once it has ended.
    let (status, third) = site.ask("POST", "/CreateHttpTask", again).await;
    assert_eq!((status, &third["state"]), (200, &json!("success")));
    site.close().await;
}

#[tokio::test]
async fn a_failure_is_retried_as_often_and_after_the_interval_that_was_asked_for() {
    let mut site = Site::open().await;
    *site.failures.lock().unwrap() = 10;
    let task = json!({"retry": {"count": 2, "interval": 1}, "body": "x", "url": site.url});
    let (_, made) = site.ask("POST", "/CreateHttpTask", task).await;
    let task_id = made["task_id"].as_str().unwrap().to_owned();
    let mut times = vec![site.next().await.at];
    site.until(&task_id, "retrying").await;
    times.extend([site.next().await.at, site.next().await.at]);
    assert!(
        times.windows(2).all(|pair| pair[1] - pair[0] >= 1_000),
        "{times:?}"
    );
    assert!(
        times.windows(2).all(|pair| pair[1] - pair[0] < 2_000),
        "{times:?}"
    );
    let failed = site.until(&task_id, "failed").await;
    assert_eq!(
        (&failed["attempts"], &failed["body"]),
        (&json!(3), &json!("x"))
    );
    assert!(failed["last_error"].as_str().unwrap().contains("500"));
    assert!(site.got.try_recv().is_err());
    // Without a retry there is one attempt.
    let (_, made) = site
        .ask("POST", "/CreateHttpTask", json!({"url": site.url}))
        .await;
    let failed = site
        .until(made["task_id"].as_str().unwrap(), "failed")
        .await;
    assert_eq!(failed["attempts"], 1);
    site.close().await;
}

#[tokio::test]
async fn a_task_is_cancelled_by_its_id_or_its_request() {
    let site = Site::open().await;
    let trigger_at = now() + 60_000;
    let task = json!({"trigger_at": trigger_at, "request_id": "1", "url": site.url});
    let (_, made) = site.ask("POST", "/CreateHttpTask", task).await;
    let (status, answer) = site
        .ask("POST", "/CancelTask", json!({"request_id": "1"}))
        .await;
    assert_eq!(
        (status, answer),
        (200, json!({"cancelled": true, "state": "cancelled"}))
    );
    let path = format!("/v1/tasks/{}", made["task_id"].as_str().unwrap());
    let (status, again) = site.ask("DELETE", &path, json!({})).await;
    assert_eq!(
        (status, again),
        (200, json!({"cancelled": true, "state": "cancelled"}))
    );
    let (status, _) = site
        .ask("DELETE", "/v1/tasks/default.default.none", json!({}))
        .await;
    assert_eq!(status, 404);
    site.close().await;
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_says_why() {
    let site = Site::open().await;
    let url = &site.url;
    for (path, task, word) in [
        ("http", json!({"url": "ftp://x/"}), "url"),
        ("http", json!({"url": url, "topic": "t"}), "topic"),
        ("http", json!({"url": url, "project": "a.b"}), "project"),
        ("http", json!({"url": url, "format": "yaml"}), "format"),
        (
            "http",
            json!({"url": url, "retry": {"count": 1_000, "interval": 1}}),
            "retry",
        ),
        ("http", json!({"url": url, "trigger_at": -1}), "trigger_at"),
        (
            "http",
            json!({"url": url, "trigger_at": 1_700_000_000}),
            "seconds",
        ),
        ("http", json!({"url": url, "trigerat": 1}), "trigerat"),
        (
            "grpc",
            json!({"target": "127.0.0.1:9999", "service": "a.B"}),
            "method",
        ),
        (
            "grpc",
            json!({"target": "x:9", "service": "a.B", "method": "C", "format": "json"}),
            "format",
        ),
        ("kafka", json!({"topic": "t"}), "cluster"),
        ("kafka", json!({"topic": "t", "cluster": "main"}), "kafka"),
    ] {
        let (status, answer) = site
            .ask("POST", &format!("/v1/tasks/{path}"), task.clone())
            .await;
        let detail = answer["detail"].as_str().unwrap_or_default();
        assert!(
            status == 400 && detail.contains(word),
            "{task}: {status} {detail}"
        );
    }
    site.close().await;
}
