//! Routes, asked without a network, on memory stores.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use delayq_service::access::Scope;
use delayq_service::config::Config;
use delayq_tests::rig::until;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::http::router;
use crate::server::Server;

mod answers;
mod callee;
mod gauges;
mod guide;
mod history;
mod limits;
mod many;
mod moves;
mod pull;
mod reply;

struct Site {
    server: Server,
    app: Router,
}

#[derive(Debug)]
struct Answer {
    status: StatusCode,
    body: Value,
}

impl Site {
    async fn open() -> Self {
        Self::of(delayq_service::testing::in_memory()).await
    }

    async fn of(config: Config) -> Self {
        let server = Server::open(config).await.unwrap();
        let app = router(server.app.clone());
        Self { server, app }
    }

    async fn token(&self, scopes: &[Scope], namespace: &str, types: &[&str]) -> String {
        self.server
            .new_token("test", scopes, namespace, types)
            .await
    }

    async fn ask(&self, token: &str, method: &str, path: &str, body: &str) -> Answer {
        let request = Request::builder().method(method).uri(path);
        let request = match token {
            "" => request,
            token => request.header("authorization", format!("Bearer {token}")),
        };
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = self.app.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Answer { status, body }
    }
}

const TASKS: &str = "/v1/default/types/mail.send/tasks";

