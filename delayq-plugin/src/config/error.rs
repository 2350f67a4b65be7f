//! Errors of a configuration.

use std::fmt;

/// An invalid configuration. The message names the file and line, or the variable; the key; and
/// what would be valid.
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

/// The same text as `Display`, because a `main` that returns an error prints it with `Debug`.
impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
