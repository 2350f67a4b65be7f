//! Arguments and answers of `cancel.lua`, `reschedule.lua` and `update.lua`.

use delayq_core::job::When;
use delayq_core::store::{CancelOutcome, ChangeOutcome};
use delayq_core::{Result, TaskId, TaskState, Timestamp};

use super::submit::WakeCall;
use super::{Retention, Script, ShardKeys, record, state_of};
use crate::connection::{Command, Fields};

/// The knowledge of a shard about a task. A task that is live in one shard has ended in all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Knowledge {
    Live,
    Ended,
    /// Unknown; with the field `split` of the shard.
    Nothing {
        split: String,
    },
}

/// The answer of a shard about one task.
#[derive(Debug)]
pub(crate) struct Lookup<T> {
    pub(crate) knowledge: Knowledge,
    pub(crate) answer: T,
}

impl Knowledge {
    /// Decodes a word for the state of a task; for an unknown task also the field after it.
    pub(crate) fn read(word: &str, fields: &mut Fields) -> Result<Self> {
        Self::of(word, || fields.text())
    }

    fn of(word: &str, split: impl FnOnce() -> Result<String>) -> Result<Self> {
        Ok(match word {
            "" => Self::Nothing { split: split()? },
            "d" | "c" | "e" => Self::Ended,
            _ => Self::Live,
        })
    }
}

/// A call for these different ids: at most [`MAX_BATCH`](delayq_core::store::MAX_BATCH).
pub(crate) fn cancel(keys: &ShardKeys, ids: &[TaskId], retention: Retention) -> Command {
    let bytes = ids.iter().map(|id| id.as_str().len() + 16).sum::<usize>();
    let mut command = keys
        .script(Script::Cancel, 128 + bytes)
        .number(retention.ms)
        .arg(retention.most.to_string());
    for id in ids {
        command.push(id.as_str());
    }
    command
}

/// The answer to cancels.
#[derive(Debug)]
pub(crate) struct Cancelled {
    pub(crate) forgot_early: bool,
    /// One for each id.
    pub(crate) answers: Vec<Lookup<CancelOutcome>>,
}

pub(crate) fn read_cancelled(mut fields: Fields) -> Result<Cancelled> {
    let (forgot_early, split) = (fields.flag()?, fields.text()?);
    let mut answers = Vec::new();
    while !fields.is_empty() {
        let word = fields.text()?;
        let answer = match word.as_str() {
            "ok" => CancelOutcome::Cancelled,
            "" => CancelOutcome::NotFound,
            "r" => CancelOutcome::Running,
            letter => CancelOutcome::Finished(state_of(letter)?),
        };
        let knowledge = Knowledge::of(&word, || Ok(split.clone()))?;
        answers.push(Lookup { knowledge, answer });
    }
    Ok(Cancelled {
        forgot_early,
        answers,
    })
}

pub(crate) fn reschedule(
    keys: &ShardKeys,
    id: &TaskId,
    when: When,
    retention_ms: i64,
    wake: &WakeCall,
) -> Command {
    let time = record::StoredTime::of(when);
    keys.script(Script::Reschedule, 384)
        .arg(id.as_str())
        .arg(time.kind.to_string())
        .number(time.ms)
        .number(retention_ms)
        .arg(&wake.channel)
        .arg(&wake.message)
        .arg(keys.packing.settings())
}

/// Decodes the answer without its first field, which tells if the first due time became earlier.
pub(crate) fn read_rescheduled(
    keys: &ShardKeys,
    id: &TaskId,
    mut fields: Fields,
) -> Result<Lookup<ChangeOutcome>> {
    let word = fields.text()?;
    let answer = changed(keys, id, &word, fields.time()?)?;
    let knowledge = Knowledge::read(&word, &mut fields)?;
    Ok(Lookup { knowledge, answer })
}

/// The new content of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Update<'a> {
    pub(crate) message: &'a [u8],
    /// The part of the present record between its time and its checksum: expiry and headers, which
    /// the checksum also covers.
    pub(crate) fixed: &'a str,
    /// The new content of that part.
    pub(crate) next: &'a str,
}

/// Replaces the message of a task, and the part of its record before the message.
pub(crate) fn update(
    keys: &ShardKeys,
    id: &TaskId,
    update: Update<'_>,
    retention_ms: i64,
) -> Command {
    let Update {
        message,
        fixed,
        next,
    } = update;
    let mut tail = Vec::new();
    record::push_end(&mut tail, next, message);
    keys.script(Script::Update, 192 + message.len() + 2 * fixed.len())
        .arg(id.as_str())
        .arg(fixed)
        .arg(tail)
        .number(retention_ms)
        .arg(keys.packing.settings())
}

/// The answer to an update.
#[derive(Debug)]
pub(crate) enum Updated {
    Answer(Lookup<ChangeOutcome>),
    /// The task has this part between its time and its checksum: the update has to be tried again
    /// with it.
    OtherFixed(String),
}

pub(crate) fn read_updated(keys: &ShardKeys, id: &TaskId, mut fields: Fields) -> Result<Updated> {
    let word = fields.text()?;
    let due_at = fields.time()?;
    if word == "changed" {
        return Ok(Updated::OtherFixed(fields.text()?));
    }
    let answer = changed(keys, id, &word, due_at)?;
    let knowledge = Knowledge::read(&word, &mut fields)?;
    Ok(Updated::Answer(Lookup { knowledge, answer }))
}

fn changed(keys: &ShardKeys, id: &TaskId, word: &str, due_at: Timestamp) -> Result<ChangeOutcome> {
    Ok(match word {
        "ok" => ChangeOutcome::Changed { due_at },
        "" => ChangeOutcome::NotFound,
        "damaged" => return Err(keys.corrupt(id.as_str(), "its head is damaged")),
        letter => match state_of(letter)? {
            TaskState::Running => ChangeOutcome::Running,
            state => ChangeOutcome::Finished(state),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::RespValue;

    #[test]
    fn what_has_ended_in_a_shard_is_not_taken_for_live_there() {
        let knowledge = |word| {
            let split = RespValue::Bytes(b"8".to_vec());
            Knowledge::read(word, &mut split.fields()).unwrap()
        };
        for word in ["d", "c", "e"] {
            assert_eq!(knowledge(word), Knowledge::Ended, "{word}");
        }
        for word in ["ok", "r", "k", "s", "damaged"] {
            assert_eq!(knowledge(word), Knowledge::Live, "{word}");
        }
        let split = "8".to_owned();
        assert_eq!(knowledge(""), Knowledge::Nothing { split });
    }
}
