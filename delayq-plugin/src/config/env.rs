//! Environment variables.

use std::ffi::OsString;

use toml::{Table, Value};
use tracing::warn;

use super::{Config, ConfigError, read};

const PREFIX: &str = "DELAYQ_";

/// The top-level options that a variable can set.
const NAMES: [&str; 16] = [
    "url",
    "cold_url",
    "horizon",
    "namespace",
    "durability",
    "retention",
    "call_timeout",
    "threads",
    "poll_interval",
    "max_lock_expiries",
    "only",
    "grace",
    "history",
    "history_retention",
    "history_buffer",
    "types",
];

/// Applies `variables` over `config`.
pub(super) fn over(
    mut config: Config,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Config, ConfigError> {
    let variables = variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let mut variables: Vec<_> = variables
        .filter(|(name, _)| name.starts_with(PREFIX))
        .collect();
    // DELAYQ_TYPES sorts before the variables of single types.
    variables.sort();
    let mut unknown = Vec::new();
    for (name, value) in variables {
        let Some(path) = path_of(&name) else {
            unknown.push(name);
            continue;
        };
        let no_text = |_| ConfigError::new(&name, "it is no UTF-8 text");
        config.merge(of_variable(
            &name,
            &path,
            &value.into_string().map_err(no_text)?,
        )?);
    }
    if !unknown.is_empty() {
        let known = NAMES.map(|name| format!("{PREFIX}{}", name.to_uppercase()));
        warn!(variables = %unknown.join(", "), known = %known.join(", "),
            "ignored: these environment variables are not options of delayq");
    }
    Ok(config)
}

/// The keys that a variable names; `None` if it is not a variable of delayq.
fn path_of(name: &str) -> Option<Vec<String>> {
    let path = name.strip_prefix(PREFIX)?.to_ascii_lowercase();
    let mut path: Vec<_> = path.split("__").map(str::to_owned).collect();
    let is_known = path
        .first()
        .is_some_and(|first| NAMES.contains(&first.as_str()));
    if !is_known || (path.len() > 1 && path.first().is_some_and(|first| first != "types")) {
        return None;
    }
    if let Some(task_type) = path.get_mut(1) {
        *task_type = task_type.replace('_', ".");
    }
    Some(path)
}

/// The configuration set by one variable. Its value is read as a TOML value (a number, a list, a
/// table), or else as text.
fn of_variable(name: &str, path: &[String], text: &str) -> Result<Config, ConfigError> {
    let as_text = || nested(path, Value::String(text.to_owned()));
    let Ok(value) = text.parse::<Value>() else {
        return read::of_table(name, as_text());
    };
    read::of_table(name, nested(path, value))
        .or_else(|error| read::of_table(name, as_text()).map_err(|_| error))
}

/// `{ types = { "mail.send" = { lock = value } } }` for the path `types`, `mail.send`, `lock`.
fn nested(path: &[String], value: Value) -> Table {
    let mut table = Table::new();
    if let Some((first, rest)) = path.split_first() {
        let value = match rest {
            [] => value,
            rest => Value::Table(nested(rest, value)),
        };
        table.insert(first.clone(), value);
    }
    table
}
