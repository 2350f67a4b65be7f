//! A text that is never shown again.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What is shown instead. Sent as a new value it means the present one.
const STARS: &str = "***";

/// A secret, or the value of a header, which may be one. Only its stored form has it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hidden(String);

impl Hidden {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// What stands for it.
    pub fn stars() -> Self {
        Self(STARS.to_owned())
    }

    /// Whether the present value is meant.
    pub fn is_stars(&self) -> bool {
        self.0 == STARS
    }

    /// The text, to be used and not to be shown.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STARS)
    }
}
