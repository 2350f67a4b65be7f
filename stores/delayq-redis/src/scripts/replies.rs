//! Replies: a hash for each task, stored beside the keys of the unsharded form of its type.
//! Commands that read and keep them.

use delayq_core::reply::{KeptReply, Reply};
use delayq_core::task::Lock;
use delayq_core::time::duration_ms;
use delayq_core::{Result, TaskId, Timestamp};

use super::{Script, ShardKeys};
use crate::connection::{Command, Fields};

/// Keeps a reply.
pub(crate) fn keep(keys: &ShardKeys, lock: &Lock, reply: &Reply) -> Command {
    let (key, bytes) = ([keys.reply(&lock.id)], reply.body.len() + 256);
    Command::script(Script::Reply.lua(), keys.slot, &key, bytes)
        .arg(lock.fence.to_string())
        .number(duration_ms(reply.retention).max(1))
        .arg(&reply.content_type)
        .arg(&reply.body)
}

/// Reads the reply of a task.
pub(crate) fn read(keys: &ShardKeys, id: &TaskId) -> Command {
    Command::read(&["HMGET", &keys.reply(id), "f", "a", "t", "b"]).at(keys.slot)
}

/// Decodes the answer to [`read`]; `None` if there is no reply, or if it is damaged.
pub(crate) fn kept(mut fields: Fields) -> Result<Option<KeptReply>> {
    let (fence, at) = (fields.optional_text()?, fields.optional_text()?);
    let (content_type, body) = (fields.optional_text()?, fields.optional_bytes()?);
    let number = |text: Option<String>| text?.parse().ok();
    let kept = || {
        Some(KeptReply {
            fence: fence?.parse().ok()?,
            at: Timestamp::from_millis(number(at)?),
            content_type: content_type?,
            body: body?,
        })
    };
    Ok(kept())
}
