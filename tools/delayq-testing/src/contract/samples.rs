//! Jobs, ids and ends of attempts that most tests use.

use std::time::Duration;

use delayq_core::store::AttemptEnd;
use delayq_core::{DelayQueueJob, TaskId, TaskType, hours, millis};

/// The type of a test's tasks, unless it says otherwise. The namespace is the test's own.
pub(super) const TYPE: &str = "order.cancel";
/// A time that passes in every test that waits for it: stores on a real clock wait this long.
pub(super) const SHORT: Duration = millis(20);
/// A time that never passes in a test, however slow the machine.
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

/// A failed attempt to be repeated after `after`.
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
