//! Documents of a server.

use delayq_core::documents::{Document, Expected, Folder, WriteOutcome};
use delayq_core::{Error, Result};

use crate::field::required;
use crate::pb;

impl From<Folder> for pb::GetFolderResponse {
    fn from(folder: Folder) -> Self {
        let document = |document: Document| pb::Document {
            name: document.name,
            revision: document.revision,
            body: document.body,
        };
        Self {
            revision: folder.revision,
            documents: folder.documents.into_iter().map(document).collect(),
        }
    }
}

impl From<pb::GetFolderResponse> for Folder {
    fn from(sent: pb::GetFolderResponse) -> Self {
        let document = |sent: pb::Document| Document {
            name: sent.name,
            revision: sent.revision,
            body: sent.body,
        };
        Self {
            revision: sent.revision,
            documents: sent.documents.into_iter().map(document).collect(),
        }
    }
}

impl From<Expected> for pb::Expected {
    fn from(expected: Expected) -> Self {
        use pb::expected::Expected as Form;
        let expected = match expected {
            Expected::Any => Form::Any(true),
            Expected::Absent => Form::Absent(true),
            Expected::Revision(revision) => Form::Revision(revision),
        };
        Self {
            expected: Some(expected),
        }
    }
}

impl TryFrom<pb::Expected> for Expected {
    type Error = Error;

    fn try_from(sent: pb::Expected) -> Result<Self> {
        use pb::expected::Expected as Form;
        Ok(match required("expected", sent.expected)? {
            Form::Any(_) => Self::Any,
            Form::Absent(_) => Self::Absent,
            Form::Revision(revision) => Self::Revision(revision),
        })
    }
}

impl From<WriteOutcome> for pb::WriteOutcome {
    fn from(outcome: WriteOutcome) -> Self {
        use pb::write_outcome::{Conflict, Outcome};
        let outcome = match outcome {
            WriteOutcome::Written(revision) => Outcome::Written(revision),
            WriteOutcome::Conflict(revision) => Outcome::Conflict(Conflict { revision }),
            WriteOutcome::FolderFull => Outcome::FolderFull(true),
        };
        Self {
            outcome: Some(outcome),
        }
    }
}

impl TryFrom<pb::WriteOutcome> for WriteOutcome {
    type Error = Error;

    fn try_from(sent: pb::WriteOutcome) -> Result<Self> {
        use pb::write_outcome::Outcome;
        Ok(match required("outcome", sent.outcome)? {
            Outcome::Written(revision) => Self::Written(revision),
            Outcome::Conflict(conflict) => Self::Conflict(conflict.revision),
            Outcome::FolderFull(_) => Self::FolderFull,
        })
    }
}
