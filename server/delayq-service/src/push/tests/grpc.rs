//! Pushes over gRPC, to a server that is written out in HTTP/2.

use std::convert::Infallible;

use axum::body::Body;
use delayq_plugin::store::MAX_REPLY_BYTES;
use http_body_util::{BodyExt, Full};

use super::*;

/// A frame of a message: not compressed, its length, the message.
fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    [&[0][..], &length.to_be_bytes(), message].concat()
}

fn answer(code: &'static str, text: &'static str) -> Response {
    answer_of(b"answer", code, text)
}

fn answer_of(message: &[u8], code: &'static str, text: &'static str) -> Response {
    let trailers = HeaderMap::from_iter([
        ("grpc-status".parse().unwrap(), code.parse().unwrap()),
        ("grpc-message".parse().unwrap(), text.parse().unwrap()),
    ]);
    let body = Full::new(Bytes::from(frame(message)));
    let body = body.with_trailers(async move { Some(Ok::<_, Infallible>(trailers)) });
    ([("content-type", "application/grpc")], Body::new(body)).into_response()
}

#[tokio::test]
async fn an_answer_that_is_too_long_to_be_kept_is_done() {
    let site = Site::open(&near());
    let long = vec![7; MAX_REPLY_BYTES + 1];
    let target = Receiver::open(vec![answer_of(&long, "0", "")]).await;
    let url = target.url.replace("/hook?shop=1", "");
    let call = json!({"url": url, "service": "shop.v1.Orders", "method": "Cancel"});
    site.set("job", json!({"grpc": call, "timeout": "20s"}))
        .await;
    site.send(DelayQueueJob::raw("job", "x").id("1")).await;
    let done = site.until("job", "1", TaskState::Done).await;
    assert_eq!(done.attempt, 1);
}

#[tokio::test]
async fn a_unary_call_carries_the_message_as_it_is_and_its_status_decides() {
    let site = Site::open(&near());
    let answers = vec![
        answer("14", "restarting"),
        answer("8", "quota"),
        answer("0", ""),
        answer("3", "no such order"),
    ];
    let mut target = Receiver::open(answers).await;
    let url = target.url.replace("/hook?shop=1", "");
    let call = json!({"url": url, "service": "shop.v1.Orders", "method": "Cancel", "metadata": {"x-shop": "7"}});
    site.set(
        "job",
        json!({"grpc": call, "retry": retry_at_once(), "timeout": "20s"}),
    )
    .await;
    site.send(DelayQueueJob::raw("job", b"\x08\xff\x01".to_vec()).id("1"))
        .await;
    let got = target.next().await;
    assert_eq!(
        (got.method.as_str(), got.uri.path()),
        ("POST", "/shop.v1.Orders/Cancel")
    );
    assert_eq!(&got.body[..], &frame(b"\x08\xff\x01")[..]);
    for (name, value) in [
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("x-shop", "7"),
        ("delayq-task-id", "1"),
        ("delayq-attempt", "1"),
    ] {
        assert_eq!(got.header(name), value, "{name}");
    }
    assert!(!got.header("grpc-timeout").is_empty(), "{got:?}");
    assert_eq!(target.next().await.header("delayq-attempt"), "2");
    assert_eq!(target.next().await.header("delayq-attempt"), "3");
    site.until("job", "1", TaskState::Done).await;
    site.send(DelayQueueJob::raw("job", "x").id("2")).await;
    let dead = site.until("job", "2", TaskState::Dead).await;
    let said = dead.history.last_error.unwrap();
    assert!(
        dead.attempt == 1 && said.contains("InvalidArgument: no such order"),
        "{said}"
    );
    site.push.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_server_that_is_away_or_forbidden_is_said() {
    let store = memory();
    let (open, closed) = (
        Site::on(&store, &near()),
        Site::open(&PushConfig::default()),
    );
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let call = json!({"url": url, "service": "a.B", "method": "C"});
    open.set("job", json!({"grpc": call, "retry": {"attempts": 1}}))
        .await;
    open.send(DelayQueueJob::raw("job", "x").id("1")).await;
    let dead = open.until("job", "1", TaskState::Dead).await;
    let said = dead.history.last_error.unwrap();
    assert!(said.contains("refused"), "{said}");
    let target = serde_json::from_value(json!({"grpc": call})).unwrap();
    let refused = closed
        .push
        .set(&TypePattern::new("job").unwrap(), target)
        .await;
    assert!(refused.unwrap_err().to_string().contains("push.allow_http"));
    open.push.close(Duration::ZERO).await;
    closed.push.close(Duration::ZERO).await;
}
