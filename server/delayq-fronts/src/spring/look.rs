//! Pages of the original that show its state.

use axum::Json;
use axum::extract::State;
use delayq_plugin::TaskState;
use delayq_service::access::Read;
use delayq_service::app::App;
use delayq_service::discovery::{app as app_of, home};
use delayq_service::problem::Problem;
use delayq_service::push::SPRING_TIME;
use serde_json::{Map, Value, json};

use super::answer::SpringError;
use super::caller::Asking;

/// The metadata entry with the types of an application.
const TYPES: &str = "delay-queue:task";

/// The states of a task that is still there.
const PRESENT: [TaskState; 3] = [TaskState::Scheduled, TaskState::Running, TaskState::Dead];
/// The number of tasks of a state that are looked at.
const LOOKED_AT: usize = 16;

/// Lists the types that have a task of this API. Types of other senders are not the original's.
pub(super) async fn types(asking: Asking<Read>) -> Result<Json<Vec<String>>, SpringError> {
    let listed = of_this_api(&asking).await;
    listed
        .map(Json)
        .map_err(|error| asking.refused(Problem::from(error)))
}

async fn of_this_api(asking: &Asking<Read>) -> delayq_plugin::Result<Vec<String>> {
    let store = asking.space.tasks.store();
    let mut listed = Vec::new();
    for task_type in store.types().await? {
        // The name of the application stands before a hyphen.
        let is_possible = task_type.as_str().contains('-');
        if !is_possible || !asking.caller.token.covers(&task_type) {
            continue;
        }
        for state in PRESENT {
            let page = store.list(&task_type, state, None, LOOKED_AT).await?;
            let mut tasks = page.tasks.iter();
            if tasks.any(|task| task.headers.contains_key(SPRING_TIME)) {
                listed.push(task_type.to_string());
                break;
            }
        }
    }
    Ok(listed)
}

/// Lists the applications of the registry, each with its instances that name types.
pub(super) async fn services(
    asking: Asking<Read>,
    State(app): State<App>,
) -> Result<Json<Value>, SpringError> {
    let all = asking.caller.require_all_types();
    all.map_err(|problem| asking.refused(problem))?;
    let mut services = Map::new();
    for record in &*app.spaces.discovery.records() {
        let listed = services.entry(app_of(record)).or_insert_with(|| json!([]));
        let types = record.pointer("/metadata").and_then(|all| all.get(TYPES));
        let types = types
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty());
        let is_up = record.get("status").and_then(Value::as_str) == Some("UP");
        if let (Some(types), Some(listed), true) = (types, listed.as_array_mut(), is_up) {
            listed.push(json!({"TaskType": types, "ServiceInstance": instance(record)}));
        }
    }
    Ok(Json(Value::Object(services)))
}

/// A record of the registry in the format of Spring.
pub(super) fn instance(record: &Value) -> Value {
    let uri = home(record).unwrap_or_default();
    let is_secure = uri.starts_with("https:");
    let port = uri
        .rsplit_once(':')
        .and_then(|(_, port)| port.parse::<u16>().ok());
    let field = |name: &str| record.get(name).cloned().unwrap_or(Value::Null);
    let number = |name: &str| {
        let value = field(name);
        let text = value.as_str().and_then(|text| text.parse::<i64>().ok());
        text.map_or(value, Value::from)
    };
    let mut info = Map::new();
    for name in [
        "instanceId",
        "app",
        "appGroupName",
        "ipAddr",
        "homePageUrl",
        "statusPageUrl",
        "healthCheckUrl",
        "secureHealthCheckUrl",
        "vipAddress",
        "secureVipAddress",
        "countryId",
        "dataCenterInfo",
        "hostName",
        "status",
        "overriddenStatus",
        "leaseInfo",
        "metadata",
        "actionType",
        "asgName",
    ] {
        info.insert(name.to_owned(), field(name));
    }
    info.insert("sid".to_owned(), json!("na"));
    for name in ["lastUpdatedTimestamp", "lastDirtyTimestamp"] {
        info.insert(name.to_owned(), number(name));
    }
    let name = "isCoordinatingDiscoveryServer";
    let coordinates = [json!("true"), json!(true)].contains(&field(name));
    info.insert(name.to_owned(), coordinates.into());
    json!({
        "scheme": if is_secure { "https" } else { "http" },
        "host": field("hostName"),
        "port": port,
        "secure": is_secure,
        "metadata": field("metadata"),
        "uri": uri,
        "instanceId": field("instanceId"),
        "serviceId": field("app"),
        "instanceInfo": info,
    })
}
