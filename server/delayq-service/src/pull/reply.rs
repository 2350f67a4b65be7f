//! Replies of attempts whose locks are checked before.

use delayq_plugin::store::Reply;
use delayq_plugin::{Lock, Result, Store, TaskType};

/// Keeps the reply of an attempt whose lock holds its task. Of another lock none is kept: it would
/// stand in the way of the reply of the attempt that goes on. A repeated settlement has kept its
/// own the first time.
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

/// The same for a program that has the server as its store; whether it was kept. An attempt that
/// was settled as done before it started replies afterwards. A task that is not known is left to
/// the store: one that ended may be forgotten at once.
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
