//! Tasks that a viewer has selected in a list.

use std::collections::BTreeMap;

use delayq_plugin::{Error, Result, TaskId, TaskState};

use crate::fields::Fields;
use crate::viewer::Role;
use crate::visit::Visit;

/// The largest number of tasks in one form: several pages of a list.
const MOST: usize = 500;

/// The actions on selected tasks that this viewer may take.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a control of its own on the page"
)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskActions {
    pub(crate) change: bool,
    pub(crate) cancel: bool,
    pub(crate) requeue: bool,
    pub(crate) discard: bool,
}

impl TaskActions {
    /// The actions on tasks in these states.
    pub(crate) fn on(visit: &Visit, states: &[TaskState]) -> Self {
        let has = |state: TaskState| states.contains(&state);
        let (operates, administers) = (visit.may(Role::Operator), visit.may(Role::Admin));
        let is_scheduled = has(TaskState::Scheduled);
        Self {
            change: operates && is_scheduled,
            cancel: operates && (is_scheduled || has(TaskState::Running)),
            requeue: operates && has(TaskState::Dead),
            discard: administers && has(TaskState::Dead),
        }
    }

    /// True if there is any.
    pub(crate) fn any(self) -> bool {
        self.change || self.cancel || self.requeue || self.discard
    }
}

/// The selected tasks, by type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picked {
    pub(crate) by_type: BTreeMap<String, Vec<TaskId>>,
}

impl Picked {
    /// Reads the fields `task` of a form, each a type, a blank and an id.
    pub(crate) fn read(fields: &Fields) -> Result<Self> {
        let mut picked = Self::default();
        for (nth, text) in fields.all("task").enumerate() {
            if nth >= MOST {
                let reason = format!("select up to {MOST} tasks at a time");
                return Err(Error::invalid("selection", reason));
            }
            let (task_type, id) = text.split_once(' ').unwrap_or((text, ""));
            let ids = picked.by_type.entry(task_type.to_owned()).or_default();
            ids.push(TaskId::new(id)?);
        }
        if picked.by_type.is_empty() {
            return Err(Error::invalid("selection", "select at least one task"));
        }
        Ok(picked)
    }
}
