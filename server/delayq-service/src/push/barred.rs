//! Targets that this server may not push to, although another server may.
//!
//! Servers on one store may differ in their options and releases while they are changed. A task is
//! then left to the others: it costs no attempt, and is never dead for it.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use delayq_core::log_limit::LogLimit;
use delayq_plugin::{TaskContext, TaskError};
use tracing::warn;

/// How long a task waits before a server looks at it again.
const WAIT: Duration = Duration::from_secs(5);

/// Limits the log lines.
static GIVEN_BACK: LogLimit = LogLimit::new();

/// The end of an attempt whose target this server may not push to: the task is given back.
pub(super) fn give_back(cx: &TaskContext, reason: &str) -> TaskError {
    if let Some(left_out) = GIVEN_BACK.admit() {
        let (task_type, id) = (cx.task_type(), cx.id());
        warn!(%task_type, %id, left_out,
            "gave a task back, as this server may not push it to its target: {reason}");
    }
    TaskError::release(WAIT)
}

/// An address that is not dialled. It is found among the causes of a failed request.
#[derive(Debug)]
pub(super) struct Forbidden(pub(super) String);

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Forbidden {}

impl Forbidden {
    /// Finds the forbidden address among the causes of an error.
    pub(super) fn of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            // The source of such an error is the cause of what is within, and not that itself.
            let within = error
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref);
            if let Some(found) = within.and_then(|within| Self::of(within)) {
                return Some(found);
            }
            cause = error.source();
        }
        None
    }
}
