//! A store whose claims are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use delayq_core::store::{Bucket, ClaimRequest, Claimed, Layer};
use delayq_core::{Result, Store};

/// How often was claimed, and how often for nothing.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    all: AtomicU64,
    empty: AtomicU64,
}

impl Claims {
    /// All claims that were answered, and those among them that brought nothing.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (
            self.all.load(Ordering::Relaxed),
            self.empty.load(Ordering::Relaxed),
        )
    }
}

/// Counts the claims of the store inside; all else is passed on.
#[derive(Debug)]
pub(crate) struct CountedStore {
    inner: Arc<dyn Store>,
    claims: Arc<Claims>,
}

impl CountedStore {
    pub(crate) fn new(inner: Arc<dyn Store>, claims: Arc<Claims>) -> Self {
        Self { inner, claims }
    }
}

impl Layer for CountedStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn claim(&self, bucket: &Bucket, request: &ClaimRequest) -> Result<Claimed> {
        let claimed = self.inner.claim(bucket, request).await?;
        self.claims.all.fetch_add(1, Ordering::Relaxed);
        if claimed.tasks.is_empty() && claimed.ended.is_empty() {
            self.claims.empty.fetch_add(1, Ordering::Relaxed);
        }
        Ok(claimed)
    }
}

#[cfg(test)]
mod tests {
    use delayq_core::TaskType;
    use delayq_core::memory::MemoryStore;
    use delayq_core::store::StoreOptions;
    use delayq_plugin::{Clock, DelayQueueJob, SystemClock, TaskSubmitService, seconds};

    use super::*;

    #[tokio::test]
    async fn a_claim_that_brings_nothing_is_counted_as_empty() {
        let inner = Arc::new(MemoryStore::new(
            Arc::new(SystemClock),
            StoreOptions::default(),
        ));
        let claims = Arc::new(Claims::default());
        let store: Arc<dyn Store> = Arc::new(CountedStore::new(inner, Arc::clone(&claims)));
        let tasks = TaskSubmitService::new(Arc::clone(&store));
        tasks.send(DelayQueueJob::raw("a", "1")).await.unwrap();
        let request = ClaimRequest::new(8, seconds(30), SystemClock.now());
        let bucket = Bucket::whole(TaskType::new("a").unwrap());
        for expected in [1, 0, 0] {
            let claimed = store.claim(&bucket, &request).await;
            assert_eq!(claimed.unwrap().tasks.len(), expected);
        }
        assert_eq!(claims.counts(), (3, 2));
    }
}
