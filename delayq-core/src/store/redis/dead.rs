//! Dead letters, and purging: chunk by chunk, so that no step keeps everybody else waiting.

use std::collections::HashSet;
use std::time::Duration;

use super::RedisStore;
use super::client::{Command, Fields, Lane};
use super::keys::Partition;
use super::record;
use super::scripts::Script;
use crate::error::{Error, Result};
use crate::name::TaskId;
use crate::state::TaskState;
use crate::store::{DeadFilter, MAX_BATCH};
use crate::time::Timestamp;

/// The generations of ended tasks by their place among the keys, the elder first: what it hides must not
/// reappear.
const GENERATIONS: [i64; 2] = [9, 8];

/// A walk through the dead tasks that a filter means, step by step. It ends at those that die later.
pub(super) struct Walk {
    ids: Option<Vec<TaskId>>,
    after: Option<(i64, String)>,
    before: Timestamp,
    error_contains: String,
    left: usize,
}

impl Walk {
    pub(super) fn new(filter: &DeadFilter, now: Timestamp) -> Self {
        // What dies from now on, perhaps because it was requeued just now, is not meant.
        let end = now.plus(Duration::from_millis(1));
        match filter {
            DeadFilter::Ids(ids) => {
                let mut seen = HashSet::new();
                let ids: Vec<TaskId> = ids.iter().filter(|id| seen.insert(*id)).cloned().collect();
                Self {
                    left: ids.len(),
                    ids: Some(ids),
                    after: None,
                    before: end,
                    error_contains: String::new(),
                }
            }
            DeadFilter::Matching {
                died_before,
                error_contains,
                limit,
            } => Self {
                ids: None,
                after: None,
                before: died_before.map_or(end, |before| before.min(end)),
                error_contains: error_contains.clone().unwrap_or_default(),
                left: *limit,
            },
        }
    }

    fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Adds what `dead.lua` takes for the next step.
    fn step(&mut self, command: Command) -> Command {
        if let Some(ids) = &mut self.ids {
            let batch: Vec<TaskId> = ids.drain(..ids.len().min(MAX_BATCH)).collect();
            self.left = ids.len();
            let mut command = command.arg("ids");
            for id in batch {
                command.push(id.as_str());
            }
            return command;
        }
        let (at, id) = match &self.after {
            Some((at, id)) => (at.to_string(), id.as_str()),
            None => (String::new(), ""),
        };
        // Lua counts exactly up to 2^53; nobody has more tasks.
        let left = i64::try_from(self.left).unwrap_or(i64::MAX).min(1 << 53);
        command
            .arg("page")
            .arg(at)
            .arg(id)
            .number(self.before.as_millis())
            .number(left)
            .arg(&self.error_contains)
    }

    /// Reads where the step ended, and what it did.
    fn went(&mut self, mut fields: Fields, done: &mut Vec<TaskId>) -> Result<()> {
        let (at, id) = (fields.int()?, fields.text()?);
        let ids = fields.ids()?;
        if self.ids.is_none() {
            self.left = self.left.saturating_sub(ids.len());
            match at {
                ..0 => self.left = 0,
                at => self.after = Some((at, id)),
            }
        }
        done.extend(ids);
        Ok(())
    }
}

impl RedisStore {
    /// Requeues what `walk` means of one partition: the first is due at `due`, or now if that is empty, which is moved
    /// on with each one.
    pub(super) async fn requeue_part(
        &self,
        part: &Partition,
        mut walk: Walk,
        (due, interval): (&mut String, Duration),
        requeued: &mut Vec<TaskId>,
    ) -> Result<()> {
        while !walk.is_over() {
            let command = part
                .script(Script::Requeue, 512)
                .arg(self.scope.wake_channel(part))
                .arg(self.scope.wake_message(part))
                .arg(&*due)
                .number(record::span_ms(interval));
            let mut fields = self.run(Lane::Main, part, walk.step(command)).await?;
            if fields.flag()? {
                self.scope.wake(part);
            }
            *due = fields.int()?.to_string();
            walk.went(fields, requeued)?;
        }
        Ok(())
    }

    /// Discards what `walk` means of one partition.
    pub(super) async fn discard_part(
        &self,
        part: &Partition,
        mut walk: Walk,
        discarded: &mut Vec<TaskId>,
    ) -> Result<()> {
        while !walk.is_over() {
            let command = part.script(Script::Discard, 512);
            let fields = self.run(Lane::Main, part, walk.step(command)).await?;
            walk.went(fields, discarded)?;
        }
        Ok(())
    }

    pub(super) async fn purge_part(&self, part: &Partition, state: TaskState) -> Result<u64> {
        match state {
            TaskState::Scheduled => self.purge_live(part, "s").await,
            TaskState::Dead => self.purge_live(part, "k").await,
            TaskState::Done => self.forget(part, "d").await,
            TaskState::Cancelled => self.forget(part, "c").await,
            TaskState::Expired => self.forget(part, "e").await,
            TaskState::Running => {
                let reason = "running tasks cannot be purged: cancel them instead".to_owned();
                Err(Error::InvalidInput(reason))
            }
        }
    }

    /// Removes as many tasks as there were at the beginning, so that a busy type cannot hold it up for ever.
    async fn purge_live(&self, part: &Partition, state: &str) -> Result<u64> {
        let (mut purged, mut meant) = (0, None);
        loop {
            let command = part.script(Script::Purge, 8).arg(state);
            let mut fields = self.run(Lane::Main, part, command).await?;
            let (before, removed) = (fields.count()?, fields.count()?);
            purged += removed;
            if removed == 0 || purged >= *meant.get_or_insert(before) {
                return Ok(purged);
            }
        }
    }

    async fn forget(&self, part: &Partition, state: &str) -> Result<u64> {
        let mut forgotten = 0;
        for generation in GENERATIONS {
            let mut cursor = "0".to_owned();
            loop {
                let command = part
                    .script(Script::Forget, 64)
                    .number(generation)
                    .arg(&cursor)
                    .arg(state)
                    .number(self.scope.retention_ms());
                let mut fields = self.run(Lane::Main, part, command).await?;
                cursor = fields.text()?;
                forgotten += fields.count()?;
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(forgotten)
    }
}
