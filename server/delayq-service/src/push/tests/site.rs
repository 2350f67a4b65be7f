//! A server's push, and a target on this machine.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use delayq_plugin::store::{MemoryStore, StoreOptions};
use delayq_plugin::{
    DelayQueueJob, Namespace, Store, SystemClock, TaskInfo, TaskState, TaskSubmitService,
    TypePattern,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::super::*;
use crate::discovery::{Discovery, ServiceConfig};

/// A request as the target got it.
#[derive(Debug)]
pub(super) struct Got {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Got {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

#[derive(Clone)]
pub(super) struct Shop {
    got: mpsc::UnboundedSender<Got>,
    pub(super) answers: Arc<std::sync::Mutex<Vec<Response>>>,
}

/// A target, and what it was sent.
pub(super) struct Receiver {
    pub(super) url: String,
    pub(super) got: mpsc::UnboundedReceiver<Got>,
    pub(super) answers: Arc<std::sync::Mutex<Vec<Response>>>,
}

async fn take(
    State(shop): State<Shop>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let got = Got {
        method,
        uri,
        headers,
        body,
    };
    let _ = shop.got.send(got);
    let answer = shop.answers.lock().unwrap().pop();
    answer.unwrap_or_else(|| StatusCode::NO_CONTENT.into_response())
}

impl Receiver {
    /// Answers with these, one after the other, and then with 204.
    pub(super) async fn open(mut answers: Vec<Response>) -> Self {
        answers.reverse();
        let answers = Arc::new(std::sync::Mutex::new(answers));
        let (sender, got) = mpsc::unbounded_channel();
        let shop = Shop {
            got: sender,
            answers: Arc::clone(&answers),
        };
        let app = Router::new().fallback(take).with_state(shop);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook?shop=1", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, got, answers }
    }

    pub(super) async fn next(&mut self) -> Got {
        let next = tokio::time::timeout(Duration::from_mins(1), self.got.recv());
        next.await.expect("a push comes").unwrap()
    }
}

pub(super) fn near() -> PushConfig {
    PushConfig {
        allow_http: true,
        allow_networks: vec!["127.0.0.0/8".to_owned()],
        ..PushConfig::default()
    }
}

/// A server's push, and its store.
pub(super) struct Site {
    pub(super) push: Arc<Push>,
    pub(super) policies: Arc<Policies>,
    pub(super) tasks: TaskSubmitService,
}

impl Site {
    pub(super) fn on(store: &Arc<dyn Store>, config: &PushConfig) -> Self {
        Self::with(store, config, &ServiceConfig::default())
    }

    pub(super) fn with(
        store: &Arc<dyn Store>,
        config: &PushConfig,
        service: &ServiceConfig,
    ) -> Self {
        let discovery = Arc::new(Discovery::new(service));
        tokio::spawn(Arc::clone(&discovery).run());
        let courier = Arc::new(Courier::new(config, discovery).unwrap());
        let policies = Arc::new(Policies::new(Arc::clone(store), 5));
        let push = Push::new(
            Arc::clone(store),
            Namespace::default(),
            courier,
            Arc::clone(&policies),
        );
        let push = Arc::new(push);
        let running = Arc::clone(&push);
        tokio::spawn(async move { running.run().await });
        Self {
            push,
            policies,
            tasks: TaskSubmitService::new(Arc::clone(store)),
        }
    }

    pub(super) fn open(config: &PushConfig) -> Self {
        Self::on(&memory(), config)
    }

    pub(super) async fn set(&self, pattern: &str, target: Value) -> (Target, Option<String>) {
        let pattern = TypePattern::new(pattern).unwrap();
        let target = serde_json::from_value(target).unwrap();
        self.push.set(&pattern, target).await.unwrap()
    }

    pub(super) async fn send(&self, job: DelayQueueJob) {
        self.tasks.send(job).await.unwrap();
    }

    /// Waits until a task has come to a state.
    pub(super) async fn until(&self, task_type: &str, id: &str, state: TaskState) -> TaskInfo {
        let wait = async {
            loop {
                let task = self.tasks.find(task_type, id).await.unwrap();
                if let Some(task) = task.filter(|task| task.state == state) {
                    return task;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), wait)
            .await
            .expect("it comes")
    }
}

pub(super) fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(
        Arc::new(SystemClock),
        StoreOptions::default(),
    ))
}

pub(super) fn retry_at_once() -> Value {
    json!({"attempts": 3, "wait": 1, "is_fixed": true})
}
