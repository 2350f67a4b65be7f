//! The paths of the Spring delay queue, as recorded.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::routing::{get, post};
use delayq_plugin::{Clock, DelayQueueJob, ReplyOutcome, SystemClock, TaskState};
use delayq_service::access::Scope;
use delayq_service::config::Config;
use delayq_service::discovery::ServiceConfig;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tower::ServiceExt;

use super::router;
use crate::tests::server::Server;

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
        Self::on(Server::in_memory().await).await
    }

    async fn on(server: Server) -> Self {
        let scopes = [Scope::Submit, Scope::Read];
        let token = server.new_token("spring", &scopes, "default", &[]).await;
        let mut config = Config::clone(&server.app.config);
        config.spring.token.clone_from(&token);
        let app = &server.app;
        let app = app.configured(config);
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
async fn only_types_with_tasks_of_this_api_are_listed() {
    let site = Site::open().await;
    let space = site.server.app.spaces.of(&"default".parse().unwrap()).await;
    let tasks = &space.unwrap().tasks;
    for task_type in ["shop-other", "tube:a-b::00000400", "mail"] {
        tasks
            .send(DelayQueueJob::raw(task_type, "x"))
            .await
            .unwrap();
    }
    let job = json!({"taskId": "1", "taskType": "mail", "appName": "shop", "params": "x",
        "delayTime": SystemClock.now().plus(Duration::from_hours(1)).as_millis()});
    assert_eq!(site.ask("POST", "/job/add", &job).await.status, 200);
    let listed = site.ask("GET", "/task/type/list", &Value::Null).await;
    assert_eq!(listed.body, json!(["shop-mail"]));
}

/// What the original sent to somebody at this path: the headers that matter, and the body.
fn recorded(path: &str) -> (String, String) {
    let steps = RECORDED
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut sent = steps.filter(|step| step["kind"] == "received" && step["path"] == path);
    let sent = sent.next().unwrap();
    let content_type = sent["headers"]["Content-Type"].as_str().unwrap();
    (
        content_type.to_owned(),
        sent["body"].as_str().unwrap().to_owned(),
    )
}

/// An application of the original beside its registry; what it is called with.
async fn application() -> (ServiceConfig, UnboundedReceiver<(HeaderMap, String)>) {
    let (sender, called) = unbounded_channel();
    let work = post(move |headers: HeaderMap, body: String| {
        sender.send((headers, body)).ok();
        async { "accepted" }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let registered: Value = serde_json::from_str(RECORDED.lines().next().unwrap()).unwrap();
    let mut instance = registered["body"]["instance"].clone();
    instance["port"]["$"] = json!(address.port());
    instance["metadata"]["delay-queue:task"] = json!("task1, task2, prüfung");
    let registry = json!({"applications": {"application": [
        {"name": "FAKE-APP", "instance": [instance]},
    ]}})
    .to_string();
    let app = Router::new()
        .route("/hf/delay_queue/work", work)
        .route("/eureka/apps", get(move || async { registry }));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let mut service = ServiceConfig {
        allow_networks: vec!["127.0.0.0/8".to_owned()],
        ..ServiceConfig::default()
    };
    service.eureka.urls = vec![format!("http://{address}/eureka")];
    (service, called)
}

#[tokio::test]
async fn an_application_of_the_original_sends_a_task_and_is_called_byte_for_byte() {
    let (service, mut called) = application().await;
    let config = Config {
        store: "memory:".to_owned(),
        durability: "memory".to_owned(),
        service,
        ..Config::default()
    };
    let site = Site::on(Server::open(config).await.unwrap()).await;
    let spaces = &site.server.app.spaces;
    tokio::spawn(Arc::clone(spaces).run());
    tokio::spawn(Arc::clone(&spaces.discovery).run());
    let now = SystemClock.now().as_millis().to_string();
    let (content_type, wanted) = recorded("/hf/delay_queue/work");
    let wanted = wanted.replace("1795417955279", &now);
    // The original sends a task on as it got it.
    let (sent_type, sent) = recorded("/job/add");
    for body in [sent, wanted.clone()] {
        let request = Request::post("/job/add").header(CONTENT_TYPE, &sent_type);
        let request = request.body(Body::from(body)).unwrap();
        let response = site.app.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
    }
    let (headers, body) = tokio::time::timeout(Duration::from_secs(20), called.recv())
        .await
        .expect("it is called")
        .unwrap();
    assert_eq!(body, wanted);
    assert_eq!(headers[CONTENT_TYPE], content_type);
    let space = spaces.of(&"default".parse().unwrap()).await.unwrap();
    let other = space.tasks.find("plugin-test-task2", "t9").await.unwrap();
    assert_eq!(other.unwrap().message.unwrap(), br#"{"a":1}"#);
    let ended = space
        .tasks
        .wait_for_reply("fake-app-task1", "t1", Duration::from_secs(20));
    assert_eq!(ended.await.unwrap().outcome, ReplyOutcome::Done);

    // What Jackson takes, and names beyond those of tasks; the application is told them as sent.
    let odd = json!({"taskId": "größe 7", "taskType": "prüfung", "appName": "Fake-App",
        "delayTime": -1, "params": 42});
    assert_eq!(site.ask("POST", "/job/add", &odd).await.status, 200);
    let (_, body) = tokio::time::timeout(Duration::from_secs(20), called.recv())
        .await
        .expect("it is called")
        .unwrap();
    let body: Value = serde_json::from_str(&body).unwrap();
    let wanted = json!({"taskId": "größe 7", "taskType": "prüfung", "appName": "fake-app",
        "delayTime": -1, "params": "42"});
    assert_eq!(body, wanted);
    // The names of another task change nothing of what a task is.
    let forged = DelayQueueJob::raw("fake-app-task1", "x")
        .id("own")
        .header("spring-task-type", "task2")
        .header("spring-task-id", "other");
    space.tasks.send(forged).await.unwrap();
    let (_, body) = tokio::time::timeout(Duration::from_secs(20), called.recv())
        .await
        .expect("it is called")
        .unwrap();
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&body["taskId"], &body["taskType"]),
        (&json!("own"), &json!("task1"))
    );
    site.server.close().await;
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
async fn no_answer_repeats_the_token_of_its_path() {
    let site = Site::open().await;
    for path in ["job/add", "task/type/list", "nothing"] {
        let path = format!("/token/{}/{path}", site.token);
        let request = Request::post(path).body(Body::from("{}")).unwrap();
        let response = site.app.clone().oneshot(request).await.unwrap();
        assert!(response.status().is_client_error());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = String::from_utf8_lossy(&body);
        assert!(!body.contains(&site.token), "{body}");
    }
    // Where no token is needed.
    let app = &site.server.app;
    let mut config = Config::clone(&app.config);
    config.spring.token = "optional".to_owned();
    let app = app.configured(config);
    let request = Request::get("/task/type/list").body(Body::empty()).unwrap();
    let response = router(app).oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
}
