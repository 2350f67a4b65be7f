//! Counts of this process's sends and cancels, for one type.

use delayq_core::store::SubmitOutcome;
use delayq_core::{Error, Result};
use metrics::Counter;

use super::table::{REFUSED, SETTLED, SUBMITTED};
use super::type_labels::TypeLabels;

/// Handles of the common outcomes are kept; the others are created when they occur.
#[derive(Debug)]
pub(crate) struct SendCounts {
    labels: TypeLabels,
    accepted: Counter,
    cancelled: Counter,
}

impl SendCounts {
    pub(super) fn new(labels: TypeLabels) -> Self {
        Self {
            accepted: labels.counter_of(SUBMITTED, "outcome", "accepted"),
            cancelled: labels.counter_of(SETTLED, "outcome", "cancelled"),
            labels,
        }
    }

    /// A request was answered, or failed.
    pub(crate) fn sent(&self, result: Result<SubmitOutcome, &Error>) {
        let outcome = match result {
            Ok(SubmitOutcome::Accepted { replaced: true, .. }) => "replaced",
            Ok(SubmitOutcome::Accepted { .. }) => return self.accepted.increment(1),
            Ok(SubmitOutcome::RunsAgain { .. }) => "runs_again",
            Ok(SubmitOutcome::Conflict { .. }) => return self.refused("conflict"),
            Ok(_) => "already_exists",
            Err(error) => return self.refused(reason(error)),
        };
        let submitted = self.labels.counter_of(SUBMITTED, "outcome", outcome);
        submitted.increment(1);
    }

    fn refused(&self, reason: &'static str) {
        self.labels
            .counter_of(REFUSED, "reason", reason)
            .increment(1);
    }

    /// This process cancelled a scheduled task.
    pub(crate) fn cancelled(&self) {
        self.cancelled.increment(1);
    }
}

fn reason(error: &Error) -> &'static str {
    match error {
        Error::InvalidName { .. }
        | Error::LimitExceeded { .. }
        | Error::InvalidInput { .. }
        | Error::Serialize { .. } => "invalid",
        Error::Conflict { .. } => "conflict",
        Error::QueueFull { .. } => "queue_full",
        Error::Full { .. } => "full",
        Error::ReadOnly { .. } => "read_only",
        Error::Unavailable { .. } => "unavailable",
        Error::Indeterminate { .. } => "in_doubt",
        Error::Closed(_) => "closed",
        _ => "other",
    }
}
