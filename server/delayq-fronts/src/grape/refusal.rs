//! Refusals in the forms known to Grape clients.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use delayq_service::problem::Problem;
use serde_json::json;

/// A refusal.
#[derive(Clone, Debug)]
pub(super) enum GrapeError {
    /// An invalid request, with a code of Grape.
    Named(u32, String),
    /// A failure of the original, whose text its clients know.
    Failed(String),
    /// A refusal unknown to the original, such as one about tokens, limits or the store.
    Problem(Problem),
}

impl GrapeError {
    pub(super) fn unknown_tube(name: &str) -> Self {
        Self::Named(1_000, format!("unknown tube name '{name}'"))
    }

    pub(super) fn no_tube() -> Self {
        Self::Named(1_001, "tube name is empty".to_owned())
    }

    pub(super) fn no_id() -> Self {
        Self::Named(2_001, "job id is empty".to_owned())
    }

    pub(super) fn bad_delay() -> Self {
        Self::Named(2_002, "job dtr is invalid".to_owned())
    }

    pub(super) fn bad_time() -> Self {
        Self::Named(2_003, "job ttr is invalid".to_owned())
    }
}

impl<E: Into<Problem>> From<E> for GrapeError {
    fn from(error: E) -> Self {
        Self::Problem(error.into())
    }
}

impl IntoResponse for GrapeError {
    fn into_response(self) -> Response {
        match self {
            Self::Named(code, desc) => {
                let body = Json(json!({"code": code, "desc": desc}));
                (StatusCode::BAD_REQUEST, body).into_response()
            }
            Self::Failed(message) => {
                let body = json!({"code": "500", "message": message}).to_string();
                let json = [(CONTENT_TYPE, "application/json; charset=UTF-8")];
                (StatusCode::INTERNAL_SERVER_ERROR, json, body).into_response()
            }
            Self::Problem(problem) => {
                let body = json!({"code": problem.status().as_u16(), "desc": problem.to_string()});
                let mut response = problem.into_response();
                let body = Json(body).into_response();
                for name in [CONTENT_TYPE, CONTENT_LENGTH] {
                    response.headers_mut().remove(&name);
                    if let Some(value) = body.headers().get(&name) {
                        response.headers_mut().insert(name, value.clone());
                    }
                }
                *response.body_mut() = body.into_body();
                response
            }
        }
    }
}
