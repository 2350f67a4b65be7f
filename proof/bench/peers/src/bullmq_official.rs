//! bullmq-official: `BullMQ` in Rust.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bullmq::options::RedisConnectionOptions;
use bullmq::{BulkJob, Job, JobOptions, Queue, QueueOptions, Worker, WorkerOptions};
use serde_json::Value;

use crate::Failure;
use crate::board::Board;
use crate::peer::Peer;
use crate::task::{CONCURRENCY, Message, Task};

const QUEUE: &str = "bench";

pub(crate) struct BullmqOfficial {
    connection: RedisConnectionOptions,
    queue: Queue,
    worker: OnceLock<Worker>,
}

impl BullmqOfficial {
    pub(crate) async fn open(url: &str) -> Result<Self, Failure> {
        let connection = RedisConnectionOptions::new().url(url);
        let options = QueueOptions::new().connection(connection.clone());
        Ok(Self {
            connection,
            queue: Queue::with_options(QUEUE, options).await?,
            worker: OnceLock::new(),
        })
    }
}

#[async_trait]
impl Peer for BullmqOfficial {
    async fn submit_all(&self, tasks: Vec<Task>) -> Result<(), Failure> {
        let job = |task: Task| BulkJob::with_options("task", &task.message, options(&task));
        self.queue
            .add_bulk(tasks.into_iter().map(job).collect())
            .await?;
        Ok(())
    }

    async fn submit(&self, task: Task) -> Result<(), Failure> {
        self.queue
            .add("task", &task.message)
            .delay(task.delay)
            .await?;
        Ok(())
    }

    async fn work(&self, board: Arc<Board>) -> Result<(), Failure> {
        let run = move |job: Job, _token| {
            let board = Arc::clone(&board);
            async move {
                let message: Message = serde_json::from_value(job.data().clone())?;
                board.started(message.number());
                Ok(Value::Null)
            }
        };
        let options = WorkerOptions::new()
            .connection(self.connection.clone())
            .concurrency(CONCURRENCY);
        let worker = Worker::with_options(QUEUE, run, options).await?;
        let is_first = self.worker.set(worker).is_ok();
        is_first
            .then_some(())
            .ok_or_else(|| "it works already".into())
    }

    async fn unsettled(&self, _count: usize) -> Result<usize, Failure> {
        let counts = self.queue.get_job_counts().await?;
        Ok(usize::try_from(
            counts.waiting + counts.active + counts.delayed,
        )?)
    }
}

fn options(task: &Task) -> JobOptions {
    let delay = (!task.delay.is_zero()).then(|| task.delay_ms());
    JobOptions {
        delay,
        ..JobOptions::default()
    }
}
