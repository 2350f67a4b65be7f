//! Documents, and the revisions of their folders: two tables.

use delayq_core::documents::{Document, Expected, Folder, MAX_DOCUMENTS, WriteOutcome};
use rusqlite::OptionalExtension;

use crate::error::Outcome;
use crate::rows::{Tx, signed};

const REVISION: &str = "SELECT revision FROM folders WHERE namespace = ?1 AND name = ?2";
const PUT_REVISION: &str =
    "INSERT OR REPLACE INTO folders (namespace, name, revision) VALUES (?1, ?2, ?3)";
const LIST: &str = "SELECT name, revision, body FROM documents \
     WHERE namespace = ?1 AND folder = ?2 ORDER BY name";
const FIND: &str = "SELECT revision, body FROM documents \
     WHERE namespace = ?1 AND folder = ?2 AND name = ?3";
const COUNT: &str = "SELECT count(*) FROM documents WHERE namespace = ?1 AND folder = ?2";
const PUT: &str = "INSERT OR REPLACE INTO documents (namespace, folder, name, revision, body) \
     VALUES (?1, ?2, ?3, ?4, ?5)";
const REMOVE: &str = "DELETE FROM documents WHERE namespace = ?1 AND folder = ?2 AND name = ?3";

pub(crate) fn revision(tx: &Tx<'_>, folder: &str) -> Outcome<u64> {
    let mut select = tx.connection.prepare_cached(REVISION)?;
    let key = (tx.context.namespace.as_str(), folder);
    let revision: Option<i64> = select.query_row(key, |row| row.get(0)).optional()?;
    Ok(revision.unwrap_or(0).unsigned_abs())
}

pub(crate) fn folder(tx: &Tx<'_>, folder: &str) -> Outcome<Folder> {
    let mut select = tx.connection.prepare_cached(LIST)?;
    let rows = select.query_map((tx.context.namespace.as_str(), folder), |row| {
        let revision: i64 = row.get(1)?;
        Ok(Document {
            name: row.get(0)?,
            revision: revision.unsigned_abs(),
            body: row.get(2)?,
        })
    })?;
    Ok(Folder {
        documents: rows.collect::<rusqlite::Result<_>>()?,
        revision: revision(tx, folder)?,
    })
}

pub(crate) fn write(
    tx: &Tx<'_>,
    folder: &str,
    name: &str,
    body: &str,
    expected: Expected,
) -> Outcome<WriteOutcome> {
    let namespace = tx.context.namespace.as_str();
    let mut find = tx.connection.prepare_cached(FIND)?;
    let present: Option<(i64, String)> = find
        .query_row((namespace, folder, name), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let revision = present
        .as_ref()
        .map(|(revision, _)| revision.unsigned_abs());
    if let (Some(revision), Some((_, present))) = (revision, &present)
        && present == body
    {
        return Ok(WriteOutcome::Written(revision));
    }
    if !expected.is_met_by(revision) {
        return Ok(WriteOutcome::Conflict(revision));
    }
    if revision.is_none() {
        let mut count = tx.connection.prepare_cached(COUNT)?;
        let count: i64 = count.query_row((namespace, folder), |row| row.get(0))?;
        if count >= signed(MAX_DOCUMENTS) {
            return Ok(WriteOutcome::FolderFull);
        }
    }
    let next = advance(tx, folder)?;
    let mut put = tx.connection.prepare_cached(PUT)?;
    put.execute((namespace, folder, name, signed(next), body))?;
    Ok(WriteOutcome::Written(next))
}

pub(crate) fn remove(tx: &Tx<'_>, folder: &str, name: &str) -> Outcome<bool> {
    let mut remove = tx.connection.prepare_cached(REMOVE)?;
    let removed = remove.execute((tx.context.namespace.as_str(), folder, name))?;
    if removed > 0 {
        advance(tx, folder)?;
    }
    Ok(removed > 0)
}

/// Gives the folder its next revision.
fn advance(tx: &Tx<'_>, folder: &str) -> Outcome<u64> {
    let next = revision(tx, folder)? + 1;
    let mut put = tx.connection.prepare_cached(PUT_REVISION)?;
    put.execute((tx.context.namespace.as_str(), folder, signed(next)))?;
    Ok(next)
}
