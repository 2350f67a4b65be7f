//! A change of selected dead tasks.

use std::time::Duration;

use delayq_ops::{DeadSelection, Operator};

use crate::problem::Problem;

/// The change to make.
#[derive(Clone, Copy, Debug)]
pub enum DeadChange {
    /// Schedules the tasks again, one every `interval`.
    Requeue { interval: Duration },
    /// Removes the tasks for good.
    Discard,
}

impl DeadChange {
    /// Makes the change and returns the number of changed tasks. It may take hours. Once the token
    /// `has_ended`, it stops as if the client had disconnected.
    pub async fn make(
        self,
        operator: &Operator,
        selection: &DeadSelection,
        has_ended: impl Future<Output = Problem> + Send,
        progress: impl FnMut(u64, u64) + Send,
    ) -> Result<u64, Problem> {
        let change = async {
            match self {
                Self::Requeue { interval } => operator.requeue(selection, interval, progress).await,
                Self::Discard => operator.discard(selection, progress).await,
            }
        };
        tokio::select! {
            changed = change => changed.map_err(Problem::from),
            problem = has_ended => Err(problem),
        }
    }
}
