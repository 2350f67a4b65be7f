//! The queue of recorded ends, which a shipper empties.

use std::fmt;

use async_trait::async_trait;
use serde::Serialize;

use super::Life;
use crate::error::{Error, Result};
use crate::time::Timestamp;

/// The default maximum size of the records that wait in a namespace, in bytes: about an hour at
/// 1,000 ends a second, without messages.
pub const DEFAULT_HISTORY_BUFFER: u64 = 512 << 20;

/// Maximum number of records that one call takes or removes.
pub const MAX_ENDS: usize = 1_000;

/// The place of a record in the queue of its store. Only the store reads it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndPosition(String);

impl EndPosition {
    /// A position of a store.
    #[must_use]
    pub fn new(position: impl Into<String>) -> Self {
        Self(position.into())
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EndPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A record that waits in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a place and a record")]
pub struct WaitingEnd {
    /// Its place in the queue.
    pub position: EndPosition,
    /// The record.
    pub life: Life,
}

/// The state of the queue of a namespace. In JSON, times are milliseconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EndsStatus {
    /// Records that wait.
    pub waiting: u64,
    /// The end of the oldest task among them.
    pub oldest: Option<Timestamp>,
    /// Their size in bytes.
    pub bytes: u64,
    /// Their maximum size in bytes. Beyond it the oldest records are dropped.
    pub limit: u64,
    /// Records dropped so far because of that.
    pub lost: u64,
}

impl EndsStatus {
    /// The part of the maximum size that is in use, in percent.
    #[must_use]
    pub fn fill_percent(&self) -> u64 {
        self.bytes.saturating_mul(100) / self.limit.max(1)
    }
}

/// The queue of recorded ends of a namespace. The end of a task and its record are one step: there
/// is a record for every end of a type whose [settings] ask for it, and for no other. A repeated
/// settlement writes none.
///
/// The queue has a [bound](crate::store::StoreOptions::history_buffer). At the bound the oldest
/// records are dropped, and counted: no end waits for room. The methods are optional: a store
/// without one answers [`Error::Unsupported`].
///
/// [settings]: crate::operate::TypeSettings::history
#[async_trait]
pub trait Ends: Send + Sync {
    /// Up to `limit` (at most [`MAX_ENDS`]) records that wait, about in the order of their ends;
    /// fewer if their messages are large.
    /// They stay until they are [removed](Self::remove_ends), so several callers may get the same
    /// ones.
    ///
    /// # Errors
    /// The store's errors; the same for every method.
    async fn ends(&self, limit: usize) -> Result<Vec<WaitingEnd>> {
        let _ = limit;
        Err(Error::Unsupported("ends"))
    }

    /// Removes records, once they are stored elsewhere. Returns the number that was still there.
    async fn remove_ends(&self, positions: &[EndPosition]) -> Result<u64> {
        let _ = positions;
        Err(Error::Unsupported("remove_ends"))
    }

    /// The state of the queue.
    async fn ends_status(&self) -> Result<EndsStatus> {
        Err(Error::Unsupported("ends_status"))
    }
}
