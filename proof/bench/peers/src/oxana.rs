//! oxana. By itself it looks for tasks that become due every 300 ms, and into an empty queue every
//! 10 s, so it is told to look more often.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ::oxana::{
    FromContext, Job, JobContext, Queue, QueueConcurrency, QueueConfig, QueueKind, Storage, Worker,
};
use async_trait::async_trait;
use chrono::Utc;

use crate::Failure;
use crate::board::Board;
use crate::peer::Peer;
use crate::task::{CONCURRENCY, Message, Task};

/// How often it looks.
const POLL: Duration = Duration::from_millis(10);

pub(crate) struct Oxana(Storage);

impl Oxana {
    pub(crate) fn open(url: &str) -> Result<Self, Failure> {
        Ok(Self(Storage::from_url(url)?))
    }
}

#[async_trait]
impl Peer for Oxana {
    /// Its call for many takes only tasks that are due.
    fn has_bulk(&self) -> bool {
        false
    }

    async fn submit_all(&self, _tasks: Vec<Task>) -> Result<(), Failure> {
        Err("no call takes several delayed tasks".into())
    }

    async fn submit(&self, task: Task) -> Result<(), Failure> {
        if task.delay.is_zero() {
            self.0.enqueue(Bench, task.message).await?;
        } else {
            let due = Utc::now() + task.delay;
            self.0.enqueue_at(Bench, task.message, due).await?;
        }
        Ok(())
    }

    async fn work(&self, board: Arc<Board>) -> Result<(), Failure> {
        let ended = Arc::clone(&board);
        let runtime = self.0.runtime(board);
        let runtime = runtime
            .queue::<Bench>()
            .worker::<Empty, Message>()
            .schedule_poll_interval(POLL)
            .dequeue_timeout(POLL);
        tokio::spawn(async move {
            ended.ended(runtime.run().await.map(|_| ()));
        });
        Ok(())
    }

    async fn unsettled(&self, _count: usize) -> Result<usize, Failure> {
        Ok(self.0.jobs_count().await?)
    }
}

struct Bench;

impl Queue for Bench {
    fn to_config() -> QueueConfig {
        let key = "bench".to_owned();
        QueueConfig {
            kind: QueueKind::Static { key },
            concurrency: QueueConcurrency::Fixed(CONCURRENCY),
            throttle: None,
        }
    }
}

impl Job for Message {}

struct Empty(Arc<Board>);

impl FromContext<Arc<Board>> for Empty {
    fn from_context(board: &Arc<Board>) -> Self {
        Self(Arc::clone(board))
    }
}

#[async_trait]
impl Worker<Message> for Empty {
    type Error = Infallible;

    async fn process(&self, message: Message, _cx: &JobContext) -> Result<(), Infallible> {
        self.0.started(message.number());
        Ok(())
    }
}
