//! The door on a real listener, as clients reach it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http;
use delayq_core::store::StoreOptions;
use delayq_plugin::{Namespace, Store};
use delayq_proto::pb;
use delayq_service::access::Scope;
use delayq_service::app::App;
use delayq_service::config::{Config, NamespaceConfig};
use delayq_service::space::Space;
use delayq_service::testing::new_token;
use pb::attempt_end::End;
use pb::delayq_client::DelayqClient;
use pb::submit_result::Outcome;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::Request;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};

use crate::grpc::router;
use crate::server::Server;

mod contract;
mod dead;
mod history;
mod insight;
mod moves;
mod pull;
mod reply;
mod rights;
mod tls;
mod worker;

/// A call that is made without a network.
pub(crate) fn call(token: &str, method: &str, request: &impl Message) -> http::Request<Body> {
    let message = request.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let body = [&[0], &length[..], &message[..]].concat();
    http::Request::post(format!("/delayq.v1.Delayq/{method}"))
        .header("content-type", "application/grpc")
        .header("authorization", format!("Bearer {token}"))
        .body(Body::from(body))
        .unwrap()
}

/// A server that listens. It ends when this is dropped.
pub(super) struct Site {
    pub(super) address: String,
    /// A token for everything.
    pub(super) token: String,
    pub(super) app: App,
    _end: oneshot::Sender<()>,
}

impl Site {
    /// A server with an open store as a namespace.
    pub(super) async fn over(namespace: &Namespace, store: Arc<dyn Store>) -> Self {
        let name = namespace.to_string();
        let config = Config {
            listen: ([127, 0, 0, 1], 0).into(),
            store: "memory:".to_owned(),
            durability: "memory".to_owned(),
            namespaces: [(name, NamespaceConfig::default())].into(),
            max_message_bytes: delayq_core::job::MAX_MESSAGE_BYTES,
            ..Config::default()
        };
        let server = Server::open(config).await.unwrap();
        server.app.spaces.offer(namespace.clone(), store).await;
        Self::of(server).await
    }

    /// A server in memory.
    pub(super) async fn open() -> Self {
        Self::keeping(None).await
    }

    /// A server in memory with a history in this database.
    pub(super) async fn keeping(history: Option<String>) -> Self {
        let config = Config {
            listen: ([127, 0, 0, 1], 0).into(),
            store: "memory:".to_owned(),
            durability: "memory".to_owned(),
            history,
            ..Config::default()
        };
        Self::of(Server::open(config).await.unwrap()).await
    }

    async fn of(server: Server) -> Self {
        let app = server.app.clone();
        let token = new_token(&app, "test", &[Scope::Admin], "*", &[]).await;
        let listener: TcpListener = server.listener().await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (end, ended) = oneshot::channel::<()>();
        let door = server.door("grpc", router(app.clone()));
        tokio::spawn(async move {
            tokio::select! {
                () = door.serve(listener) => {}
                _ = ended => {}
            }
            server.close().await;
        });
        Self {
            address,
            token,
            app,
            _end: end,
        }
    }

    /// A client with a connection of its own.
    pub(super) fn client(&self) -> DelayqClient<Channel> {
        let uri = format!("http://{}", self.address);
        DelayqClient::new(Endpoint::from_shared(uri).unwrap().connect_lazy())
    }

    /// A token for types of every namespace.
    pub(super) async fn token_for(&self, scopes: &[Scope], types: &[&str]) -> String {
        new_token(&self.app, "test", scopes, "*", types).await
    }

    /// The default namespace.
    pub(super) async fn space(&self) -> Arc<Space> {
        let space = self.app.spaces.of(&Namespace::default()).await;
        space.unwrap()
    }

    /// Sends tasks of type `mail` that are due, with a text each.
    pub(super) async fn send(&self, ids: &[&str]) {
        let task = |id: &&str| pb::NewTask {
            task_type: "mail".to_owned(),
            id: (*id).to_owned(),
            body: Some(pb::new_task::Body::Text("hello".to_owned())),
            ..pb::NewTask::default()
        };
        let request = pb::SubmitRequest {
            tasks: ids.iter().map(task).collect(),
            ..pb::SubmitRequest::default()
        };
        let sent = self.client().submit(asking(&self.token, request)).await;
        for result in sent.unwrap().into_inner().results {
            let accepted = matches!(result.outcome, Some(Outcome::Accepted(_)));
            assert!(accepted, "{result:?}");
        }
    }

    /// Locks due tasks of type `mail`.
    pub(super) async fn pulled(&self, limit: u32) -> Vec<pb::ClaimedTask> {
        let request = pb::PullRequest {
            task_types: vec!["mail".to_owned()],
            limit: Some(limit),
            wait: Some(delayq_proto::span(Duration::from_secs(30))),
            ..pb::PullRequest::default()
        };
        let pulled = self.client().pull(asking(&self.token, request)).await;
        let tasks = pulled.unwrap().into_inner().tasks.into_iter();
        tasks.map(|task| task.task.unwrap()).collect()
    }

    /// Ends an attempt of type `mail`, with a note; whether its lock held the task.
    pub(super) async fn settle(&self, task: &pb::ClaimedTask, end: End) -> bool {
        let settlement = pb::Settlement {
            lock: task.lock.clone(),
            end: Some(pb::AttemptEnd { end: Some(end) }),
            note: Some("by a test".to_owned()),
        };
        let request = pb::SettleRequest {
            bucket: Some(pb::Bucket {
                task_type: "mail".to_owned(),
                shard: String::new(),
            }),
            settlements: vec![settlement],
            ..pb::SettleRequest::default()
        };
        let settled = self.client().settle(asking(&self.token, request)).await;
        settled.unwrap().into_inner().outcomes == [i32::from(pb::SettleOutcome::Settled)]
    }

    /// The URL of a store.
    pub(super) fn url(&self, namespace: &Namespace) -> String {
        format!("delayq://{}@{}/{namespace}", self.token, self.address)
    }
}

/// A call with a token.
pub(super) fn asking<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let bearer: MetadataValue<_> = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", bearer);
    request
}

/// The options of a remote store.
pub(super) fn remote_options(options: &StoreOptions) -> StoreOptions {
    StoreOptions {
        durability: delayq_core::store::Durability::Memory,
        ..options.clone()
    }
}
