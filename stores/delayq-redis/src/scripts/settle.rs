//! Arguments and answers of `settle.lua` and `extend.lua`.

use std::collections::HashSet;
use std::time::Duration;

use delayq_core::Result;
use delayq_core::machine::one_line;
use delayq_core::store::{
    AttemptEnd, ExtendOutcome, MAX_BATCH, SettleOutcome, Settlement, cut_error,
};
use delayq_core::task::Lock;

use super::claim::Damaged;
use super::submit::WakeCall;
use super::{Retention, Script, ShardKeys, record};
use crate::connection::{Command, Fields};

/// Maximum length of an error kept with an ended task.
const NOTE_BYTES: usize = 200;

/// A settlement in the script's format. The id is the stored one, which damage may have made
/// invalid.
#[derive(Debug)]
pub(crate) struct Ending {
    id: Vec<u8>,
    fence: u64,
    end: Vec<u8>,
}

impl Ending {
    pub(crate) fn new(settlement: &Settlement) -> Self {
        let note = settlement.kept_note().map(record::encode_note);
        let note = note.map_or(String::new(), |note| format!("\t{note}"));
        let kept = |kind: &str, succeeded: &[String], error: &str| {
            let names = record::encode_succeeded(succeeded);
            let (line, error) = (one_line(error), cut_error(error));
            format!("{kind} {names}{note}\n{line}\n{error}")
        };
        let again = |kind: char, after: Duration| format!("{kind}{}", record::delay_ms(after));
        let end = match &settlement.end {
            AttemptEnd::Done => "D".to_owned(),
            AttemptEnd::Dead { error, succeeded } => kept("K", succeeded, error),
            AttemptEnd::Retry {
                after,
                error,
                succeeded,
            } => kept(&again('R', *after), succeeded, error),
            AttemptEnd::Release { after, succeeded } => kept(&again('L', *after), succeeded, ""),
            // The enum may grow; no other end exists now.
            AttemptEnd::Expired | _ => "E".to_owned(),
        };
        Self {
            id: settlement.lock.id.as_str().as_bytes().to_vec(),
            fence: settlement.lock.fence,
            end: end.into_bytes(),
        }
    }

    /// The end of a task that cannot be read: dead.
    pub(crate) fn corrupt(task: &Damaged) -> Self {
        let why = format!("corrupt: {}", task.why);
        Self {
            id: task.id.clone(),
            fence: task.fence,
            end: format!("C\n{why}\n{why}").into_bytes(),
        }
    }
}

/// The number of leading `endings` that one call can take, as their ids have to differ.
pub(crate) fn one_call(endings: &[Ending]) -> usize {
    let mut ids = HashSet::with_capacity(MAX_BATCH);
    let fitting = endings.iter().take(MAX_BATCH);
    fitting.take_while(|ending| ids.insert(&ending.id)).count()
}

pub(crate) fn settle(
    keys: &ShardKeys,
    wake: &WakeCall,
    retention: Retention,
    endings: &[Ending],
) -> Command {
    let bytes = endings.iter().map(|ending| ending.end.len() + 160).sum();
    let mut command = keys
        .script(Script::Settle, bytes)
        .number(retention.ms)
        .arg(retention.most.to_string())
        .arg(&wake.channel)
        .arg(&wake.message);
    for ending in endings {
        command.push(&ending.id);
        command.push(ending.fence.to_string());
        command.push(&ending.end);
    }
    command
}

/// The answer of a settlement.
#[derive(Debug)]
pub(crate) struct Settled {
    /// Handlers have something to do earlier.
    pub(crate) is_earlier: bool,
    /// Ends were forgotten before their retention was over.
    pub(crate) forgot_early: bool,
    pub(crate) outcomes: Vec<SettleOutcome>,
}

pub(crate) fn read_settled(mut fields: Fields, count: usize) -> Result<Settled> {
    let mut settled = Settled {
        is_earlier: fields.flag()?,
        forgot_early: fields.flag()?,
        outcomes: vec![SettleOutcome::Settled; count],
    };
    while !fields.is_empty() {
        *fields.item_of(&mut settled.outcomes)? = SettleOutcome::LockLost;
    }
    Ok(settled)
}

/// Records the error of a task that `lock` has settled as done. The record of an ended task is
/// small, so the error is cut.
pub(crate) fn note(keys: &ShardKeys, lock: &Lock, error: &str) -> Command {
    let end = error.floor_char_boundary(NOTE_BYTES);
    let hex = record::encode_failure(error.get(..end).unwrap_or_default());
    keys.script(Script::Note, 64 + hex.len())
        .arg(lock.id.as_str())
        .arg(lock.fence.to_string())
        .arg(hex)
}

