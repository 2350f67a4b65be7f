//! Claims and settlements.

use axum::body::Body;
use axum::http::Request;
use delayq_service::access::Scope;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{Answer, Site, TASKS};

const TYPE: &str = "/v1/default/types/mail.send";

async fn site() -> (Site, String) {
    let site = Site::open().await;
    let scopes = [Scope::Submit, Scope::Work, Scope::Read];
    let token = site.token(&scopes, "default", &[]).await;
    (site, token)
}

impl Site {
    async fn send(&self, token: &str, id: &str, query: &str) {
        let sent = self
            .ask(token, "PUT", &format!("{TASKS}/{id}{query}"), "hello")
            .await;
        assert_eq!(sent.status.as_u16(), 201, "{sent:?}");
    }

    async fn claim(&self, token: &str, query: &str) -> Vec<Value> {
        let path = format!("{TYPE}/claim{query}");
        let answer = self.ask(token, "POST", &path, "").await;
        assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
        answer.body["tasks"].as_array().unwrap().clone()
    }

    async fn end(&self, token: &str, task: &Value, how: &str, query: &str) -> Answer {
        let (id, lock) = (task["id"].as_str().unwrap(), task["lock"].as_str().unwrap());
        let path = format!("{TASKS}/{id}/{how}?lock={lock}{query}");
        let reads_body = matches!(how, "done" | "fail");
        let body = if reads_body { "no van" } else { "" };
        self.ask(token, "POST", &path, body).await
    }

    async fn state(&self, token: &str, id: &str) -> (String, u64) {
        let found = self
            .ask(token, "GET", &format!("{TASKS}/{id}"), "")
            .await
            .body;
        let state = found["state"].as_str().unwrap_or("none").to_owned();
        (state, found["attempt"].as_u64().unwrap_or_default())
    }
}

#[tokio::test]
async fn a_task_is_claimed_extended_failed_released_and_done() {
    let (site, token) = site().await;
    assert!(site.claim(&token, "").await.is_empty());
    site.send(&token, "a", "").await;
    let [task] = &site.claim(&token, "?lock_for=1m&limit=5").await[..] else {
        panic!("one task");
    };
    assert_eq!(
        (&task["type"], &task["message"], &task["attempt"]),
        (&json!("mail.send"), &json!("hello"), &json!(1))
    );
    let extended = site.end(&token, task, "extend", "&lock_for=5m").await;
    assert!(extended.body["lock_until"].as_i64() > task["lock_until"].as_i64());
    site.end(&token, task, "fail", "&retry_after=0").await;
    let lost = site.end(&token, task, "done", "").await;
    assert_eq!(
        (lost.status.as_u16(), &lost.body["type"]),
        (409, &json!("urn:delayq:problem:lock-lost"))
    );
    let again = site.claim(&token, "?wait=10s").await;
    assert_eq!(
        (&again[0]["attempt"], &again[0]["last_error"]),
        (&json!(2), &json!("no van"))
    );
    site.end(&token, &again[0], "release", "").await;
    let third = site.claim(&token, "?wait=10s").await;
    assert_eq!(third[0]["attempt"], 2);
    let done = site.end(&token, &third[0], "done", "").await;
    assert_eq!(done.body, json!({"outcome": "settled"}));
    assert_eq!(site.state(&token, "a").await.0, "done");
}

