//! Documents: a hash for each folder. Commands that read and change it.

use delayq_core::documents::{Document, Expected, MAX_DOCUMENTS, WriteOutcome};
use delayq_core::{Error, Result};

use super::{Keyspace, Script};
use crate::connection::{Command, Fields};

/// Number of documents requested in one step of a scan.
const SCANNED: &str = "200";

/// Reads the revision of a folder.
pub(crate) fn read_revision(keys: &Keyspace, folder: &str) -> Command {
    Command::read(&["HMGET", &keys.folder(folder), ""]).at(keys.slot())
}

/// Decodes the answer to [`read_revision`].
pub(crate) fn revision(mut fields: Fields) -> Result<u64> {
    let text = fields.optional_text()?;
    Ok(text.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Reads some documents of a folder.
pub(crate) fn scan(keys: &Keyspace, folder: &str, cursor: &str) -> Command {
    let key = keys.folder(folder);
    Command::read(&["HSCAN", &key, cursor, "COUNT", SCANNED]).at(keys.slot())
}

/// The next cursor, and the documents found by [`scan`].
pub(crate) fn scanned(mut fields: Fields) -> Result<(String, Vec<Document>)> {
    let (cursor, mut found) = (fields.text()?, fields.list()?);
    let mut documents = Vec::new();
    while !found.is_empty() {
        let (name, stored) = (found.text()?, found.text()?);
        // The field without a name belongs to the folder itself.
        if let Some((revision, body)) = stored.split_once(' ').filter(|_| !name.is_empty()) {
            documents.push(Document {
                name,
                revision: revision.parse().unwrap_or(0),
                body: body.to_owned(),
            });
        }
    }
    Ok((cursor, documents))
}

/// Writes a document.
pub(crate) fn write(
    keys: &Keyspace,
    [folder, name]: [&str; 2],
    body: &str,
    expected: Expected,
) -> Command {
    let expected = match expected {
        Expected::Any => "any".to_owned(),
        Expected::Absent => "absent".to_owned(),
        Expected::Revision(revision) => revision.to_string(),
    };
    change(keys, folder, body.len())
        .arg(name)
        .arg(expected)
        .arg(MAX_DOCUMENTS.to_string())
        .arg(body)
}

/// The outcome of [`write`].
pub(crate) fn written(mut fields: Fields) -> Result<WriteOutcome> {
    let (outcome, revision) = (fields.text()?, fields.text()?);
    let revision = revision.parse().unwrap_or(0);
    match outcome.as_str() {
        "written" => Ok(WriteOutcome::Written(revision)),
        "conflict" => Ok(WriteOutcome::Conflict((revision > 0).then_some(revision))),
        "full" => Ok(WriteOutcome::FolderFull),
        other => Err(Error::corrupt(
            "document",
            format!("unexpected outcome {other}"),
        )),
    }
}

/// Removes a document.
pub(crate) fn remove(keys: &Keyspace, folder: &str, name: &str) -> Command {
    let command = change(keys, folder, 0).arg(name);
    command.arg("any").arg(MAX_DOCUMENTS.to_string())
}

/// True if [`remove`] found the document.
pub(crate) fn removed(mut fields: Fields) -> Result<bool> {
    Ok(fields.text()? == "removed")
}

fn change(keys: &Keyspace, folder: &str, bytes: usize) -> Command {
    let key = [keys.folder(folder)];
    Command::script(Script::Document.lua(), keys.slot(), &key, bytes + 512)
}
