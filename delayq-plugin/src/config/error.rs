//! Why a configuration cannot be used.

use std::fmt;

/// A configuration that cannot be used. The message names the file with the line, or the variable;
/// the key; and what would do.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct ConfigError {
    place: String,
    reason: String,
}

impl ConfigError {
    pub(crate) fn new(place: impl Into<String>, reason: impl fmt::Display) -> Self {
        let (place, reason) = (place.into(), reason.to_string());
        Self { place, reason }
    }
}

/// The message, as `Display` has it: a `main` that returns an error prints this.
impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
