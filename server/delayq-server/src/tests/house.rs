//! A server with every door.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request};
use delayq_plugin::{DelayQueueJob, Error, Namespace, SubmitOutcome, TaskType, Timestamp};
use delayq_proto::pb;
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
use delayq_service::pull::{Demand, Pulled};
use delayq_service::space::Space;

pub(super) const HOUR: Duration = Duration::from_hours(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    Http,
    Grpc,
    Lmstfy,
    Beanstalkd,
    Grape,
    Spring,
    TaskService,
}

pub(super) const DOORS: [Door; 7] = [
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
    pub(super) fn task_type(self) -> &'static str {
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
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) text: String,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// The message of gRPC, behind its head.
    pub(super) fn message<T: Message + Default>(&self) -> T {
        T::decode(self.body.slice(5..)).unwrap()
    }
}

pub(super) async fn ask(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    let code = |headers: &HeaderMap| headers.get("grpc-status").cloned();
    let status = match code(&head.headers).or(code(&trailers)) {
        Some(code) if code == "3" => 400,
        Some(code) if code == "5" => 404,
        Some(code) if code == "7" => 403,
        Some(code) if code == "8" => 429,
        Some(code) if code == "14" => 503,
        Some(code) if code == "16" => 401,
        _ => head.status.as_u16(),
    };
    let body = body.to_bytes();
    let text = String::from_utf8_lossy(&body).into_owned();
    Answer { status, text, body }
}

/// A task as gRPC sends it, due in an hour.
pub(super) fn task_of_grpc(id: &str) -> pb::NewTask {
    let job = DelayQueueJob::raw("grpc", "x").id(id).after(HOUR);
    let limits = delayq_core::Limits::default();
    let task = job.into_task(&limits, Timestamp::from_millis(0)).unwrap();
    task.into()
}

/// A server with every door, on a namespace of its own: metrics are those of the process.
pub(super) struct House {
    pub(super) namespace: &'static str,
    pub(super) server: Server,
    lmstfy: Router,
    lmstfy_token: String,
    beanstalkd: SocketAddr,
    pub(super) token: String,
}

