//! Who looks at the page, and what he may do.

use std::fmt;

/// What a viewer may do. A larger role may do all that a smaller one may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Role {
    /// Look at everything, change nothing.
    #[default]
    Viewer,
    /// Change single tasks, pause and resume types, requeue dead tasks.
    Operator,
    /// Also what cannot be undone or touches many: purge, discard, cancel many, configure, drop.
    Admin,
}

impl Role {
    /// Its name: `viewer`, `operator`, `admin`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who looks at the page. The name stands in the log of actions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Viewer {
    /// The name of a user or token.
    pub name: String,
    /// What he may do.
    pub role: Role,
}

impl Viewer {
    /// The viewer `name` in this role.
    #[must_use]
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        let name = name.into();
        Self { name, role }
    }
}
