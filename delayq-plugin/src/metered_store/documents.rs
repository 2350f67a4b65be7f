//! The documents, counted.

use async_trait::async_trait;
use delayq_core::documents::{Expected, Folder, WriteOutcome};
use delayq_core::{Documents, Result};

use super::MeteredStore;

#[async_trait]
impl Documents for MeteredStore {
    async fn folder(&self, folder: &str) -> Result<Folder> {
        self.call(&self.calls.folder, self.inner.folder(folder))
            .await
    }

    async fn folder_revision(&self, folder: &str) -> Result<u64> {
        self.call(
            &self.calls.folder_revision,
            self.inner.folder_revision(folder),
        )
        .await
    }

    async fn write_document(
        &self,
        folder: &str,
        name: &str,
        body: &str,
        expected: Expected,
    ) -> Result<WriteOutcome> {
        self.call(
            &self.calls.write_document,
            self.inner.write_document(folder, name, body, expected),
        )
        .await
    }

    async fn remove_document(&self, folder: &str, name: &str) -> Result<bool> {
        self.call(
            &self.calls.remove_document,
            self.inner.remove_document(folder, name),
        )
        .await
    }
}
