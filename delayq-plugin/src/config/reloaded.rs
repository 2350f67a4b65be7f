//! Result of a reload.

use std::fmt;

use delayq_core::TaskType;

/// The effect of a [`reload`](crate::DelayQueuePlugin::reload) on each option that has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reloaded {
    /// Applied from now on.
    pub applied: Vec<ChangedOption>,
    /// Applied once the process is restarted.
    pub needs_restart: Vec<ChangedOption>,
}

/// One option that a reload found changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangedOption {
    /// The type that the option belongs to; `None` for an option of the plugin.
    pub task_type: Option<TaskType>,
    /// Its name in the configuration, such as `retry`.
    pub option: &'static str,
}

impl ChangedOption {
    pub(crate) fn of_plugin(option: &'static str) -> Self {
        let task_type = None;
        Self { task_type, option }
    }

    pub(crate) fn of_type(task_type: &TaskType, option: &'static str) -> Self {
        let task_type = Some(task_type.clone());
        Self { task_type, option }
    }
}

/// As written in the file: `types."mail.send".lock`.
impl fmt::Display for ChangedOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let option = self.option;
        match &self.task_type {
            Some(task_type) => write!(f, "types.\"{task_type}\".{option}"),
            None => f.write_str(option),
        }
    }
}
