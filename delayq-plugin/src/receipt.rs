//! Receipt of a submit.

use delayq_core::store::{Durability, SubmitOutcome};
use delayq_core::{TaskId, Timestamp};
use serde::Serialize;

use crate::clock_skew::ClockSkew;

/// The proof that a task was accepted. As JSON its times are milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Receipt {
    /// The task's id.
    pub id: TaskId,
    /// Accepted (with its due time), to run again after the present run, or known already.
    #[serde(flatten)]
    pub outcome: SubmitOutcome,
    /// What the acknowledgement survives.
    pub durability: Durability,
    /// How the store's clock and the sender's differ, if by more than 500 ms. Known of an accepted
    /// task with a relative delay, whose due time shows the store's clock.
    pub clock_skew: Option<ClockSkew>,
}

impl Receipt {
    /// When the task is due; `None` when it existed already.
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
