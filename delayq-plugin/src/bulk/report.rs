//! What a bulk change did.

use delayq_core::TaskType;
use serde::Serialize;

/// What a bulk change did, or would do as a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BulkReport {
    /// The types that it went through; none if no known type matches the pattern.
    pub types: Vec<TaskType>,
    /// Tasks that the filter matched. A task that a reschedule finds at its time already is not
    /// counted; one that others move meanwhile may be counted twice.
    pub matched: u64,
    /// Those that are cancelled, or moved, now.
    pub changed: u64,
    /// Those that run: a cancel has asked them to stop, a reschedule has left them.
    pub running: u64,
    /// Those that ended or died before their turn came: nothing was changed.
    pub gone: u64,
    /// Whether it came to the end. It gives up after reading about three times as many tasks as
    /// there were at its start: others send or move them faster than it reads.
    pub is_complete: bool,
    /// Whether it was a dry run, which changes nothing.
    pub is_dry_run: bool,
}
