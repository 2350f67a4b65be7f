//! Which tasks a change is meant for.

use std::collections::BTreeMap;

use delayq_plugin::{TaskFilter, TaskState, Timestamp};

use crate::problem::Problem;

/// Which tasks, as a client says it. All conditions have to hold.
#[derive(Clone, Debug, Default)]
pub struct WantedTasks {
    /// Every task of the type.
    pub all: bool,
    /// Those whose id begins so.
    pub id_prefix: Option<String>,
    /// Those of this group label.
    pub group: Option<String>,
    /// Those with these headers.
    pub headers: BTreeMap<String, String>,
    /// Scheduled ones due before.
    pub due_before: Option<Timestamp>,
    /// Scheduled ones due after it.
    pub due_after: Option<Timestamp>,
    /// Scheduled or running ones.
    pub state: Option<TaskState>,
}

impl WantedTasks {
    /// The filter, unless it would mean every task by mistake.
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
