//! The section `[delayq]` of summer's configuration.

use anyhow::anyhow;
use delayq_plugin::Config;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use summer::app::AppBuilder;
use summer::config::{ConfigRegistry, Configurable};
use summer::error::{AppError, Result};

/// delayq's configuration, parsed so that an error names section and key.
#[derive(Configurable)]
#[config_prefix = "delayq"]
struct Section(Config);

impl<'de> Deserialize<'de> for Section {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let config = Config::from_section("[delayq]", deserializer);
        config.map(Self).map_err(D::Error::custom)
    }
}

/// The section about delayq in summer's files; the defaults without one.
pub(crate) fn config(app: &AppBuilder) -> Result<Config> {
    match app.get_config::<Section>() {
        Ok(Section(config)) => Ok(config),
        // Only the message: summer logs a start error in its `Debug` form, which would bury the
        // message among the fields of the parser's error.
        Err(AppError::DeserializeErr(_, error)) => Err(anyhow!("{}", error.message()).into()),
        Err(error) => Err(error),
    }
}
