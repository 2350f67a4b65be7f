//! Replies of workers.

use async_trait::async_trait;
use delayq_core::replies::Replies;
use delayq_core::reply::{KeptReply, Reply};
use delayq_core::task::Lock;
use delayq_core::{Error, Result, TaskId, TaskType};

use super::RedisStore;
use crate::connection::{self, Class, Command, Fields};
use crate::scripts::{ShardId, replies};
use crate::shard::context::Context;

async fn call(cx: &Context, command: Command, key: &str) -> Result<Fields> {
    let answer = cx.connections.call(Class::Main, command).await;
    let of_reply = |error| match error {
        Error::Corrupt { .. } => Error::corrupt(
            key,
            "it is not what delayq keeps there: who else writes to `delayq:*`?",
        ),
        error => error,
    };
    answer.map(connection::RespValue::fields).map_err(of_reply)
}

#[async_trait]
impl Replies for RedisStore {
    async fn keep_reply(&self, task_type: &TaskType, lock: &Lock, reply: &Reply) -> Result<bool> {
        reply.check()?;
        let keys = self.cx.keys.shard(task_type, ShardId::WHOLE);
        let keep = replies::keep(&keys, lock, reply);
        call(&self.cx, keep, &keys.reply(&lock.id)).await?.flag()
    }

    async fn reply(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<KeptReply>> {
        let keys = self.cx.keys.shard(task_type, ShardId::WHOLE);
        let read = replies::read(&keys, id);
        replies::kept(call(&self.cx, read, &keys.reply(id)).await?)
    }
}
