//! The document that says where a namespace is.

use serde::{Deserialize, Serialize};

/// How far a move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Settings and documents are copied, and every server opens the new store.
    Preparing,
    /// New tasks go to the new store, the old one drains.
    Moving,
    /// The new store alone has the namespace.
    Done,
}

/// Where a namespace is, if it was ever moved. `None` as a pool is the store of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceRecord {
    /// The version of the stored form.
    pub v: u32,
    /// How often it was moved: buckets of the new store are named after it.
    pub generation: u64,
    /// Where it was.
    pub from: Option<String>,
    /// Where it is going, or is.
    pub to: Option<String>,
    /// How far it is.
    pub phase: Phase,
    /// When this phase began, milliseconds since the epoch.
    pub since: i64,
    /// Since when the old store has no task; `None` while it has some.
    #[serde(default)]
    pub drained_at: Option<i64>,
}

impl PlaceRecord {
    /// The version that this release writes, and the newest that it reads.
    pub const VERSION: u32 = 1;

    /// The place of a namespace that was never moved.
    pub fn first(pool: Option<String>) -> Self {
        Self {
            v: Self::VERSION,
            generation: 0,
            from: None,
            to: pool,
            phase: Phase::Done,
            since: 0,
            drained_at: None,
        }
    }
}