/// Extends locks, and marks them as those of a holder that runs nothing else, or not.
pub(crate) fn extend(
    keys: &ShardKeys,
    locks: &[Lock],
    lock_for: Duration,
    is_alone: bool,
) -> Command {
    let mut command = keys
        .script(Script::Extend, 160 * locks.len())
        .number(record::span_ms(lock_for))
        .arg(if is_alone { "?" } else { "" });
    for lock in locks {
        command.push(lock.id.as_str());
        command.push(lock.fence.to_string());
    }
    command
}

pub(crate) fn read_extended(mut fields: Fields) -> Result<Vec<ExtendOutcome>> {
    let lock_until = fields.time()?;
    let mut outcomes = Vec::with_capacity(MAX_BATCH);
    while !fields.is_empty() {
        outcomes.push(match fields.int()? {
            1 => ExtendOutcome::Extended(lock_until),
            2 => ExtendOutcome::CancelRequested(lock_until),
            _ => ExtendOutcome::LockLost,
        });
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use delayq_core::TaskId;

    use super::*;
    use crate::connection::RespValue;

    fn settlement(id: &str, end: AttemptEnd) -> Settlement {
        let id = TaskId::new(id).unwrap();
        Settlement::new(Lock { id, fence: 7 }, end)
    }

    #[test]
    fn each_end_of_an_attempt_has_a_form_of_its_own() {
        let (after, error) = (Duration::from_millis(1_500), || "no\nway".to_owned());
        let succeeded = || vec!["mail".to_owned()];
        for (end, expected) in [
            (AttemptEnd::Done, "D"),
            (AttemptEnd::Expired, "E"),
            (
                AttemptEnd::Dead {
                    error: error(),
                    succeeded: succeeded(),
                },
                "K [\"mail\"]\nno way\nno\nway",
            ),
            (
                AttemptEnd::Retry {
                    after,
                    error: error(),
                    succeeded: Vec::new(),
                },
                "R1500 \nno way\nno\nway",
            ),
            (
                AttemptEnd::Release {
                    after,
                    succeeded: succeeded(),
                },
                "L1500 [\"mail\"]\n\n",
            ),
        ] {
            let ending = Ending::new(&settlement("1", end));
            assert_eq!(String::from_utf8(ending.end).unwrap(), expected);
            assert_eq!((&*ending.id, ending.fence), (b"1".as_slice(), 7));
        }
        let release = AttemptEnd::Release {
            after,
            succeeded: succeeded(),
        };
        let noted = settlement("1", release).with_note("a\t\"b\"\n");
        let ending = Ending::new(&noted).end;
        let expected = "L1500 [\"mail\"]\t\"a\\t\\\"b\\\"\\n\"\n\n";
        assert_eq!(String::from_utf8(ending).unwrap(), expected);
    }

    #[test]
    fn one_call_takes_different_ids_and_so_many() {
        let endings = |ids: &[&str]| {
            let ending = |id: &&str| Ending::new(&settlement(id, AttemptEnd::Done));
            ids.iter().map(ending).collect::<Vec<_>>()
        };
        assert_eq!(one_call(&endings(&["1", "2", "1", "3"])), 2);
        let ids: Vec<String> = (0..=MAX_BATCH).map(|n| n.to_string()).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        assert_eq!(one_call(&endings(&ids)), MAX_BATCH);
        assert_eq!(one_call(&[]), 0);
    }

    #[test]
    fn the_locks_that_were_lost_are_named_by_their_index() {
        let settled = RespValue::List([1, 0, 1].map(RespValue::Int).into());
        let settled = read_settled(settled.fields(), 3).unwrap();
        assert!(settled.is_earlier && !settled.forgot_early);
        let expected = [
            SettleOutcome::Settled,
            SettleOutcome::LockLost,
            SettleOutcome::Settled,
        ];
        assert_eq!(settled.outcomes, expected);
        let stranger = RespValue::List([0, 0, 3].map(RespValue::Int).into());
        assert!(read_settled(stranger.fields(), 3).is_err());
        let until = delayq_core::Timestamp::from_millis(9);
        let extended = [9, 1, 2, 0].map(RespValue::Int).into();
        let extended = read_extended(RespValue::List(extended).fields()).unwrap();
        let expected = [
            ExtendOutcome::Extended(until),
            ExtendOutcome::CancelRequested(until),
            ExtendOutcome::LockLost,
        ];
        assert_eq!(extended, expected);
    }
}
