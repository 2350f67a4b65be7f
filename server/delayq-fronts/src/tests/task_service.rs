//! The public task service, over HTTP and gRPC.

use delayq_proto::pb::tasks;
use delayq_service::config::Config;
use delayq_service::push::{KafkaConfig, PushConfig};
use prost::Message;
use prost_types::FileDescriptorSet;
use serde_json::Value;

use super::*;
use crate::task_service::router;

const HTTP: &str = include_str!("../task_service/http.rs");
const GRPC: &str = "delayq.tasks.v1.TaskService";
/// A task gets a target: whoever creates one needs both.
const CREATES: &[Scope] = &[Scope::Submit, Scope::Operate];

pub(super) struct Service {
    router: Router,
    server: Server,
}

impl Service {
    pub(super) async fn open() -> Self {
        let config = Config {
            store: "memory:".to_owned(),
            durability: "memory".to_owned(),
            namespaces: [(
                "shop".to_owned(),
                delayq_service::config::NamespaceConfig::default(),
            )]
            .into(),
            push: PushConfig {
                kafka: [("main".to_owned(), KafkaConfig::default())].into(),
                ..PushConfig::default()
            },
            ..Config::default()
        };
        let server = Server::open(config).await.unwrap();
        let space = server.app.spaces.of(&Namespace::default()).await.unwrap();
        let job = delayq_plugin::DelayQueueJob::raw("tasks.default.default", "a secret");
        let job = job.id("a").after(std::time::Duration::from_hours(1));
        space.tasks.send(job).await.unwrap();
        let router = router(server.app.clone());
        Self { router, server }
    }
}

/// A message of gRPC in its frame.
fn framed(message: &impl Message) -> Vec<u8> {
    let message = message.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], &message].concat()
}

/// The methods of gRPC, each with a request about the type that has a task.
fn calls() -> Vec<Route> {
    let task_id = "default.default.a".to_owned();
    let rpc = |path: &'static str, scopes| Route::new("RPC", path, scopes);
    let kafka = tasks::CreateKafkaTaskRequest {
        topic: "t".to_owned(),
        cluster: "main".to_owned(),
        ..Default::default()
    };
    let cancel = tasks::CancelTaskRequest {
        task_id: task_id.clone(),
        ..Default::default()
    };
    let query = tasks::QueryTaskRequest {
        task_id,
        ..Default::default()
    };
    vec![
        rpc("/delayq.tasks.v1.TaskService/CreateHttpTask", CREATES)
            .body(framed(&tasks::CreateHttpTaskRequest::default())),
        rpc("/delayq.tasks.v1.TaskService/CreateGrpcTask", CREATES)
            .body(framed(&tasks::CreateGrpcTaskRequest::default())),
        rpc("/delayq.tasks.v1.TaskService/CreateKafkaTask", CREATES).body(framed(&kafka)),
        rpc("/delayq.tasks.v1.TaskService/CancelTask", &[Scope::Submit]).body(framed(&cancel)),
        rpc("/delayq.tasks.v1.TaskService/QueryTask", &[Scope::Read]).body(framed(&query)),
    ]
}

impl Guarded for Service {
    fn router(&self) -> &Router {
        &self.router
    }

    fn server(&self) -> &Server {
        &self.server
    }

    fn routes(&self) -> Vec<Route> {
        use Scope::{Read, Submit};
        let http = r#"{"url": "https://example.org/"}"#;
        let grpc = r#"{"target": "example.org:443", "service": "a.B", "method": "C"}"#;
        let kafka = r#"{"topic": "t", "cluster": "main"}"#;
        let which = r#"{"task_id": "default.default.a"}"#;
        let by_name = "/QueryTask?task_id=default.default.a";
        let mut routes = vec![
            Route::new("POST", "/CreateHttpTask", CREATES).body(http),
            Route::new("POST", "/v1/tasks/http", CREATES).body(http),
            Route::new("POST", "/CreateGrpcTask", CREATES).body(grpc),
            Route::new("POST", "/v1/tasks/grpc", CREATES).body(grpc),
            Route::new("POST", "/CreateKafkaTask", CREATES).body(kafka),
            Route::new("POST", "/v1/tasks/kafka", CREATES).body(kafka),
            Route::new("POST", "/CancelTask", &[Submit]).body(which),
            Route::new("POST", "/QueryTask", &[Read]).body(which),
            Route::new("GET", by_name, &[Read]),
            Route::new("GET", "/v1/tasks/default.default.a", &[Read]),
            Route::new("DELETE", "/v1/tasks/default.default.a", &[Submit]),
        ];
        routes.extend(calls());
        routes
    }

    fn named(&self) -> BTreeSet<(String, String)> {
        let named = routes_of("", HTTP).into_iter();
        let filled = |path: String| path.replace("{task_id}", "default.default.a");
        let named = named.map(|(method, path)| (method, filled(path)));
        let set = FileDescriptorSet::decode(delayq_proto::TASKS_DESCRIPTORS).unwrap();
        let services = set.file.iter().flat_map(|file| &file.service);
        let methods = services.flat_map(|service| &service.method);
        let called = methods.map(|one| ("RPC".to_owned(), format!("/{GRPC}/{}", one.name())));
        named.chain(called).collect()
    }

    fn is_own(&self, answer: &Answer) -> bool {
        if answer.headers.contains_key("grpc-status") {
            return answer.text.is_empty();
        }
        let body: Value = serde_json::from_str(&answer.text).unwrap_or_default();
        let kind = body["type"].as_str().unwrap_or_default();
        kind.starts_with("urn:delayq:problem:") && body["status"] == answer.status
    }
}
