//! The section `[delayq]` of summer's configuration.

use anyhow::anyhow;
use delayq_plugin::Config;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use summer::app::AppBuilder;
use summer::config::{ConfigRegistry, Configurable};
use summer::error::{AppError, Result};

/// delayq's configuration, read so that a mistake is named with section and key.
#[derive(Configurable)]
#[config_prefix = "delayq"]
struct Section(Config);

impl<'de> Deserialize<'de> for Section {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let config = Config::from_section("[delayq]", deserializer);
        config.map(Self).map_err(D::Error::custom)
    }
}

/// What summer's files say about delayq; without the section the defaults.
pub(crate) fn config(app: &AppBuilder) -> Result<Config> {
    match app.get_config::<Section>() {
        Ok(Section(config)) => Ok(config),
        // The message alone: summer logs the error of a start in its `Debug` form, which would bury
        // the message between the fields of the parser's error.
        Err(AppError::DeserializeErr(_, error)) => Err(anyhow!("{}", error.message()).into()),
        Err(error) => Err(error),
    }
}
