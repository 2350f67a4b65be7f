//! Checks the options of service mode.

use super::{Config, ConfigError};
use crate::push::{BadService, check_service};

/// Refuses unusable options of service mode.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let service = &config.service;
    service.check().map_err(|bad| ConfigError::Refused {
        option: bad.option,
        value: bad.value,
        reason: bad.reason,
    })?;
    let namespace = &service.namespace;
    if namespace != "default" && !config.namespaces.contains_key(namespace) {
        return Err(ConfigError::Refused {
            option: "service.namespace".to_owned(),
            value: namespace.clone(),
            reason: format!("there is no such namespace: add [namespaces.{namespace}]"),
        });
    }
    check_service(&config.push, service).map_err(|bad| {
        let BadService {
            option,
            value,
            reason,
        } = bad;
        ConfigError::Refused {
            option: format!("service.{option}"),
            value,
            reason,
        }
    })
}
