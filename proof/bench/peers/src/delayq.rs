//! delayq, with default settings but for how much runs at once: a service that sends, and a plugin
//! that works on a store of its own.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use delayq_plugin::store::StoreOptions;
use delayq_plugin::{
    DelayQueueJob, DelayQueuePlugin, TaskContext, TaskResult, TaskSubmitService, TaskWorker,
    WorkerOptions, open_store,
};

use crate::Failure;
use crate::board::Board;
use crate::peer::Peer;
use crate::task::{CONCURRENCY, Message, Task};

const TASK_TYPE: &str = "bench.task";

pub(crate) struct Delayq {
    url: String,
    tasks: TaskSubmitService,
    /// Kept alive until the program ends.
    worker: OnceLock<DelayQueuePlugin>,
}

impl Delayq {
    pub(crate) async fn open(url: &str) -> Result<Self, Failure> {
        Ok(Self {
            url: url.to_owned(),
            tasks: TaskSubmitService::new(open_store(url, StoreOptions::default()).await?),
            worker: OnceLock::new(),
        })
    }
}

#[async_trait]
impl Peer for Delayq {
    async fn submit_all(&self, tasks: Vec<Task>) -> Result<(), Failure> {
        let jobs = tasks.iter().map(job).collect::<Result<Vec<_>, _>>()?;
        for accepted in self.tasks.send_all(jobs).await {
            accepted?;
        }
        Ok(())
    }

    async fn submit(&self, task: Task) -> Result<(), Failure> {
        self.tasks.send(job(&task)?).await?;
        Ok(())
    }

    async fn work(&self, board: Arc<Board>) -> Result<(), Failure> {
        let options = WorkerOptions {
            concurrency: CONCURRENCY,
            ..WorkerOptions::default()
        };
        let worker = DelayQueuePlugin::builder().url(&self.url);
        let worker = worker.without_registered_workers();
        let worker = worker.worker(TASK_TYPE, options, Empty(board));
        let started = worker.start().await?;
        let is_first = self.worker.set(started).is_ok();
        is_first
            .then_some(())
            .ok_or_else(|| "it works already".into())
    }

    async fn unsettled(&self, _count: usize) -> Result<usize, Failure> {
        let stats = self.tasks.stats(TASK_TYPE).await?;
        Ok(usize::try_from(stats.scheduled + stats.running)?)
    }
}

fn job(task: &Task) -> Result<DelayQueueJob, delayq_plugin::Error> {
    Ok(DelayQueueJob::new(TASK_TYPE, &task.message)?.after(task.delay))
}

struct Empty(Arc<Board>);

#[async_trait]
impl TaskWorker for Empty {
    async fn invoke(&self, message: &str, _cx: &TaskContext) -> TaskResult {
        let message: Message = serde_json::from_str(message)?;
        self.0.started(message.number());
        Ok(())
    }
}
