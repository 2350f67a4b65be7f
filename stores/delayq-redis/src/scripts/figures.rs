//! Figures of a type: a hash of chunks in slots, stored beside the keys of its unsharded form.
//! Commands that read and replace chunks.

use delayq_core::Result;
use delayq_core::chronicle::Step;

use super::{Script, ShardKeys};
use crate::connection::{Command, Fields};

/// A chunk that replaces another one.
#[derive(Debug)]
pub(crate) struct NewChunk {
    pub(crate) slot: String,
    /// The chunk it was made from; empty for none.
    pub(crate) before: Vec<u8>,
    pub(crate) after: Vec<u8>,
}

/// Reads the chunks in these slots.
pub(crate) fn read(keys: &ShardKeys, slots: impl IntoIterator<Item = String>) -> Command {
    let command = Command::read(&["HMGET", &keys.figures()]).at(keys.slot);
    slots.into_iter().fold(command, Command::arg)
}

/// The chunks requested by [`read`], in order.
pub(crate) fn chunks(mut fields: Fields) -> Result<Vec<Option<Vec<u8>>>> {
    let mut chunks = Vec::new();
    while !fields.is_empty() {
        chunks.push(fields.optional_bytes()?);
    }
    Ok(chunks)
}

/// Replaces all of these chunks, or none if one has changed meanwhile. The answer is true if it
/// did.
pub(crate) fn replace(keys: &ShardKeys, chunks: &[NewChunk]) -> Command {
    let bytes = chunks.iter().map(|new| new.before.len() + new.after.len());
    let (key, bytes) = ([keys.figures()], bytes.sum());
    let lives = i64::try_from(Step::Hour.reach().as_millis()).unwrap_or(i64::MAX);
    let command = Command::script(Script::Figures.lua(), keys.slot, &key, bytes).number(lives);
    chunks.iter().fold(command, |command, new| {
        command.arg(&new.slot).arg(&new.before).arg(&new.after)
    })
}
