//! The viewer of the page and the viewer's role.

use std::fmt;

/// The rights of a viewer. A higher role includes all rights of the lower ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Role {
    /// May look at everything and change nothing.
    #[default]
    Viewer,
    /// May cancel, move, start and edit tasks, one or those selected in a list. May requeue dead
    /// tasks, one by one, selected or by their error. May pause and resume types, remove a
    /// recurring task, cancel a batch and stop a job.
    Operator,
    /// May also do what cannot be undone or touches many tasks: discard, purge, cancel all that
    /// match, change the settings of a type, drop it.
    Admin,
}

impl Role {
    /// The name: `viewer`, `operator` or `admin`.
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

/// The viewer of the page. The log of actions contains the name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Viewer {
    /// The name of a user or token.
    pub name: String,
    /// The role.
    pub role: Role,
}

impl Viewer {
    /// A viewer with this name and role.
    #[must_use]
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        let name = name.into();
        Self { name, role }
    }
}
