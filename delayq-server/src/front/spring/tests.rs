//! The paths of the Spring delay queue, as recorded.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use delayq_plugin::{Clock, SystemClock, TaskState};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::router;
use crate::access::Scope;
use crate::config::Config;
use crate::server::Server;

const RECORDED: &str = include_str!("../../../../tests/exchanges/springmode/springmode.jsonl");
/// The port of the original's server in the recording.
const SERVER: u64 = 19_023;

struct Site {
    server: Server,
    app: Router,
    token: String,
}

struct Answer {
    status: StatusCode,
    body: Value,
}

impl Site {
    async fn open() -> Self {
        let server = Server::in_memory().await;
        let scopes = [Scope::Submit, Scope::Read];
        let token = server.new_token("spring", &scopes, "default", &[]).await;
        let mut config = Config::clone(&server.app.config);
        config.spring.token.clone_from(&token);
        let mut app = server.app.clone();
        app.config = Arc::new(config);
        let app = router(app);
        Self { server, app, token }
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        let request = Request::builder().method(method).uri(path);
        let body = if body.is_null() {
            Body::empty()
        } else {
            Body::from(body.to_string())
        };
        let request = request.body(body).unwrap();
        let response = self.app.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Answer { status, body }
    }
}

#[tokio::test]
async fn what_callers_of_the_original_send_is_answered_as_recorded() {
    let site = Site::open().await;
    let mut asked = 0;
    for line in RECORDED.lines() {
        let step: Value = serde_json::from_str(line).unwrap();
        let path = step["path"].as_str().unwrap();
        // What needs a registry is tried with one.
        if step["to"] != SERVER || path == "/discovery/service_info" {
            continue;
        }
        let method = step["method"].as_str().unwrap();
        let answer = site.ask(method, path, &step["body"]).await;
        assert_eq!(u64::from(answer.status.as_u16()), step["status"], "{line}");
        let wanted = step["response_body"].as_str().unwrap();
        let wanted: Value = serde_json::from_str(wanted).unwrap_or(Value::Null);
        if let Some(fields) = wanted.as_object() {
            for name in fields.keys() {
                assert!(answer.body.get(name).is_some(), "{name}: {}", answer.body);
            }
            for name in ["status", "error", "path"] {
                assert_eq!(answer.body[name], wanted[name], "{line}");
            }
        } else {
            assert_eq!(answer.body, wanted, "{line}");
        }
        asked += 1;
    }
    assert_eq!(asked, 7);
    let space = site.server.app.spaces.of(&"default".parse().unwrap()).await;
    let task = space.unwrap().tasks.find("fake-app-task1", "t1").await;
    let task = task.unwrap().unwrap();
    assert_eq!(task.message.unwrap(), br#"{"order":42}"#);
    assert_eq!(task.state, TaskState::Scheduled);
    // It was due when it was recorded, and instances are told so.
    assert_eq!(task.headers["spring-delay-time"], "1795417955279");
}

#[tokio::test]
async fn a_task_sent_again_moves_and_takes_its_place() {
    let site = Site::open().await;
    let now = SystemClock.now();
    let at = |delay: u64| {
        let hour = Duration::from_hours(1) + Duration::from_secs(delay);
        now.plus(hour).as_millis()
    };
    let job = |delay: u64, params: &str| {
        json!({
            "taskId": "t", "taskType": "mail", "appName": "Shop",
            "delayTime": at(delay), "params": params,
        })
    };
    for (delay, params) in [(0, "first"), (60, "second")] {
        let answer = site.ask("POST", "/job/add", &job(delay, params)).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    }
    let space = site.server.app.spaces.of(&"default".parse().unwrap()).await;
    let task = space.unwrap().tasks.find("shop-mail", "t").await;
    let task = task.unwrap().unwrap();
    assert_eq!(task.due_at.unwrap().as_millis(), at(60));
    assert_eq!(task.message.unwrap(), b"second");
}

#[tokio::test]
async fn a_request_has_a_token_or_is_refused_and_the_answer_never_repeats_it() {
    let site = Site::open().await;
    let open = router(site.server.app.clone());
    let ask = async |path: &str| {
        let request = Request::builder().method("POST").uri(path);
        let request = request.body(Body::from("{}")).unwrap();
        let response = open.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    };
    assert_eq!(ask("/job/add").await.0, 401);
    assert_eq!(ask("/token/dq_none/job/add").await.0, 401);
    let (status, body) = ask(&format!("/token/{}/job/add", site.token)).await;
    assert_eq!(status, 400, "{body}");
    for path in ["job/add", "task/type/list", "nothing"] {
        let (_, body) = ask(&format!("/token/{}/{path}", site.token)).await;
        assert!(!body.contains(&site.token), "{body}");
    }
    // Where no token is needed.
    let mut app = site.server.app.clone();
    let mut config = Config::clone(&app.config);
    config.spring.token = "optional".to_owned();
    app.config = Arc::new(config);
    let request = Request::get("/task/type/list").body(Body::empty()).unwrap();
    let response = router(app).oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    // A token that may only read adds nothing.
    let read = site
        .server
        .new_token("read", &[Scope::Read], "default", &[]);
    let path = format!("/token/{}/job/add", read.await);
    assert_eq!(ask(&path).await.0, 403);
}
