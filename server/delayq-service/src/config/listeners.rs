//! Addresses of all listeners.

use std::collections::BTreeMap;

use super::{Config, ConfigError};

/// Refuses two listeners at one address.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let all = [
        ("listen", Some(config.listen)),
        ("admin.listen", config.admin.listen),
        ("lmstfy.listen", config.lmstfy.listen),
        ("lmstfy.admin_listen", config.lmstfy.admin_listen),
        ("beanstalk.listen", config.beanstalk.listen),
        ("grape.listen", config.grape.listen),
        ("task_service.listen", config.task_service.listen),
        ("spring.listen", config.spring.listen),
    ];
    let mut taken = BTreeMap::new();
    for (option, address) in all {
        let Some(address) = address.filter(|address| address.port() != 0) else {
            continue;
        };
        if let Some(other) = taken.insert(address, option) {
            return Err(ConfigError::Refused {
                option: option.to_owned(),
                value: address.to_string(),
                reason: format!("it is that of {other}: each listener has a port of its own"),
            });
        }
    }
    Ok(())
}
