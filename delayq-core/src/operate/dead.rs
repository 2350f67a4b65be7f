//! Selection of dead tasks.

use crate::name::TaskId;
use crate::time::Timestamp;

/// A selection of dead tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadFilter {
    /// These.
    Ids(Vec<TaskId>),
    /// The first ones by time of death that fulfil all conditions.
    Matching {
        /// Died before this time.
        died_before: Option<Timestamp>,
        /// The last error contains this text.
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
}
