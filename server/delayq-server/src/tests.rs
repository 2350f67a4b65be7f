//! Every operation through every door that offers it: what it does, counts and logs is the same.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use delayq_plugin::{DeadFilter, DelayQueueJob, Namespace, TaskState, TaskType, Timestamp};
use delayq_proto::{pb, span, time};
use http_body_util::BodyExt;
use prost::Message;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower::ServiceExt;

use crate::server::Server;
use crate::{grpc, http};
use delayq_fronts::lmstfy::Lmstfy;
use delayq_fronts::{beanstalk, grape, lmstfy, spring, task_service};
use delayq_service::access::Scope;
use delayq_service::config::{Config, NamespaceConfig, NamespaceLimits};
use delayq_service::space::Space;

const HOUR: Duration = Duration::from_hours(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Http,
    Grpc,
    Lmstfy,
    Beanstalkd,
    Grape,
    Spring,
    TaskService,
}

const DOORS: [Door; 7] = [
    Door::Http,
    Door::Grpc,
    Door::Lmstfy,
    Door::Beanstalkd,
    Door::Grape,
    Door::Spring,
    Door::TaskService,
];

impl Door {
    /// The type of the tasks that it is asked for here, as its front names it.
    fn task_type(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Lmstfy => "q:mail",
            Self::Beanstalkd => "tube:default::00000400",
            Self::Grape => "grape",
            Self::Spring => "shop-mail",
            Self::TaskService => "tasks.default.default",
        }
    }
}

/// An answer. The status of gRPC is that of HTTP which says the same.
#[derive(Debug)]
struct Answer {
    status: u16,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

async fn ask(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    let code = |headers: &HeaderMap| headers.get("grpc-status").cloned();
    let status = match code(&head.headers).or(code(&trailers)) {
        Some(code) if code == "3" => 400,
        Some(code) if code == "8" => 429,
        _ => head.status.as_u16(),
    };
    let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    Answer { status, text }
}

/// A server with every door, on a namespace of its own: metrics are those of the process.
struct House {
    namespace: &'static str,
    server: Server,
    lmstfy: Router,
    lmstfy_token: String,
    beanstalkd: SocketAddr,
    token: String,
}

impl House {
    async fn open(namespace: &'static str, rate: Option<u32>) -> Self {
        let limits = NamespaceLimits {
            rate,
            ..NamespaceLimits::default()
        };
        let own = NamespaceConfig {
            limits,
            ..NamespaceConfig::default()
        };
        let mut config = Config {
            store: "memory:".to_owned(),
            durability: "memory".to_owned(),
            namespaces: [(namespace.to_owned(), own)].into(),
            ..Config::default()
        };
        config.lmstfy.pools = [("default".to_owned(), namespace.to_owned())].into();
        namespace.clone_into(&mut config.beanstalk.namespace);
        namespace.clone_into(&mut config.service.namespace);
        let server = Server::open(config).await.unwrap();
        let scopes = [Scope::Admin];
        let token = server.new_token("walker", &scopes, namespace, &[]).await;
        let front = Lmstfy::new(server.app.clone());
        let made = Request::post("/token/q?description=x").body(Body::empty());
        let made = ask(&lmstfy::admin(&front), made.unwrap()).await;
        let lmstfy_token = made.json()["token"].as_str().unwrap().to_owned();
        let own = Namespace::new(namespace).unwrap();
        let space = server.app.spaces.of(&own).await.unwrap();
        let grape = TaskType::new(Door::Grape.task_type()).unwrap();
        space.tasks.store().register_type(&grape).await.unwrap();
        let listener = delayq_service::listener::listen(([127, 0, 0, 1], 0).into()).await;
        let listener = listener.unwrap();
        let beanstalkd = listener.local_addr().unwrap();
        let listeners = beanstalk::Listeners::over(listener);
        tokio::spawn(beanstalk::serve(server.app.clone(), listeners));
        Self {
            namespace,
            lmstfy: lmstfy::router(&front),
            lmstfy_token,
            beanstalkd,
            token,
            server,
        }
    }

    async fn space(&self) -> Arc<Space> {
        let namespace = Namespace::new(self.namespace).unwrap();
        self.server.app.spaces.of(&namespace).await.unwrap()
    }

