//! How much a token may do.

use serde::{Deserialize, Serialize};

/// Most reads and writes of a token in an interval. 0: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Limit {
    pub(super) read: i64,
    pub(super) write: i64,
    /// Seconds.
    pub(super) interval: i64,
}
