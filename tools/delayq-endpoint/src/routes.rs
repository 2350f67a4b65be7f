//! Routes that a server calls.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::post;
use delayq_core::job::MAX_MESSAGE_BYTES;

use crate::answer;
use crate::call::{Invocation, SPRING_PATH, WORK_PATH};
use crate::service::Service;
use crate::spring::SpringJob;

/// Bytes of a body of the Spring form: a byte of a message may take six in JSON.
const MAX_SPRING_BYTES: usize = 6 * MAX_MESSAGE_BYTES + 4_096;

pub(crate) fn router(service: &Arc<Service>) -> Router {
    let own = post(work).layer(DefaultBodyLimit::max(MAX_MESSAGE_BYTES));
    let spring = post(spring_work).layer(DefaultBodyLimit::max(MAX_SPRING_BYTES));
    Router::new()
        .route(WORK_PATH, own)
        .route(SPRING_PATH, spring)
        .with_state(Arc::clone(service))
}

async fn work(State(service): State<Arc<Service>>, headers: HeaderMap, body: Bytes) -> Response {
    let is_signed = match service.admit(&headers, &body) {
        Ok(is_signed) => is_signed,
        Err(response) => return *response,
    };
    let call = match Invocation::read(&headers, body.to_vec()) {
        Ok(call) => call,
        Err(reason) => return answer::refused(StatusCode::BAD_REQUEST, reason),
    };
    if is_signed && !call.is_what_was_signed(&headers) {
        let reason = "the task of the headers is not the one that was signed".to_owned();
        return answer::refused(StatusCode::UNAUTHORIZED, reason);
    }
    service.run(call).await
}

async fn spring_work(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let is_signed = match service.admit(&headers, &body) {
        Ok(is_signed) => is_signed,
        Err(response) => return *response,
    };
    let mut job = match serde_json::from_slice::<SpringJob>(&body) {
        Ok(job) => job,
        Err(error) => return answer::refused(StatusCode::BAD_REQUEST, error.to_string()),
    };
    let app = job.app_name.take();
    let call = match job.into_call() {
        Ok(call) => call.with(&headers),
        Err(reason) => return answer::refused(StatusCode::BAD_REQUEST, reason),
    };
    // The body alone does not prove it: it may be the message of another task that was signed.
    if is_signed && !call.is_what_was_signed_for(app.as_deref(), &headers) {
        let reason = "the task of the body is not the one that was signed".to_owned();
        return answer::refused(StatusCode::UNAUTHORIZED, reason);
    }
    let mut response = service.run(call).await;
    // What callers of the original are answered.
    if response.status() == StatusCode::NO_CONTENT {
        *response.status_mut() = StatusCode::OK;
        *response.body_mut() = "accepted".into();
        let text = HeaderValue::from_static("text/plain;charset=UTF-8");
        response.headers_mut().insert(header::CONTENT_TYPE, text);
    }
    response
}
