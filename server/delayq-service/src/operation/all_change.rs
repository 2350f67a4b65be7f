//! A change of all matching tasks.

use delayq_ops::Operator;
use delayq_plugin::{BulkReport, TaskFilter, When};

use crate::problem::Problem;

/// The change to make.
#[derive(Clone, Copy, Debug)]
pub enum AllChange {
    /// Cancels the tasks.
    Cancel,
    /// Moves the tasks to one time.
    Reschedule(When),
}

impl AllChange {
    /// Changes the tasks of a type or of a pattern's types, or reports what would change.
    pub async fn make(
        self,
        operator: &Operator,
        types: &str,
        filter: &TaskFilter,
        is_dry_run: bool,
    ) -> Result<BulkReport, Problem> {
        let tasks = operator.tasks();
        let done = match (self, is_dry_run) {
            (Self::Cancel, false) => operator.cancel_all(types, filter).await,
            (Self::Cancel, true) => tasks.cancel_all(types, filter).dry_run().await,
            (Self::Reschedule(when), false) => operator.reschedule_all(types, filter, when).await,
            (Self::Reschedule(when), true) => {
                let change = tasks.reschedule_all(types, filter, when);
                change.dry_run().await
            }
        };
        done.map_err(|failed| {
            let text = failed.to_string();
            Problem::from(failed.error).saying(text)
        })
    }
}
