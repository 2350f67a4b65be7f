//! Policies of types.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use delayq_plugin::TypePattern;
use delayq_service::access::{Admin, Read};
use delayq_service::app::App;
use delayq_service::context::Allowed;
use delayq_service::operation::policy;
use delayq_service::policy::TypePolicy;
use delayq_service::problem::Problem;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::JsonBody;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(policies))
        .routes(routes!(shown, set, remove))
}

/// A policy.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct PolicyView {
    /// The type or pattern.
    task_type: String,
    /// The policy.
    policy: TypePolicy,
}

impl PolicyView {
    fn new(pattern: &TypePattern, policy: TypePolicy) -> Self {
        Self {
            task_type: pattern.to_string(),
            policy,
        }
    }
}

/// List the policies of a namespace whose types the token covers.
#[utoipa::path(
    get, path = "/v1/{namespace}/policies", tag = "types",
    params(("namespace", description = "Namespace")),
    responses((status = 200, body = Vec<PolicyView>), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn policies(allowed: Allowed<Read>) -> Result<Json<Vec<PolicyView>>, Problem> {
    let all = allowed.space.policies.all().await?.into_iter();
    let covered = all.filter(|(pattern, _)| allowed.caller.token.covers_all(pattern));
    let views = covered.map(|(pattern, policy)| PolicyView::new(&pattern, policy));
    Ok(Json(views.collect()))
}

/// The policy that is set for a type or pattern.
#[utoipa::path(
    get, operation_id = "policy", path = "/v1/{namespace}/types/{task_type}/policy", tag = "types",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type, or pattern such as `mail.*`")),
    responses((status = 200, body = PolicyView), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn shown(
    allowed: Allowed<Read>,
    Path((_, task_type)): Path<(String, String)>,
) -> Result<Json<PolicyView>, Problem> {
    let pattern = TypePattern::new(&task_type)?;
    let policy = policy::get(&allowed.space, &pattern).await?;
    Ok(Json(PolicyView::new(&pattern, policy)))
}

/// Set how failed attempts of a type, or of all types of a pattern, are retried, and after how many
/// lock expiries a task is dead.
///
/// It holds for workers of every language and for targets without a `retry` of their own, on every
/// server within a second. A type has the policy of its own name, or else that of the longest
/// pattern. A plugin in Rust has its own options. Repeating it is harmless.
#[utoipa::path(
    put, operation_id = "set_policy", path = "/v1/{namespace}/types/{task_type}/policy", tag = "types",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type, or pattern such as `mail.*`")),
    request_body = TypePolicy,
    responses((status = 200, body = PolicyView), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["admin"]))
)]
async fn set(
    allowed: Allowed<Admin>,
    Path((_, task_type)): Path<(String, String)>,
    JsonBody(policy): JsonBody<TypePolicy>,
) -> Result<Json<PolicyView>, Problem> {
    let pattern = TypePattern::new(&task_type)?;
    policy::set(&allowed.space, &allowed.operator(), &pattern, policy).await?;
    Ok(Json(PolicyView::new(&pattern, policy)))
}

/// Remove the policy of a type or pattern, which leaves its tasks to that of a pattern or to the
/// defaults. Answers 404 if there is no policy, as on a second call.
#[utoipa::path(
    delete, operation_id = "remove_policy", path = "/v1/{namespace}/types/{task_type}/policy", tag = "types",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type, or pattern such as `mail.*`")),
    responses((status = 204), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["admin"]))
)]
async fn remove(
    allowed: Allowed<Admin>,
    Path((_, task_type)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let pattern = TypePattern::new(&task_type)?;
    policy::remove(&allowed.space, &allowed.operator(), &pattern).await?;
    Ok(StatusCode::NO_CONTENT)
}
