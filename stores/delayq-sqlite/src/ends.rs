//! Recorded ends, as calls to the engine.

use async_trait::async_trait;
use delayq_core::error::Result;
use delayq_core::history::{EndPosition, Ends, EndsStatus, MAX_ENDS, WaitingEnd};

use crate::commit::{Lane, Size};
use crate::operations::ends;
use crate::rows::Tx;
use crate::store::SqliteStore;

#[async_trait]
impl Ends for SqliteStore {
    async fn ends(&self, limit: usize) -> Result<Vec<WaitingEnd>> {
        let limit = limit.min(MAX_ENDS);
        let take = move |tx: &mut Tx<'_>| ends::take(tx, limit);
        self.engine.read(take).await
    }

    async fn remove_ends(&self, positions: &[EndPosition]) -> Result<u64> {
        let mut removed = 0;
        for step in positions.chunks(MAX_ENDS) {
            let (size, step) = (Size::tasks(step.len()), step.to_vec());
            let remove = move |tx: &mut Tx<'_>| ends::remove(tx, &step);
            removed += self.engine.write(Lane::Operations, size, remove).await?;
        }
        Ok(removed)
    }

    async fn ends_status(&self) -> Result<EndsStatus> {
        self.engine.read(|tx: &mut Tx<'_>| ends::status(tx)).await
    }
}
