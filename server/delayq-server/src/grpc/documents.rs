//! Documents. They concern all types, and include targets with their secrets.

use delayq_plugin::Result;
use delayq_proto::{pb, required};

use super::call::{Call, Run};
use super::refusal::CallError;

impl Run for pb::GetFolderRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        call.caller.require_all_types()?;
        Ok(call.store().folder(&self.folder).await?.into())
    }
}

impl Run for pb::FolderRevisionRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        call.caller.require_all_types()?;
        let revision = call.store().folder_revision(&self.folder).await?;
        Ok(pb::FolderRevisionResponse { revision })
    }
}

impl Run for pb::WriteDocumentRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        call.caller.require_all_types()?;
        let expected = required("expected", self.expected)?.try_into()?;
        let (folder, name, body) = (&self.folder, &self.name, &self.body);
        let outcome = call
            .store()
            .write_document(folder, name, body, expected)
            .await?;
        Ok(pb::WriteDocumentResponse {
            outcome: Some(outcome.into()),
        })
    }
}

impl Run for pb::RemoveDocumentRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        call.caller.require_all_types()?;
        let removed = call
            .store()
            .remove_document(&self.folder, &self.name)
            .await?;
        Ok(pb::RemoveDocumentResponse { removed })
    }
}
