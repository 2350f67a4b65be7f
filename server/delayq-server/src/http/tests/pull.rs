//! Claims and settlements.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use delayq_plugin::{Namespace, TaskState, store::Durability};
use delayq_service::access::Scope;
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

fn is_lost(answer: &Answer) {
    assert_eq!(
        (answer.status.as_u16(), &answer.body["type"]),
        (409, &json!("urn:delayq:problem:lock-lost"))
    );
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
    assert!(site.claim(&token, "").await.is_empty());
    let extended = site.end(&token, task, "extend", "&lock_for=5m").await;
    assert_eq!(extended.body["outcome"], "extended");
    assert!(extended.body["lock_until"].as_i64() > task["lock_until"].as_i64());
    for _ in 0..2 {
        let failed = site.end(&token, task, "fail", "&retry_after=0").await;
        assert_eq!(failed.body, json!({"outcome": "settled"}));
    }
    for another in ["done", "release"] {
        is_lost(&site.end(&token, task, another, "").await);
    }
    let again = site.claim(&token, "?wait=10s").await;
    assert_eq!(
        (&again[0]["attempt"], &again[0]["last_error"]),
        (&json!(2), &json!("no van"))
    );
    let earlier = json!({"id": "a", "lock": "17-1"});
    for stale in [task, &earlier] {
        is_lost(&site.end(&token, stale, "done", "").await);
    }
    site.end(&token, &again[0], "release", "").await;
    let third = site.claim(&token, "?wait=10s").await;
    assert_eq!(third[0]["attempt"], 2);
    for _ in 0..2 {
        let done = site.end(&token, &third[0], "done", "").await;
        assert_eq!(done.body, json!({"outcome": "settled"}));
    }
    assert_eq!(site.state(&token, "a").await.0, "done");
}

#[tokio::test]
async fn a_waiting_claim_is_answered_as_soon_as_a_task_falls_due() {
    let (site, token) = site().await;
    let claim = site.claim(&token, "?wait=30s");
    let send = async {
        site.send(&token, "later", "?delay=1500").await;
        site.send(&token, "soon", "?delay=200").await;
    };
    let (tasks, ()) = tokio::join!(claim, send);
    assert_eq!(tasks[0]["id"], "soon");
    let late = site.claim(&token, "?wait=1").await;
    assert!(late.is_empty(), "{late:?}");
}

#[tokio::test]
async fn several_types_are_claimed_in_the_order_of_the_list() {
    let (site, token) = site().await;
    for (task_type, id) in [("b", "1"), ("a", "2"), ("a", "3")] {
        let path = format!("/v1/default/types/{task_type}/tasks/{id}");
        assert_eq!(
            site.ask(&token, "PUT", &path, "x").await.status.as_u16(),
            201
        );
    }
    let mut seen = Vec::new();
    for _ in 0..4 {
        let path = "/v1/default/types/a,b,c/claim";
        let answer = site.ask(&token, "POST", path, "").await.body;
        seen.extend(answer["tasks"][0]["id"].as_str().map(str::to_owned));
    }
    assert_eq!(seen, ["2", "3", "1"]);
    let narrow = site.token(&[Scope::Work], "default", &["a"]).await;
    let refused = site
        .ask(&narrow, "POST", "/v1/default/types/a,b/claim", "")
        .await;
    assert_eq!(refused.status.as_u16(), 403);
}

#[tokio::test]
async fn a_client_that_goes_away_costs_no_attempt_and_delays_no_task() {
    let (site, token) = site().await;
    let space = site
        .server
        .app
        .spaces
        .of(&Namespace::default())
        .await
        .unwrap();
    for round in 0..40 {
        let id = format!("task-{round}");
        // One waits for the task and leaves at a moment that differs from round to round.
        let (gone, other) = {
            let leaving = site.claim(&token, "?wait=30s");
            let leaving = tokio::time::timeout(Duration::from_micros(round * 100), leaving);
            let send = site.send(&token, &id, "");
            tokio::join!(leaving, send)
        };
        let () = other;
        if gone.is_ok() {
            // It had its answer first, whole.
            continue;
        }
        let next = site.claim(&token, "?wait=30s").await;
        assert_eq!(
            (&next[0]["id"], &next[0]["attempt"]),
            (&json!(id), &json!(1))
        );
        let found = space.tasks.find("mail.send", &id).await.unwrap().unwrap();
        assert_eq!(
            (found.state, found.history.lock_expiries),
            (TaskState::Running, 0)
        );
    }
    assert_eq!(space.tasks.store().durability(), Durability::Memory);
}

