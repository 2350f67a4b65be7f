//! Selection of dead tasks.

use crate::error::{Error, Result};
use crate::name::TaskId;
use crate::time::Timestamp;

/// Refuses a text of nothing but blanks as a condition of a selection. Every id begins with an
/// empty text and every error contains it, so a selection by it would mean all tasks.
///
/// # Errors
/// `InvalidInput` that has the `name` of the condition.
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
    /// These.
    Ids(Vec<TaskId>),
    /// The first ones by time of death that fulfil all conditions.
    Matching {
        /// Died before this time.
        died_before: Option<Timestamp>,
        /// The last error contains this text, which is not empty.
        error_contains: Option<String>,
        /// At most so many.
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

    /// Refuses a condition that every task fulfils. A store calls it before it changes anything.
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
