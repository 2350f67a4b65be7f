//! The Grape API: a tube is a task type, a retained job is a lock, and a failed job is dead.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::client::{Entry, admit};

mod asked;
mod consume;
mod course;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod job;
mod job_routes;
mod produce;
mod refusal;
mod retained;
#[cfg(test)]
mod tests;
mod tube_routes;
mod tubes;

use consume::UsualTimes;
use delayq_service::access::Scope;
use delayq_service::app::App;
use delayq_service::context::Context;
use delayq_service::problem::Problem;
use delayq_service::requests::counted;
use tubes::Tubes;

/// State shared by all requests.
#[derive(Clone, Debug)]
struct Grape {
    app: App,
    tubes: Arc<Tubes>,
    times: Arc<UsualTimes>,
}

impl Grape {
    fn new(app: App) -> Self {
        Self {
            app,
            tubes: Arc::default(),
            times: Arc::default(),
        }
    }

    /// The caller, with the required scope.
    async fn client(&self, parts: &Parts, scope: Scope) -> Result<Context, Problem> {
        let config = &self.app.config.grape;
        let entry = Entry {
            token: config.token,
            namespace: &config.namespace,
        };
        admit(&self.app, &entry, &parts.headers, &parts.extensions, scope).await
    }
}

/// The routes of the API.
pub fn router(app: App) -> Router {
    let grape = Grape::new(app);
    let routes = Router::new()
        .nest("/api/job", job_routes::routes())
        .nest("/api/tube", tube_routes::routes())
        .fallback(no_route)
        .with_state(grape.clone());
    counted(&grape.app, routes)
}

async fn no_route(request: Request) -> Response {
    let desc = format!("invalid path:{}", request.uri().path());
    let body = json!({"code": 404, "desc": desc}).to_string();
    let json = [(CONTENT_TYPE, "application/json; charset=utf-8")];
    (StatusCode::NOT_FOUND, json, body).into_response()
}