#[tokio::test]
async fn many_ends_are_settled_together_each_by_itself() {
    let (site, token) = site().await;
    for id in ["a", "b", "c", "d"] {
        site.send(&token, id, "").await;
    }
    let tasks = site.claim(&token, "?limit=128").await;
    assert_eq!(tasks.len(), 4);
    let locks: Vec<_> = tasks
        .iter()
        .map(|task| json!({"id": task["id"], "lock": task["lock"]}))
        .collect();
    let longer = json!({"lock_for": "2m", "locks": locks}).to_string();
    let extended = site
        .ask(&token, "POST", &format!("{TYPE}/extend"), &longer)
        .await;
    assert_eq!(extended.body[3]["outcome"], "extended");
    let mut ends = Vec::new();
    for (task, end) in tasks.iter().zip(["done", "dead", "release", "done"]) {
        ends.push(json!({"id": task["id"], "lock": task["lock"], "end": end, "error": if end == "dead" { "bad" } else { "" }}));
    }
    ends[3]["lock"] = json!("17-1");
    // Of another end: nothing is done, also of the others.
    let mut stray = ends.clone();
    stray[0]["after"] = json!("1s");
    let path = format!("{TYPE}/settle");
    let stray = json!(stray).to_string();
    let refused = site.ask(&token, "POST", &path, &stray).await;
    let detail = &refused.body["detail"];
    assert_eq!(detail, "after: only with the end fail or release");
    let settled = site
        .ask(
            &token,
            "POST",
            &format!("{TYPE}/settle"),
            &json!(ends).to_string(),
        )
        .await
        .body;
    let outcomes: Vec<_> = (0..4)
        .map(|n| settled[n]["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(outcomes, ["settled", "settled", "settled", "lock_lost"]);
    for (id, state) in [
        ("a", "done"),
        ("b", "dead"),
        ("c", "scheduled"),
        ("d", "running"),
    ] {
        assert_eq!(site.state(&token, id).await.0, state, "{id}");
    }
}

#[tokio::test]
async fn an_answer_of_bytes_is_the_message_itself() {
    let (site, token) = site().await;
    let ask = async || {
        let request = Request::post(format!("{TYPE}/claim"))
            .header("authorization", format!("Bearer {token}"))
            .header("accept", "application/octet-stream")
            .body(Body::empty())
            .unwrap();
        site.app.clone().oneshot(request).await.unwrap()
    };
    assert_eq!(ask().await.status().as_u16(), 204);
    site.send(&token, "a", "").await;
    let answer = ask().await;
    let lock = answer.headers()["delayq-lock"].to_str().unwrap().to_owned();
    assert_eq!(answer.headers()["delayq-id"], "a");
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(&body[..], b"hello");
    let task = json!({"id": "a", "lock": lock});
    assert_eq!(
        site.end(&token, &task, "done", "").await.status.as_u16(),
        200
    );
    let empty = format!("{TASKS}/empty");
    assert_eq!(site.ask(&token, "PUT", &empty, "").await.status, 201);
    // No connection asks for the body of an answer without one.
    let answer = ask().await;
    let lock = answer.headers()["delayq-lock"].to_str().unwrap().to_owned();
    drop(answer);
    let task = json!({"id": "empty", "lock": lock});
    site.end(&token, &task, "done", "").await;
    assert_eq!(site.state(&token, "empty").await.0, "done");
}

#[tokio::test]
async fn the_failures_of_a_task_are_counted_until_it_is_dead() {
    let (site, token) = site().await;
    site.send(&token, "a", "").await;
    for attempt in 1..=3 {
        let task = &site.claim(&token, "?wait=10s").await[0];
        assert_eq!(task["attempt"], attempt);
        let query = "&retry_after=1&max_attempts=3";
        assert_eq!(
            site.end(&token, task, "fail", query).await.status.as_u16(),
            200
        );
    }
    assert_eq!(site.state(&token, "a").await, ("dead".to_owned(), 3));
}

#[tokio::test]
async fn claims_that_cannot_be_meant_are_refused_with_what_to_write() {
    let (site, token) = site().await;
    for (query, word) in [
        ("?limit=0", "1 to 128"),
        ("?limit=129", "1 to 128"),
        ("?wait=61s", "60s"),
        ("?lock_for=10", "24h"),
        ("?order=any", "listed or fair"),
        ("?wiat=1", "wiat"),
    ] {
        let refused = site
            .ask(&token, "POST", &format!("{TYPE}/claim{query}"), "")
            .await;
        let said = refused.body["detail"].to_string();
        assert_eq!(refused.status.as_u16(), 400, "{query}");
        assert!(said.contains(word), "{query}: {said}");
    }
    let many: Vec<_> = (0..101).map(|n| format!("t{n}")).collect();
    let many = format!("/v1/default/types/{}/claim", many.join(","));
    let refused = site.ask(&token, "POST", &many, "").await;
    assert_eq!(refused.status.as_u16(), 400);
    let lock = json!({"id": "a", "lock": "mine"});
    let refused = site.end(&token, &lock, "done", "").await;
    assert!(
        refused.body["detail"]
            .to_string()
            .contains("as the claim answered")
    );
}

#[tokio::test]
async fn no_worker_buries_a_task_for_centuries() {
    let (site, token) = site().await;
    site.send(&token, "a", "").await;
    let task = &site.claim(&token, "").await[0];
    for (how, query) in [
        ("fail", "&retry_after=100000d"),
        ("release", "&after=100000d"),
    ] {
        let refused = site.end(&token, task, how, query).await;
        assert_eq!(refused.status.as_u16(), 400, "{how}");
    }
    assert_eq!(
        site.end(&token, task, "done", "").await.status.as_u16(),
        200
    );
}
