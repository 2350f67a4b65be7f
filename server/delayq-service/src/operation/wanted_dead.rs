//! Selection of the dead tasks to change.

use delayq_ops::DeadSelection;
use delayq_plugin::{Error, TaskFilter, TaskId, Timestamp};

use crate::problem::Problem;

/// A client's selection of dead tasks of a type. A task must meet all conditions.
#[derive(Clone, Debug, Default)]
pub struct WantedDead {
    /// Only these ids; all other conditions are ignored.
    pub ids: Vec<String>,
    /// Every dead task of the type.
    pub all: bool,
    /// Only tasks whose id has this prefix.
    pub id_prefix: Option<String>,
    /// Only tasks with this group label.
    pub group: Option<String>,
    /// Only tasks whose last error contains this text.
    pub error_contains: Option<String>,
    /// Only tasks in this group of similar errors.
    pub error_like: Option<String>,
    /// Only tasks that died without an error.
    pub without_error: bool,
    /// Only tasks that died before this time.
    pub died_before: Option<Timestamp>,
    /// The maximum number of tasks, oldest death first.
    pub limit: Option<u64>,
}

impl WantedDead {
    /// The selection. Refuses an empty one, which would match every dead task by mistake.
    pub fn selection(self, task_type: String) -> Result<DeadSelection, Problem> {
        let mut filter = TaskFilter::new();
        if let Some(prefix) = self.id_prefix {
            filter = filter.id_prefix(prefix);
        }
        if let Some(group) = self.group {
            filter = filter.group(group);
        }
        let ids = self.ids.iter().map(TaskId::new);
        let ids: Vec<_> = ids.collect::<Result<_, Error>>()?;
        let mut selection = DeadSelection::of(task_type).ids(ids).filter(filter);
        if let Some(text) = self.error_contains {
            selection = selection.error(text);
        }
        if let Some(error) = self.error_like {
            selection = selection.group(error);
        }
        if self.without_error {
            selection = selection.without_error();
        }
        if let Some(time) = self.died_before {
            selection = selection.died_before(time);
        }
        if let Some(limit) = self.limit {
            selection = selection.limit(limit);
        }
        if selection.is_all() && !self.all {
            let text = "it has no condition: write \"all\": true for every dead task of the type";
            return Err(Problem::bad_request(text));
        }
        selection.check()?;
        Ok(selection)
    }
}
