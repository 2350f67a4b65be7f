//! Pushes to servers on this machine, over memory stores.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use delayq_plugin::{DelayQueueJob, ReplyOutcome, TaskState, TaskType, TypePattern};
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use self::site::{Receiver, Site, memory, near, retry_at_once};
use super::*;

mod grpc;
#[cfg(feature = "kafka")]
mod kafka;
mod own;
mod policy;
mod redis;
mod refused;
mod service;
mod site;
mod tls;

#[tokio::test]
async fn a_task_is_pushed_signed_and_told_apart_and_a_2xx_ends_it() {
    let site = Site::open(&near());
    let mut target = Receiver::open(Vec::new()).await;
    let http = json!({"url": target.url, "headers": {"authorization": "Bearer of-the-shop"}});
    let (shown, secret) = site.set("mail.*", json!({"http": http})).await;
    let secret = secret.expect("a secret was made");
    let text = format!("{shown:?} {}", serde_json::to_string(&shown).unwrap());
    assert!(
        !text.contains(&secret) && !text.contains("of-the-shop"),
        "{text}"
    );
    let job = DelayQueueJob::raw("mail.send", r#"{"to":"a@b"}"#).id("order-42");
    site.send(
        job.header("tenant", "acme")
            .header("traceparent", "00-1-2-01"),
    )
    .await;
    let got = target.next().await;
    assert_eq!(
        (got.method.as_str(), got.uri.to_string().as_str()),
        ("POST", "/hook?shop=1")
    );
    assert_eq!(&got.body[..], br#"{"to":"a@b"}"#);
    for (name, value) in [
        ("content-type", "application/json"),
        ("authorization", "Bearer of-the-shop"),
        ("delayq-namespace", "default"),
        ("delayq-task-type", "mail.send"),
        ("delayq-task-id", "order-42"),
        ("delayq-attempt", "1"),
        ("delayq-tried", "1"),
        ("delayq-header-tenant", "acme"),
        ("traceparent", "00-1-2-01"),
    ] {
        assert_eq!(got.header(name), value, "{name}");
    }
    assert!(got.header("webhook-id").starts_with("mail.send/order-42/"));
    Webhook::new(&secret)
        .unwrap()
        .verify(&got.body, &got.headers)
        .unwrap();
    let other = Webhook::from_bytes(vec![7; 32]).unwrap();
    assert!(other.verify(&got.body, &got.headers).is_err());
    site.until("mail.send", "order-42", TaskState::Done).await;
    site.push.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn secrets_are_rotated_with_an_overlap_and_kept_when_they_are_not_named() {
    let site = Site::open(&near());
    let mut target = Receiver::open(Vec::new()).await;
    let [old, new] = [secret::new_secret().unwrap(), secret::new_secret().unwrap()];
    let url = target.url.clone();
    site.set("job", json!({"http": {"url": url, "secrets": [old]}}))
        .await;
    let both = json!({"http": {"url": url, "secrets": [new, old]}});
    let (_, made) = site.set("job", both).await;
    assert_eq!(made, None);
    // What was shown may be sent back.
    let shown = site
        .push
        .target(&TypePattern::new("job").unwrap())
        .await
        .unwrap();
    let (_, made) = site.set("job", serde_json::to_value(shown).unwrap()).await;
    assert_eq!(made, None);
    site.send(DelayQueueJob::raw("job", b"\xff\x00".to_vec()).id("1"))
        .await;
    let got = target.next().await;
    assert_eq!(got.header("content-type"), "application/octet-stream");
    assert_eq!(got.header("webhook-signature").split(' ').count(), 2);
    site.send(DelayQueueJob::raw("job", "text").id("2")).await;
    let got = target.next().await;
    assert_eq!(got.header("content-type"), "text/plain; charset=utf-8");
    for secret in [&old, &new] {
        Webhook::new(secret)
            .unwrap()
            .verify(&got.body, &got.headers)
            .unwrap();
    }
    site.set("job", json!({"http": {"url": url, "secrets": []}}))
        .await;
    site.until("job", "2", TaskState::Done).await;
    site.send(DelayQueueJob::raw("job", "text").id("3")).await;
    assert_eq!(target.next().await.header("webhook-signature"), "");
    site.push.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn an_answer_decides_and_the_error_says_which_it_was() {
    let site = Site::open(&near());
    let answer =
        |code: u16, body: &'static str| (StatusCode::from_u16(code).unwrap(), body).into_response();
    let again = (
        StatusCode::SERVICE_UNAVAILABLE,
        [("retry-after", "1")],
        "busy",
    )
        .into_response();
    let answers = vec![
        answer(500, "no way"),
        again,
        answer(200, "ok"),
        answer(410, "gone"),
    ];
    let mut target = Receiver::open(answers).await;
    let wanted = json!({"http": {"url": target.url}, "retry": retry_at_once()});
    site.set("job", wanted).await;
    site.send(DelayQueueJob::raw("job", "x").id("1")).await;
    let (first, second) = (target.next().await, target.next().await);
    assert_eq!(first.header("webhook-id"), second.header("webhook-id"));
    assert_eq!(second.header("delayq-attempt"), "2");
    let third = target.next().await;
    assert_eq!(third.header("delayq-attempt"), "3");
    site.until("job", "1", TaskState::Done).await;
    let reply = site
        .tasks
        .wait_for_reply("job", "1", Duration::ZERO)
        .await
        .unwrap();
    let ReplyOutcome::Replied(reply) = reply.outcome else {
        panic!("{reply:?}");
    };
    assert_eq!(
        (reply.content_type.as_str(), &reply.body[..]),
        ("text/plain; charset=utf-8", &b"ok"[..])
    );
    site.send(DelayQueueJob::raw("job", "x").id("2")).await;
    let dead = site.until("job", "2", TaskState::Dead).await;
    assert_eq!(dead.attempt, 1);
    let said = dead.history.last_error.unwrap();
    assert!(
        said.contains("POST http") || said.contains("410 Gone: gone"),
        "{said}"
    );
    assert!(!said.contains("shop=1"), "{said}");
    // Redirects are not followed; the last of three attempts is the last.
    let moved = || (StatusCode::FOUND, [("location", "/other")]).into_response();
    *target.answers.lock().unwrap() = vec![moved(), moved(), moved()];
    site.send(DelayQueueJob::raw("job", "x").id("3")).await;
    let dead = site.until("job", "3", TaskState::Dead).await;
    assert!(dead.history.last_error.unwrap().contains("not followed"));
    site.push.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_cloud_event_is_binary_or_structured_and_both_are_signed() {
    let site = Site::open(&near());
    let mut target = Receiver::open(Vec::new()).await;
    let url = target.url.clone();
    let wanted = |form: &str| json!({"http": {"url": url, "cloud_events": form, "method": "PUT"}});
    let (_, secret) = site.set("job", wanted("binary")).await;
    let secret = Webhook::new(&secret.unwrap()).unwrap();
    site.send(DelayQueueJob::raw("job", "{\"a\":1}").id("50%\""))
        .await;
    let got = target.next().await;
    assert_eq!(
        (got.header("ce-specversion"), got.header("ce-type")),
        ("1.0", "job")
    );
    assert!(
        got.header("ce-id").starts_with("job/50%25%22/"),
        "{}",
        got.header("ce-id")
    );
    assert_eq!(
        (got.header("ce-source"), got.method.as_str()),
        ("/delayq/default", "PUT")
    );
    secret.verify(&got.body, &got.headers).unwrap();
    site.set("job", wanted("structured")).await;
    // No parser may round what was sent.
    let exact = r#"{"n": 12345678901234567890123, "a": 1.0, "a": 2}"#;
    site.send(DelayQueueJob::raw("job", exact.as_bytes().to_vec()).id("0"))
        .await;
    let event = String::from_utf8(target.next().await.body.to_vec()).unwrap();
    assert!(event.contains(&format!("\"data\":{exact}")), "{event}");
    for (id, message, field, data) in [
        ("1", &b"{\"a\":1}"[..], "data", json!({"a": 1})),
        ("2", b"text", "data", json!("text")),
        ("3", b"\xff", "data_base64", json!("/w==")),
    ] {
        site.send(DelayQueueJob::raw("job", message.to_vec()).id(id))
            .await;
        let got = target.next().await;
        assert_eq!(got.header("content-type"), "application/cloudevents+json");
        let event: Value = serde_json::from_slice(&got.body).unwrap();
        assert_eq!(
            (&event["subject"], &event[field]),
            (&json!(id), &data),
            "{event}"
        );
        assert!(event["time"].as_str().unwrap().ends_with('Z'), "{event}");
        secret.verify(&got.body, &got.headers).unwrap();
    }
    site.push.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_change_holds_on_another_server_and_a_removed_target_is_pushed_no_more() {
    let store = memory();
    let (one, other) = (Site::on(&store, &near()), Site::on(&store, &near()));
    let (mut first, mut second) = (
        Receiver::open(Vec::new()).await,
        Receiver::open(Vec::new()).await,
    );
    one.set("job", json!({"http": {"url": first.url}})).await;
    one.push.close(Duration::ZERO).await;
    // The other one alone is left.
    one.send(DelayQueueJob::raw("job", "x").id("1")).await;
    first.next().await;
    one.set(
        "job",
        json!({"http": {"url": second.url}, "concurrency": 1}),
    )
    .await;
    let refreshed = other.push.refresh().await;
    refreshed.unwrap();
    one.send(DelayQueueJob::raw("job", "x").id("2")).await;
    second.next().await;
    assert!(
        one.push
            .remove(&TypePattern::new("job").unwrap())
            .await
            .unwrap()
    );
    assert!(
        !one.push
            .remove(&TypePattern::new("job").unwrap())
            .await
            .unwrap()
    );
    other.push.refresh().await.unwrap();
    one.send(DelayQueueJob::raw("job", "x").id("3")).await;
    one.set("other", json!({"http": {"url": second.url}})).await;
    one.send(DelayQueueJob::raw("other", "x").id("4")).await;
    assert_eq!(second.next().await.header("delayq-task-id"), "4");
    one.until("job", "3", TaskState::Scheduled).await;
    other.push.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_target_that_is_slow_or_away_fails_its_attempts_alone() {
    let site = Site::open(&near());
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let once = json!({"attempts": 1});
    let wanted = json!({"http": {"url": url}, "timeout": "100ms", "retry": once});
    site.set("slow", wanted).await;
    site.send(DelayQueueJob::raw("slow", "x").id("1")).await;
    let dead = site.until("slow", "1", TaskState::Dead).await;
    assert!(dead.history.last_error.unwrap().contains("within 100ms"));
    drop(silent);
    site.send(DelayQueueJob::raw("slow", "x").id("2")).await;
    let dead = site.until("slow", "2", TaskState::Dead).await;
    let said = dead.history.last_error.unwrap();
    assert!(said.contains("refused"), "{said}");
    // An answer without an end is cut off.
    let endless = "x".repeat(1 << 20);
    let endless = (StatusCode::BAD_REQUEST, endless).into_response();
    let target = Receiver::open(vec![endless]).await;
    site.set("long", json!({"http": {"url": target.url}, "retry": once}))
        .await;
    site.send(DelayQueueJob::raw("long", "x").id("3")).await;
    let dead = site.until("long", "3", TaskState::Dead).await;
    assert!(dead.history.last_error.unwrap().len() < 400);
    site.push.close(Duration::from_secs(5)).await;
}
