//! The declared state of a type or pattern, and of a recurring task.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq_core::job::{CONTENT_TYPE, GROUP_HEADER, JSON_TYPE, with_kept_names};
use delayq_ops::read_rate;
use delayq_plugin::store::Setting;
use delayq_plugin::{Error, Rate, TaskType, TypePattern, TypeSettings};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::Refusal;
use crate::policy::TypePolicy;
use crate::push::Target;
use crate::recurring::RecurringTask;

/// Reads the value at a place.
///
/// # Errors
/// It has another form.
pub(super) fn of<T: DeserializeOwned>(place: &str, value: Value) -> Result<T, Refusal> {
    serde_json::from_value(value).map_err(|error| Refusal::at(place, error))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TypeForm {
    max_pending: Value,
    fleet_concurrency: Value,
    fleet_rate: Value,
    shards: Option<u32>,
    paused: Option<bool>,
    policy: Option<Value>,
    target: Option<Value>,
}

/// The declared state of a type or pattern. What is `None` or `Keep` is left as it is.
#[derive(Debug)]
pub(super) struct TypeState {
    pub(super) pattern: TypePattern,
    pub(super) settings: TypeSettings,
    pub(super) is_paused: Option<bool>,
    pub(super) policy: Option<TypePolicy>,
    pub(super) target: Option<Target>,
}

impl TypeState {
    pub(super) fn read(place: &str, pattern: &str, value: Value) -> Result<Self, Refusal> {
        let pattern = TypePattern::new(pattern).map_err(|error| Refusal::at(place, error))?;
        let form: TypeForm = of(place, value)?;
        let settings = settings(place, &form)?;
        let is_of_types = settings != TypeSettings::default() || form.paused.is_some();
        if is_of_types && matches!(pattern, TypePattern::Prefix(_)) {
            let text = "a pattern has a policy and a target; settings and pauses are those of a \
                        type";
            return Err(Refusal::at(place, text));
        }
        let policy = match form.policy {
            Some(value) => Some(policy(&format!("{place}.policy"), value)?),
            None => None,
        };
        let target = match form.target {
            Some(value) => Some(of(&format!("{place}.target"), value)?),
            None => None,
        };
        Ok(Self {
            pattern,
            settings,
            is_paused: form.paused,
            policy,
            target,
        })
    }
}

fn policy(place: &str, value: Value) -> Result<TypePolicy, Refusal> {
    let policy: TypePolicy = of(place, value)?;
    policy.check().map_err(|error| Refusal::at(place, error))?;
    Ok(policy)
}

fn settings(place: &str, form: &TypeForm) -> Result<TypeSettings, Refusal> {
    let at = |field: &str, error: String| Refusal::at(format!("{place}.{field}"), error);
    let mut settings = TypeSettings::default();
    settings.max_pending = count(&form.max_pending).map_err(|error| at("max_pending", error))?;
    settings.fleet_concurrency =
        count(&form.fleet_concurrency).map_err(|error| at("fleet_concurrency", error))?;
    settings.fleet_rate = rate(&form.fleet_rate).map_err(|error| at("fleet_rate", error))?;
    settings.shards = form.shards;
    settings
        .check()
        .map_err(|error| Refusal::at(place, error))?;
    if settings.limits_fleet()
        && let Some(shards) = settings.shards.filter(|shards| *shards > 1)
    {
        let task_type = place.rsplit('.').next().unwrap_or_default().to_owned();
        let error = Error::FleetLimitOnShards { task_type, shards };
        return Err(Refusal::at(place, error));
    }
    Ok(settings)
}

/// Reads a number, or `none`, which removes the limit.
fn count<T: TryFrom<u64>>(value: &Value) -> Result<Setting<T>, String> {
    match value {
        Value::Null => Ok(Setting::Keep),
        Value::String(text) if text == "none" => Ok(Setting::Unset),
        value => {
            let number = value.as_u64().and_then(|number| T::try_from(number).ok());
            let number = number.map(Setting::To);
            number.ok_or_else(|| format!("{value} is neither a number in range nor \"none\""))
        }
    }
}

/// Reads a rate such as `100/s`, one with a burst, or `none`.
fn rate(value: &Value) -> Result<Setting<Rate>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct WithBurst {
        rate: String,
        burst: u32,
    }

    match value {
        Value::Null => Ok(Setting::Keep),
        Value::String(text) if text == "none" => Ok(Setting::Unset),
        Value::String(text) => read_rate(text).map(Setting::To),
        Value::Object(_) => {
            let form = WithBurst::deserialize(value).map_err(|error| error.to_string())?;
            Ok(Setting::To(read_rate(&form.rate)?.with_burst(form.burst)))
        }
        value => Err(format!(
            "{value} is no rate: write such as \"100/s\", {{ rate = \"100/s\", burst = 5 }} or \
             \"none\""
        )),
    }
}

/// A value as it is written. An absent one is `None`; a `null` is a value as any other.
fn written<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecurringForm {
    #[serde(rename = "type")]
    task_type: String,
    every: String,
    zone: Option<String>,
    message: Option<String>,
    message_base64: Option<String>,
    #[serde(default, deserialize_with = "written")]
    json: Option<Value>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    group: Option<String>,
    #[serde(default)]
    paused: bool,
}

/// The declared state of a recurring task.
#[derive(Debug)]
pub(super) struct RecurringState {
    pub(super) id: String,
    pub(super) task: RecurringTask,
}

impl RecurringState {
    pub(super) fn read(place: &str, id: String, value: Value) -> Result<Self, Refusal> {
        let form: RecurringForm = of(place, value)?;
        let mut headers =
            with_kept_names(form.headers).map_err(|error| Refusal::at(place, error))?;
        if form.json.is_some() {
            let kind = headers.entry(CONTENT_TYPE.to_owned());
            kind.or_insert_with(|| JSON_TYPE.to_owned());
        }
        let message = match (form.message, form.message_base64, form.json) {
            (None, None, None) => Vec::new(),
            (Some(text), None, None) => text.into_bytes(),
            (None, Some(base64), None) => STANDARD
                .decode(base64)
                .map_err(|error| Refusal::at(format!("{place}.message_base64"), error))?,
            (None, None, Some(json)) => json.to_string().into_bytes(),
            _ => {
                let text = "give one of message, message_base64 and json";
                return Err(Refusal::at(place, text));
            }
        };
        let task_type = TaskType::new(form.task_type);
        let task_type = task_type.map_err(|error| Refusal::at(place, error))?;
        let mut task = RecurringTask::new(task_type, form.every, &message);
        task.zone = form.zone;
        task.headers = headers;
        if let Some(group) = form.group {
            task.headers.insert(GROUP_HEADER.to_owned(), group);
        }
        task.is_paused = form.paused;
        Ok(Self { id, task })
    }
}
