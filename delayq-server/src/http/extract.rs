//! Parts of a request, refused as problems.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// The query, where it says nothing that is not known.
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

/// The body as it was sent.
#[derive(Debug)]
pub(super) struct Body(pub(super) Vec<u8>);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|error| match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Problem::too_large(error.body_text()),
            _ => Problem::bad_request(error.body_text()),
        })?;
        Ok(Self(body.to_vec()))
    }
}
