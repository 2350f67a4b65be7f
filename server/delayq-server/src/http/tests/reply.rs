//! Replies to those who wait.

use axum::body::Body;
use axum::http::{HeaderMap, Request};
use delayq_plugin::store::MAX_REPLY_BYTES;
use delayq_service::access::Scope;
use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;

use super::{Site, TASKS};

struct Raw {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Raw {
    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).map(|value| value.to_str().unwrap());
        value.unwrap_or_default()
    }
}

impl Site {
    async fn raw(&self, token: &str, request: (&str, &str), content: (&str, &str)) -> Raw {
        let ((method, path), (content_type, body)) = (request, content);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {token}"));
        if !content_type.is_empty() {
            request = request.header("content-type", content_type);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = self.app.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        Raw {
            status,
            headers,
            body: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    /// Claims the next task and ends it.
    async fn work(&self, token: &str, how: &str, content: (&str, &str)) -> Raw {
        let claim = "/v1/default/types/mail.send/claim?wait=30s";
        let claimed = self.ask(token, "POST", claim, "").await.body;
        let task = &claimed["tasks"][0];
        let (id, lock) = (task["id"].as_str().unwrap(), task["lock"].as_str().unwrap());
        let (how, query) = how.split_once('?').unwrap_or((how, ""));
        let path = format!("{TASKS}/{id}/{how}?lock={lock}&{query}");
        self.raw(token, ("POST", &path), content).await
    }
}

async fn site() -> (Site, String) {
    let site = Site::open().await;
    let scopes = [Scope::Submit, Scope::Work];
    let token = site.token(&scopes, "default", &[]).await;
    (site, token)
}

#[tokio::test]
async fn a_create_with_a_wait_is_answered_what_the_worker_replied() {
    let (site, token) = site().await;
    let create = format!("{TASKS}/sum?wait=30s");
    let asked = site.raw(&token, ("PUT", &create), ("", "20+22"));
    let worked = site.work(&token, "done", ("application/json", "{\"sum\":42}"));
    let (answer, done) = tokio::join!(asked, worked);
    assert_eq!((done.status, answer.status), (200, 200), "{}", done.body);
    assert_eq!(answer.body, "{\"sum\":42}");
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("delayq-task-id"), "sum");
    // Asked again, it is not run again.
    let again = site.raw(&token, ("PUT", &create), ("", "20+22")).await;
    assert_eq!((again.status, again.body), (200, answer.body));
    let create = format!("{TASKS}?wait=30s");
    let curl = site.raw(&token, ("POST", &create), ("", "x"));
    let form = "application/x-www-form-urlencoded";
    let worked = site.work(&token, "done", (form, "grüß dich"));
    let (answer, _) = tokio::join!(curl, worked);
    assert_eq!(answer.body, "grüß dich");
    assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
}

#[tokio::test]
async fn whoever_waits_in_vain_is_told_why_and_where_to_ask_again() {
    let (site, token) = site().await;
    let late = format!("{TASKS}/late?delay=1h&wait=10");
    let late = site.raw(&token, ("PUT", &late), ("", "x")).await;
    let body: serde_json::Value = serde_json::from_str(&late.body).unwrap();
    let place = format!("{TASKS}/late/reply");
    let pending = json!({"id": "late", "outcome": "pending", "reply": place});
    assert_eq!((late.status, body), (202, pending));
    assert_eq!(late.header("location"), place);
    let odd = format!("{TASKS}/a%2Fb%3Fc?delay=1h&wait=1");
    let odd = site.raw(&token, ("PUT", &odd), ("", "x")).await;
    let again = site.ask(&token, "GET", odd.header("location"), "").await;
    assert_eq!(again.body["id"], "a/b?c");
    site.ask(&token, "DELETE", &format!("{TASKS}/late"), "")
        .await;
    let cancelled = site.ask(&token, "GET", &place, "").await;
    assert_eq!(
        (cancelled.status.as_u16(), &cancelled.body["type"]),
        (410, &json!("urn:delayq:problem:cancelled"))
    );
    let asked = format!("{TASKS}/fails?wait=30s");
    let asked = site.ask(&token, "PUT", &asked, "x");
    let worked = site.work(&token, "fail?dead=true", ("", "no van"));
    let (dead, _) = tokio::join!(asked, worked);
    assert_eq!(
        (dead.status.as_u16(), &dead.body["type"]),
        (424, &json!("urn:delayq:problem:dead"))
    );
    assert!(dead.body["detail"].to_string().contains("no van"));
    let asked = format!("{TASKS}/quiet?wait=30s");
    let asked = site.raw(&token, ("PUT", &asked), ("", "x"));
    let (quiet, _) = tokio::join!(asked, site.work(&token, "done", ("", "")));
    assert_eq!((quiet.status, &*quiet.body), (204, ""));
    let unknown = format!("{TASKS}/nobody/reply");
    assert_eq!(
        site.ask(&token, "GET", &unknown, "").await.status.as_u16(),
        404
    );
}

#[tokio::test]
async fn a_wait_or_a_reply_that_cannot_be_is_refused_and_ends_nothing() {
    let (site, token) = site().await;
    for wait in ["61s", "soon"] {
        let path = format!("{TASKS}/a?wait={wait}");
        let refused = site.ask(&token, "PUT", &path, "x").await;
        assert_eq!(refused.status.as_u16(), 400, "{wait}");
    }
    let find = format!("{TASKS}/a/reply");
    assert_eq!(
        site.ask(&token, "GET", &find, "").await.status.as_u16(),
        404
    );
    site.ask(&token, "PUT", &format!("{TASKS}/a"), "x").await;
    let large = "x".repeat(MAX_REPLY_BYTES + 1);
    let refused = site.work(&token, "done", ("text/plain", &large)).await;
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("65536"), "{}", refused.body);
    let pending = site.ask(&token, "GET", &find, "").await;
    assert_eq!(pending.status.as_u16(), 202);
}

#[tokio::test]
async fn a_lock_that_is_lost_leaves_no_reply() {
    let (site, token) = site().await;
    site.ask(&token, "PUT", &format!("{TASKS}/a"), "x").await;
    let wrong = "lock=9007199254740990-1";
    let forged = format!("{TASKS}/a/done?{wrong}");
    let lost = site.raw(&token, ("POST", &forged), ("text/plain", "no"));
    assert_eq!(lost.await.status, 409);
    let done = site.work(&token, "done", ("text/plain", "yes")).await;
    assert_eq!(done.status, 200);
    let find = format!("{TASKS}/a/reply");
    let reply = site.raw(&token, ("GET", &find), ("text/plain", "")).await;
    assert_eq!((reply.status, &*reply.body), (200, "yes"));
}

#[tokio::test]
async fn several_ends_have_a_reply_each_and_only_what_is_done_has_one() {
    let (site, token) = site().await;
    for id in ["a", "b"] {
        site.ask(&token, "PUT", &format!("{TASKS}/{id}"), "x").await;
    }
    let claim = "/v1/default/types/mail.send/claim?limit=2&wait=30s";
    let claimed = site.ask(&token, "POST", claim, "").await.body;
    let end = |nth: usize, end: &str| {
        let task = &claimed["tasks"][nth];
        json!({"id": task["id"], "lock": task["lock"], "end": end, "reply": {"nth": nth}})
    };
    let settle = "/v1/default/types/mail.send/settle";
    let wrong = json!([end(0, "done"), end(1, "release")]).to_string();
    let refused = site.ask(&token, "POST", settle, &wrong).await;
    assert_eq!(refused.status.as_u16(), 400);
    let ends = json!([end(0, "done"), end(1, "done")]).to_string();
    let settled = site.ask(&token, "POST", settle, &ends).await;
    assert_eq!(settled.status.as_u16(), 200);
    for nth in 0..2 {
        let id = claimed["tasks"][nth]["id"].as_str().unwrap();
        let reply = site
            .ask(&token, "GET", &format!("{TASKS}/{id}/reply"), "")
            .await;
        assert_eq!(reply.body, json!({"nth": nth}));
    }
}

#[tokio::test]
async fn a_message_is_handed_on_as_what_its_sender_said() {
    let (site, token) = site().await;
    let create = format!("{TASKS}/a");
    let broken = ("application/json", "{\"sum\": ");
    let refused = site.raw(&token, ("PUT", &create), broken).await;
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("no JSON"), "{}", refused.body);
    let table = ("text/csv; charset=utf-8", "a;b");
    assert_eq!(site.raw(&token, ("PUT", &create), table).await.status, 201);
    let request = Request::post("/v1/default/types/mail.send/claim?wait=10s")
        .header("authorization", format!("Bearer {token}"))
        .header("accept", "application/octet-stream");
    let request = request.body(Body::empty()).unwrap();
    let response = site.app.clone().oneshot(request).await.unwrap();
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/csv; charset=utf-8");
    assert_eq!(header("x-content-type-options"), "nosniff");
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(bytes.as_ref(), b"a;b");
}
