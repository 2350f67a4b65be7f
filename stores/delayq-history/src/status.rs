//! State of a history database.

use delayq_core::Timestamp;
use serde::Serialize;

/// The state of the history of a namespace. In JSON, times are milliseconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HistoryStatus {
    /// The end of the earliest life.
    pub oldest: Option<Timestamp>,
    /// The end of the latest life.
    pub newest: Option<Timestamp>,
    /// The size of the history of all namespaces in the database, in bytes.
    pub bytes: u64,
}