#[tokio::test]
async fn an_answer_that_nobody_reads_gives_its_task_back() {
    let (site, token) = site().await;
    site.send(&token, "a", "").await;
    for accept in ["application/json", "application/octet-stream"] {
        let request = Request::post(format!("{TYPE}/claim"))
            .header("authorization", format!("Bearer {token}"))
            .header("accept", accept);
        let request = request.body(Body::empty()).unwrap();
        let answer = site.app.clone().oneshot(request).await.unwrap();
        assert_eq!(site.state(&token, "a").await.0, "running", "{accept}");
        drop(answer);
        let task = &site.claim(&token, "?wait=10s").await[0];
        assert_eq!(task["attempt"], 1, "{accept}");
        assert!(
            site.end(&token, task, "release", "")
                .await
                .status
                .is_success()
        );
    }
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
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

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
    let empty = Request::put(format!("{TYPE}/tasks/empty"));
    let empty = empty.header("authorization", format!("Bearer {token}"));
    let sent = site.app.clone().oneshot(empty.body(Body::empty()).unwrap());
    assert_eq!(sent.await.unwrap().status().as_u16(), 201);
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
async fn what_is_pulled_is_seen_in_the_figures_and_the_list_of_instances() {
    let (site, token) = site().await;
    let space = site
        .server
        .app
        .spaces
        .of(&Namespace::default())
        .await
        .unwrap();
    site.send(&token, "a", "").await;
    let task = &site.claim(&token, "").await[0];
    site.end(&token, task, "done", "").await;
    let found = space.tasks.find("mail.send", "a").await.unwrap().unwrap();
    assert_eq!(found.state, TaskState::Done);
    space.pull.close().await;
    let mail = delayq_plugin::TaskType::new("mail.send").unwrap();
    let minute = delayq_plugin::store::Step::Minute;
    let since = delayq_plugin::Timestamp::ZERO;
    let figures = space
        .tasks
        .store()
        .figures(&mail, minute, since)
        .await
        .unwrap();
    let sum: (u64, u64) = figures.iter().fold((0, 0), |sum, spell| {
        (sum.0 + spell.figures.started, sum.1 + spell.figures.done)
    });
    assert_eq!(sum, (1, 1));
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
    let twice = site
        .ask(&token, "POST", "/v1/default/types/a,a/claim", "")
        .await;
    assert_eq!(twice.status.as_u16(), 400);
    let lock = json!({"id": "a", "lock": "mine"});
    let refused = site.end(&token, &lock, "done", "").await;
    assert!(
        refused.body["detail"]
            .to_string()
            .contains("as the claim answered")
    );
}

#[tokio::test]
async fn a_token_that_is_revoked_while_it_waits_gets_nothing() {
    let (site, token) = site().await;
    let worker = site.token(&[Scope::Work], "default", &[]).await;
    let path = format!("{TYPE}/claim?wait=30s");
    let claim = site.ask(&worker, "POST", &path, "");
    let revoke = async {
        let id = worker.split('_').nth(1).unwrap();
        assert!(site.server.app.tokens.revoke(id).await.unwrap());
        site.send(&token, "secret", "").await;
    };
    let (refused, ()) = tokio::join!(claim, revoke);
    assert_eq!(refused.status.as_u16(), 401, "{refused:?}");
    let task = &site.claim(&token, "?wait=10s").await[0];
    assert_eq!(
        (&task["id"], &task["attempt"]),
        (&json!("secret"), &json!(1))
    );
}

#[tokio::test]
async fn types_take_turns_where_the_order_is_fair() {
    let (site, token) = site().await;
    for task_type in ["a", "b", "c"] {
        for n in 0..3 {
            let path = format!("/v1/default/types/{task_type}/tasks/{n}");
            site.ask(&token, "PUT", &path, "x").await;
        }
    }
    let mut seen = String::new();
    for _ in 0..9 {
        let path = "/v1/default/types/a,b,c/claim?order=fair";
        let answer = site.ask(&token, "POST", path, "").await.body;
        seen += answer["tasks"][0]["type"].as_str().unwrap();
    }
    assert_eq!(seen, "abcabcabc");
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
