//! What the original answers, request by request, and what goes beyond it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use delayq_service::config::{Config, LmstfyConfig, NamespaceConfig};
use futures_util::future::join_all;
use futures_util::stream;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use super::{Lmstfy, admin, router};
use crate::tests::exchange::Replay;
use crate::tests::server::Server;

/// Files that change nothing outside of their own namespaces, or nothing that another one sees.
const FILES: [&str; 16] = [
    "00_publish.jsonl",
    "01_names.jsonl",
    "02_auth.jsonl",
    "03_consume.jsonl",
    "04_ack.jsonl",
    "05_tries.jsonl",
    "06_dead.jsonl",
    "07_peek.jsonl",
    "08_destroy.jsonl",
    "09_bulk.jsonl",
    "10_republish.jsonl",
    "11_attributes.jsonl",
    "12_wait_reply.jsonl",
    "13_routes.jsonl",
    "14_admin.jsonl",
    "15_throttle.jsonl",
];

async fn front(accounts: &[(&str, &str)]) -> (Server, Arc<Lmstfy>) {
    let text = |pairs: &[(&str, &str)]| -> BTreeMap<_, _> {
        let pairs = pairs.iter();
        pairs
            .map(|(one, other)| ((*one).to_owned(), (*other).to_owned()))
            .collect()
    };
    let config = Config {
        store: "memory:".to_owned(),
        durability: "memory".to_owned(),
        namespaces: [("second".to_owned(), NamespaceConfig::default())].into(),
        lmstfy: LmstfyConfig {
            accounts: text(accounts),
            pools: text(&[("default", "default"), ("second", "second")]),
            ..LmstfyConfig::default()
        },
        ..Config::default()
    };
    let server = Server::open(config).await.unwrap();
    let front = Lmstfy::new(server.app.clone());
    (server, front)
}

#[tokio::test]
async fn the_recorded_exchanges_are_the_same() {
    let (_server, front) = front(&[]).await;
    let replay = Replay::new(router(&front), admin(&front), "lmstfy");
    let answers = join_all(FILES.iter().map(|file| replay.file(file))).await;
    let (same, different): (Vec<_>, Vec<_>) = answers.into_iter().unzip();
    assert_eq!(different.concat(), Vec::<String>::new());
    let (after, different) = replay.file("90_metrics.jsonl").await;
    assert_eq!(different, Vec::<String>::new());
    let same = same.into_iter().sum::<usize>() + after;
    assert!(same >= 420, "{same} of 434 were the same");
}

#[tokio::test]
async fn the_administration_knows_its_users() {
    let (_server, front) = front(&[("test_user", "change.me")]).await;
    let replay = Replay::new(router(&front), admin(&front), "lmstfy");
    let (same, different) = replay.file("auth_basic.jsonl").await;
    // The original shows them to everybody.
    let open = ["info", "pools", "metrics", "access log status"];
    let told = open.map(|page| format!("basic-auth/{page} is open: status 200, got 401"));
    assert_eq!((same, different.len()), (17, open.len()), "{different:?}");
    let is_told = |one: &String| told.iter().any(|told| one.starts_with(told));
    assert!(different.iter().all(is_told), "{different:?}");
}

/// What a request is answered.
async fn call(
    to: &Router,
    (method, path): (&str, &str),
    token: &str,
    body: impl Into<Body>,
) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("x-token", token).body(body.into()).unwrap();
    let answer = to.clone().oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

/// A new token of the namespace `shop`.
async fn token(admin: &Router) -> String {
    let (_, made) = call(admin, ("POST", "/token/shop?description=x"), "", "").await;
    made["token"].as_str().unwrap().to_owned()
}

/// A client that goes away in the middle of its request has published nothing.
#[tokio::test]
async fn a_republish_that_is_cut_off_leaves_the_old_job() {
    let (_server, front) = front(&[]).await;
    let (api, admin) = (router(&front), admin(&front));
    let token = token(&admin).await;
    let (status, job) = call(&api, ("PUT", "/api/shop/mail"), &token, "old").await;
    assert_eq!(status, 201, "{job}");
    let path = format!("/api/shop/mail/job/{}", job["job_id"].as_str().unwrap());
    let cut = stream::iter([Ok("ne"), Err(std::io::Error::other("the client is gone"))]);
    let (status, _) = call(&api, ("PUT", &path), &token, Body::from_stream(cut)).await;
    assert_eq!(status, 400);
    let (status, old) = call(&api, ("GET", &path), &token, "").await;
    assert_eq!(status, 200, "{old}");
}

#[tokio::test]
async fn a_token_that_is_deleted_while_it_waits_gets_no_job() {
    let (_server, front) = front(&[]).await;
    let (api, admin) = (router(&front), admin(&front));
    let (leaving, other) = (token(&admin).await, token(&admin).await);
    let wait = "/api/shop/mail?timeout=30&ttr=60&tries=1";
    let consume = call(&api, ("GET", wait), &leaving, "");
    let changed = async {
        let path = format!("/token/shop/{leaving}");
        let (status, _) = call(&admin, ("DELETE", &path), "", "").await;
        assert_eq!(status, 204);
        let (status, _) = call(&api, ("PUT", "/api/shop/mail?tries=1"), &other, "secret").await;
        assert_eq!(status, 201);
    };
    let ((status, refused), ()) = tokio::join!(consume, changed);
    assert_eq!(status, 401, "{refused}");
    // Its one try is left.
    let (status, job) = call(&api, ("GET", wait), &other, "").await;
    assert_eq!(status, 200, "{job}");
    assert_eq!(job["remain_tries"], 0);
}
