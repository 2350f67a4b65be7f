//! Applications that announce their types.

use axum::Json;
use axum::extract::Path;
use delayq_service::access::{Read, Work};
use delayq_service::app::App;
use delayq_service::context::Allowed;
use delayq_service::operation::callee;
use delayq_service::problem::Problem;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::JsonBody;
use super::form::{TextOrNumber, read_span, text_or_number};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(callees))
        .routes(routes!(announce, withdraw))
}

/// An application's announcement.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Announcement {
    /// The URL to call, such as `http://10.0.0.7:8080/delayq/work`.
    url: String,
    /// The types that it serves.
    types: Vec<String>,
    /// The lifetime: milliseconds, or a span such as `30s`; `3s` to `1h`, default `30s`.
    #[serde(default, deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    lease: Option<String>,
}

impl Announcement {
    /// Parses the announcement.
    pub(super) fn read(self) -> Result<callee::Announcement, Problem> {
        let lease = self.lease.as_deref().map(read_span);
        Ok(callee::Announcement {
            url: self.url,
            types: self.types,
            lease: lease.transpose()?,
        })
    }
}

/// An announced application.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct CalleeView {
    /// Its name.
    name: String,
    /// The URL to call.
    url: String,
    /// The types that it serves.
    types: Vec<String>,
    /// The end of its announcement, in milliseconds since the epoch.
    until: i64,
}

/// The applications that announced themselves in the namespace.
#[utoipa::path(
    get, path = "/v1/{namespace}/callees", tag = "push",
    params(("namespace", description = "Namespace")),
    responses((status = 200, body = Vec<CalleeView>), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn callees(allowed: Allowed<Read>) -> Result<Json<Vec<CalleeView>>, Problem> {
    allowed.caller.require_all_types()?;
    let all = allowed.space.push.callees().await?.into_iter();
    let views = all.map(|(name, announced)| CalleeView {
        name,
        url: announced.url,
        types: announced.types.iter().map(ToString::to_string).collect(),
        until: announced.until_ms,
    });
    Ok(Json(views.collect()))
}

/// Announce an application. Within a second, every server pushes due tasks of its types to it,
/// until the lease ends. Repeat the call before that.
#[utoipa::path(
    put, path = "/v1/{namespace}/callees/{name}", tag = "push",
    params(("namespace", description = "Namespace"), ("name", description = "A name of the instance")),
    request_body = Announcement,
    responses((status = 200), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["work"]))
)]
async fn announce(
    allowed: Allowed<Work>,
    Path((_, name)): Path<(String, String)>,
    JsonBody(announcement): JsonBody<Announcement>,
) -> Result<Json<Value>, Problem> {
    let taken = announcement.read()?;
    let until = taken.take(&allowed.space, &allowed.caller, &name).await?;
    Ok(Json(json!({"outcome": "announced", "until": until})))
}

/// Withdraw an announcement. Running calls may finish.
#[utoipa::path(
    delete, path = "/v1/{namespace}/callees/{name}", tag = "push",
    params(("namespace", description = "Namespace"), ("name", description = "A name of the instance")),
    responses((status = 200), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["work"]))
)]
async fn withdraw(
    allowed: Allowed<Work>,
    Path((_, name)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let removed = callee::withdraw(&allowed.space, &allowed.caller, &name).await?;
    let outcome = if removed { "withdrawn" } else { "not_found" };
    Ok(Json(json!({"outcome": outcome})))
}
