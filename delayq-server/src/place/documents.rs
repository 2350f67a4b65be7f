//! Documents of a namespace: in one store, the new one as soon as they are copied.

use async_trait::async_trait;
use delayq_plugin::Result;
use delayq_plugin::store::{Documents, Expected, Folder, WriteOutcome};

use super::placed_store::PlacedStore;

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
        self.refuse_while_copied()?;
        let view = self.view()?;
        let written = view
            .main()
            .store
            .write_document(folder, name, body, expected);
        written.await
    }

    async fn remove_document(&self, folder: &str, name: &str) -> Result<bool> {
        self.refuse_while_copied()?;
        self.view()?
            .main()
            .store
            .remove_document(folder, name)
            .await
    }
}
