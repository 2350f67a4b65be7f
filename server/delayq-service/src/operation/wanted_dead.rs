//! Which dead tasks a change is meant for.

use delayq_ops::DeadSelection;
use delayq_plugin::{Error, TaskFilter, TaskId, Timestamp};

use crate::problem::Problem;

/// Which dead tasks of a type, as a client says it. All conditions have to hold.
#[derive(Clone, Debug, Default)]
pub struct WantedDead {
    /// These; other conditions do not count then.
    pub ids: Vec<String>,
    /// Every dead task of the type.
    pub all: bool,
    /// Those whose id begins so.
    pub id_prefix: Option<String>,
    /// Those of this group label.
    pub group: Option<String>,
    /// Those whose last error contains this text.
    pub error_contains: Option<String>,
    /// Those of one of the groups of dead tasks.
    pub error_like: Option<String>,
    /// Those that died without an error.
    pub without_error: bool,
    /// Those that died before.
    pub died_before: Option<Timestamp>,
    /// The first so many, by their time of death.
    pub limit: Option<u64>,
}

impl WantedDead {
    /// The selection, unless it would mean every dead task by mistake.
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
