//! Messages that are said to be JSON, through every door where a sender can say that.

use axum::body::Body;
use axum::http::Request;
use delayq_plugin::Error;
use delayq_proto::pb;
use delayq_service::config::NamespaceLimits;
use serde_json::json;

use super::house::{Answer, Door, House, ask, task_of_grpc};

/// Read by a parser that only skips, and by no worker.
const UNREADABLE: [&str; 3] = [r#""\ud800""#, "[1e999]", "DEEP"];

/// A request with a body of JSON, as it says.
async fn as_json(house: &House, line: (&str, &str), message: &str) -> Answer {
    as_kind(house, line, "application/json", message).await
}

/// A request with a body of this content type.
async fn as_kind(house: &House, line: (&str, &str), kind: &str, message: &str) -> Answer {
    let path = format!("/v1/{}/types/http/{}", house.namespace, line.1);
    let request = Request::builder().method(line.0).uri(path);
    let request = request
        .header("authorization", format!("Bearer {}", house.token))
        .header("content-type", kind)
        .body(Body::from(message.to_owned()));
    ask(&house.router(Door::Http), request.unwrap()).await
}

#[tokio::test]
async fn json_that_no_worker_reads_is_refused_at_every_door_that_promises_json() {
    let house = House::open("walk-json", NamespaceLimits::default()).await;
    let kept = as_json(&house, ("PUT", "tasks/kept?delay=1h"), "{}").await;
    assert_eq!(kept.status, 201, "{kept:?}");
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for message in UNREADABLE.map(|text| if text == "DEEP" { &*deep } else { text }) {
        let created = as_json(&house, ("PUT", "tasks/1?delay=1h"), message).await;
        // The task says what its message is, whatever the request says.
        let updated = house.v1("PUT", "types/http/tasks/kept/message", message);
        let updated = updated.await;
        let task = json!({"url": "https://example.com/", "format": "json"}).to_string();
        let task = task.replace('}', &format!(", \"body_base64\": {}}}", base64(message)));
        let of_service = house.http(Door::TaskService, ("POST", "/CreateHttpTask"), &task);
        let of_service = of_service.await;
        for answer in [created, updated, of_service] {
            assert_eq!(answer.status, 400, "{message:.9}: {answer:?}");
            assert!(answer.text.contains("no JSON"), "{answer:?}");
        }
        let headers = json!({"content-type": "application/json"});
        for line in [
            format!("{{\"json\": {message}, \"delay\": \"1h\"}}"),
            json!({"message": message, "delay": "1h", "headers": headers}).to_string(),
        ] {
            let lines = house.v1("POST", "types/http/bulk", &line).await;
            assert_eq!(lines.json()["problem"]["status"], 400, "{lines:?}");
        }
        let mut task = task_of_grpc("1");
        task.body = Some(pb::new_task::Body::Text(message.to_owned()));
        let kind = ("content-type".to_owned(), "application/json".to_owned());
        task.headers.insert(kind.0, kind.1);
        let request = pb::SubmitRequest {
            namespace: house.namespace.to_owned(),
            tasks: vec![task],
        };
        let refused = house.outcome(&request).await.unwrap_err();
        assert!(matches!(refused, Error::InvalidInput { .. }), "{refused}");
        // Nothing is said of these.
        for door in [Door::Http, Door::Spring] {
            house.send(door, &message.len().to_string()).await.unwrap();
        }
    }
    let plain = house.v1("PUT", "types/http/tasks/plain?delay=1h", &deep);
    assert_eq!(plain.await.status, 201);
    let good = house.v1("PUT", "types/http/tasks/kept/message", "[7]");
    assert_eq!(good.await.status, 200);
}

#[tokio::test]
async fn a_new_message_brings_its_content_type_or_is_refused() {
    let house = House::open("walk-kind", NamespaceLimits::default()).await;
    let kept = as_json(&house, ("PUT", "tasks/kept?delay=1h"), "{}").await;
    assert_eq!(kept.status, 201, "{kept:?}");
    let put = async |task: &str, kind: &str, message: &str| {
        let path = format!("tasks/{task}/message");
        as_kind(&house, ("PUT", &path), kind, message).await
    };
    let found = async |task: &str| {
        let path = format!("types/http/tasks/{task}");
        house.v1("GET", &path, "").await.json()
    };
    let csv = put("kept", "text/csv", "a;b").await;
    assert_eq!(csv.status, 200, "{csv:?}");
    let task = found("kept").await;
    assert_eq!(
        (&task["message"], &task["headers"]["content-type"]),
        (&json!("a;b"), &json!("text/csv"))
    );
    let broken = put("kept", "application/json", "a;b").await;
    assert_eq!(broken.status, 400, "{broken:?}");
    // The default of many clients says nothing.
    let unsaid = put("kept", "application/octet-stream", "c").await;
    assert_eq!(unsaid.status, 200, "{unsaid:?}");
    let plain = house.v1("PUT", "types/http/tasks/plain?delay=1h", "x");
    assert_eq!(plain.await.status, 201);
    let refused = put("plain", "text/csv", "a;b").await;
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.text.contains("content-type"), "{refused:?}");
    for (kind, message, status) in [
        ("text/plain;charset=UTF-8", "y", 200),
        ("application/json", "a;b", 400),
        ("application/json", "7", 200),
    ] {
        let put = put("plain", kind, message).await;
        assert_eq!(put.status, status, "{kind}: {put:?}");
    }
    let (kept, plain) = (found("kept").await, found("plain").await);
    assert_eq!(
        (
            &kept["message"],
            &kept["headers"]["content-type"],
            &plain["message"]
        ),
        (&json!("c"), &json!("text/csv"), &json!("7"))
    );
    let gone = put("nobody", "text/csv", "a;b").await;
    assert_eq!(gone.status, 404, "{gone:?}");
}

