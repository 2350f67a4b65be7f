//! Whose lives are forgotten.

use std::fmt;

use delayq_core::history::{Life, label};
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
    pub fn group(group: &str, task_type: Option<TaskType>) -> Self {
        let group = label(group);
        Self::Group { group, task_type }
    }

    /// True if this life is one of them.
    #[must_use]
    pub fn covers(&self, life: &Life) -> bool {
        let is_meant = match self {
            Self::Id { id, .. } => *id == life.id,
            Self::Group { group, .. } => life.group.as_ref() == Some(group),
        };
        is_meant && self.task_type().is_none_or(|of| *of == life.task_type)
    }

    /// Its stored form: id, group, type.
    pub(crate) fn columns(&self) -> [Option<&str>; 3] {
        let task_type = self.task_type().map(TaskType::as_str);
        match self {
            Self::Id { id, .. } => [Some(id.as_str()), None, task_type],
            Self::Group { group, .. } => [None, Some(group), task_type],
        }
    }

    /// Reads its stored form; `None` if that is damaged.
    pub(crate) fn of_columns([id, group, task_type]: [Option<String>; 3]) -> Option<Self> {
        let task_type = task_type.map(TaskType::new).transpose().ok()?;
        match (id, group) {
            (Some(id), None) => Some(Self::id(TaskId::new(id).ok()?, task_type)),
            (None, Some(group)) => Some(Self::group(&group, task_type)),
            _ => None,
        }
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
