//! Extractors of request parts, which refuse bad input with a problem.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use delayq_service::app::App;
use delayq_service::body::read;
use delayq_service::json::read_object;
use delayq_service::problem::Problem;
use serde::de::DeserializeOwned;

/// The query. Refuses unknown parameters.
#[derive(Debug)]
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = axum::extract::Query::from_request_parts(parts, state).await;
        let query = query.map_err(|error| Problem::bad_request(error.body_text()))?;
        Ok(Self(query.0))
    }
}

/// The raw body.
#[derive(Debug)]
pub(super) struct Body(pub(super) Vec<u8>);

impl FromRequest<App> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let most = app.config.max_message_bytes;
        let patience = app.config.connections.body_timeout();
        let body = read(request.into_body(), most, patience).await?;
        Ok(Self(body))
    }
}

/// The raw body with the headers of its request.
#[derive(Debug)]
pub(super) struct RawRequest {
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl FromRequest<App> for RawRequest {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let headers = request.headers().clone();
        let Body(body) = Body::from_request(request, app).await?;
        Ok(Self { headers, body })
    }
}

/// The body as a JSON object. Refuses unknown fields.
#[derive(Debug)]
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let Body(body) = Body::from_request(request, app).await?;
        let value = read_object(&body);
        let value = value.map_err(|error| Problem::bad_request(format!("the body: {error}")))?;
        Ok(Self(value))
    }
}

/// The room for a batch beside one message, in bytes.
const BATCH_BYTES: usize = 4 << 20;

/// The body as a JSON object that describes many tasks, and may be larger than a message.
#[derive(Debug)]
pub(super) struct LargeJsonBody<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<App> for LargeJsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let most = app.config.max_message_bytes.saturating_add(BATCH_BYTES);
        let patience = app.config.connections.body_timeout();
        let body = read(request.into_body(), most, patience).await?;
        let value = read_object(&body);
        let value = value.map_err(|error| Problem::bad_request(format!("the body: {error}")))?;
        Ok(Self(value))
    }
}

/// The body as a JSON list.
#[derive(Debug)]
pub(super) struct JsonList<T>(pub(super) Vec<T>);

impl<T: DeserializeOwned> FromRequest<App> for JsonList<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let Body(body) = Body::from_request(request, app).await?;
        let value = serde_json::from_slice(&body);
        let value = value.map_err(|error| Problem::bad_request(format!("the body: {error}")))?;
        Ok(Self(value))
    }
}