    /// A door over HTTP.
    async fn http(&self, door: Door, line: (&str, &str), message: &str) -> Answer {
        let app = self.server.app.clone();
        let router = match door {
            Door::Lmstfy => self.lmstfy.clone(),
            Door::Grape => grape::router(app),
            Door::Spring => spring::router(app),
            Door::TaskService => task_service::router(app),
            _ => http::router(app),
        };
        let request = Request::builder().method(line.0).uri(line.1);
        let request = match door {
            Door::Lmstfy => request.header("x-token", &self.lmstfy_token),
            _ => request.header("authorization", format!("Bearer {}", self.token)),
        };
        let body = Body::from(message.to_owned());
        ask(&router, request.body(body).unwrap()).await
    }

    /// A request to the HTTP door, behind `/v1/NAMESPACE`.
    async fn v1(&self, method: &str, path: &str, message: &str) -> Answer {
        let path = format!("/v1/{}/{path}", self.namespace);
        self.http(Door::Http, (method, &path), message).await
    }

    async fn grpc(&self, method: &str, request: &impl Message) -> Answer {
        let request = grpc::tests::call(&self.token, method, request);
        ask(&grpc::router(self.server.app.clone()), request).await
    }

    /// The last line that beanstalkd's protocol answers to a request on a connection of its own.
    async fn beanstalkd(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.beanstalkd).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.write_all(b"\r\nquit\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.lines().last().unwrap().to_owned()
    }

    /// Creates the task `name`, due in an hour: its id, or the answer.
    async fn send(&self, door: Door, name: &str) -> Result<String, Answer> {
        let ms = HOUR.as_millis();
        let at = self.space().await.tasks.clock().now().plus(HOUR);
        let answer = match door {
            Door::Http => {
                let path = format!("types/http/tasks/{name}?delay=1h");
                self.v1("PUT", &path, "x").await
            }
            Door::Grpc => {
                let job = DelayQueueJob::raw("grpc", "x").id(name).after(HOUR);
                let limits = delayq_core::Limits::default();
                let task = job.into_task(&limits, Timestamp::from_millis(0)).unwrap();
                let request = pb::SubmitRequest {
                    namespace: self.namespace.to_owned(),
                    tasks: vec![task.into()],
                };
                self.grpc("Submit", &request).await
            }
            Door::Lmstfy => {
                let line = ("PUT", "/api/q/mail?delay=3600&ttl=0");
                let answer = self.http(door, line, "x").await;
                if let Some(id) = answer.json()["job_id"].as_str() {
                    return Ok(id.to_owned());
                }
                answer
            }
            Door::Beanstalkd => {
                let put = self.beanstalkd("put 1024 3600 60 1\r\nx").await;
                return Ok(put.strip_prefix("INSERTED ").unwrap().to_owned());
            }
            Door::Grape => {
                let path = format!("/api/job/produce?tube=grape&jid={name}&dtr={ms}&ttr=60000");
                self.http(door, ("POST", &path), "x").await
            }
            Door::Spring => {
                let job = json!({
                    "taskId": name, "taskType": "mail", "appName": "shop",
                    "delayTime": at.as_millis(), "params": "x",
                });
                self.http(door, ("POST", "/job/add"), &job.to_string())
                    .await
            }
            Door::TaskService => {
                let task = json!({
                    "request_id": name, "trigger_at": at.as_millis(),
                    "url": "https://example.com/", "body": "x",
                });
                let line = ("POST", "/CreateHttpTask");
                self.http(door, line, &task.to_string()).await
            }
        };
        if (200..300).contains(&answer.status) {
            let own = answer.json()["task_id"].as_str().map(ToOwned::to_owned);
            return Ok(own.unwrap_or_else(|| name.to_owned()));
        }
        Err(answer)
    }

    /// Cancels a task that waits; the answer, `None` where the door cannot.
    async fn cancel(&self, door: Door, id: &str) -> Option<Answer> {
        let path = match door {
            Door::Http => format!("/v1/{}/types/http/tasks/{id}", self.namespace),
            Door::Grpc => {
                let request = pb::CancelRequest {
                    namespace: self.namespace.to_owned(),
                    task_type: "grpc".to_owned(),
                    id: id.to_owned(),
                };
                return Some(self.grpc("Cancel", &request).await);
            }
            Door::Lmstfy => format!("/api/q/mail/job/{id}"),
            Door::Beanstalkd => {
                let text = self.beanstalkd(&format!("delete {id}")).await;
                assert_eq!(text, "DELETED");
                return Some(Answer { status: 200, text });
            }
            Door::Grape => {
                let path = format!("/api/job/delete?tube=grape&jid={id}");
                return Some(self.http(door, ("DELETE", &path), "").await);
            }
            Door::Spring => return None,
            Door::TaskService => format!("/v1/tasks/{id}"),
        };
        Some(self.http(door, ("DELETE", &path), "").await)
    }

