//! Documents: small named records of whoever runs the store, such as the tokens of a server. No
//! operation on tasks reads them.

use async_trait::async_trait;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::name::is_word;

/// Most documents of a folder.
pub const MAX_DOCUMENTS: usize = 10_000;
/// Most bytes of a document.
pub const MAX_DOCUMENT_BYTES: usize = 64 * 1_024;
/// Most bytes of the name of a document or folder.
const MAX_NAME_BYTES: usize = 200;

/// A document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(
    clippy::exhaustive_structs,
    reason = "a name, a revision and a text, nothing else"
)]
pub struct Document {
    /// Its name in its folder.
    pub name: String,
    /// The revision of the folder that wrote it.
    pub revision: u64,
    /// What it says.
    pub body: String,
}

/// A folder: its documents by name, and its revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(
    clippy::exhaustive_structs,
    reason = "documents and a revision, nothing else"
)]
pub struct Folder {
    /// How often the folder was changed; 0 for one that never was.
    pub revision: u64,
    /// Its documents, by name.
    pub documents: Vec<Document>,
}

/// Which state of a document a change is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Any, or none.
    Any,
    /// There is no such document.
    Absent,
    /// The document has this revision.
    Revision(u64),
}

impl Expected {
    /// Whether a document of this revision, if there is one, is what is expected.
    #[must_use]
    pub fn is_met_by(self, revision: Option<u64>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => revision.is_none(),
            Self::Revision(expected) => revision == Some(expected),
        }
    }
}

/// What became of a change of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the document may be another one meanwhile"]
pub enum WriteOutcome {
    /// It was made; the new revision of the folder, and of the document.
    Written(u64),
    /// Nothing was changed: the document is not as expected. Its revision, if it is there.
    Conflict(Option<u64>),
    /// Nothing was changed: the folder has [`MAX_DOCUMENTS`].
    FolderFull,
}

/// Documents of a namespace, in folders. Each change is one atomic step, as durable as an accepted
/// task. The methods are optional: a store that does not have one answers [`Error::Unsupported`].
#[async_trait]
pub trait Documents: Send + Sync {
    /// All documents of a folder; an unknown one is empty.
    ///
    /// # Errors
    /// `InvalidInput` for a name that cannot be one, and those of the store; so for every method.
    async fn folder(&self, folder: &str) -> Result<Folder> {
        let _ = folder;
        Err(Error::Unsupported("folder"))
    }

    /// The revision of a folder: another one than before says that something was changed. O(1).
    async fn folder_revision(&self, folder: &str) -> Result<u64> {
        let _ = folder;
        Err(Error::Unsupported("folder_revision"))
    }

    /// Writes a document. Repeated with the same body it is answered `Written` again, whatever was
    /// expected.
    async fn write_document(
        &self,
        folder: &str,
        name: &str,
        body: &str,
        expected: Expected,
    ) -> Result<WriteOutcome> {
        let _ = (folder, name, body, expected);
        Err(Error::Unsupported("write_document"))
    }

    /// Removes a document; whether it was there.
    async fn remove_document(&self, folder: &str, name: &str) -> Result<bool> {
        let _ = (folder, name);
        Err(Error::Unsupported("remove_document"))
    }
}

/// Refuses a folder or document name that no store takes: 1 to 200 of `A-Z a-z 0-9 . _ - :`.
///
/// # Errors
/// `InvalidInput`.
pub fn check_document_name(what: &'static str, name: &str) -> Result<()> {
    if !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.bytes().all(is_word) {
        return Ok(());
    }
    let shown: String = name.chars().take(40).collect();
    let reason = format!("{shown:?} cannot be one: use 1 to 200 of A-Z a-z 0-9 . _ - :");
    Err(Error::invalid(what, reason))
}

/// Refuses a document that no store takes.
///
/// # Errors
/// `InvalidInput`.
pub fn check_document(folder: &str, name: &str, body: &str) -> Result<()> {
    check_document_name("folder", folder)?;
    check_document_name("document name", name)?;
    if body.len() <= MAX_DOCUMENT_BYTES {
        return Ok(());
    }
    let bytes = body.len();
    let reason = format!("{name} has {bytes} bytes: at most {MAX_DOCUMENT_BYTES} are kept");
    Err(Error::invalid("document", reason))
}
