//! Arguments and answer of `submit.lua`.

use delayq_core::job::{NewTask, OnConflict};
use delayq_core::store::{MAX_BATCH, SubmitOutcome};
use delayq_core::{Result, TaskId, Timestamp};

use super::{Script, ShardKeys, record, state_of, unexpected};
use crate::connection::{Command, RespValue};

/// A task in its stored format.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) id: TaskId,
    policy: u8,
    /// For a debounced task, ms.
    max_wait: Option<i64>,
    record: Vec<u8>,
    /// The largest fence that an earlier task with this id may have had in another shard.
    pub(crate) least_fence: u64,
}

impl Prepared {
    pub(crate) fn new(task: &NewTask) -> Self {
        Self {
            id: task.id.clone(),
            policy: policy(task),
            max_wait: match task.on_conflict {
                OnConflict::Debounce { max_wait } => Some(record::span_ms(max_wait)),
                _ => None,
            },
            record: record::encode(task),
            least_fence: 0,
        }
    }

    /// The length of its record.
    pub(crate) fn bytes(&self) -> usize {
        self.record.len()
    }
}

/// The letter for a taken id.
fn policy(task: &NewTask) -> u8 {
    let letter = match task.on_conflict {
        OnConflict::Reject => b'r',
        OnConflict::Keep => b'k',
        OnConflict::Replace => b'p',
        OnConflict::Debounce { .. } => b'b',
    };
    if task.again_if_running {
        letter.to_ascii_uppercase()
    } else {
        letter
    }
}

/// The channel and message that wake handlers in other instances.
#[derive(Clone, Debug)]
pub(crate) struct WakeCall {
    pub(crate) channel: String,
    pub(crate) message: String,
}

/// A call for these tasks with different ids.
pub(crate) fn command(
    keys: &ShardKeys,
    wake: &WakeCall,
    retention_ms: i64,
    tasks: &[&Prepared],
) -> Command {
    let mut policies: Vec<u8> = tasks.iter().map(|task| task.policy).collect();
    for (nth, task) in (1..).zip(tasks) {
        if let Some(max_wait) = task.max_wait {
            policies.extend_from_slice(format!(" {nth}:{max_wait}").as_bytes());
        }
    }
    let fence = tasks.iter().map(|task| task.least_fence).max();
    // An id is at most 128 bytes long.
    let bytes = tasks.iter().map(|task| task.bytes() + 64).sum();
    let mut command = keys
        .script(Script::Submit, bytes)
        .arg(policies)
        .number(retention_ms)
        .arg(&wake.channel)
        .arg(&wake.message)
        .arg(&keys.open)
        .arg(fence.unwrap_or(0).to_string())
        .arg(keys.packing.settings());
    for task in tasks {
        command.push(task.id.as_str());
        command.push(&task.record);
    }
    command
}

/// The answer to one call.
#[derive(Debug)]
pub(crate) struct Submitted {
    /// The shard was completely empty before.
    pub(crate) is_new: bool,
    /// The shard would have packed tasks if its type was marked for that.
    pub(crate) wants_to_pack: bool,
    /// The first due time of the shard became earlier.
    pub(crate) is_earlier: bool,
    /// One for each task.
    pub(crate) landed: Vec<Landed>,
}

/// The result for one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landed {
    Here(SubmitOutcome),
    /// The shard is sealed and does not know the id; with the largest fence issued there.
    Sealed(u64),
    /// The type is full, with these numbers.
    Full {
        pending: u64,
        limit: u64,
    },
}

pub(crate) fn read(reply: RespValue) -> Result<Submitted> {
    let mut fields = reply.fields();
    let news = fields.count()?;
    let mut submitted = Submitted {
        is_new: news & 1 != 0,
        wants_to_pack: news & 2 != 0,
        is_earlier: fields.flag()?,
        landed: Vec::with_capacity(MAX_BATCH),
    };
    while !fields.is_empty() {
        let (word, run, due_ms) = (fields.text()?, fields.count()?, fields.int()?);
        let landed = read_one(&word, due_ms)?;
        let run = usize::try_from(run).unwrap_or(MAX_BATCH).min(MAX_BATCH);
        submitted.landed.extend(std::iter::repeat_n(landed, run));
    }
    Ok(submitted)
}

fn read_one(word: &str, due_ms: i64) -> Result<Landed> {
    let (kind, rest) = word.split_at_checked(1).unwrap_or_default();
    let accepted = |replaced| SubmitOutcome::Accepted {
        due_at: Timestamp::from_millis(due_ms),
        replaced,
    };
    Ok(match kind {
        "a" => Landed::Here(accepted(false)),
        "p" => Landed::Here(accepted(true)),
        "g" => Landed::Here(SubmitOutcome::RunsAgain {
            due_at: Timestamp::from_millis(due_ms),
        }),
        "x" => Landed::Here(SubmitOutcome::AlreadyExists {
            state: state_of(rest)?,
        }),
        "y" => Landed::Here(SubmitOutcome::Conflict {
            state: state_of(rest)?,
        }),
        "m" => Landed::Sealed(u64::try_from(due_ms).unwrap_or(0)),
        "f" => read_full(rest).ok_or_else(|| unexpected(format!("{word:?} of a full type")))?,
        _ => return Err(unexpected(format!("{word:?} is no outcome of a submit"))),
    })
}

/// `<scheduled>/<most>`.
fn read_full(numbers: &str) -> Option<Landed> {
    let (pending, limit) = numbers.split_once('/')?;
    Some(Landed::Full {
        pending: pending.parse().ok()?,
        limit: limit.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use delayq_core::TaskState;

    use super::*;

    fn bytes(text: &str) -> RespValue {
        RespValue::Bytes(text.as_bytes().to_vec())
    }

    fn answer(runs: &[RespValue]) -> RespValue {
        RespValue::List([&[0, 1].map(RespValue::Int), runs].concat())
    }

    #[test]
    fn a_run_of_like_outcomes_is_one_for_each_task() {
        let run = |word, count, ms| [bytes(word), RespValue::Int(count), RespValue::Int(ms)];
        let runs = [
            run("a", 2, 5),
            run("p", 1, 6),
            run("xd", 1, 0),
            run("yr", 1, 0),
            run("m", 1, 17),
            run("f3/4", 1, 0),
        ];
        let read = read(answer(&runs.concat())).unwrap();
        assert!(!read.is_new && read.is_earlier);
        let accepted = |due_ms, replaced| {
            Landed::Here(SubmitOutcome::Accepted {
                due_at: Timestamp::from_millis(due_ms),
                replaced,
            })
        };
        let state = TaskState::Done;
        let expected = [
            accepted(5, false),
            accepted(5, false),
            accepted(6, true),
            Landed::Here(SubmitOutcome::AlreadyExists { state }),
            Landed::Here(SubmitOutcome::Conflict {
                state: TaskState::Running,
            }),
            Landed::Sealed(17),
            Landed::Full {
                pending: 3,
                limit: 4,
            },
        ];
        assert_eq!(read.landed, expected);
    }

    #[test]
    fn an_outcome_that_no_script_gives_is_refused() {
        for word in ["", "z", "x?!", "f3", "f-1/4"] {
            let run = [bytes(word), RespValue::Int(1), RespValue::Int(0)];
            assert!(read(answer(&run)).is_err(), "{word:?}");
        }
    }
}
