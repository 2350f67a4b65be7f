//! What becomes a problem of a store later.

use serde::Serialize;

/// What becomes a problem of a store unless somebody acts. The store keeps its promises meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Concern {
    /// What was found, and who causes it.
    pub found: String,
    /// The reason why it matters.
    pub why: String,
    /// The action to take.
    pub fix: String,
}

impl Concern {
    /// A concern of a store.
    #[must_use]
    pub fn new(found: impl Into<String>, why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            found: found.into(),
            why: why.into(),
            fix: fix.into(),
        }
    }
}
