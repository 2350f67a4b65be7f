//! What a start needs beside addresses and stores: the form of the log, and the first token.

use std::path::Path;

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
