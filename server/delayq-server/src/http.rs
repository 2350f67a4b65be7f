//! Routes of the HTTP API.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use delayq_service::app::App;
use delayq_service::problem::Problem;
use delayq_service::requests;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

mod answer;
mod batches;
mod bulk;
mod callee;
mod changes;
mod dead;
mod docs;
mod document;
mod extract;
mod form;
#[cfg(feature = "fuzz")]
pub(crate) mod fuzz;
mod health;
mod history;
mod insight;
mod line;
mod lines;
mod many;
mod message_kind;
mod moves;
mod policy;
mod pull;
mod recurring;
mod reply;
mod settings;
mod settle;
mod settle_many;
mod stray;
mod target;
mod task_type;
mod tasks;
#[cfg(test)]
mod tests;

pub(crate) use self::health::shown as shown_metrics;

/// The parts of `/openapi.json` that are not derived from routes.
#[derive(Debug, OpenApi)]
#[openapi(
    info(title = "delayq", description = "Delayed tasks: on time, never early, never lost once accepted."),
    tags(
        (name = "tasks", description = "Create, find and change single tasks, or many of one type by their ids."),
        (name = "work", description = "Claim due tasks, extend their locks and end them."),
        (name = "push", description = "Let the server send due tasks to an application."),
        (name = "types", description = "List, pause, resume and configure the types of a namespace."),
        (name = "dead letters", description = "Tasks whose last attempt has failed: requeue or discard them."),
        (name = "many tasks", description = "Change every task that matches a condition."),
        (name = "insight", description = "See what happens, and why a task has not started."),
        (name = "server", description = "Health, metrics and the store of a namespace.")
    )
)]
struct ApiDocument;

/// The documented routes.
fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(ApiDocument::openapi())
        .merge(tasks::routes())
        .merge(changes::routes())
        .merge(reply::routes())
        .merge(bulk::routes())
        .merge(task_type::routes())
        .merge(settings::routes())
        .merge(dead::routes())
        .merge(many::routes())
        .merge(moves::routes())
        .merge(insight::routes())
        .merge(history::routes())
        .merge(batches::routes())
        .merge(recurring::routes())
        .merge(policy::routes())
        .merge(target::routes())
        .merge(callee::routes())
        .merge(pull::routes())
        .merge(settle::routes())
        .merge(settle_many::routes())
        .merge(health::routes())
}

/// The OpenAPI document.
#[cfg(test)]
fn written() -> serde_json::Value {
    document::complete(&routes().split_for_parts().1)
}

/// All routes.
pub(crate) fn router(app: App) -> Router {
    let (router, document) = routes().split_for_parts();
    let document = document::complete(&document);
    let text = serde_json::to_string_pretty(&document).unwrap_or_default();
    let page = docs::page(&document).ok();
    let limit = app.config.max_message_bytes;
    let known = stray::Routes::of(&document, app.config.connections.body_timeout());
    router
        .route(
            "/openapi.json",
            get(|| async move { ([("content-type", "application/json")], text) }),
        )
        .route("/docs", get(|| async move { docs::answer(page) }))
        .route("/docs/style.css", get(docs::style))
        .route("/docs/docs.js", get(docs::script))
        .route("/docs/theme.js", get(docs::theme))
        .fallback(|| async {
            Problem::no_route("there is no such route: see /docs or /openapi.json")
        })
        .method_not_allowed_fallback(|| async {
            Problem::method_not_allowed("the path has other methods: see /openapi.json")
        })
        .layer(DefaultBodyLimit::max(limit))
        .layer(from_fn_with_state(known, stray::note))
        .layer(from_fn_with_state(app.clone(), requests::keep))
        .with_state(app)
}
