//! Moves of a namespace to another pool.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use delayq_service::access::Operate;
use delayq_service::app::App;
use delayq_service::context::Allowed;
use delayq_service::place::{MoveStatus, Mover, Phase};
use delayq_service::problem::Problem;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::Query;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(shown, begin, cancel))
}

/// The destination of a move.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Destination {
    /// The pool, or `store` for the server's own store.
    to: String,
}

/// The place of a namespace, and the progress of its move.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct MoveView {
    /// `preparing`, `moving`, or `done` if the namespace is in one store.
    phase: String,
    /// The pool that it is leaving; absent for the server's own store and when the move is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// The pool that it is in or moves to; absent for the server's own store.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// Scheduled tasks left in the old store.
    scheduled: u64,
    /// Running tasks left in the old store.
    running: u64,
    /// Dead tasks left in the old store.
    dead: u64,
    /// The progress in words.
    about: String,
}

impl From<MoveStatus> for MoveView {
    fn from(status: MoveStatus) -> Self {
        let about = status.to_string();
        let [scheduled, running, dead] = status.left;
        let (phase, from) = match status.place.phase {
            Phase::Done => ("done", None),
            Phase::Moving => ("moving", status.place.from),
            Phase::Preparing => ("preparing", status.place.from),
        };
        Self {
            phase: phase.to_owned(),
            from,
            to: status.place.to,
            scheduled,
            running,
            dead,
            about,
        }
    }
}

fn mover(allowed: &Allowed<Operate>) -> Result<Mover, Problem> {
    allowed.caller.require_all_types()?;
    Ok(Mover::new(Arc::clone(&allowed.space.place)))
}

/// Show the pool of the namespace and the progress of its move.
///
/// Needs a token for all types.
#[utoipa::path(
    get, operation_id = "get_move", path = "/v1/{namespace}/move", tag = "server",
    params(("namespace", description = "Namespace")),
    responses((status = 200, body = MoveView), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["operate"]))
)]
async fn shown(allowed: Allowed<Operate>) -> Result<Json<MoveView>, Problem> {
    Ok(Json(mover(&allowed)?.status().await?.into()))
}

/// Begin to move the namespace to another pool while it is in use. Repeating it is harmless.
///
/// The servers carry out the move. Needs a token for all types.
#[utoipa::path(
    post, operation_id = "begin_move", path = "/v1/{namespace}/move", tag = "server",
    params(("namespace", description = "Namespace"), Destination),
    responses((status = 202, body = MoveView), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["operate"]))
)]
async fn begin(
    allowed: Allowed<Operate>,
    State(app): State<App>,
    Query(destination): Query<Destination>,
) -> Result<(StatusCode, Json<MoveView>), Problem> {
    let mover = mover(&allowed)?;
    let to = app.config.destination(&destination.to);
    let to = to.map_err(Problem::bad_request)?;
    let operator = allowed.operator();
    let begun = mover.head_for(to, operator.actor(), &allowed.caller.origin);
    begun.await.map_err(Problem::of_move)?;
    let status = mover.status().await?;
    Ok((StatusCode::ACCEPTED, Json(status.into())))
}

/// Cancel a move before any task has moved.
///
/// Needs a token for all types.
#[utoipa::path(
    delete, operation_id = "cancel_move", path = "/v1/{namespace}/move", tag = "server",
    params(("namespace", description = "Namespace")),
    responses((status = 200, body = MoveView), (status = 409, body = Problem, description = "There is none, or tasks have moved"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["operate"]))
)]
async fn cancel(allowed: Allowed<Operate>) -> Result<Json<MoveView>, Problem> {
    let mover = mover(&allowed)?;
    mover.cancel().await.map_err(Problem::of_move)?;
    allowed.operator().note("cancel-move", "", "").await;
    Ok(Json(mover.status().await?.into()))
}
