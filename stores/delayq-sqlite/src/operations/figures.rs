//! Figures of a type: chunks in slots.

use delayq_core::chronicle::{Spell, Step, changes, merge, read_chunks, slots};
use delayq_core::time::Timestamp;
use rusqlite::OptionalExtension;

use crate::error::Outcome;
use crate::rows::TypeTasks;

const SELECT: &str = "SELECT chunk FROM figures WHERE type = ?1 AND slot = ?2";
const PUT: &str = "INSERT OR REPLACE INTO figures (type, slot, chunk) VALUES (?1, ?2, ?3)";
const REMOVE: &str = "DELETE FROM figures WHERE type = ?1";

/// Adds figures to those of a type that has a row.
pub(crate) fn add(tasks: &TypeTasks<'_>, minutes: &[Spell]) -> Outcome<()> {
    for change in changes(minutes) {
        let slot = change.slot();
        let before = chunk(tasks, &slot)?;
        if let Some(after) = merge(before.as_deref(), &change) {
            tasks.execute(PUT, (tasks.row.id, slot, after))?;
        }
    }
    Ok(())
}

pub(crate) fn read(tasks: &TypeTasks<'_>, step: Step, since: Timestamp) -> Outcome<Vec<Spell>> {
    let mut chunks = Vec::new();
    for slot in slots(step, since, tasks.now) {
        chunks.extend(chunk(tasks, &slot)?);
    }
    let chunks = chunks.iter().map(Vec::as_slice);
    Ok(read_chunks(chunks, step, since, tasks.now))
}

pub(crate) fn forget(tasks: &TypeTasks<'_>) -> Outcome<()> {
    tasks.execute(REMOVE, (tasks.row.id,)).map(drop)
}

fn chunk(tasks: &TypeTasks<'_>, slot: &str) -> Outcome<Option<Vec<u8>>> {
    let mut select = tasks.sql(SELECT)?;
    let chunk = select.query_row((tasks.row.id, slot), |row| row.get(0));
    Ok(chunk.optional()?)
}
