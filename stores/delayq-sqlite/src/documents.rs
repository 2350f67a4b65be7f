//! Documents, as calls to the engine.

use async_trait::async_trait;
use delayq_core::documents::{
    Documents, Expected, Folder, WriteOutcome, check_document, check_document_name,
};
use delayq_core::error::Result;

use crate::commit::{Lane, Size};
use crate::operations::documents;
use crate::rows::Tx;
use crate::store::SqliteStore;

#[async_trait]
impl Documents for SqliteStore {
    async fn folder(&self, folder: &str) -> Result<Folder> {
        check_document_name("folder", folder)?;
        let folder = folder.to_owned();
        let read = move |tx: &mut Tx<'_>| documents::folder(tx, &folder);
        self.engine.read(read).await
    }

    async fn folder_revision(&self, folder: &str) -> Result<u64> {
        check_document_name("folder", folder)?;
        let folder = folder.to_owned();
        let read = move |tx: &mut Tx<'_>| documents::revision(tx, &folder);
        self.engine.read(read).await
    }

    async fn write_document(
        &self,
        folder: &str,
        name: &str,
        body: &str,
        expected: Expected,
    ) -> Result<WriteOutcome> {
        check_document(folder, name, body)?;
        let [folder, name, body] = [folder, name, body].map(str::to_owned);
        let write = move |tx: &mut Tx<'_>| documents::write(tx, &folder, &name, &body, expected);
        self.engine.write(Lane::Operations, Size::ONE, write).await
    }

    async fn remove_document(&self, folder: &str, name: &str) -> Result<bool> {
        check_document(folder, name, "")?;
        let [folder, name] = [folder, name].map(str::to_owned);
        let remove = move |tx: &mut Tx<'_>| documents::remove(tx, &folder, &name);
        self.engine.write(Lane::Operations, Size::ONE, remove).await
    }
}
