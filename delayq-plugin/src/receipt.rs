//! Receipt of a submit.

use delayq_core::store::{Durability, SubmitOutcome};
use delayq_core::{TaskId, Timestamp};
use serde::Serialize;

use crate::clock_skew::ClockSkew;

/// The proof that a task was accepted. In JSON, times are milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Receipt {
    /// The task's id.
    pub id: TaskId,
    /// Accepted (with its due time), to run again after the present run, or already known.
    #[serde(flatten)]
    pub outcome: SubmitOutcome,
    /// What an acknowledged task survives.
    pub durability: Durability,
    /// The difference between the store's clock and the sender's, if above 500 ms. Only known for
    /// an accepted task with a relative delay, whose due time shows the store's clock.
    pub clock_skew: Option<ClockSkew>,
}

impl Receipt {
    /// The due time of the task; `None` if it already existed.
    #[must_use]
    pub fn due_at(&self) -> Option<Timestamp> {
        match self.outcome {
            SubmitOutcome::Accepted { due_at, .. } | SubmitOutcome::RunsAgain { due_at } => {
                Some(due_at)
            }
            _ => None,
        }
    }
}
