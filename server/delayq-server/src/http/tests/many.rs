//! Many tasks at once, dead letters, settings, and what is told about them.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use delayq_service::access::Scope;
use futures_util::stream;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{Site, TASKS};

const TYPE: &str = "/v1/default/types/mail.send";

impl Site {
    /// The lines of an answer.
    pub(super) async fn lines(&self, token: &str, path: &str, body: Body) -> Vec<Value> {
        let request = Request::post(path)
            .header("authorization", format!("Bearer {token}"))
            .body(body)
            .unwrap();
        let response = self.app.clone().oneshot(request).await.unwrap();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    async fn die(&self, token: &str, ids: &[&str]) {
        for id in ids {
            let path = format!("{TASKS}/{id}");
            self.ask(token, "PUT", &path, "x").await;
        }
        let claimed = self
            .ask(token, "POST", &format!("{TYPE}/claim?limit=128"), "")
            .await;
        let claimed = claimed.body["tasks"].as_array().unwrap().clone();
        let ends = claimed.iter().map(|task| {
            json!({"id": task["id"], "lock": task["lock"], "end": "dead", "error": format!("no van {}", task["id"])})
        });
        let ends = Value::Array(ends.collect()).to_string();
        self.ask(token, "POST", &format!("{TYPE}/settle"), &ends)
            .await;
    }
}

#[tokio::test]
async fn lines_are_accepted_each_by_itself_however_the_stream_is_cut() {
    let site = Site::open().await;
    let token = site
        .token(&[Scope::Submit, Scope::Read], "default", &[])
        .await;
    let mut text = String::new();
    for n in 0..2_500 {
        let line = json!({"id": format!("t{n}"), "json": {"n": n}, "delay": 60_000});
        text.extend([line.to_string().as_str(), "\n"]);
    }
    text += "\n{\"id\":\"t7\",\"message\":\"other\",\"delay\":\"1m\"}\nnonsense\n{\"dellay\":1}\n{\"message_base64\":\"AP8=\",\"headers\":{\"a\":\"b\"},\"id\":\"last\"}";
    for size in [1, 7, 4_096, 1 << 20] {
        let text = text.replace("\"t", &format!("\"{size}-t"));
        let parts: Vec<_> = text
            .as_bytes()
            .chunks(size)
            .map(|part| Ok::<_, std::io::Error>(part.to_vec()))
            .collect();
        let outcomes = site
            .lines(
                &token,
                &format!("{TYPE}/bulk"),
                Body::from_stream(stream::iter(parts)),
            )
            .await;
        assert_eq!(outcomes.len(), 2_504, "{size}");
        assert!(
            outcomes[..2_500]
                .iter()
                .all(|one| one["outcome"] == "accepted")
        );
        assert_eq!(outcomes[2_500]["line"], 2_502);
        let kinds: Vec<_> = outcomes[2_500..]
            .iter()
            .map(|one| one["problem"]["type"].as_str().unwrap_or_default())
            .collect();
        assert_eq!(
            kinds,
            [
                "urn:delayq:problem:conflict",
                "urn:delayq:problem:bad-request",
                "urn:delayq:problem:bad-request",
                ""
            ]
        );
        assert!(
            outcomes[2_502]["problem"]["detail"]
                .to_string()
                .contains("dellay")
        );
    }
    let found = site
        .ask(&token, "GET", &format!("{TASKS}/7-t9"), "")
        .await
        .body;
    assert_eq!(found["message"], "{\"n\":9}");
    let last = site
        .ask(&token, "GET", &format!("{TASKS}/last"), "")
        .await
        .body;
    assert_eq!(
        (&last["message_base64"], &last["headers"]["a"]),
        (&json!("AP8="), &json!("b"))
    );
}

#[tokio::test]
async fn a_revoked_token_creates_nothing_over_an_open_request() {
    let site = Site::open().await;
    let token = site.token(&[Scope::Submit], "default", &[]).await;
    let tokens = Arc::clone(&site.server.app.tokens);
    let id = token.split('_').nth(1).unwrap().to_owned();
    let before = stream::once(async { Ok::<_, std::io::Error>("{\"id\":\"before\"}\n") });
    let after = stream::once(async move {
        assert!(tokens.revoke(&id).await.unwrap());
        Ok("{\"id\":\"after\"}\n")
    });
    let body = Body::from_stream(stream::StreamExt::chain(before, after));
    let outcomes = site.lines(&token, &format!("{TYPE}/bulk"), body).await;
    assert_eq!(outcomes[0]["outcome"], "accepted");
    let refused = &outcomes[1]["problem"]["type"];
    assert_eq!(refused, "urn:delayq:problem:unauthorized");
    let read = site.token(&[Scope::Read], "default", &[]).await;
    let path = format!("{TASKS}/after");
    let found = site.ask(&read, "GET", &path, "").await;
    assert_eq!(found.status.as_u16(), 404);
}

#[tokio::test]
async fn dead_letters_are_grouped_requeued_and_discarded() {
    let site = Site::open().await;
    let token = site.token(&Scope::ALL, "default", &[]).await;
    site.die(&token, &["a1", "a2", "a3", "b1"]).await;
    let groups = site
        .ask(&token, "GET", &format!("{TYPE}/dead/groups"), "")
        .await
        .body;
    assert_eq!(
        groups["groups"].as_array().map(Vec::len),
        Some(2),
        "{groups}"
    );
    let dry = json!({"id_prefix": "a", "dry_run": true}).to_string();
    let dry = site
        .ask(&token, "POST", &format!("{TYPE}/dead/discard"), &dry)
        .await;
    assert_eq!(dry.body["would_change"], 3);
    let some = json!({"id_prefix": "a", "limit": 2, "interval": 1}).to_string();
    let lines = site
        .lines(&token, &format!("{TYPE}/dead/requeue"), Body::from(some))
        .await;
    assert_eq!(lines.last(), Some(&json!({"changed": 2})));
    let rest = site
        .lines(
            &token,
            &format!("{TYPE}/dead/discard"),
            Body::from(json!({"all": true}).to_string()),
        )
        .await;
    assert_eq!(rest.last(), Some(&json!({"changed": 2})));
    let stats = site.ask(&token, "GET", TYPE, "").await.body;
    assert_eq!(
        (&stats["dead"], &stats["scheduled"]),
        (&json!(0), &json!(2))
    );
}

#[tokio::test]
async fn many_are_cancelled_and_moved() {
    let site = Site::open().await;
    let token = site.token(&Scope::ALL, "default", &[]).await;
    for n in 0..6 {
        let group = if n < 4 { "red" } else { "blue" };
        let path = format!("{TASKS}/t{n}?delay=1h&group={group}");
        site.ask(&token, "PUT", &path, "x").await;
    }
    let ask = async |method: &str, path: &str, body: Value| {
        let (path, body) = (format!("{TYPE}{path}"), text_of(&body));
        site.ask(&token, method, &path, &body).await
    };
    let dry = ask(
        "POST",
        "/cancel-all",
        json!({"group": "blue", "dry_run": true}),
    )
    .await
    .body;
    assert_eq!(
        (&dry["matched"], &dry["is_dry_run"]),
        (&json!(2), &json!(true))
    );
    let done = ask("POST", "/cancel-all", json!({"group": "blue"}))
        .await
        .body;
    assert_eq!(done["changed"], 2);
    let moved = ask(
        "POST",
        "/reschedule-all",
        json!({"group": "red", "delay": "2h"}),
    )
    .await
    .body;
    assert_eq!(moved["changed"], 4);
    let from = delayq_plugin::Clock::now(&delayq_plugin::SystemClock).as_millis();
    let day = format!("/histogram?from={from}&to={}&steps=24", from + 86_400_000);
    let counts = ask("GET", &day, Value::Null).await.body;
    let sum: u64 = counts["counts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_u64)
        .sum();
    assert_eq!(sum, 4);
}

/// A pause of a name with a slip was answered 200, and the type that was meant ran on.
#[tokio::test]
async fn a_type_that_is_not_listed_is_refused_unless_it_is_to_be_made() {
    let site = Site::open().await;
    let token = site.token(&Scope::ALL, "default", &[]).await;
    site.ask(&token, "PUT", &format!("{TASKS}/a?delay=1h"), "x")
        .await;
    let of = |name: &str| format!("/v1/default/types/{name}");
    for (method, path, body) in [
        ("POST", "/pause", ""),
        ("POST", "/resume", ""),
        ("PATCH", "/settings", r#"{"max_pending": 4}"#),
        ("POST", "/purge?state=dead&confirm=mail.snd", ""),
        ("POST", "/audit?repair=true", ""),
    ] {
        let path = format!("{}{path}", of("mail.snd"));
        let refused = site.ask(&token, method, &path, body).await;
        assert_eq!(refused.status.as_u16(), 404, "{path}: {refused:?}");
        assert_eq!(refused.body["type"], "urn:delayq:problem:unknown-type");
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.contains("did you mean mail.send?"), "{detail}");
        let tells_how = detail.contains("create=true");
        assert_eq!(
            tells_how,
            path.contains("/pause") || path.contains("/settings")
        );
    }
    for (method, path, body) in [
        ("POST", "/pause?create=true", ""),
        ("POST", "/resume", ""),
        ("PATCH", "/settings?create=true", r#"{"max_pending": 4}"#),
    ] {
        let path = format!("{}{path}", of("report.nightly"));
        let made = site.ask(&token, method, &path, body).await;
        assert_eq!(made.status.as_u16(), 200, "{path}: {made:?}");
    }
    let types = site.ask(&token, "GET", "/v1/default/types", "").await;
    assert_eq!(types.body, json!(["mail.send", "report.nightly"]));
}

#[tokio::test]
async fn a_type_is_limited_purged_and_dropped() {
    let site = Site::open().await;
    let token = site.token(&Scope::ALL, "default", &[]).await;
    for n in 0..4 {
        let path = format!("{TASKS}/t{n}?delay=1h");
        site.ask(&token, "PUT", &path, "x").await;
    }
    let ask = async |method: &str, path: &str, body: Value| {
        let (path, body) = (format!("{TYPE}{path}"), text_of(&body));
        site.ask(&token, method, &path, &body).await
    };
    let limited = json!({"max_pending": 4, "fleet_rate": {"starts": 5, "per": "1m"}});
    let limited = ask("PATCH", "/settings", limited).await.body;
    assert_eq!(
        (&limited["max_pending"], &limited["fleet_rate"]["starts"]),
        (&json!(4), &json!(5))
    );
    let full = site
        .ask(&token, "POST", &format!("{TASKS}?delay=1h"), "x")
        .await;
    assert_eq!(
        (full.status.as_u16(), &full.body["type"]),
        (429, &json!("urn:delayq:problem:queue-full"))
    );
    let lifted = ask("PATCH", "/settings", json!({"max_pending": null}))
        .await
        .body;
    assert_eq!(
        (&lifted["max_pending"], &lifted["fleet_rate"]["starts"]),
        (&Value::Null, &json!(5))
    );
    let kept = ask("DELETE", "", Value::Null).await;
    assert_eq!(
        (kept.status.as_u16(), &kept.body["type"]),
        (409, &json!("urn:delayq:problem:type-in-use"))
    );
    let careless = ask("POST", "/purge?state=scheduled&confirm=yes", Value::Null).await;
    assert_eq!(careless.status.as_u16(), 400);
    let purged = ask(
        "POST",
        "/purge?state=scheduled&confirm=mail.send",
        Value::Null,
    )
    .await;
    assert_eq!(purged.body, json!({"removed": 4}));
    let audit = ask("POST", "/audit", Value::Null).await.body;
    assert_eq!(audit["problem_count"], 0);
    assert_eq!(ask("DELETE", "", Value::Null).await.status.as_u16(), 200);
    assert_eq!(
        site.ask(&token, "GET", "/v1/default/types", "").await.body,
        json!([])
    );
}

#[tokio::test]
async fn people_are_told_what_a_task_waits_for_and_what_happened_to_it() {
    let site = Site::open().await;
    let token = site.token(&Scope::ALL, "default", &[]).await;
    site.ask(&token, "PUT", &format!("{TASKS}/a?delay=1h"), "x")
        .await;
    let moments = site
        .ask(&token, "GET", &format!("{TASKS}/a/timeline"), "")
        .await
        .body;
    assert_eq!(moments[0]["what"], "submitted");
    let why = site
        .ask(&token, "GET", &format!("{TASKS}/a/explain"), "")
        .await;
    assert_eq!(why.status.as_u16(), 200, "{why:?}");
    let overview = site
        .ask(&token, "GET", "/v1/default/overview", "")
        .await
        .body;
    assert!(overview.to_string().contains("mail.send"), "{overview}");
    let figures = site
        .ask(&token, "GET", &format!("{TYPE}/figures?step=hour"), "")
        .await;
    assert_eq!(figures.body, json!([]));
    assert_eq!(
        site.ask(&token, "GET", "/v1/default/instances", "")
            .await
            .body,
        json!([])
    );
    let narrow = site.token(&Scope::ALL, "default", &["mail.*"]).await;
    for path in ["overview", "instances", "log"] {
        let refused = site
            .ask(&narrow, "GET", &format!("/v1/default/{path}"), "")
            .await;
        assert_eq!(refused.status.as_u16(), 403, "{path}");
    }
}

/// A body; `null` is none.
fn text_of(body: &Value) -> String {
    if body.is_null() {
        return String::new();
    }
    body.to_string()
}
