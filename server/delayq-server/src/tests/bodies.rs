//! Bodies for which there is no room, at every door.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use delayq_service::body::{BodyRoom, is_grpc_call};
use delayq_service::config::NamespaceLimits;

use super::house::{Door, House, ask, task_of_grpc};
use crate::grpc::tests::call;
use crate::panel;
use delayq_proto::pb;

/// Counts the body of a request in a room that is too small for it.
fn without_room(request: Request<Body>) -> Request<Body> {
    let (head, body) = request.into_parts();
    let share = BodyRoom::new(2).share();
    let is_grpc = is_grpc_call(head.uri.path(), &head.headers);
    let body = share.metered(body, is_grpc, Duration::from_mins(1));
    Request::from_parts(head, body)
}

#[tokio::test]
async fn a_body_without_room_is_refused_in_the_words_of_every_door() {
    let house = House::open("walk-bodies", NamespaceLimits::default()).await;
    let submit = pb::SubmitRequest {
        namespace: house.namespace.to_owned(),
        tasks: vec![task_of_grpc("a")],
    };
    let v1 = |path: &str| format!("/v1/{}/types/http/{path}", house.namespace);
    let produce = "/api/job/produce?tube=grape&jid=a&dtr=0&ttr=60000";
    for (door, method, path) in [
        (Door::Http, "PUT", &*v1("tasks/a")),
        (Door::Http, "PUT", &v1("target")),
        (Door::Http, "POST", &v1("dead/requeue")),
        (Door::Lmstfy, "PUT", "/api/q/mail"),
        (Door::Lmstfy, "PUT", "/api/q/mail/bulk"),
        (Door::Grape, "POST", produce),
        (Door::Spring, "POST", "/job/add"),
        (Door::TaskService, "POST", "/CreateHttpTask"),
    ] {
        let request = house.request(door, (method, path), "too large");
        let answer = ask(&house.router(door), without_room(request)).await;
        assert_eq!(answer.status, 503, "{door:?} {path}: {answer:?}");
        assert!(
            answer.text.contains("send it again later"),
            "{door:?} {path}: {answer:?}"
        );
    }
    let request = call(&house.token, "Submit", &submit);
    let answer = ask(&house.router(Door::Grpc), without_room(request)).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    // Lines are answered one by one; by then the status is sent.
    let request = house.request(Door::Http, ("POST", &v1("bulk")), "{\"id\": \"a\"}");
    let answer = ask(&house.router(Door::Http), without_room(request)).await;
    assert!(
        answer.text.contains("urn:delayq:problem:unavailable"),
        "{answer:?}"
    );
    let mut request = Request::post("/login")
        .body(Body::from("token=dq_a_b"))
        .unwrap();
    let peer = std::net::SocketAddr::from(([10, 0, 0, 1], 5));
    request
        .extensions_mut()
        .insert(axum::extract::ConnectInfo(peer));
    let pages = panel::router(house.server.app.clone(), false);
    let answer = ask(&pages, without_room(request)).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(house.tasks().await, 0);
}
