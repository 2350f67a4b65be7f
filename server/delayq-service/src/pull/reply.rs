//! Stores replies of attempts, after a check of their locks.

use delayq_plugin::store::Reply;
use delayq_plugin::{Lock, Result, Store, TaskType};

/// Keeps the reply of an attempt if its lock still holds the task. Otherwise nothing is kept,
/// because it would block the reply of the attempt that goes on. A repeated settlement kept its
/// reply the first time.
pub(super) async fn keep_held(
    store: &dyn Store,
    task_type: &TaskType,
    lock: &Lock,
    reply: &Reply,
) -> Result<()> {
    let found = store.find(task_type, &lock.id).await?;
    if found.is_some_and(|task| task.fence == Some(lock.fence)) {
        store.keep_reply(task_type, lock, reply).await?;
    }
    Ok(())
}

/// Keeps the reply of an attempt of a program that uses the server as its store. Returns true if it
/// was kept. An at-most-once attempt replies after it was settled, so the last settled fence counts
/// as well. An unknown task is left to the store, because an ended task may be forgotten at once.
pub async fn keep_own(
    store: &dyn Store,
    task_type: &TaskType,
    lock: &Lock,
    reply: &Reply,
) -> Result<bool> {
    let found = store.find(task_type, &lock.id).await?;
    let is_own = found.is_none_or(|task| {
        let fences = [task.fence, task.settled_fence];
        fences.contains(&Some(lock.fence))
    });
    if !is_own {
        reply.check()?;
        return Ok(false);
    }
    store.keep_reply(task_type, lock, reply).await
}
