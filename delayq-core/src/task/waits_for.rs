//! Why a scheduled task has not started.

use serde::Serialize;

use crate::time::Timestamp;

/// What a scheduled task waits for.
///
/// The first four say where a due time comes from that is still ahead; the others what holds a task
/// that is due. As JSON an object: `{"reason":"retry"}`, `{"reason":"pause","until":null}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
#[non_exhaustive]
pub enum WaitsFor {
    /// Its due time, which its submit or its last reschedule gave.
    Delay,
    /// The wait after an attempt that failed. Where an earlier release has stored the failure, also
    /// that of a release after it.
    Retry,
    /// The wait after it was given back: the worker returned a release, or its process shut down.
    Release,
    /// Its due time since an operator took it out of dead, also where a reschedule has moved it.
    Requeue,
    /// It is due, and its type is paused.
    Pause {
        /// The end of the pause; `None`: until a resume.
        until: Option<Timestamp>,
    },
    /// It is due, and every slot of the fleet concurrency is taken.
    Concurrency,
    /// It is due, and the fleet rate allows no start now. Of a rate that stands in the options of
    /// the workers, not in the settings of the type, a store knows only that it started tasks just
    /// now: then this may be said while some of its burst is left.
    Rate,
    /// It is due, and no handler has claimed it yet: those of the type are busy or away, or earlier
    /// tasks stand before it.
    Claim,
}