impl House {
    pub(super) async fn open(namespace: &'static str, limits: NamespaceLimits) -> Self {
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

    pub(super) async fn space(&self) -> Arc<Space> {
        let namespace = Namespace::new(self.namespace).unwrap();
        self.server.app.spaces.of(&namespace).await.unwrap()
    }

    /// A door over HTTP.
    pub(super) async fn http(&self, door: Door, line: (&str, &str), message: &str) -> Answer {
        let request = self.request(door, line, message);
        ask(&self.router(door), request).await
    }

    pub(super) fn router(&self, door: Door) -> Router {
        let app = self.server.app.clone();
        match door {
            Door::Lmstfy => self.lmstfy.clone(),
            Door::Grape => grape::router(app),
            Door::Spring => spring::router(app),
            Door::TaskService => task_service::router(app),
            Door::Grpc => grpc::router(app),
            _ => http::router(app),
        }
    }

    pub(super) fn request(&self, door: Door, line: (&str, &str), message: &str) -> Request<Body> {
        let request = Request::builder().method(line.0).uri(line.1);
        let request = match door {
            Door::Lmstfy => request.header("x-token", &self.lmstfy_token),
            _ => request.header("authorization", format!("Bearer {}", self.token)),
        };
        request.body(Body::from(message.to_owned())).unwrap()
    }

    /// A request to the HTTP door, behind `/v1/NAMESPACE`.
    pub(super) async fn v1(&self, method: &str, path: &str, message: &str) -> Answer {
        let path = format!("/v1/{}/{path}", self.namespace);
        self.http(Door::Http, (method, &path), message).await
    }

    pub(super) async fn grpc(&self, method: &str, request: &impl Message) -> Answer {
        let request = grpc::tests::call(&self.token, method, request);
        ask(&self.router(Door::Grpc), request).await
    }

    /// The result of the one task of a submit over gRPC.
    pub(super) async fn outcome(
        &self,
        request: &pb::SubmitRequest,
    ) -> Result<SubmitOutcome, Error> {
        let response: pb::SubmitResponse = self.grpc("Submit", request).await.message();
        SubmitOutcome::try_from(response.results.into_iter().next().unwrap())
    }

    /// Submits one task over gRPC. Its own result is the answer.
    pub(super) async fn submit(&self, request: &pb::SubmitRequest) -> Answer {
        let mut answer = self.grpc("Submit", request).await;
        if answer.status == 200 {
            let response: pb::SubmitResponse = answer.message();
            let result = response.results.into_iter().next().unwrap();
            answer.status = match delayq_plugin::SubmitOutcome::try_from(result) {
                Ok(_) => 200,
                Err(Error::LimitExceeded { .. }) => 413,
                Err(Error::Full { .. }) => 429,
                Err(other) => panic!("{other}"),
            };
        }
        answer
    }

    /// The last line that beanstalkd's protocol answers to a request on a connection of its own.
    pub(super) async fn beanstalkd(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.beanstalkd).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.write_all(b"\r\nquit\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.lines().last().unwrap().to_owned()
    }

    /// Creates the task `name`, due in an hour: its id, or the answer.
    pub(super) async fn send(&self, door: Door, name: &str) -> Result<String, Answer> {
        let ms = HOUR.as_millis();
        let at = self.space().await.tasks.clock().now().plus(HOUR);
        let answer = match door {
            Door::Http => {
                let path = format!("types/http/tasks/{name}?delay=1h");
                self.v1("PUT", &path, "x").await
            }
            Door::Grpc => {
                let request = pb::SubmitRequest {
                    namespace: self.namespace.to_owned(),
                    tasks: vec![task_of_grpc(name)],
                };
                self.submit(&request).await
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
                let status = match put.as_str() {
                    "JOB_TOO_BIG" => 413,
                    "OUT_OF_MEMORY" => 429,
                    other => return Ok(other.strip_prefix("INSERTED ").unwrap().to_owned()),
                };
                Answer {
                    status,
                    text: put,
                    body: Bytes::new(),
                }
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
    pub(super) async fn cancel(&self, door: Door, id: &str) -> Option<Answer> {
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
                let (status, body) = (200, Bytes::new());
                return Some(Answer { status, text, body });
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
    pub(super) async fn counts(&self, name: &str) -> Vec<String> {
        self.metrics(&format!("{name}{{delayq_namespace=\"{}\"", self.namespace))
            .await
    }

    /// The lines of `/metrics` that begin so.
    pub(super) async fn metrics(&self, beginning: &str) -> Vec<String> {
        let scopes = [Scope::Read];
        let token = self.server.new_token("metrics", &scopes, "*", &[]).await;
        let request = Request::get("/metrics").header("authorization", format!("Bearer {token}"));
        let router = http::router(self.server.app.clone());
        let text = ask(&router, request.body(Body::empty()).unwrap())
            .await
            .text;
        let lines = text.lines().filter(|line| line.starts_with(beginning));
        lines.map(ToOwned::to_owned).collect()
    }

    /// Verbs, types and counts of the log of actions.
    pub(super) async fn log(&self) -> Vec<(String, String, Option<u64>)> {
        let store = Arc::clone(self.space().await.tasks.store());
        let actions = store.actions(None, 100).await.unwrap();
        let actions = actions.into_iter().rev().map(|logged| logged.action);
        let ended = actions.filter(|action| action.end.as_str() != "begun");
        let is_of_token = |name: &str| ["http", "grpc"].contains(&name);
        let ended = ended.inspect(|action| {
            let is_named = action.actor.starts_with("walker (");
            assert!(is_named || !is_of_token(&action.task_type), "{action:?}");
        });
        let seen = ended.map(|action| (action.verb, action.task_type, action.count));
        seen.collect()
    }

    /// Locks a task of a type, once there is one that is due.
    pub(super) async fn claim_of(&self, task_type: &str) -> Vec<Pulled> {
        let demand = Demand {
            types: vec![TaskType::new(task_type).unwrap()],
            limit: 1,
            lock_for: HOUR,
            max_lock_expiries: None,
        };
        let claimed = self.space().await.pull.claim(demand, HOUR).await;
        claimed.unwrap().delivered()
    }

    /// Makes a task of the door dead.
    pub(super) async fn bury(&self, door: Door) {
        if door == Door::Beanstalkd {
            let all = "put 1024 0 60 1\r\nx\r\nreserve\r\nbury 1 1024";
            assert_eq!(self.beanstalkd(all).await, "BURIED");
            return;
        }
        let space = self.space().await;
        let job = DelayQueueJob::raw(door.task_type(), "x").id("9");
        space.tasks.send(job).await.unwrap();
        for one in self.claim_of(door.task_type()).await {
            let end = delayq_plugin::store::AttemptEnd::Dead {
                error: "x".to_owned(),
                succeeded: Vec::new(),
            };
            let settled = space.pull.end(one.bucket, one.task.lock, end);
            settled.await.unwrap();
        }
    }

    /// The number of tasks in the namespace.
    pub(super) async fn tasks(&self) -> u64 {
        let space = self.space().await;
        let mut tasks = 0;
        for task_type in space.tasks.types().await.unwrap() {
            let stats = space.tasks.stats(task_type.as_str()).await.unwrap();
            tasks += stats.scheduled + stats.running;
        }
        tasks
    }
}
