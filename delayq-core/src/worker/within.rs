//! The end of an attempt in a transaction of its worker.

use std::fmt::Debug;

use async_trait::async_trait;
use delayq_transaction::DynTransaction;

use super::TaskContext;
use crate::error::Result;

/// What ends an attempt in a transaction of its worker, see
/// [`TaskContext::settle_within`]. The plugin gives it to the context.
#[async_trait]
pub trait EndWithin: Debug + Send + Sync {
    /// Ends the attempt of this context as done.
    ///
    /// # Errors
    /// Those of [`TaskContext::settle_within`].
    async fn settle(&self, cx: &TaskContext, tx: &mut dyn DynTransaction) -> Result<()>;
}
