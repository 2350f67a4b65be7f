//! Instances listed by a Eureka registry.

use std::collections::BTreeSet;

use axum::http::Uri;
use delayq_endpoint::{EurekaClient, EurekaError, SPRING_PATH, WORK_PATH, spelled_type};
use delayq_plugin::TaskType;
use serde_json::Value;
use tracing::{debug, warn};

use super::instance::{Form, Instance, Trust};
use super::registry::Registry;
use super::{Discovery, InstanceSource};

/// The metadata entry that holds the types of Spring delay queue applications.
const SPRING_TYPES: &str = "delay-queue:task";
/// The metadata entry with the path to call.
const PATH: &str = "delayq.path";

/// Reads the registry repeatedly. If it does not answer, its instances are kept.
pub(super) async fn follow(discovery: &Discovery) {
    let config = &discovery.config;
    if config.eureka.urls.is_empty() {
        return;
    }
    let client = match EurekaClient::new(&config.eureka.urls) {
        Ok(client) => client,
        Err(error) => {
            warn!(%error, "cannot use the Eureka registry; its instances are not found");
            return;
        }
    };
    let (mut copy, mut is_lost) = (None, false);
    loop {
        match read(&client, &mut copy).await {
            Ok(registry) => {
                is_lost = false;
                let key = &config.eureka.types_key;
                let instances = registry.all().flat_map(|record| instances(record, key));
                discovery.put(InstanceSource::Eureka, instances.collect());
                discovery.keep(registry.all().cloned().collect());
            }
            Err(error) if !is_lost => {
                warn!(%error, "cannot read the Eureka registry; its last instances are kept");
                is_lost = true;
            }
            Err(error) => debug!(%error, "cannot read the Eureka registry"),
        }
        tokio::time::sleep(config.refresh()).await;
    }
}

/// Updates the copy from the registry's delta, or from the full list if the delta does not fit.
async fn read<'a>(
    client: &EurekaClient,
    copy: &'a mut Option<Registry>,
) -> Result<&'a Registry, EurekaError> {
    if let Some(present) = copy
        && present.apply(&client.delta().await?)
    {
        return Ok(copy.get_or_insert_default());
    }
    let whole = Registry::of(&client.apps().await?);
    Ok(copy.insert(whole))
}

/// The instances in a record: one for the types of delayq, one for those of the Spring delay queue.
pub(super) fn instances(record: &Value, types_key: &str) -> Vec<Instance> {
    if record.get("status").and_then(Value::as_str) != Some("UP") {
        return Vec::new();
    }
    let Some(home) = home(record) else {
        return Vec::new();
    };
    let metadata = record.get("metadata");
    let entry = |name: &str| {
        let text = metadata.and_then(|metadata| metadata.get(name)?.as_str());
        text.filter(|text| !text.is_empty())
    };
    // With a prefix they are names of the Spring form, which may have any characters.
    let named = |text: &str, prefix: &str| -> BTreeSet<TaskType> {
        let names = text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        let types = names.map(|name| match prefix {
            "" => name.to_owned(),
            prefix => format!("{prefix}{}", spelled_type(name)),
        });
        types.filter_map(|name| TaskType::new(name).ok()).collect()
    };
    let mut instances = Vec::new();
    if let Some(text) = entry(types_key) {
        let path = entry(PATH).filter(|path| path.starts_with('/'));
        instances.push(Instance {
            url: format!("{home}{}", path.unwrap_or(WORK_PATH)),
            form: Form::Own,
            types: named(text, ""),
            trust: Trust::Announced,
        });
    }
    if let Some(text) = entry(SPRING_TYPES) {
        let app = app(record);
        instances.push(Instance {
            url: format!("{home}{SPRING_PATH}"),
            types: named(text, &format!("{}-", spelled_type(&app))),
            form: Form::Spring { app },
            trust: Trust::Announced,
        });
    }
    instances.retain(|instance| !instance.types.is_empty());
    instances
}

/// The application name of a record, in lower case, as callers write it.
pub fn app(record: &Value) -> String {
    let name = record.get("vipAddress").or_else(|| record.get("app"));
    name.and_then(Value::as_str)
        .unwrap_or_default()
        .to_lowercase()
}

/// Scheme, host and port of a record.
pub fn home(record: &Value) -> Option<String> {
    let host = record.get("hostName").and_then(Value::as_str)?;
    let port = |name: &str| {
        let port = record.get(name)?;
        let is_enabled = match port.get("@enabled")? {
            Value::Bool(enabled) => *enabled,
            Value::String(text) => text == "true",
            _ => false,
        };
        let number = port.get("$")?;
        let number = number.as_u64().or_else(|| number.as_str()?.parse().ok());
        u16::try_from(number.filter(|_| is_enabled)?).ok()
    };
    let home = match (port("securePort"), port("port")) {
        (Some(port), _) => format!("https://{host}:{port}"),
        (None, Some(port)) => format!("http://{host}:{port}"),
        (None, None) => return None,
    };
    // A host with extra parts, such as a path or a user, would lead to another host.
    let uri: Uri = home.parse().ok()?;
    (!host.is_empty() && uri.host() == Some(host)).then_some(home)
}
