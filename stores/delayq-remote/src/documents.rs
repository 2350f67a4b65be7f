//! Documents.

use async_trait::async_trait;
use delayq_core::documents::{Expected, Folder, WriteOutcome};
use delayq_core::{Documents, Result};
use delayq_proto::{pb, required};

use crate::remote::{Client, RemoteStore};

#[async_trait]
impl Documents for RemoteStore {
    async fn folder(&self, folder: &str) -> Result<Folder> {
        let request = pb::GetFolderRequest {
            namespace: self.namespace.to_string(),
            folder: folder.to_owned(),
        };
        let response = self.call(async move |mut client: Client| client.get_folder(request).await);
        response.await.map(Into::into)
    }

    async fn folder_revision(&self, folder: &str) -> Result<u64> {
        let request = pb::FolderRevisionRequest {
            namespace: self.namespace.to_string(),
            folder: folder.to_owned(),
        };
        let response =
            self.call(async move |mut client: Client| client.folder_revision(request).await);
        Ok(response.await?.revision)
    }

    async fn write_document(
        &self,
        folder: &str,
        name: &str,
        body: &str,
        expected: Expected,
    ) -> Result<WriteOutcome> {
        let request = pb::WriteDocumentRequest {
            namespace: self.namespace.to_string(),
            folder: folder.to_owned(),
            name: name.to_owned(),
            body: body.to_owned(),
            expected: Some(expected.into()),
        };
        let response =
            self.call(async move |mut client: Client| client.write_document(request).await);
        required("outcome", response.await?.outcome)?.try_into()
    }

    async fn remove_document(&self, folder: &str, name: &str) -> Result<bool> {
        let request = pb::RemoveDocumentRequest {
            namespace: self.namespace.to_string(),
            folder: folder.to_owned(),
            name: name.to_owned(),
        };
        let response =
            self.call(async move |mut client: Client| client.remove_document(request).await);
        Ok(response.await?.removed)
    }
}
