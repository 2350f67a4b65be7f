//! The documents, through the plan.

use async_trait::async_trait;
use delayq_core::documents::{Expected, Folder, WriteOutcome};
use delayq_core::{Documents, Result};

use super::FaultyStore;

#[async_trait]
impl Documents for FaultyStore {
    async fn folder(&self, folder: &str) -> Result<Folder> {
        self.call("folder", self.inner.folder(folder)).await
    }

    async fn folder_revision(&self, folder: &str) -> Result<u64> {
        self.call("folder_revision", self.inner.folder_revision(folder))
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
            "write_document",
            self.inner.write_document(folder, name, body, expected),
        )
        .await
    }

    async fn remove_document(&self, folder: &str, name: &str) -> Result<bool> {
        self.call("remove_document", self.inner.remove_document(folder, name))
            .await
    }
}
