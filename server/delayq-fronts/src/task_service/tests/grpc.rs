//! The service over gRPC.

use delayq_proto::pb::tasks;
use delayq_proto::pb::tasks::task_service_client::TaskServiceClient;

use super::*;

/// A call of gRPC without a network.
fn with_token<T>(message: T, token: &str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    let token = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", token);
    request
}

#[tokio::test]
async fn the_same_is_asked_over_grpc_and_a_grpc_task_calls_a_method() {
    let site = Site::open().await;
    let app = site.app.clone();
    let routed = tower::service_fn(move |request: Request<tonic::body::Body>| {
        app.clone().oneshot(request.map(Body::new))
    });
    let mut client = TaskServiceClient::new(routed);
    // The target is the gRPC door of a server: it knows the method, and refuses the caller.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let door = router(site.server.app.clone());
    tokio::spawn(async move { axum::serve(listener, door).await });
    let body = prost::Message::encode_to_vec(&tasks::QueryTaskRequest {
        task_id: "default.default.none".to_owned(),
        ..tasks::QueryTaskRequest::default()
    });
    let token = format!("Bearer {}", site.token);
    let options = tasks::TaskOptions {
        request_id: "call".to_owned(),
        body,
        ..tasks::TaskOptions::default()
    };
    let create = tasks::CreateGrpcTaskRequest {
        task: Some(options),
        target,
        service: "delayq.tasks.v1.TaskService".to_owned(),
        method: "QueryTask".to_owned(),
        metadata: [("authorization".to_owned(), token)].into(),
    };
    let made = client
        .create_grpc_task(with_token(create, &site.token))
        .await
        .unwrap();
    let made = made.into_inner();
    assert!(made.created);
    let failed = site.until(&made.task_id, "failed").await;
    let error = failed["last_error"].as_str().unwrap();
    assert!(
        error.contains("there is no task default.default.none"),
        "{error}"
    );
    let query = tasks::QueryTaskRequest {
        request_id: "call".to_owned(),
        ..tasks::QueryTaskRequest::default()
    };
    let known = client
        .query_task(with_token(query, &site.token))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (known.kind.as_str(), known.state()),
        ("grpc", tasks::State::Failed)
    );
    let cancel = tasks::CancelTaskRequest {
        task_id: made.task_id,
        ..tasks::CancelTaskRequest::default()
    };
    let cancelled = client
        .cancel_task(with_token(cancel, &site.token))
        .await
        .unwrap();
    assert!(!cancelled.into_inner().cancelled);
    site.close().await;
}
