//! The cold store of the server.

use delayq_plugin::store::{DEFAULT_HORIZON, MIN_HORIZON};
use delayq_plugin::{ColdStore, IntoDelay};

use super::{Config, ConfigError};

/// The horizon unless another one is given.
pub(super) const HORIZON: &str = "1h";

/// Refuses options of a cold store that cannot be kept, or would do nothing.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let refused = |option: &str, value: &str, reason: String| ConfigError::Refused {
        option: option.to_owned(),
        value: value.to_owned(),
        reason,
    };
    let of_horizon = |reason: String| refused("horizon", &config.horizon, reason);
    let horizon = config.horizon.as_str().into_delay();
    let horizon = horizon.map_err(|error| of_horizon(error.to_string()))?;
    if horizon < MIN_HORIZON {
        return Err(of_horizon("use at least 5m".to_owned()));
    }
    let Some(cold) = of(config) else {
        if config.horizon == HORIZON {
            return Ok(());
        }
        let reason = "it has no effect without a cold store: add cold_url".to_owned();
        return Err(of_horizon(reason));
    };
    // The URL may hold a password.
    let checked = cold.check(&config.store, &config.store_options());
    checked.map_err(|error| refused("cold_url", "***", error.to_string()))
}

/// The cold store behind the server's own store.
pub(super) fn of(config: &Config) -> Option<ColdStore> {
    let horizon = config.horizon.as_str().into_delay();
    let cold = ColdStore::new(config.cold_url.as_deref()?);
    let cold = if config.is_only_looking {
        cold.moving_nothing()
    } else {
        cold
    };
    Some(cold.horizon(horizon.unwrap_or(DEFAULT_HORIZON)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cold_store_that_could_not_be_kept_is_refused() {
        let check = |text: &str| {
            let text = format!("store = \"sqlite:hot.sqlite\"\n{text}");
            let checked = Config::of_text(&text).map(drop);
            checked.map_err(|error| error.to_string())
        };
        let cold = "cold_url = \"sqlite:cold.sqlite\"";
        assert_eq!(check(&format!("{cold}\nhorizon = \"6h\"")), Ok(()));
        for (text, option, word) in [
            ("horizon = \"6h\"".to_owned(), "horizon", "add cold_url"),
            (
                "cold_url = \"sqlite:hot.sqlite\"".to_owned(),
                "cold_url",
                "another place",
            ),
            (
                "cold_url = \"postgre://h/d\"".to_owned(),
                "cold_url",
                "store URL",
            ),
            (
                format!("{cold}\nretention = \"2m\""),
                "cold_url",
                "retention",
            ),
            (format!("{cold}\nhorizon = \"4m\""), "horizon", "5m"),
        ] {
            let refused = check(&text).unwrap_err();
            let is_it = refused.starts_with(&format!("{option} ")) && refused.contains(word);
            assert!(is_it, "{text}: {refused}");
        }
    }
}
