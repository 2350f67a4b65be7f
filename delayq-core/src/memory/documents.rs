//! The documents of a memory store.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use async_trait::async_trait;

use super::MemoryStore;
use crate::documents::{
    Document, Documents, Expected, Folder, MAX_DOCUMENTS, WriteOutcome, check_document,
    check_document_name,
};
use crate::error::Result;

/// Folders by name.
pub(super) type Folders = BTreeMap<String, Shelf>;

/// A folder: documents by name, with their revisions.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    revision: u64,
    documents: BTreeMap<String, (u64, String)>,
}

fn in_folder<R>(
    store: &MemoryStore,
    folder: &str,
    work: impl FnOnce(&mut Shelf) -> R,
) -> Result<R> {
    store.refuse_closed()?;
    check_document_name("folder", folder)?;
    let mut folders = store.folders.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(work(folders.entry(folder.to_owned()).or_default()))
}

#[async_trait]
impl Documents for MemoryStore {
    async fn folder(&self, folder: &str) -> Result<Folder> {
        in_folder(self, folder, |shelf| Folder {
            revision: shelf.revision,
            documents: shelf
                .documents
                .iter()
                .map(|(name, (revision, body))| Document {
                    name: name.clone(),
                    revision: *revision,
                    body: body.clone(),
                })
                .collect(),
        })
    }

    async fn folder_revision(&self, folder: &str) -> Result<u64> {
        in_folder(self, folder, |shelf| shelf.revision)
    }

    async fn write_document(
        &self,
        folder: &str,
        name: &str,
        body: &str,
        expected: Expected,
    ) -> Result<WriteOutcome> {
        check_document(folder, name, body)?;
        in_folder(self, folder, |shelf| {
            let present = shelf.documents.get(name);
            if let Some((revision, _)) = present.filter(|(_, present)| present == body) {
                return WriteOutcome::Written(*revision);
            }
            let revision = present.map(|(revision, _)| *revision);
            if !expected.is_met_by(revision) {
                return WriteOutcome::Conflict(revision);
            }
            if revision.is_none() && shelf.documents.len() >= MAX_DOCUMENTS {
                return WriteOutcome::FolderFull;
            }
            shelf.revision += 1;
            let document = (shelf.revision, body.to_owned());
            shelf.documents.insert(name.to_owned(), document);
            WriteOutcome::Written(shelf.revision)
        })
    }

    async fn remove_document(&self, folder: &str, name: &str) -> Result<bool> {
        check_document(folder, name, "")?;
        in_folder(self, folder, |shelf| {
            let removed = shelf.documents.remove(name).is_some();
            shelf.revision += u64::from(removed);
            removed
        })
    }
}
