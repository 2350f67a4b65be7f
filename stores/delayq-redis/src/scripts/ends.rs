//! Arguments and answers of the records of ends: see `ends.lua`.

use delayq_core::history::{EndPosition, EndsStatus, KeptMessage, LifeOutcome, WaitingEnd};
use delayq_core::machine::EndFacts;
use delayq_core::{Result, TaskId, Timestamp};

use super::record;
use super::{Script, ShardKeys};
use crate::connection::{Command, Fields};

/// What a record takes besides its four fields, as `ends.lua` counts it.
const PLACE_BYTES: usize = 64;

/// The maximum size of the records of a shard unless one is given: they are in the memory of the
/// server, whose bound is also that of the tasks.
pub(crate) const SHARD_BUFFER: u64 = 32 << 20;

/// The setting of a shard: what is kept of a message, and the maximum size of the records.
/// Without a maximum the shard keeps its own, and has the default one at first.
pub(crate) fn setting(kept: KeptMessage, most: Option<u64>) -> String {
    match most {
        Some(most) => format!("{} {most}", kept.limit()),
        None => format!("{} ?{SHARD_BUFFER}", kept.limit()),
    }
}

/// What a setting keeps of a message; `None` if nothing is recorded.
pub(crate) fn kept(setting: &str) -> Option<KeptMessage> {
    let (kept, _) = setting.split_once(' ')?;
    kept.parse().ok().map(KeptMessage::from_limit)
}

/// Maximum number of records read in one step.
const AT_ONCE: usize = 64;
/// The size of a step from which on the next one is smaller, so that large messages do not block
/// other calls.
const STEP_BYTES: usize = 1 << 19;

/// The size of the records of all shards up to which further ones are read, in bytes.
pub(crate) const PAGE_BYTES: usize = 8 << 20;

/// The number of records to read after a step of `count` with this size.
pub(crate) fn next_count(count: usize, bytes: usize) -> usize {
    let average = bytes.checked_div(count).unwrap_or(0).max(1);
    (STEP_BYTES / average)
        .clamp(1, AT_ONCE)
        .min(4 * count.max(1))
}

/// A part of the records.
#[derive(Debug, Default)]
pub(crate) struct EndsPage {
    pub(crate) waiting: Vec<WaitingEnd>,
    /// The place of the last one.
    pub(crate) last: Option<String>,
    /// The place of one that cannot be read.
    pub(crate) damaged: Option<String>,
    /// Their size.
    pub(crate) bytes: usize,
}

/// Reads the oldest records after a place.
pub(crate) fn oldest(keys: &ShardKeys, after: &str, count: usize) -> Command {
    let count = count.to_string();
    Command::read(&["XRANGE", &keys.ends(), after, "+", "COUNT", &count]).at(keys.slot)
}

/// The records, with their sizes in their positions. Those that are too damaged to be read, or of a
/// later release, are left out, and dropped in the end by the bound.
pub(crate) fn read_oldest(keys: &ShardKeys, mut entries: Fields) -> Result<EndsPage> {
    let mut page = EndsPage::default();
    while !entries.is_empty() {
        let mut entry = entries.list()?;
        let place = entry.text()?;
        let mut fields = entry.list()?;
        let mut values = Vec::new();
        while !fields.is_empty() {
            let _name = fields.bytes()?;
            values.push(fields.bytes()?);
        }
        let bytes = PLACE_BYTES + values.iter().map(Vec::len).sum::<usize>();
        page.bytes += bytes;
        page.last = Some(place.clone());
        let Some(facts) = <[Vec<u8>; 4]>::try_from(values).ok().and_then(read_facts) else {
            page.damaged = Some(place);
            continue;
        };
        page.waiting.push(WaitingEnd {
            position: EndPosition::new(format!("{} {place} {bytes}", keys.bucket)),
            life: facts.into_life(keys.task_type().clone()),
        });
    }
    Ok(page)
}

fn read_facts([about, id, stored, trail]: [Vec<u8>; 4]) -> Option<EndFacts> {
    let about = String::from_utf8(about).ok()?;
    let mut words = about.get(1..)?.split(' ');
    let outcome = match about.as_bytes().first()? {
        b'd' => LifeOutcome::Done,
        b'k' => LifeOutcome::Dead,
        b'e' => LifeOutcome::Expired,
        b'c' => LifeOutcome::Cancelled,
        b'x' => LifeOutcome::Discarded,
        _ => return None,
    };
    let ended_at = Timestamp::from_millis(words.next()?.parse().ok()?);
    let is_running = words.next()? == "1";
    let (fence, attempts) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let holder = words.next().filter(|holder| *holder != "-");
    let message_bytes: u64 = words.next()?.parse().ok()?;
    let history = record::decode_trail(&trail).unwrap_or_default();
    let content = record::decode_part(stored);
    let message = content.message;
    Some(EndFacts {
        id: TaskId::new(String::from_utf8(id).ok()?).ok()?,
        outcome,
        // The submit time may have been rounded up.
        submitted_at: content.submitted_at.unwrap_or(ended_at).min(ended_at),
        due_at: content.due_at.unwrap_or(ended_at),
        ended_at,
        fence,
        is_running,
        attempts,
        headers: content.headers,
        holder: holder.map(str::to_owned),
        error: history.last_error,
        errors: record::errors_of(&trail).to_owned(),
        message_bytes,
        message: (!message.is_empty()).then_some(message),
    })
}

/// A position as the store gave it: its shard, its place in the stream, its size.
pub(crate) fn parts(position: &EndPosition) -> Option<(&str, &str, &str)> {
    let (rest, bytes) = position.as_str().rsplit_once(' ')?;
    let (bucket, place) = rest.rsplit_once(' ')?;
    Some((bucket, place, bytes))
}

/// Removes records, given by place and size.
pub(crate) fn take(keys: &ShardKeys, places: &[(&str, &str)]) -> Command {
    let mut command = keys.script(Script::TakeEnds, 32 * places.len());
    for (place, bytes) in places {
        command.push(place);
        command.push(bytes);
    }
    command
}

/// The command that reads the state of a shard's records.
pub(crate) fn status(keys: &ShardKeys) -> Command {
    keys.script(Script::EndsStatus, 0)
}

/// The state of a shard's records; its maximum is 0 if nothing is recorded any more.
pub(crate) fn read_status(mut fields: Fields) -> Result<EndsStatus> {
    let mut status = EndsStatus::default();
    status.waiting = fields.count()?;
    status.oldest = fields.optional_time()?;
    status.bytes = fields.count()?;
    status.lost = fields.count()?;
    status.limit = fields.count()?;
    Ok(status)
}
