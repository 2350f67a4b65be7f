//! Report of an audit.

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditReport {
    /// Tasks examined.
    pub checked: u64,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// One structural damage.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The id concerned, as stored (damage may have made it invalid).
    pub id: String,
    /// What is wrong, for people.
    pub what: String,
    /// Whether this audit mended it.
    pub repaired: bool,
}

impl Problem {
    /// A damage of the task with this stored id.
    #[must_use]
    pub fn new(id: impl Into<String>, what: impl Into<String>, repaired: bool) -> Self {
        Self {
            id: id.into(),
            what: what.into(),
            repaired,
        }
    }
}
