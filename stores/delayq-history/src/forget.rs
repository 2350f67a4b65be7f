//! Whose lives are forgotten.

use std::fmt;

use delayq_core::{TaskId, TaskType};

/// Whose lives are removed from the history, such as those of a person who asks for that.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forget {
    /// All lives of the tasks with this id, of one type or of all.
    Id {
        /// The id.
        id: TaskId,
        /// The type; `None`: all types.
        task_type: Option<TaskType>,
    },
    /// All lives with this group, of one type or of all.
    Group {
        /// The group.
        group: String,
        /// The type; `None`: all types.
        task_type: Option<TaskType>,
    },
}

impl Forget {
    /// All lives of the tasks with this id, of one type or of all.
    #[must_use]
    pub fn id(id: TaskId, task_type: Option<TaskType>) -> Self {
        Self::Id { id, task_type }
    }

    /// All lives with this group, of one type or of all.
    #[must_use]
    pub fn group(group: String, task_type: Option<TaskType>) -> Self {
        Self::Group { group, task_type }
    }

    /// The type that it is limited to.
    #[must_use]
    pub fn task_type(&self) -> Option<&TaskType> {
        match self {
            Self::Id { task_type, .. } | Self::Group { task_type, .. } => task_type.as_ref(),
        }
    }
}

impl fmt::Display for Forget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id { id, .. } => write!(f, "id {id}"),
            Self::Group { group, .. } => write!(f, "group {group:?}"),
        }
    }
}
