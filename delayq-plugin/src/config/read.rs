//! Reads the text of a configuration. Errors name the line, the key and what would be valid.

use serde::{Deserialize, Deserializer};
use serde_path_to_error::{Path, Segment};

use super::{Config, ConfigError};

/// Minimum similarity for suggesting a name; the macros use the same value.
const ALIKE: f64 = 0.8;

/// Reads the text of `file`. An error quotes no line, as a URL may hold a password.
pub(super) fn of_text(file: &str, text: &str) -> Result<Config, ConfigError> {
    let at = |error: &toml::de::Error| match error.span() {
        Some(span) => {
            let lines = text.bytes().take(span.start).filter(|byte| *byte == b'\n');
            format!("{file}, line {}", lines.count() + 1)
        }
        None => file.to_owned(),
    };
    let input = toml::Deserializer::parse(text)
        .map_err(|error| ConfigError::new(at(&error), error.message()))?;
    let read = serde_path_to_error::deserialize(input).map_err(|error| {
        let (key, error) = (joined(&keys(error.path())), error.inner());
        ConfigError::new(at(error), format!("{key}{}", with_hint(error.message())))
    });
    let source = Some(file.to_owned());
    read.map(|config: Config| Config { source, ..config })
}

/// Reads the section `name` of another configuration, in any format.
pub(super) fn of_section<'de, D>(name: &str, section: D) -> Result<Config, ConfigError>
where
    D: Deserializer<'de>,
{
    let read = serde_path_to_error::deserialize(section).map_err(|error| {
        let message = error.inner().to_string();
        // Further lines come from the format: they say where the error is, as the keys already do.
        let message = message.lines().next().unwrap_or_default();
        let mut keys = keys(error.path());
        let unknown = unknown(message).map(|(option, _)| option);
        if keys.last().map(String::as_str) == unknown {
            keys.pop();
        }
        ConfigError::new(name, format!("{}{}", joined(&keys), with_hint(message)))
    });
    let source = Some(name.to_owned());
    read.map(|config: Config| Config { source, ..config })
}

/// Reads `table`, which comes from `place`.
pub(super) fn of_table(place: &str, table: toml::Table) -> Result<Config, ConfigError> {
    Config::deserialize(table).map_err(|error| ConfigError::new(place, with_hint(error.message())))
}

/// The keys as written in the file: `types`, `"mail.*"`, `lock`.
fn keys(path: &Path) -> Vec<String> {
    let quoted = |key: &str| {
        let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if key.bytes().all(is_bare) {
            key.to_owned()
        } else {
            format!("{key:?}")
        }
    };
    let keys = path.iter().filter_map(|segment| match segment {
        Segment::Map { key } => Some(quoted(key)),
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Enum { .. } | Segment::Unknown => None,
    });
    keys.collect()
}

/// The prefix of a message: `types."mail.*".lock: `.
fn joined(keys: &[String]) -> String {
    if keys.is_empty() {
        String::new()
    } else {
        format!("{}: ", keys.join("."))
    }
}

/// serde's message, and a suggestion for an unknown name.
fn with_hint(message: &str) -> String {
    let message = message.trim_end();
    let Some((name, known)) = unknown(message) else {
        return message.to_owned();
    };
    let alike = known
        .iter()
        .map(|option| (strsim::jaro_winkler(name, option), option))
        .filter(|(likeness, _)| *likeness > ALIKE)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    let all = known.join("`, `");
    let hint = match alike {
        Some((_, option)) => format!("did you mean `{option}`? "),
        // `[types.mail.send]` is a table `send` in a table `mail`.
        None if known.contains(&"max_releases") => {
            "a type with a dot is written in quotes, as in [types.\"mail.send\"]; ".to_owned()
        }
        None => String::new(),
    };
    format!("unknown option `{name}`: {hint}the options are `{all}`")
}

/// The name and the known ones in serde's message about an unknown field.
fn unknown(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field `")?;
    let (name, rest) = rest.split_once('`')?;
    Some((name, rest.split('`').skip(1).step_by(2).collect()))
}
