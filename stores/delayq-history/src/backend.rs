//! The contract of a database.

use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::error::Result;
use delayq_core::history::Life;
use delayq_core::time::days;
use delayq_core::{Namespace, Timestamp};

use crate::forget::Forget;
use crate::page::HistoryPage;
use crate::query::HistoryQuery;
use crate::retention::{Expired, HistoryRetention};
use crate::status::HistoryStatus;

/// How long what was forgotten is removed again when it is recorded later.
pub(crate) const FORGETS_FOR: Duration = days(7);

/// A database that keeps lives. Every call may be repeated. Errors are those of a store.
#[async_trait]
pub(crate) trait Backend: Debug + Send + Sync {
    /// Stores lives; those that it has already are left as they are. Returns the number of new
    /// ones. Once it returns, they survive a crash of the database.
    async fn record(&self, namespace: &Namespace, lives: &[Life]) -> Result<u64>;

    /// The lives that fulfil a checked query.
    async fn search(&self, namespace: &Namespace, query: &HistoryQuery) -> Result<HistoryPage>;

    /// Removes lives that ended within a span. Returns their number.
    async fn forget(
        &self,
        namespace: &Namespace,
        whom: &Forget,
        ended: RangeInclusive<Timestamp>,
    ) -> Result<u64>;

    /// Notes what is forgotten, of lives that ended by then.
    async fn note_forget(&self, namespace: &Namespace, whom: &Forget, at: Timestamp) -> Result<()>;

    /// What was noted after `since`. An [`expire`](Self::expire) removes notes after
    /// [`FORGETS_FOR`].
    async fn forgets(
        &self,
        namespace: &Namespace,
        since: Timestamp,
    ) -> Result<Vec<(Forget, Timestamp)>>;

    /// Removes lives whose retention is over at `now`.
    async fn expire(
        &self,
        namespace: &Namespace,
        keep: &HistoryRetention,
        now: Timestamp,
    ) -> Result<Expired>;

    async fn status(&self, namespace: &Namespace) -> Result<HistoryStatus>;

    /// Ends its connections.
    async fn close(&self);
}
