//! Headers of a task, through every door where a sender can set them.

use axum::body::Body;
use axum::http::{HeaderValue, Request};
use delayq_core::Error;
use delayq_plugin::DelayQueueJob;
use delayq_proto::pb;
use delayq_service::config::NamespaceLimits;
use serde_json::{Value, json};

use super::house::{Answer, Door, HOUR, House, ask, task_of_grpc};

/// Creates a task with a header by `PUT`.
async fn put(house: &House, id: &str, name: &str, value: &[u8]) -> Answer {
    let path = format!("/v1/{}/types/http/tasks/{id}?delay=1h", house.namespace);
    let request = Request::put(path)
        .header("authorization", format!("Bearer {}", house.token))
        .header(
            format!("Delayq-Header-{name}"),
            HeaderValue::from_bytes(value).unwrap(),
        )
        .body(Body::from("x"));
    ask(&house.router(Door::Http), request.unwrap()).await
}

/// The same by a line of `bulk`: its outcome.
async fn line(house: &House, id: &str, headers: &Value) -> Value {
    let line = json!({"id": id, "delay": "1h", "message": "x", "headers": headers});
    let path = "types/http/bulk";
    house.v1("POST", path, &line.to_string()).await.json()
}

/// The same over gRPC.
fn over_grpc(house: &House, id: &str, headers: &[(&str, &str)]) -> pb::SubmitRequest {
    let mut task = task_of_grpc(id);
    for (name, value) in headers {
        task.headers.insert((*name).to_owned(), (*value).to_owned());
    }
    pb::SubmitRequest {
        namespace: house.namespace.to_owned(),
        tasks: vec![task],
    }
}

async fn headers_of(house: &House, task_type: &str, id: &str) -> Value {
    let path = format!("types/{task_type}/tasks/{id}");
    let task = house.v1("GET", &path, "").await.json();
    task["headers"].clone()
}

#[tokio::test]
async fn a_header_is_the_same_through_every_door() {
    let house = House::open("walk-headers", NamespaceLimits::default()).await;
    let (name, value) = ("X-Shop", "Köln, 7\tO'Neil");
    let created = put(&house, "a", name, value.as_bytes()).await;
    assert_eq!(created.status, 201, "{created:?}");
    let again = line(&house, "a", &json!({ name: value })).await;
    assert_eq!(again["outcome"], "already_exists", "{again}");
    house
        .outcome(&over_grpc(&house, "a", &[(name, value)]))
        .await
        .unwrap();
    let tasks = &house.space().await.tasks;
    let job = DelayQueueJob::raw("http", "x").id("a").after(HOUR);
    let receipt = tasks.send(job.header(name, value)).await.unwrap();
    assert!(receipt.due_at().is_none(), "{receipt:?}");
    for task_type in ["http", "grpc"] {
        let headers = headers_of(&house, task_type, "a").await;
        assert_eq!(headers, json!({"x-shop": value}), "{task_type}");
    }
    let matching = json!({"headers": {"X-SHOP": value}, "dry_run": true}).to_string();
    let found = house.v1("POST", "types/http/cancel-all", &matching).await;
    assert_eq!(found.json()["matched"], 1, "{found:?}");
    let recurring = json!({
        "type": "http", "every": "0 9 * * *", "json": null, "headers": {"X-Shop": "7"},
    });
    let recurring = house.v1("PUT", "recurring/r", &recurring.to_string()).await;
    let recurring = recurring.json();
    let headers = json!({"content-type": "application/json", "x-shop": "7"});
    assert_eq!(recurring["headers"], headers, "{recurring}");
    assert_eq!(recurring["message"], "null");
}

#[tokio::test]
async fn a_header_that_no_http_request_could_carry_is_refused_at_every_door() {
    let house = House::open("walk-no-header", NamespaceLimits::default()).await;
    let refused = put(&house, "a", "shop", b"K\xf6ln").await;
    assert_eq!(refused.status, 400, "{refused:?}");
    let tasks = &house.space().await.tasks;
    for (name, value) in [
        ("shop", "a\nb"),
        ("shop", "a\0"),
        ("shop", " a"),
        ("shop", "a\t"),
        ("a/b", "x"),
        ("a=b", "x"),
        ("\u{e4}", "x"),
        ("", "x"),
    ] {
        let refused = line(&house, "a", &json!({ name: value })).await;
        assert_eq!(refused["problem"]["status"], 400, "{name:?}: {refused}");
        let request = over_grpc(&house, "a", &[(name, value)]);
        let refused = house.outcome(&request).await.unwrap_err();
        let is_said = |error: &Error| {
            let is_invalid = matches!(
                error,
                Error::InvalidInput { .. } | Error::InvalidName { .. }
            );
            is_invalid && error.to_string().contains("header")
        };
        assert!(is_said(&refused), "{name:?}: {refused}");
        let job = DelayQueueJob::raw("http", "x").header(name, value);
        let refused = tasks.send(job).await.unwrap_err();
        assert!(is_said(&refused), "{name:?}: {refused}");
    }
    let twice = json!({"Shop": "a", "shop": "b"});
    let refused = line(&house, "a", &twice).await;
    assert_eq!(refused["problem"]["status"], 400, "{refused}");
    let twice = over_grpc(&house, "a", &[("Shop", "a"), ("shop", "b")]);
    assert!(house.outcome(&twice).await.is_err());
    assert_eq!(house.tasks().await, 0);
}