#[tokio::test]
async fn a_task_is_created_found_moved_changed_and_cancelled() {
    let site = Site::open().await;
    let token = site
        .token(&[Scope::Submit, Scope::Read], "default", &[])
        .await;
    let task = format!("{TASKS}/order-42");
    let create = format!("{task}?delay=30m&group=tenant-7");
    let created = site.ask(&token, "PUT", &create, "hello").await;
    assert_eq!(
        (created.status.as_u16(), &created.body["outcome"]),
        (201, &json!("accepted"))
    );
    let again = site.ask(&token, "PUT", &create, "hello").await;
    assert_eq!(
        (again.status.as_u16(), &again.body["state"]),
        (200, &json!("scheduled"))
    );
    let other = site.ask(&token, "PUT", &create, "another").await;
    assert_eq!(
        (other.status.as_u16(), &other.body["type"]),
        (409, &json!("urn:delayq:problem:conflict"))
    );
    let moved = site
        .ask(&token, "POST", &format!("{task}/reschedule?delay=1h"), "")
        .await;
    assert!(moved.body["due_at"].as_i64() > created.body["due_at"].as_i64());
    let updated = site
        .ask(&token, "PUT", &format!("{task}/message"), "new")
        .await;
    assert_eq!(updated.status, StatusCode::OK);
    let found = site.ask(&token, "GET", &task, "").await;
    assert_eq!(
        (&found.body["message"], &found.body["headers"]["group"]),
        (&json!("new"), &json!("tenant-7"))
    );
    let page = site
        .ask(&token, "GET", &format!("{TASKS}?state=scheduled"), "")
        .await;
    assert_eq!(page.body["tasks"][0]["id"], "order-42");
    let cancelled = site.ask(&token, "DELETE", &task, "").await;
    assert_eq!(cancelled.body, json!({"outcome": "cancelled"}));
    let twice = site.ask(&token, "DELETE", &task, "").await;
    assert_eq!(
        (twice.status.as_u16(), &twice.body["outcome"]),
        (200, &json!("cancelled"))
    );
    let both = format!("{TASKS}?ids=order-42,nobody");
    let both = site.ask(&token, "DELETE", &both, "").await;
    assert_eq!(
        both.body,
        json!({"order-42": "cancelled", "nobody": "not_found"})
    );
    let unknown = site
        .ask(&token, "GET", &format!("{TASKS}/nobody"), "")
        .await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_is_not_understood_is_refused_with_what_to_write() {
    let site = Site::open().await;
    let token = site.token(&[Scope::Submit], "default", &[]).await;
    for (query, word) in [
        ("delay=soon", "soon"),
        ("delay=1s&at=5", "exclude"),
        ("at=tomorrow", "tomorrow"),
        ("on_conflict=maybe", "reject, keep or replace"),
        ("dellay=5", "dellay"),
    ] {
        let refused = site
            .ask(&token, "POST", &format!("{TASKS}?{query}"), "x")
            .await;
        let said = refused.body["detail"].to_string();
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{query}");
        assert!(said.contains(word), "{query}: {said}");
    }
    // Items of a list would be taken for fields.
    let admin = site.token(&[Scope::Admin], "default", &[]).await;
    let path = "/v1/default/types/mail.send/settings";
    let refused = site.ask(&admin, "PATCH", path, "[null, null]").await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    let large = "x".repeat(300 * 1_024);
    let refused = site.ask(&token, "POST", TASKS, &large).await;
    assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    for path in ["/v2/nothing", "/v1/default/types/mail.send/task/a"] {
        let lost = site.ask(&token, "GET", path, "").await;
        assert_eq!(lost.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(lost.body["type"], "urn:delayq:problem:no-route", "{path}");
    }
}

/// What everybody may ask.
const OPEN: [&str; 2] = ["/health/live", "/health/ready"];

/// Every route of the document but those, with names filled in: method, path, scope.
fn routes(document: &Value) -> Vec<(String, String, String)> {
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let path = path.replace("{namespace}", "default");
        let path = path
            .replace("{task_type}", "mail.send")
            .replace("{types}", "mail.send")
            .replace("{id}", "a");
        if OPEN.contains(&path.as_str()) {
            continue;
        }
        for (method, route) in methods.as_object().unwrap() {
            let scope = route["security"][0]["token"][0].as_str();
            let scope = scope.unwrap_or_else(|| panic!("{method} {path} names no scope"));
            routes.push((method.to_uppercase(), path.clone(), scope.to_owned()));
        }
    }
    routes
}

#[tokio::test]
async fn no_route_is_reached_without_its_own_right() {
    let site = Site::open().await;
    let document = site.ask("", "GET", "/openapi.json", "").await.body;
    let routes = routes(&document);
    assert!(routes.len() >= 36, "{routes:?}");
    let foreign = site.token(&Scope::ALL, "shop", &[]).await;
    let narrow = site.token(&Scope::ALL, "default", &["order.*"]).await;
    let revoked = site.token(&Scope::ALL, "default", &[]).await;
    let id = revoked.split('_').nth(1).unwrap();
    assert!(site.server.app.tokens.revoke(id).await.unwrap());
    let expired = site.server.expired_token().await;
    for (method, path, scope) in routes {
        let status = async |token: &str| site.ask(token, &method, &path, "").await.status.as_u16();
        let others = Scope::ALL
            .into_iter()
            .filter(|one| one.as_str() != scope && *one != Scope::Admin);
        let others: Vec<_> = others.collect();
        let others = site.token(&others, "default", &[]).await;
        let place = format!("{method} {path}");
        assert_eq!(status("").await, 401, "{place}");
        assert_eq!(status("dq_x_y").await, 401, "{place}");
        assert_eq!(status(&revoked).await, 401, "{place}");
        assert_eq!(status(&expired).await, 401, "{place}");
        assert_eq!(status(&foreign).await, 403, "{place}");
        assert_eq!(status(&others).await, 403, "{place}");
        if path.contains("mail.send") {
            assert_eq!(status(&narrow).await, 403, "{place}");
        }
        let own: Scope = scope.parse().unwrap();
        let types: &[&str] = if path.contains("mail.send") {
            &["mail.*"]
        } else {
            &[]
        };
        let namespace = if path == "/metrics" { "*" } else { "default" };
        let own = site.token(&[own], namespace, types).await;
        assert!(![401, 403].contains(&status(&own).await), "{place}");
    }
    let space = site.server.app.spaces.of(&"default".parse().unwrap()).await;
    assert_eq!(space.unwrap().tasks.types().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_rotated_secret_overlaps_and_another_server_hears_of_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        store: format!("sqlite:{}", folder.path().join("server.sqlite").display()),
        ..Config::default()
    };
    let (one, other) = (
        Server::open(config.clone()).await.unwrap(),
        Server::open(config).await.unwrap(),
    );
    let first = one.first_token().await.unwrap().unwrap();
    assert_eq!(one.first_token().await.unwrap(), None);
    let follow = tokio::spawn(Arc::clone(&other.app.tokens).follow());
    let is_known = async |token: &str, is_known| {
        until("the other hears of it", async || {
            (other.app.tokens.admit(token).is_some() == is_known).then_some(())
        })
        .await;
    };
    is_known(&first, true).await;
    let id = first.split('_').nth(1).unwrap();
    let (_, second) = one
        .app
        .tokens
        .rotate(id, Duration::from_hours(1))
        .await
        .unwrap()
        .unwrap();
    is_known(&second, true).await;
    assert!(other.app.tokens.admit(&first).is_some());
    assert!(one.app.tokens.revoke(id).await.unwrap());
    is_known(&second, false).await;
    follow.abort();
    one.close().await;
    other.close().await;
}

#[tokio::test]
async fn what_a_route_does_not_read_is_refused_by_name_and_nothing_is_done() {
    let site = Site::open().await;
    let all = [Scope::Submit, Scope::Work, Scope::Read, Scope::Operate];
    let token = site.token(&all, "default", &[]).await;
    let of_type = "/v1/default/types/mail.send";
    for (method, path, body, word) in [
        (
            "POST",
            "/pause",
            r#"{"until":"2030-01-01T00:00:00Z"}"#,
            "body",
        ),
        ("POST", "/claim", r#"{"limit":5}"#, "body"),
        (
            "POST",
            "/tasks/a/release?lock=1-1",
            r#"{"after":"10m"}"#,
            "body",
        ),
        (
            "POST",
            "/tasks/a/extend?lock=1-1",
            r#"{"lock_for":"10m"}"#,
            "body",
        ),
        ("GET", "/tasks/a?wait=1s", "", "wait"),
        ("DELETE", "/tasks/a?force=true", "", "force"),
        ("PUT", "/tasks/a?delya=1h", "x", "delya"),
    ] {
        let path = format!("{of_type}{path}");
        let refused = site.ask(&token, method, &path, body).await;
        assert_eq!(refused.status.as_u16(), 400, "{path}: {refused:?}");
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.contains(word), "{path}: {detail}");
        let unknown = site.ask("", method, &path, body).await;
        assert_eq!(unknown.status.as_u16(), 401, "{path}: {unknown:?}");
    }
    for header in ["delayq-delay", "Delayq-Targett"] {
        let request = Request::put(format!("{of_type}/tasks/b"))
            .header("authorization", format!("Bearer {token}"))
            .header(header, "1h")
            .body(Body::from("x"));
        let response = site.app.clone().oneshot(request.unwrap()).await.unwrap();
        assert_eq!(response.status().as_u16(), 400, "{header}");
    }
    for header in ["delayq-target", "delayq-header-shop"] {
        let request = Request::post(format!("{of_type}/bulk"))
            .header("authorization", format!("Bearer {token}"))
            .header(header, "x")
            .body(Body::from("{}"));
        let response = site.app.clone().oneshot(request.unwrap()).await.unwrap();
        assert_eq!(response.status().as_u16(), 400, "{header}");
    }
    let paused = site.ask(&token, "GET", of_type, "").await;
    assert_eq!(paused.body["paused_until"], Value::Null, "{paused:?}");
    for id in ["a", "b"] {
        let found = site
            .ask(&token, "GET", &format!("{of_type}/tasks/{id}"), "")
            .await;
        assert_eq!(found.status.as_u16(), 404, "{id}");
    }
}

#[tokio::test]
async fn an_id_that_cannot_be_refuses_a_cancel_of_several_before_one_is_cancelled() {
    let site = Site::open().await;
    let token = site
        .token(&[Scope::Submit, Scope::Read], "default", &[])
        .await;
    for id in ["a", "b"] {
        let path = format!("{TASKS}/{id}?delay=1h");
        let created = site.ask(&token, "PUT", &path, "x").await;
        assert_eq!(created.status.as_u16(), 201);
    }
    for ids in ["a,,b", "a,b,", "", "a,b%20c"] {
        let path = format!("{TASKS}?ids={ids}");
        let refused = site.ask(&token, "DELETE", &path, "").await;
        assert_eq!(refused.status.as_u16(), 400, "{ids}");
    }
    for id in ["a", "b"] {
        let found = site.ask(&token, "GET", &format!("{TASKS}/{id}"), "").await;
        assert_eq!(found.body["state"], "scheduled", "{id}");
    }
}
