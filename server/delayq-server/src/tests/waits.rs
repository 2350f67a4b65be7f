//! What waits at a door, and the token that asked for it.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use delayq_plugin::store::{AttemptEnd, Reply};
use delayq_plugin::{DeadFilter, DelayQueueJob};
use delayq_proto::{pb, span};
use delayq_service::access::Scope;
use delayq_service::config::NamespaceLimits;
use futures_util::future::join_all;

use super::house::{HOUR, House, ask};
use crate::grpc::tests::call;
use crate::{grpc, http};

/// Requests of a token that wait, each for the type of its name, and the status of each once the
/// token has ended: `create` has its task, and is told to ask again.
fn requests(house: &House, token: &str) -> Vec<(&'static str, u16, Request<Body>)> {
    let namespace = house.namespace.to_owned();
    let v1 = |method: &str, path: &str, body: &'static str| {
        let path = format!("/v1/{namespace}/types/{path}");
        let request = Request::builder().method(method).uri(path);
        let request = request.header("authorization", format!("Bearer {token}"));
        request.body(Body::from(body)).unwrap()
    };
    let wait = Some(span(Duration::from_secs(30)));
    let pull = pb::PullRequest {
        namespace: namespace.clone(),
        task_types: vec!["Pull".to_owned()],
        wait,
        ..pb::PullRequest::default()
    };
    let reply = pb::WaitForReplyRequest {
        namespace: namespace.clone(),
        task_type: "WaitForReply".to_owned(),
        id: "a".to_owned(),
        wait,
    };
    let requeue = pb::RequeueSelectedRequest {
        namespace: namespace.clone(),
        task_type: "RequeueSelected".to_owned(),
        selection: Some(pb::DeadSelection {
            all: true,
            ..pb::DeadSelection::default()
        }),
        interval: Some(span(HOUR)),
        ..pb::RequeueSelectedRequest::default()
    };
    let wakeups = pb::WakeupsRequest {
        namespace: namespace.clone(),
    };
    let slowly = r#"{"all": true, "interval": "1h"}"#;
    vec![
        ("claim", 401, v1("POST", "claim/claim?wait=30s", "")),
        ("Pull", 401, call(token, "Pull", &pull)),
        ("reply", 401, v1("GET", "reply/tasks/a/reply?wait=30s", "")),
        ("create", 202, v1("PUT", "create/tasks/a?wait=30s", "x")),
        ("WaitForReply", 401, call(token, "WaitForReply", &reply)),
        ("requeue", 200, v1("POST", "requeue/dead/requeue", slowly)),
        (
            "RequeueSelected",
            401,
            call(token, "RequeueSelected", &requeue),
        ),
        ("Wakeups", 401, call(token, "Wakeups", &wakeups)),
    ]
}

/// How the right of a request ends while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RightEnd {
    /// The token is revoked.
    Revoked,
    /// The token gets another secret, and the present one ends at once.
    Rotated,
}

impl RightEnd {
    async fn make(self, house: &House, token: &str) {
        let id = token.split('_').nth(1).unwrap();
        let tokens = &house.server.app.tokens;
        let has_ended = match self {
            Self::Revoked => tokens.revoke(id).await.unwrap(),
            Self::Rotated => tokens.rotate(id, Duration::ZERO).await.unwrap().is_some(),
        };
        assert!(has_ended);
    }
}

#[tokio::test]
async fn whatever_waits_ends_with_its_token_at_every_door() {
    let house = House::open("walk-waits", NamespaceLimits::default()).await;
    everything_ends(&house, RightEnd::Revoked).await;
}

#[tokio::test]
async fn whatever_waits_ends_with_the_secret_that_asked_for_it_at_every_door() {
    let house = House::open("walk-rotated", NamespaceLimits::default()).await;
    everything_ends(&house, RightEnd::Rotated).await;
}

async fn everything_ends(house: &House, right_end: RightEnd) {
    let space = house.space().await;
    let send = async |task_type: &str, id: &str| {
        let job = DelayQueueJob::raw(task_type, "a secret").id(id);
        space.tasks.send(job).await.unwrap();
    };
    let end = async |task_type: &str, end: AttemptEnd, reply: Option<Reply>| {
        for one in house.claim_of(task_type).await {
            let ended = space
                .pull
                .end_with(one.bucket, one.task.lock, end.clone(), reply.clone());
            ended.await.unwrap();
        }
    };
    for task_type in ["requeue", "RequeueSelected"] {
        for id in ["a", "b"] {
            send(task_type, id).await;
            let dead = AttemptEnd::Dead {
                error: "x".to_owned(),
                succeeded: Vec::new(),
            };
            end(task_type, dead, None).await;
        }
    }
    for task_type in ["reply", "WaitForReply"] {
        send(task_type, "a").await;
    }
    let admin = [Scope::Admin];
    let leaving = house
        .server
        .new_token("leaving", &admin, house.namespace, &[]);
    let leaving = leaving.await;
    let app = house.server.app.clone();
    let router = http::router(app.clone()).merge(grpc::router(app));
    let waiting = requests(house, &leaving).into_iter();
    let waiting = join_all(waiting.map(|(what, status, request)| {
        let router = &router;
        async move { (what, status, ask(router, request).await) }
    }));
    let meanwhile = async {
        right_end.make(house, &leaving).await;
        for task_type in ["claim", "Pull"] {
            send(task_type, "a").await;
        }
        for task_type in ["reply", "create", "WaitForReply"] {
            let reply = Reply::bytes(b"a secret".to_vec());
            end(task_type, AttemptEnd::Done, Some(reply)).await;
        }
    };
    let (answers, ()) = tokio::join!(waiting, meanwhile);
    for (what, status, answer) in answers {
        assert_eq!(answer.status, status, "{what}: {answer:?}");
        assert!(!answer.text.contains("a secret"), "{what}: {answer:?}");
        let is_told = answer.text.contains("urn:delayq:problem:unauthorized");
        assert!(what != "requeue" || is_told, "{answer:?}");
    }
    for task_type in ["claim", "Pull"] {
        let next = house.claim_of(task_type).await;
        assert_eq!(next[0].task.attempt, 1, "{task_type}");
    }
    for task_type in ["requeue", "RequeueSelected"] {
        let left = space
            .tasks
            .discard_dead(task_type, &DeadFilter::all())
            .await;
        assert!(!left.unwrap().is_empty(), "{task_type}");
    }
}
