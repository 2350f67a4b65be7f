//! Routes of the HTTP interface.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::get;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;
use crate::problem::Problem;

mod changes;
mod extract;
mod form;
mod task_type;
mod tasks;
#[cfg(test)]
mod tests;

/// What the document at `/openapi.json` says beside the routes.
#[derive(Debug, OpenApi)]
#[openapi(
    info(title = "delayq", description = "Delayed tasks: on time, never early, never lost once accepted."),
    tags((name = "tasks", description = "One task"))
)]
struct Document;

/// All routes.
pub(crate) fn router(app: App) -> Router {
    let (router, document) = OpenApiRouter::with_openapi(Document::openapi())
        .merge(tasks::routes())
        .merge(changes::routes())
        .merge(task_type::routes())
        .split_for_parts();
    let text = document.to_pretty_json().unwrap_or_default();
    let limit = app.config.max_message_bytes;
    router
        .route(
            "/openapi.json",
            get(|| async move { ([("content-type", "application/json")], text) }),
        )
        .fallback(|| async { Problem::not_found("there is no such route: see /openapi.json") })
        .layer(DefaultBodyLimit::max(limit))
        .with_state(app)
}
