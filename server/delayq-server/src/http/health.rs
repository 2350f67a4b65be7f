//! Health probes for supervisors and load balancers, and metrics.

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use delayq_service::access::Read;
use delayq_service::app::App;
use delayq_service::context::Everywhere;
use delayq_service::problem::Problem;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(live))
        .routes(routes!(ready))
        .routes(routes!(metrics))
}

/// The answer of a probe.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Probe {
    /// `live` or `ready`.
    status: &'static str,
}

/// Check that the process answers. Restart it if it does not.
#[utoipa::path(
    get, path = "/health/live", tag = "server",
    responses((status = 200, body = Probe)),
    security(())
)]
async fn live() -> Json<Probe> {
    Json(Probe { status: "live" })
}

/// Check that requests can be served. Answers 503 while a store does not answer, and as soon as the
/// server is told to stop. Stores are asked at most once a second.
#[utoipa::path(
    get, path = "/health/ready", tag = "server",
    responses((status = 200, body = Probe), (status = 503, body = Problem)),
    security(())
)]
async fn ready(State(app): State<App>) -> Result<Json<Probe>, Problem> {
    app.health.ready().await?;
    Ok(Json(Probe { status: "ready" }))
}

/// All metrics of this server, in the text format of Prometheus.
///
/// Needs a token for every namespace and type.
#[utoipa::path(
    get, path = "/metrics", tag = "server",
    responses((status = 200, body = String, content_type = "text/plain"), (status = "4XX", body = Problem)),
    security(("token" = ["read"]))
)]
pub(crate) async fn metrics(_: Everywhere<Read>, State(app): State<App>) -> Response {
    shown(&app)
}

/// All metrics as text.
pub(crate) fn shown(app: &App) -> Response {
    match app.metrics() {
        Some(text) => ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        None => Problem::not_found("this process has another recorder of metrics").into_response(),
    }
}
