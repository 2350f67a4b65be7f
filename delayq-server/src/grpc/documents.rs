//! Documents. They are about all types: targets with their secrets are among them.

use delayq_plugin::Result;
use delayq_proto::{pb, required};

use super::call::{Call, Operation};
use super::refusal::Refusal;
use crate::access::Scope;

impl Operation for pb::GetFolderRequest {
    type Answer = pb::GetFolderResponse;
    const SCOPE: Option<Scope> = Some(Scope::Admin);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        call.caller.require_all_types()?;
        Ok(call.store().folder(&self.folder).await?.into())
    }
}

impl Operation for pb::FolderRevisionRequest {
    type Answer = pb::FolderRevisionResponse;
    const SCOPE: Option<Scope> = Some(Scope::Admin);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        call.caller.require_all_types()?;
        let revision = call.store().folder_revision(&self.folder).await?;
        Ok(pb::FolderRevisionResponse { revision })
    }
}

impl Operation for pb::WriteDocumentRequest {
    type Answer = pb::WriteDocumentResponse;
    const SCOPE: Option<Scope> = Some(Scope::Admin);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
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

impl Operation for pb::RemoveDocumentRequest {
    type Answer = pb::RemoveDocumentResponse;
    const SCOPE: Option<Scope> = Some(Scope::Admin);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        call.caller.require_all_types()?;
        let removed = call
            .store()
            .remove_document(&self.folder, &self.name)
            .await?;
        Ok(pb::RemoveDocumentResponse { removed })
    }
}
