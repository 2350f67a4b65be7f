//! Change of selected dead tasks.

use std::time::Duration;

use delayq_ops::{DeadSelection, Operator};

use crate::problem::Problem;

/// What becomes of dead tasks.
#[derive(Clone, Copy, Debug)]
pub enum DeadChange {
    /// They are scheduled again, one interval after the other.
    Requeue { interval: Duration },
    /// They are removed for good.
    Discard,
}

impl DeadChange {
    /// Makes the change; how many were changed. It may take hours: once the token `has_ended`, what
    /// it has begun is left as when its client goes away.
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
