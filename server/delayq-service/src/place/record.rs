//! The document that records the place of a namespace.

use serde::{Deserialize, Serialize};

/// The phase of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Settings and documents are copied, and every server opens the new store.
    Preparing,
    /// New tasks go to the new store, and the old store drains.
    Moving,
    /// Only the new store holds the namespace.
    Done,
}

/// The place of a namespace that was moved. `None` as a pool means the server's own store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceRecord {
    /// The version of the stored form.
    pub v: u32,
    /// The number of moves so far. Buckets of the new store carry it in their names.
    pub generation: u64,
    /// The previous pool.
    pub from: Option<String>,
    /// The pool that receives the namespace or holds it.
    pub to: Option<String>,
    /// The phase of the move.
    pub phase: Phase,
    /// The start of this phase, in milliseconds since the epoch.
    pub since: i64,
    /// The time since when the old store has no tasks; `None` while it has some.
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