/// A line of `bulk` of the task that a `PUT` has made: its outcome, or its problem.
async fn line(house: &House, line: &str) -> serde_json::Value {
    let lines = house.v1("POST", "types/http/bulk", line).await;
    lines.json()
}

#[tokio::test]
async fn a_line_of_json_is_the_task_that_a_create_of_json_makes() {
    let house = House::open("walk-line", NamespaceLimits::default()).await;
    for (id, json) in [("same", r#"{"a": [1]}"#), ("null", "null")] {
        let put = format!("tasks/{id}?delay=1h");
        let created = as_json(&house, ("PUT", &put), json).await;
        assert_eq!(created.status, 201, "{created:?}");
        let again = format!(r#"{{"id": "{id}", "json": {json}, "delay": "1h"}}"#);
        let again = line(&house, &again).await;
        assert_eq!(again["outcome"], "already_exists", "{json}: {again}");
        let path = format!("types/http/tasks/{id}");
        let task = house.v1("GET", &path, "").await.json();
        assert_eq!(task["message"], json, "{task}");
    }
    // A type that the sender names is kept, and so is a message that is said to be nothing.
    let own = r#"{"id": "own", "json": 1, "headers": {"Content-Type": "application/x+json"}}"#;
    assert_eq!(line(&house, own).await["outcome"], "accepted");
    let text = r#"{"id": "text", "message": "null"}"#;
    assert_eq!(line(&house, text).await["outcome"], "accepted");
    let none = r#"{"id": "none", "message": null, "message_base64": null}"#;
    assert_eq!(line(&house, none).await["outcome"], "accepted");
    let both = line(&house, r#"{"message": "x", "json": null}"#).await;
    assert_eq!(both["problem"]["status"], 400, "{both}");
    for (id, kind, message) in [
        ("own", json!({"content-type": "application/x+json"}), "1"),
        ("text", json!({}), "null"),
        ("none", json!({}), ""),
    ] {
        let path = format!("types/http/tasks/{id}");
        let task = house.v1("GET", &path, "").await.json();
        let seen = (&task["headers"], &task["message"]);
        assert_eq!(seen, (&kind, &json!(message)), "{id}");
    }
}

fn base64(message: &str) -> String {
    use base64::Engine;
    let coded = base64::engine::general_purpose::STANDARD.encode(message);
    json!(coded).to_string()
}
