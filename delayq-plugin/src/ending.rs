//! End of an attempt, on its way to the store.

use std::time::Duration;

use delayq_core::store::{AttemptEnd, Settlement};
use delayq_core::{AttemptHistory, Lock};

/// A settlement, and what is reported once the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) settlement: Settlement,
    /// The number of the attempt.
    pub(crate) attempt: u32,
    /// How long its workers ran; zero when none was started.
    pub(crate) run_time: Duration,
    /// Somebody asked to cancel the task: unless it is done or dead, it ends as cancelled.
    pub(crate) is_cancel_requested: bool,
    /// The task was settled before it started (at most once): only the error is noted.
    pub(crate) is_noted: bool,
}

impl Ending {
    /// The end of an attempt that was not started.
    pub(crate) fn unstarted(lock: Lock, attempt: u32, end: AttemptEnd) -> Self {
        Self {
            settlement: Settlement::new(lock, end),
            attempt,
            run_time: Duration::ZERO,
            is_cancel_requested: false,
            is_noted: false,
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

    /// Due again after a wait, with no attempt burned.
    pub(crate) fn give_back(lock: Lock, history: &AttemptHistory, after: Duration) -> Self {
        let succeeded = history.succeeded.clone();
        let end = AttemptEnd::Release { after, succeeded };
        Self::unstarted(lock, history.next_attempt(), end)
    }

    pub(crate) fn lock(&self) -> &Lock {
        &self.settlement.lock
    }
}
