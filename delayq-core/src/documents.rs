//! Documents: small named records of the store's operator, such as the tokens of a server. No
//! operation on tasks reads them.

use async_trait::async_trait;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::name::is_word;

/// Maximum number of documents in a folder.
pub const MAX_DOCUMENTS: usize = 10_000;
/// Maximum size of a document in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 64 * 1_024;
/// Maximum length of the name of a document or folder, in bytes.
const MAX_NAME_BYTES: usize = 200;

/// A document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(
    clippy::exhaustive_structs,
    reason = "a name, a revision and a text, nothing else"
)]
pub struct Document {
    /// Its name within the folder.
    pub name: String,
    /// The revision of the folder at which it was written.
    pub revision: u64,
    /// Its text.
    pub body: String,
}

/// A folder: its documents by name, and its revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(
    clippy::exhaustive_structs,
    reason = "documents and a revision, nothing else"
)]
pub struct Folder {
    /// The number of changes to the folder; 0 if it was never changed.
    pub revision: u64,
    /// Its documents, by name.
    pub documents: Vec<Document>,
}

/// The state of a document that a change requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Any state, also absent.
    Any,
    /// There is no such document.
    Absent,
    /// The document has this revision.
    Revision(u64),
}

impl Expected {
    /// True if a document with this revision (`None`: no document) is in the required state.
    #[must_use]
    pub fn is_met_by(self, revision: Option<u64>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => revision.is_none(),
            Self::Revision(expected) => revision == Some(expected),
        }
    }
}

/// The result of a change of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the document may be another one meanwhile"]
pub enum WriteOutcome {
    /// The change was made. This is the new revision of the folder and of the document.
    Written(u64),
    /// Nothing was changed, as the document is not in the required state. This is its revision, if
    /// it exists.
    Conflict(Option<u64>),
    /// Nothing was changed: the folder has [`MAX_DOCUMENTS`].
    FolderFull,
}

/// Documents of a namespace, in folders. Each change is one atomic step, as durable as an accepted
/// task. The methods are optional: a store without one answers [`Error::Unsupported`].
#[async_trait]
pub trait Documents: Send + Sync {
    /// All documents of a folder; an unknown folder is empty.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid name, and the store's errors; the same for every method.
    async fn folder(&self, folder: &str) -> Result<Folder> {
        let _ = folder;
        Err(Error::Unsupported("folder"))
    }

    /// The revision of a folder. It changes with every change of the folder. O(1).
    async fn folder_revision(&self, folder: &str) -> Result<u64> {
        let _ = folder;
        Err(Error::Unsupported("folder_revision"))
    }

    /// Writes a document. A repeated call with the same body answers `Written` again, whatever
    /// state it requires.
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

    /// Removes a document. Returns true if it existed.
    async fn remove_document(&self, folder: &str, name: &str) -> Result<bool> {
        let _ = (folder, name);
        Err(Error::Unsupported("remove_document"))
    }
}

/// Refuses an invalid folder or document name. Valid are 1 to 200 of `A-Z a-z 0-9 . _ - :`.
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

/// Refuses an invalid document.
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
