//! The end of an attempt, before the store has it.

use std::time::Duration;

use delayq_core::store::{AttemptEnd, Settlement};
use delayq_core::{AttemptHistory, Lock, Timestamp};

use crate::events::FailureCause;

/// An attempt that a transaction of its worker may have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WithinEnd {
    pub(crate) submitted_at: Timestamp,
    /// What to report as a failure, if it turns out to be one.
    pub(crate) failure: Option<LateFailure>,
}

/// A failure that is reported once it is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LateFailure {
    pub(crate) cause: FailureCause,
    /// The wait before the next attempt, if there will be one.
    pub(crate) retry_in: Option<Duration>,
}

/// A settlement, and the facts to report once the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) settlement: Settlement,
    /// The number of the attempt.
    pub(crate) attempt: u32,
    /// How long its workers ran; zero if none was started.
    pub(crate) run_time: Duration,
    /// A cancel was requested: unless the task is done or dead, it ends as cancelled.
    pub(crate) is_cancel_requested: bool,
    /// The task was settled before it started (at most once), so only the error is recorded.
    pub(crate) is_noted: bool,
    /// It is done if the transaction was committed, whatever the settlement says.
    pub(crate) within: Option<WithinEnd>,
}

impl Ending {
    /// The end of an attempt whose workers never started.
    pub(crate) fn unstarted(lock: Lock, attempt: u32, end: AttemptEnd) -> Self {
        Self {
            settlement: Settlement::new(lock, end),
            attempt,
            run_time: Duration::ZERO,
            is_cancel_requested: false,
            is_noted: false,
            within: None,
        }
    }

    /// The failure of a task that was settled before it started.
    pub(crate) fn noted(lock: Lock, attempt: u32, error: &str) -> Self {
        let end = AttemptEnd::Dead {
            error: error.to_owned(),
            succeeded: Vec::new(),
        };
        Self {
            is_noted: true,
            ..Self::unstarted(lock, attempt, end)
        }
    }

    /// Makes the task due again after a wait, without using up an attempt.
    pub(crate) fn give_back(lock: Lock, history: &AttemptHistory, after: Duration) -> Self {
        let succeeded = history.succeeded.clone();
        let end = AttemptEnd::Release { after, succeeded };
        Self::unstarted(lock, history.next_attempt(), end)
    }

    pub(crate) fn lock(&self) -> &Lock {
        &self.settlement.lock
    }
}
