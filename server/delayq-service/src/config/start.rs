//! What a start needs beside addresses and stores: the form of the log, and the first token.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Config, ConfigError};

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    pub format: LogFormat,
}

/// The form of a line of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// A JSON object.
    Json,
}

/// The name of the file that has the first token where no option names one.
const FIRST_TOKEN: &str = "delayq-first.token";

/// Where the first token of a new server goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstTokenPlace {
    /// It is printed, once.
    Print,
    /// It is in this file, for the owner of the server alone.
    File(PathBuf),
}

/// On a terminal somebody reads it. Elsewhere, what is printed is kept in logs.
pub(super) fn first_token_place(config: &Config, is_terminal: bool) -> FirstTokenPlace {
    match &config.first_token_file {
        Some(file) if file.as_os_str() == "-" => FirstTokenPlace::Print,
        Some(file) => FirstTokenPlace::File(file.clone()),
        None if is_terminal || config.store.starts_with("memory:") => FirstTokenPlace::Print,
        None => FirstTokenPlace::File(folder(config).join(FIRST_TOKEN)),
    }
}

/// The folder of a store that is a file, or the working directory: that of the configuration is
/// often one that a service may not write to.
fn folder(config: &Config) -> &Path {
    let of_store = config.store.strip_prefix("sqlite:").map(|rest| {
        let path = rest.split('?').next().unwrap_or_default();
        Path::new(path.strip_prefix("//").unwrap_or(path))
    });
    of_store.and_then(Path::parent).unwrap_or(Path::new(""))
}

/// The text of the first token, if the configuration gives it, in itself or in a file.
pub(super) fn given_token(config: &Config) -> Result<Option<String>, ConfigError> {
    match (&config.bootstrap_token, &config.bootstrap_token_file) {
        (None, None) => Ok(None),
        (Some(token), None) => Ok(Some(token.trim().to_owned())),
        (None, Some(file)) => read(file).map(Some).map_err(|reason| {
            let value = file.display().to_string();
            refused("bootstrap_token_file", &value, reason)
        }),
        (Some(_), Some(_)) => {
            let reason = "give bootstrap_token or bootstrap_token_file, not both".to_owned();
            Err(refused("bootstrap_token", "***", reason))
        }
    }
}

fn read(file: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    // Some editors write a byte order mark.
    let token = text.trim_start_matches('\u{feff}').trim();
    match token {
        "" => Err("it is empty: write the token into it".to_owned()),
        token => Ok(token.to_owned()),
    }
}

fn refused(option: &str, value: &str, reason: String) -> ConfigError {
    ConfigError::Refused {
        option: option.to_owned(),
        value: value.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_token_is_printed_for_people_alone() {
        let of = |store: &str, first: Option<&str>| Config {
            store: store.to_owned(),
            first_token_file: first.map(PathBuf::from),
            ..Config::default()
        };
        let at = |path: &str| FirstTokenPlace::File(path.into());
        let redis = "redis://127.0.0.1/";
        for (config, piped, on_terminal) in [
            (
                of("sqlite:/var/lib/delayq/a.sqlite?sync=full", None),
                at("/var/lib/delayq/delayq-first.token"),
                FirstTokenPlace::Print,
            ),
            (
                of(redis, None),
                at("delayq-first.token"),
                FirstTokenPlace::Print,
            ),
            (of(redis, Some("t")), at("t"), at("t")),
            (
                of(redis, Some("-")),
                FirstTokenPlace::Print,
                FirstTokenPlace::Print,
            ),
        ] {
            assert_eq!(first_token_place(&config, false), piped);
            assert_eq!(first_token_place(&config, true), on_terminal);
        }
    }
}
