//! Report of an audit.

/// The findings of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditReport {
    /// Number of tasks examined.
    pub checked: u64,
    /// The problems found.
    pub problems: Vec<Problem>,
}

/// One damage to the structure.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The id concerned, as stored (damage may have made it invalid).
    pub id: String,
    /// The problem, in words.
    pub what: String,
    /// True if this audit mended it.
    pub repaired: bool,
}

impl Problem {
    /// A damage to the task with this stored id.
    #[must_use]
    pub fn new(id: impl Into<String>, what: impl Into<String>, repaired: bool) -> Self {
        Self {
            id: id.into(),
            what: what.into(),
            repaired,
        }
    }
}
