//! Documents of a namespace: in one store, and in the new one as soon as they are copied.

use std::time::Duration;

use async_trait::async_trait;
use delayq_plugin::Result;
use delayq_plugin::store::{Documents, Expected, Folder, WriteOutcome};
use tokio::sync::broadcast::error::RecvError;

use super::placed_store::PlacedStore;

/// How long a change waits while documents are being copied; longer than the copy takes.
const PATIENCE: Duration = Duration::from_secs(5);
/// A revision that no document has.
const NEVER: u64 = (1 << 53) - 1;

/// Waits for the copy of documents, if one is running; returns true if it waited.
async fn copied(store: &PlacedStore) -> Result<bool> {
    let mut changes = store.wakeups.subscribe();
    if store.refuse_while_copied().is_ok() {
        return Ok(false);
    }
    let copied = async {
        while store.refuse_while_copied().is_err() {
            if changes.recv().await == Err(RecvError::Closed) {
                return;
            }
        }
    };
    // A timeout is detected by the next check.
    let _ = tokio::time::timeout(PATIENCE, copied).await;
    store.refuse_while_copied().map(|()| true)
}

#[async_trait]
impl Documents for PlacedStore {
    async fn folder(&self, folder: &str) -> Result<Folder> {
        self.view()?.main().store.folder(folder).await
    }

    async fn folder_revision(&self, folder: &str) -> Result<u64> {
        self.view()?.main().store.folder_revision(folder).await
    }

    async fn write_document(
        &self,
        folder: &str,
        name: &str,
        body: &str,
        expected: Expected,
    ) -> Result<WriteOutcome> {
        let expected = match (copied(self).await?, expected) {
            // The revision is from the old store; the new store counts its own revisions.
            (true, Expected::Revision(_)) => Expected::Revision(NEVER),
            (_, expected) => expected,
        };
        let view = self.view()?;
        let store = &view.main().store;
        store.write_document(folder, name, body, expected).await
    }

    async fn remove_document(&self, folder: &str, name: &str) -> Result<bool> {
        copied(self).await?;
        let view = self.view()?;
        view.main().store.remove_document(folder, name).await
    }
}
