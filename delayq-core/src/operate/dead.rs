//! Selection of dead tasks.

use crate::error::{Error, Result};
use crate::name::TaskId;
use crate::time::Timestamp;

/// Refuses a blank text as a condition of a selection. Every id begins with an empty text and every
/// error contains it, so such a selection would mean all tasks.
///
/// # Errors
/// `InvalidInput` with the `name` of the condition.
pub fn check_condition(name: &str, text: &str) -> Result<()> {
    if !text.trim().is_empty() {
        return Ok(());
    }
    let reason = format!("an empty {name} is no condition: leave it out, or give a text");
    Err(Error::invalid("filter", reason))
}

/// A selection of dead tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadFilter {
    /// The tasks with these ids.
    Ids(Vec<TaskId>),
    /// The first ones by time of death that meet all conditions.
    Matching {
        /// Died before this time.
        died_before: Option<Timestamp>,
        /// The last error contains this text, which must not be empty.
        error_contains: Option<String>,
        /// The maximum number.
        limit: usize,
    },
}

impl DeadFilter {
    /// All dead tasks of the type.
    #[must_use]
    pub fn all() -> Self {
        Self::Matching {
            died_before: None,
            error_contains: None,
            limit: usize::MAX,
        }
    }

    /// Refuses a condition that every task meets. A store calls it before it changes anything.
    ///
    /// # Errors
    /// `InvalidInput` for an empty text.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Matching {
                error_contains: Some(text),
                ..
            } => check_condition("error_contains", text),
            _ => Ok(()),
        }
    }
}
