//! Selection of the tasks to change.

use std::collections::BTreeMap;

use delayq_plugin::{TaskFilter, TaskState, Timestamp};

use crate::problem::Problem;

/// A client's selection of tasks. A task must meet all conditions.
#[derive(Clone, Debug, Default)]
pub struct WantedTasks {
    /// Every task of the type.
    pub all: bool,
    /// Only tasks whose id has this prefix.
    pub id_prefix: Option<String>,
    /// Only tasks with this group label.
    pub group: Option<String>,
    /// Only tasks with these headers.
    pub headers: BTreeMap<String, String>,
    /// Only scheduled tasks due before this time.
    pub due_before: Option<Timestamp>,
    /// Only scheduled tasks due after this time.
    pub due_after: Option<Timestamp>,
    /// Only tasks in this state, scheduled or running.
    pub state: Option<TaskState>,
}

impl WantedTasks {
    /// The filter. Refuses an empty one, which would match every task by mistake.
    pub fn filter(self) -> Result<TaskFilter, Problem> {
        let mut filter = if self.all {
            TaskFilter::all()
        } else {
            TaskFilter::new()
        };
        if let Some(prefix) = self.id_prefix {
            filter = filter.id_prefix(prefix);
        }
        if let Some(group) = self.group {
            filter = filter.group(group);
        }
        for (name, value) in self.headers {
            filter = filter.header(name, value);
        }
        if let Some(time) = self.due_before {
            filter = filter.due_before(time);
        }
        if let Some(time) = self.due_after {
            filter = filter.due_after(time);
        }
        if let Some(state) = self.state {
            filter = filter.state(state);
        }
        if !filter.is_narrowed() && !self.all {
            let text = "it has no condition: write \"all\": true to change every task of the type";
            return Err(Problem::bad_request(text));
        }
        Ok(filter)
    }
}
