//! The contract of a database.

use std::fmt::Debug;

use async_trait::async_trait;
use delayq_core::error::Result;
use delayq_core::history::Life;
use delayq_core::{Namespace, Timestamp};

use crate::forget::Forget;
use crate::page::HistoryPage;
use crate::query::HistoryQuery;
use crate::retention::HistoryRetention;
use crate::status::HistoryStatus;

/// A database that keeps lives. Every call may be repeated. Errors are those of a store.
#[async_trait]
pub(crate) trait Backend: Debug + Send + Sync {
    /// Stores lives; those that it has already are left as they are. Returns the number of new
    /// ones. Once it returns, they survive a crash of the database.
    async fn record(&self, namespace: &Namespace, lives: &[Life]) -> Result<u64>;

    /// The lives that fulfil a checked query.
    async fn search(&self, namespace: &Namespace, query: &HistoryQuery) -> Result<HistoryPage>;

    /// Removes lives. Returns their number.
    async fn forget(&self, namespace: &Namespace, whom: &Forget) -> Result<u64>;

    /// Removes lives whose retention is over at `now`. Returns the number of those that were
    /// removed one by one; whole months are not counted.
    async fn expire(
        &self,
        namespace: &Namespace,
        keep: &HistoryRetention,
        now: Timestamp,
    ) -> Result<u64>;

    async fn status(&self, namespace: &Namespace) -> Result<HistoryStatus>;

    /// Ends its connections.
    async fn close(&self);
}
