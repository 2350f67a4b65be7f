//! Arguments and answers of `requeue.lua`, `discard.lua`, `purge.lua` and `forget.lua`. They work
//! in chunks, so that no step blocks all others for long.

use std::collections::HashSet;
use std::time::Duration;

use delayq_core::operate::DeadFilter;
use delayq_core::store::MAX_BATCH;
use delayq_core::{Error, Result, TaskId, TaskState, Timestamp};

use super::submit::WakeCall;
use super::{Script, ShardKeys, id_of, record};
use crate::connection::{Command, Fields};

/// The generations of ended tasks by their index among the keys, older first: entries hidden by it
/// must not reappear.
pub(crate) const TOMBSTONES: [i64; 2] = [9, 8];

/// A scan of the dead tasks of one shard that a filter selects, step by step. Tasks that die after
/// its start are left out.
#[derive(Debug)]
pub(crate) struct DeadScan {
    ids: Option<Vec<TaskId>>,
    after: Option<After>,
    before: Timestamp,
    error_contains: String,
    /// The number that may still be selected.
    left: usize,
    /// The tasks that were changed.
    done: Vec<TaskId>,
}

/// The last dead task seen by a step.
#[derive(Debug)]
struct After {
    died_ms: i64,
    id: String,
}

impl DeadScan {
    /// A scan that begins at `now` and selects at most `most` tasks.
    pub(crate) fn new(filter: &DeadFilter, now: Timestamp, most: usize) -> Self {
        // Tasks that die from now on, possibly after a requeue just now, are not selected.
        let end = now.plus(Duration::from_millis(1));
        let mut scan = Self {
            ids: None,
            after: None,
            before: end,
            error_contains: String::new(),
            left: most,
            done: Vec::new(),
        };
        match filter {
            DeadFilter::Ids(ids) => {
                let mut seen = HashSet::new();
                let ids = ids.iter().filter(|id| seen.insert(*id));
                scan.ids = Some(ids.cloned().collect());
            }
            DeadFilter::Matching {
                died_before,
                error_contains,
                limit,
            } => {
                scan.before = died_before.map_or(end, |before| before.min(end));
                scan.error_contains = error_contains.clone().unwrap_or_default();
                scan.left = most.min(*limit);
            }
        }
        scan
    }

    pub(crate) fn is_over(&self) -> bool {
        match &self.ids {
            Some(ids) => ids.is_empty(),
            None => self.left == 0,
        }
    }

    /// The tasks that were changed.
    pub(crate) fn into_done(self) -> Vec<TaskId> {
        self.done
    }

    /// Adds the arguments of `dead.lua` for the next step.
    fn step(&mut self, command: Command) -> Command {
        if let Some(ids) = &mut self.ids {
            let mut command = command.arg("ids");
            for id in ids.drain(..ids.len().min(MAX_BATCH)) {
                command.push(id.as_str());
            }
            return command;
        }
        let (at, id) = match &self.after {
            Some(after) => (after.died_ms.to_string(), after.id.as_str()),
            None => (String::new(), ""),
        };
        // Lua counts exactly up to 2^53; no type has more tasks.
        let left = i64::try_from(self.left).unwrap_or(i64::MAX).min(1 << 53);
        command
            .arg("page")
            .arg(at)
            .arg(id)
            .number(self.before.as_millis())
            .number(left)
            .arg(&self.error_contains)
    }

    /// Reads the end of a step, and the tasks it changed.
    pub(crate) fn read(&mut self, mut fields: Fields) -> Result<()> {
        let after = After {
            died_ms: fields.int()?,
            id: fields.text()?,
        };
        let before = self.done.len();
        while !fields.is_empty() {
            self.done.push(id_of(&mut fields)?);
        }
        if self.ids.is_none() {
            self.left = self.left.saturating_sub(self.done.len() - before);
            if after.died_ms < 0 {
                self.left = 0;
            }
            self.after = Some(after);
        }
        Ok(())
    }
}

/// The due times of requeued tasks.
#[derive(Debug)]
pub(crate) struct RequeuePlan {
    /// The due time of the next task, ms; empty for now.
    pub(crate) next_due: String,
    pub(crate) interval: Duration,
}

pub(crate) fn requeue(
    keys: &ShardKeys,
    wake: &WakeCall,
    plan: &RequeuePlan,
    scan: &mut DeadScan,
) -> Command {
    let command = keys
        .script(Script::Requeue, 512)
        .arg(&wake.channel)
        .arg(&wake.message)
        .arg(&plan.next_due)
        .number(record::span_ms(plan.interval));
    scan.step(command)
}

pub(crate) fn discard(keys: &ShardKeys, scan: &mut DeadScan) -> Command {
    scan.step(keys.script(Script::Discard, 512))
}

/// The things that a purge removes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purge {
    /// Tasks in the state with this letter.
    Tasks(&'static str),
    /// Records of ended tasks in the state with this letter.
    Ends(&'static str),
}

impl Purge {
    /// # Errors
    /// `InvalidInput` for running tasks.
    pub(crate) fn of(state: TaskState) -> Result<Self> {
        Ok(match state {
            TaskState::Scheduled => Self::Tasks("s"),
            TaskState::Dead => Self::Tasks("k"),
            TaskState::Done => Self::Ends("d"),
            TaskState::Cancelled => Self::Ends("c"),
            TaskState::Expired => Self::Ends("e"),
            _ => {
                let reason = format!("{state} tasks cannot be purged: cancel them instead");
                return Err(Error::invalid("argument", reason));
            }
        })
    }
}
