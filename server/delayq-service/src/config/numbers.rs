//! The ranges of all numbers of the configuration.
//!
//! A number outside its range would be ignored, replaced, or keep a part of the server from
//! working.

use delayq_core::job::MAX_MESSAGE_BYTES;
use delayq_core::store::MAX_REMEMBERED;
use serde_json::Value;

use super::{Config, ConfigError};

const MESSAGE: u64 = MAX_MESSAGE_BYTES as u64;
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// For counts without a limit of their own.
const MANY: u64 = u32::MAX as u64;

/// Each option that is a number, with its least and its largest value. `*` stands for a name.
pub(super) const RANGES: [(&str, u64, u64); 25] = [
    ("max_message_bytes", 1, MESSAGE),
    ("remembered", 1, MAX_REMEMBERED as u64),
    ("history_buffer", 1 << 20, i64::MAX as u64),
    ("namespaces.*.limits.rate", 1, MANY),
    ("namespaces.*.limits.max_pending", 1, i64::MAX as u64),
    ("namespaces.*.limits.max_message_bytes", 1, MESSAGE),
    ("limits.max_lock_expiries", 1, MANY),
    ("limits.token_rate", 1, MANY),
    ("limits.namespace.rate", 1, MANY),
    ("limits.namespace.max_pending", 1, i64::MAX as u64),
    ("limits.namespace.max_message_bytes", 1, MESSAGE),
    // All ports from 1024 on are allowed.
    ("push.allow_ports", 1, 1_023),
    ("service.refresh_ms", 100, DAY_MS),
    ("service.eureka.heartbeat_ms", 1_000, HOUR_MS),
    ("admin.session_minutes", 1, 525_600),
    // As in beanstalkd, which can be told to take empty jobs only.
    ("beanstalk.max_job_bytes", 0, MESSAGE),
    ("grape.max_executions", 1, MANY),
    ("connections.max", 1, 10_000_000),
    ("connections.header_timeout_ms", 100, HOUR_MS),
    ("connections.body_timeout_ms", 100, HOUR_MS),
    ("connections.max_header_bytes", 8_192, 16 << 20),
    ("connections.max_streams", 1, 1 << 20),
    // A single bulk publish of lmstfy has up to 65 MiB.
    ("connections.max_body_bytes", 80 << 20, 1 << 40),
    ("stop.ready_grace_ms", 0, HOUR_MS),
    ("stop.grace_ms", 0, DAY_MS),
];

/// Refuses a number outside its range.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    // Cannot fail: the configuration was read from such a form.
    let whole = serde_json::to_value(config).unwrap_or_default();
    for number in numbers_in(&whole) {
        let Number { path, value } = number;
        let range = RANGES.iter().find(|(option, ..)| is_meant(option, &path));
        if let Some((_, least, most)) = range
            && !(*least..=*most).contains(&value)
        {
            return Err(ConfigError::Refused {
                option: path.join("."),
                value: value.to_string(),
                reason: format!("use {least} to {most}"),
            });
        }
    }
    Ok(())
}

/// True if the pattern of an option stands for this path.
pub(super) fn is_meant(option: &str, path: &[String]) -> bool {
    let mut parts = option.split('.');
    let is_same = path
        .iter()
        .all(|name| parts.next().is_some_and(|part| part == "*" || part == name));
    is_same && parts.next().is_none()
}

/// A number somewhere in the configuration.
pub(super) struct Number {
    pub(super) path: Vec<String>,
    pub(super) value: u64,
}

/// All numbers in a value, also those in lists.
pub(super) fn numbers_in(value: &Value) -> Vec<Number> {
    let within = |name: &str, value: &Value| {
        numbers_in(value)
            .into_iter()
            .map(|mut number| {
                number.path.insert(0, name.to_owned());
                number
            })
            .collect::<Vec<_>>()
    };
    match value {
        Value::Number(number) => vec![Number {
            path: Vec::new(),
            value: number.as_u64().unwrap_or(u64::MAX),
        }],
        Value::Array(list) => list.iter().flat_map(numbers_in).collect(),
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| within(name, value))
            .collect(),
        _ => Vec::new(),
    }
}
