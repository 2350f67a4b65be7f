//! A further place for the records of ended tasks.

use std::fmt::Debug;

use async_trait::async_trait;
use delayq_core::history::Life;
use delayq_core::{Namespace, Result};

/// A further place for the records of ended tasks, besides the history database, such as a topic of
/// Kafka. A record leaves the store once every sink and the database have it.
#[async_trait]
pub trait HistorySink: Debug + Send + Sync {
    /// Takes lives, and returns once they are safe there. A record can come again, after a crash or
    /// an error, and from another instance: [`Life::key`] tells it apart.
    ///
    /// # Errors
    /// Any error: the same records come again later, and wait in the store until then.
    async fn record(&self, namespace: &Namespace, lives: &[Life]) -> Result<()>;
}
