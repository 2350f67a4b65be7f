//! Reasons why a scheduled task has not started.

use serde::Serialize;

use crate::time::Timestamp;

/// The reason why a scheduled task waits.
///
/// The first four tell the origin of a future due time; the others tell what holds back a task that
/// is due. In JSON an object: `{"reason":"retry"}`, `{"reason":"pause","until":null}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
#[non_exhaustive]
pub enum WaitsFor {
    /// Its due time, set by its submit or its last reschedule.
    Delay,
    /// The wait after an attempt that failed. If an earlier release stored the failure, also the
    /// wait of a release after it.
    Retry,
    /// The wait after it was given back: the worker returned a release, or its process shut down.
    Release,
    /// Its due time since an operator took it out of dead, even if a reschedule has changed it.
    Requeue,
    /// It is due, and its type is paused.
    Pause {
        /// The end of the pause; `None`: until a resume.
        until: Option<Timestamp>,
    },
    /// It is due, and every slot of the fleet concurrency is taken.
    Concurrency,
    /// It is due, and the fleet rate allows no start now. If the rate is only in the options of the
    /// workers, and not in the settings of the type, a store only knows that it started tasks just
    /// now: it may then give this reason while some of the burst is left.
    Rate,
    /// It is due, and no handler has claimed it yet: the type's handlers are busy or away, or
    /// earlier tasks come first.
    Claim,
}
