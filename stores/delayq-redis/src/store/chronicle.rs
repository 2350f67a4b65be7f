//! Figures and the log of actions.

use std::time::Duration;

use async_trait::async_trait;
use delayq_core::chronicle::{
    Action, Chronicle, ChunkChange, LoggedAction, MAX_ACTION_PAGE, Spell, Step, changes, merge,
    read_chunks, slots,
};
use delayq_core::{Error, Result, TaskType, Timestamp};

use super::RedisStore;
use crate::connection::{Class, Command, Fields, RespValue};
use crate::scripts::figures::{self, NewChunk};
use crate::scripts::{ShardId, ShardKeys, actions};
use crate::shard::context::Context;

/// How often figures are merged again because another instance changed them meanwhile, within two
/// seconds. Then they are dropped: they are only for people.
const MAX_TRIES: usize = 11;

#[async_trait]
impl Chronicle for RedisStore {
    async fn add_figures(&self, task_type: &TaskType, minutes: &[Spell]) -> Result<()> {
        let keys = self.cx.keys.shard(task_type, ShardId::WHOLE);
        let changes = changes(minutes);
        for nth in 0..MAX_TRIES {
            if replace_chunks(&self.cx, &keys, &changes).await? {
                return Ok(());
            }
            // Otherwise instances that add at the same time would collide again and again.
            let wait = Duration::from_millis(1 << nth).mul_f64(fastrand::f64());
            let wait = async move {
                tokio::time::sleep(wait).await;
                Ok(())
            };
            self.cx.connections.run(wait).await?;
        }
        tracing::debug!(%task_type, "cannot store figures, as other instances keep changing them; dropped");
        Ok(())
    }

    async fn figures(
        &self,
        task_type: &TaskType,
        step: Step,
        since: Timestamp,
    ) -> Result<Vec<Spell>> {
        let keys = self.cx.keys.shard(task_type, ShardId::WHOLE);
        let now = server_now(&self.cx, &keys).await?;
        let chunks = read_stored(&self.cx, &keys, slots(step, since, now)).await?;
        let chunks = chunks.iter().flatten().map(Vec::as_slice);
        Ok(read_chunks(chunks, step, since, now))
    }

    async fn log_action(&self, action: &Action) -> Result<()> {
        let log = actions::log(&self.cx.keys, action);
        call(&self.cx, log, &self.cx.keys.actions()).await.map(drop)
    }

    async fn actions(&self, before: Option<u64>, limit: usize) -> Result<Vec<LoggedAction>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let read = actions::read(&self.cx.keys, before, limit.min(MAX_ACTION_PAGE));
        let found = call(&self.cx, read, &self.cx.keys.actions()).await?;
        actions::actions(found)
    }
}

/// Merges figures into the stored ones. Returns true if those had not changed when they were
/// replaced.
async fn replace_chunks(cx: &Context, keys: &ShardKeys, changes: &[ChunkChange]) -> Result<bool> {
    let stored = read_stored(cx, keys, changes.iter().map(ChunkChange::slot));
    let mut chunks = Vec::new();
    for (change, before) in changes.iter().zip(stored.await?) {
        if let Some(after) = merge(before.as_deref(), change) {
            chunks.push(NewChunk {
                slot: change.slot(),
                before: before.unwrap_or_default(),
                after,
            });
        }
    }
    if chunks.is_empty() {
        return Ok(true);
    }
    let replace = figures::replace(keys, &chunks);
    let mut answer = call(cx, replace, &keys.figures()).await?;
    answer.flag()
}

async fn read_stored(
    cx: &Context,
    keys: &ShardKeys,
    slots: impl IntoIterator<Item = String>,
) -> Result<Vec<Option<Vec<u8>>>> {
    let mut slots = slots.into_iter().peekable();
    if slots.peek().is_none() {
        return Ok(Vec::new());
    }
    let read = figures::read(keys, slots);
    figures::chunks(call(cx, read, &keys.figures()).await?)
}

/// The clock of the server with the figures.
async fn server_now(cx: &Context, keys: &ShardKeys) -> Result<Timestamp> {
    let ask = Command::read(&["TIME"]).at(keys.slot);
    let mut time = call(cx, ask, &keys.figures()).await?;
    let (seconds, micros) = (time.int()?, time.int()?);
    let ms = seconds.saturating_mul(1_000).saturating_add(micros / 1_000);
    Ok(Timestamp::from_millis(ms))
}

async fn call(cx: &Context, command: Command, key: &str) -> Result<Fields> {
    let answer = cx.connections.call(Class::Main, command).await;
    let of_chronicle = |error| match error {
        Error::Corrupt { .. } => Error::corrupt(
            key,
            "it is not what delayq keeps there: who else writes to `delayq:*`?",
        ),
        error => error,
    };
    answer.map(RespValue::fields).map_err(of_chronicle)
}
