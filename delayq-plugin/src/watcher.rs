//! Watcher: the worker that follows a batch until it has ended.

use async_trait::async_trait;
use delayq_core::worker::NEWER_VERSION_WAIT;
use delayq_core::{
    Result, RetryPolicy, TaskContext, TaskError, TaskInfo, TaskResult, TaskWorker, WorkerOptions,
    minutes, seconds,
};

use crate::batch::{BATCH_TYPE, Watch};
use crate::submit::{TaskSubmitService, cancel_members, with_largest_messages};

/// Members that one look passes before the position is stored.
const MOST_PER_LOOK: usize = 1_000;

/// The watcher never gives up: a batch that waits for a store must not end as a dead task.
pub(crate) const OPTIONS: WorkerOptions = WorkerOptions {
    retry: RetryPolicy {
        max_attempts: u32::MAX,
        cap: minutes(1),
        ..RetryPolicy::DEFAULT
    },
    max_releases: u32::MAX,
    concurrency: 16,
    ..WorkerOptions::DEFAULT
};

/// Runs the tasks of type `delayq.batch`.
#[derive(Debug)]
pub(crate) struct Watcher {
    tasks: TaskSubmitService,
}

/// The result of a look.
enum WatchResult {
    /// All members have ended.
    Over,
    /// There are more members to look at.
    More,
    /// This member has not ended.
    Waits(Box<TaskInfo>),
}

impl Watcher {
    pub(crate) fn new(tasks: &TaskSubmitService) -> Self {
        Self {
            tasks: with_largest_messages(tasks),
        }
    }

    /// Moves the position to the first member that has not ended.
    async fn look(&self, watch: &mut Watch, cx: &TaskContext) -> Result<WatchResult> {
        for _ in 0..MOST_PER_LOOK {
            let Some((task_type, id)) = watch.first()? else {
                return Ok(WatchResult::Over);
            };
            let found = self.tasks.store().find(&task_type, &id).await?;
            if let (false, Some(member)) = (watch.pass(found.as_ref()), found) {
                return Ok(WatchResult::Waits(Box::new(member)));
            }
            if cx.is_cancelled() {
                break;
            }
        }
        Ok(WatchResult::More)
    }

    /// Sends the batch's completion, unless that was done. If the watcher is to run again (after an
    /// attempt that was cut off, or a cancel), the next run decides instead, so that no completion
    /// is sent twice or after a cancel.
    async fn complete(&self, watch: &Watch, cx: &TaskContext) -> TaskResult {
        let own = self.tasks.find(BATCH_TYPE, cx.id().as_str()).await?;
        if own.is_some_and(|own| own.again_at.is_some()) {
            return Ok(());
        }
        let (task_type, id) = watch.completion();
        if self.tasks.store().find(task_type, id).await?.is_none() {
            self.tasks.send(watch.completion_job()?).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl TaskWorker for Watcher {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        self.invoke_bytes(message.as_bytes(), cx).await
    }

    async fn invoke_bytes(&self, message: &[u8], cx: &TaskContext) -> TaskResult {
        let Some(mut watch) = Watch::read(message).map_err(TaskError::dead)? else {
            return Err(TaskError::release(NEWER_VERSION_WAIT));
        };
        if watch.is_cancelled {
            cancel_members(&self.tasks, watch).await?;
            return Ok(());
        }
        let wait = match self.look(&mut watch, cx).await? {
            WatchResult::Over => return self.complete(&watch, cx).await,
            WatchResult::More => seconds(0),
            WatchResult::Waits(member) => {
                let now = cx.submitted_at().plus(cx.age());
                watch.wait(&member, now, cx.submitted_at())
            }
        };
        let again = watch.job()?.after(wait).again_if_running();
        self.tasks.send(again).await?;
        Ok(())
    }
}