    /// The lines of `/metrics` of this namespace that begin so.
    async fn counts(&self, name: &str) -> Vec<String> {
        let scopes = [Scope::Read];
        let token = self.server.new_token("metrics", &scopes, "*", &[]).await;
        let request = Request::get("/metrics").header("authorization", format!("Bearer {token}"));
        let router = http::router(self.server.app.clone());
        let text = ask(&router, request.body(Body::empty()).unwrap())
            .await
            .text;
        let of = format!("{name}{{namespace=\"{}\"", self.namespace);
        let lines = text.lines().filter(|line| line.starts_with(&of));
        lines.map(ToOwned::to_owned).collect()
    }

    /// Verbs, types and counts of the log of actions.
    async fn log(&self) -> Vec<(String, String, Option<u64>)> {
        let store = Arc::clone(self.space().await.tasks.store());
        let actions = store.actions(None, 100).await.unwrap();
        let actions = actions.into_iter().rev().map(|logged| logged.action);
        let ended = actions.filter(|action| action.end.as_str() != "begun");
        let seen = ended.map(|action| (action.verb, action.task_type, action.count));
        seen.collect()
    }

    /// Makes a task of the door dead.
    async fn bury(&self, door: Door) {
        if door == Door::Beanstalkd {
            let all = "put 1024 0 60 1\r\nx\r\nreserve\r\nbury 1 1024";
            assert_eq!(self.beanstalkd(all).await, "BURIED");
            return;
        }
        let space = self.space().await;
        let job = DelayQueueJob::raw(door.task_type(), "x").id("9");
        space.tasks.send(job).await.unwrap();
        let demand = delayq_service::pull::Demand {
            types: vec![TaskType::new(door.task_type()).unwrap()],
            limit: 1,
            lock_for: HOUR,
            max_lock_expiries: None,
        };
        let claimed = space.pull.claim(demand, HOUR).await.unwrap();
        for one in claimed.delivered() {
            let end = delayq_plugin::store::AttemptEnd::Dead {
                error: "x".to_owned(),
                succeeded: Vec::new(),
            };
            let settled = space.pull.end(one.bucket, one.task.lock, end);
            settled.await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_task_that_is_created_and_cancelled_is_counted_at_every_door() {
    let house = House::open("walk-counts", None).await;
    let mut cancels = Vec::new();
    for door in DOORS {
        let id = house.send(door, "1").await.unwrap();
        if let Some(answer) = house.cancel(door, &id).await {
            assert!((200..300).contains(&answer.status), "{door:?}: {answer:?}");
            cancels.push(door);
        }
    }
    let count = |name: &str, door: Door, outcome: &str| {
        let (space, task_type) = (house.namespace, door.task_type());
        format!("{name}{{namespace=\"{space}\",type=\"{task_type}\",outcome=\"{outcome}\"}} 1")
    };
    let (sent, settled) = ("delayq_submitted_total", "delayq_settled_total");
    let (seen_sent, seen_settled) = (house.counts(sent).await, house.counts(settled).await);
    for door in DOORS {
        let line = count(sent, door, "accepted");
        assert!(seen_sent.contains(&line), "{door:?}: {seen_sent:#?}");
    }
    for door in cancels {
        let line = count(settled, door, "cancelled");
        assert!(seen_settled.contains(&line), "{door:?}: {seen_settled:#?}");
    }
}

#[tokio::test]
async fn a_pause_until_a_time_that_is_past_is_refused_and_ends_none() {
    let house = House::open("walk-past", None).await;
    let space = house.space().await;
    for door in [Door::Http, Door::Grpc] {
        space.tasks.pause(door.task_type(), None).await.unwrap();
    }
    let path = "types/http/pause?until=2020-01-01T00:00:00Z";
    let request = pb::PauseRequest {
        namespace: house.namespace.to_owned(),
        task_type: "grpc".to_owned(),
        until: Some(time(Timestamp::from_millis(1_577_836_800_000))),
    };
    let answers = [
        house.v1("POST", path, "").await,
        house.grpc("Pause", &request).await,
    ];
    for answer in &answers {
        assert_eq!(answer.status, 400, "{answer:?}");
    }
    for door in [Door::Http, Door::Grpc] {
        let stats = space.tasks.stats(door.task_type()).await.unwrap();
        assert!(stats.paused_until.is_some(), "{door:?}");
    }
    assert_eq!(house.log().await, [], "a mistake is no action");
}

#[tokio::test]
async fn who_changes_dead_tasks_or_pauses_is_in_the_log_at_every_door() {
    let house = House::open("walk-log", None).await;
    let of_type = |verb: &str, door: Door, count: Option<u64>| {
        let task_type = match door {
            Door::Lmstfy => "q/mail",
            Door::Beanstalkd => "default",
            _ => door.task_type(),
        };
        (verb.to_owned(), task_type.to_owned(), count)
    };
    let mut wanted = Vec::new();
    for door in [Door::Http, Door::Grpc, Door::Lmstfy, Door::Beanstalkd] {
        house.bury(door).await;
        let verb = if door == Door::Beanstalkd {
            "kick"
        } else {
            "requeue"
        };
        wanted.push(of_type(verb, door, Some(1)));
        match door {
            Door::Http => {
                let path = "types/http/dead/requeue";
                let answer = house.v1("POST", path, r#"{"all": true}"#).await;
                assert_eq!(answer.status, 200, "{answer:?}");
            }
            Door::Grpc => {
                let request = pb::RequeueDeadRequest {
                    namespace: house.namespace.to_owned(),
                    task_type: "grpc".to_owned(),
                    filter: Some(DeadFilter::all().into()),
                    interval: Some(span(Duration::ZERO)),
                };
                assert_eq!(house.grpc("RequeueDead", &request).await.status, 200);
            }
            Door::Lmstfy => {
                let line = ("PUT", "/api/q/mail/deadletter?limit=10&ttl=0");
                let answer = house.http(door, line, "").await;
                assert_eq!(answer.json()["count"], 1, "{answer:?}");
            }
            _ => assert_eq!(house.beanstalkd("kick 10").await, "KICKED 1"),
        }
    }
    for door in [Door::Http, Door::Grpc, Door::Beanstalkd] {
        wanted.push(of_type("pause", door, None));
        match door {
            Door::Http => assert_eq!(house.v1("POST", "types/http/pause", "").await.status, 200),
            Door::Grpc => {
                let request = pb::PauseRequest {
                    namespace: house.namespace.to_owned(),
                    task_type: "grpc".to_owned(),
                    until: None,
                };
                assert_eq!(house.grpc("Pause", &request).await.status, 200);
            }
            _ => assert_eq!(house.beanstalkd("pause-tube default 60").await, "PAUSED"),
        }
    }
    assert_eq!(house.log().await, wanted);
    let stats = house.space().await.tasks.stats("q:mail").await.unwrap();
    assert_eq!((stats.dead, stats.scheduled), (0, 1), "{stats:?}");
    let found = house.space().await.tasks.find("grpc", "9").await.unwrap();
    assert_eq!(found.unwrap().state, TaskState::Scheduled);
}

#[tokio::test]
async fn every_door_pays_the_rate_of_the_namespace() {
    for (index, door) in DOORS.into_iter().enumerate() {
        let namespaces = [
            "walk-rate-0",
            "walk-rate-1",
            "walk-rate-2",
            "walk-rate-3",
            "walk-rate-4",
            "walk-rate-5",
            "walk-rate-6",
        ];
        let house = House::open(namespaces[index], Some(1)).await;
        if door == Door::Beanstalkd {
            // Its clients know no such refusal: they wait.
            let started = tokio::time::Instant::now();
            house.send(door, "1").await.unwrap();
            house.send(door, "2").await.unwrap();
            assert!(started.elapsed() > Duration::from_millis(500), "{door:?}");
            continue;
        }
        house.send(door, "1").await.unwrap();
        let refused = house.send(door, "2").await.unwrap_err();
        assert_eq!(refused.status, 429, "{door:?}: {refused:?}");
    }
}
