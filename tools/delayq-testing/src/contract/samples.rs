//! Jobs, ids and ends of attempts used by most tests.

use std::time::Duration;

use delayq_core::store::AttemptEnd;
use delayq_core::{DelayQueueJob, TaskId, TaskType, hours, millis};

/// The type of a test's tasks, unless it uses another. Each test has its own namespace.
pub(super) const TYPE: &str = "order.cancel";
/// A time that every test can wait for: stores with a real clock wait this long.
pub(super) const SHORT: Duration = millis(20);
/// A time that never passes during a test, even on a slow machine.
pub(super) const LONG: Duration = hours(1);

/// A job of the usual type, due now.
pub(super) fn job(id: &str) -> DelayQueueJob {
    DelayQueueJob::raw(TYPE, "message").id(id)
}

pub(super) fn id(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

pub(super) fn usual_type() -> TaskType {
    TaskType::new(TYPE).unwrap()
}

pub(super) fn ids<'a>(ids: impl IntoIterator<Item = &'a TaskId>) -> Vec<&'a str> {
    ids.into_iter().map(TaskId::as_str).collect()
}

/// A failed attempt with a retry after `after`.
pub(super) fn retry(after: Duration) -> AttemptEnd {
    AttemptEnd::Retry {
        after,
        error: "the shop is closed".to_owned(),
        succeeded: Vec::new(),
    }
}

pub(super) fn release(after: Duration) -> AttemptEnd {
    AttemptEnd::Release {
        after,
        succeeded: Vec::new(),
    }
}

pub(super) fn dead(error: &str) -> AttemptEnd {
    AttemptEnd::Dead {
        error: error.to_owned(),
        succeeded: Vec::new(),
    }
}

/// Every way in which an attempt can end.
pub(super) fn every_end() -> [AttemptEnd; 5] {
    [
        AttemptEnd::Done,
        retry(LONG),
        release(LONG),
        dead("no such order"),
        AttemptEnd::Expired,
    ]
}
