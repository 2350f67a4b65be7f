//! Targets of pushed tasks.

use axum::Json;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use delayq_plugin::TypePattern;
use delayq_service::access::{Admin, Read};
use delayq_service::app::App;
use delayq_service::context::Allowed;
use delayq_service::operation::target;
use delayq_service::problem::Problem;
use delayq_service::push::{OWN_TARGET, Target};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::Body;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(targets))
        .routes(routes!(shown, set, remove))
}

/// A target, without its secrets.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct TargetView {
    /// The pushed type or pattern.
    task_type: String,
    /// The target.
    target: Target,
    /// The new secret that signs requests, shown only now.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl TargetView {
    fn new(pattern: &TypePattern, target: Target, secret: Option<String>) -> Self {
        Self {
            task_type: pattern.to_string(),
            target,
            secret,
        }
    }
}

/// List the targets of a namespace whose types the token covers.
#[utoipa::path(
    get, path = "/v1/{namespace}/targets", tag = "push",
    params(("namespace", description = "Namespace")),
    responses((status = 200, body = Vec<TargetView>), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn targets(allowed: Allowed<Read>) -> Result<Json<Vec<TargetView>>, Problem> {
    let all = allowed.space.push.targets().await?.into_iter();
    let covered = all.filter(|(pattern, _)| allowed.caller.token.covers_all(pattern));
    let views = covered.map(|(pattern, target)| TargetView::new(&pattern, target, None));
    Ok(Json(views.collect()))
}

/// The target of a type or pattern, without its secrets and the values of its headers.
#[utoipa::path(
    get, operation_id = "target", path = "/v1/{namespace}/types/{task_type}/target", tag = "push",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type, or pattern such as `mail.*`")),
    responses((status = 200, body = TargetView), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn shown(
    allowed: Allowed<Read>,
    Path((_, task_type)): Path<(String, String)>,
) -> Result<Json<TargetView>, Problem> {
    let pattern = TypePattern::new(&task_type)?;
    let target = target::get(&allowed.space, &pattern).await?;
    Ok(Json(TargetView::new(&pattern, target, None)))
}

/// Push the tasks of a type, or of all types of a pattern, to a target.
///
/// Takes effect on every server within a second. Workers and clients may claim a pushed type as
/// well: each task goes to one of them. Repeating it is harmless.
#[utoipa::path(
    put, operation_id = "set_target", path = "/v1/{namespace}/types/{task_type}/target", tag = "push",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type, or pattern such as `mail.*`")),
    request_body = Target,
    responses((status = 200, body = TargetView), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["admin"]))
)]
async fn set(
    allowed: Allowed<Admin>,
    Path((_, task_type)): Path<(String, String)>,
    Body(body): Body,
) -> Result<Json<TargetView>, Problem> {
    let pattern = TypePattern::new(&task_type)?;
    let operator = allowed.operator();
    let set = target::set(&allowed.space, &operator, &pattern, &body);
    let (target, secret) = set.await?;
    Ok(Json(TargetView::new(&pattern, target, secret)))
}

/// Stop pushing the tasks of a type or pattern. Running pushes have 30 s to finish. The tasks stay
/// and can be claimed. Answers 404 if there is no target, as on a second call.
#[utoipa::path(
    delete, operation_id = "remove_target", path = "/v1/{namespace}/types/{task_type}/target", tag = "push",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type, or pattern such as `mail.*`")),
    responses((status = 204), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["admin"]))
)]
async fn remove(
    allowed: Allowed<Admin>,
    Path((_, task_type)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let pattern = TypePattern::new(&task_type)?;
    target::remove(&allowed.space, &allowed.operator(), &pattern).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The target that a request gives to its own task.
pub(super) fn own_target(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(text) = headers.get(OWN_TARGET) else {
        return Ok(None);
    };
    let text = text.to_str();
    let text = text.map_err(|_| Problem::bad_request("Delayq-Target is no visible ASCII"))?;
    Ok(Some(text.to_owned()))
}
