//! State of a history database.

use std::collections::BTreeMap;

use delayq_core::Timestamp;
use serde::Serialize;

/// The state of the history of a namespace. In JSON, times are milliseconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HistoryStatus {
    /// The end of the earliest life.
    pub oldest: Option<Timestamp>,
    /// The end of the latest life.
    pub newest: Option<Timestamp>,
    /// The size of the history of all namespaces in the database, in bytes.
    pub bytes: u64,
    /// How long lives are kept, in milliseconds; `None`: they are not removed.
    pub kept_ms: Option<i64>,
    /// The types with a retention of their own, each with it in milliseconds; `None`: their lives
    /// are never removed.
    pub types: BTreeMap<String, Option<i64>>,
}

impl HistoryStatus {
    /// Takes the stored retentions, of the namespace and of types.
    pub(crate) fn kept(&mut self, all: Option<i64>, types: impl Iterator<Item = (String, i64)>) {
        let known = |ms: i64| (ms != i64::MAX).then_some(ms);
        self.kept_ms = all.and_then(known);
        self.types = types.map(|(name, ms)| (name, known(ms))).collect();
    }
}
