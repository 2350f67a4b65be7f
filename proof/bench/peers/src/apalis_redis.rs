//! apalis-redis. By itself an idle worker looks for tasks with its heartbeat only, every 30 s, so
//! it is told to look more often.

use std::sync::Arc;
use std::time::Duration;

use ::apalis::prelude::{
    BackendExt, BoxDynError, ParallelizeExt, TaskBuilder, TaskSink, WorkerBuilder,
};
use ::apalis_redis::{Config, ConnectionManager, RedisStorage};
use async_trait::async_trait;
use futures::stream;
use tokio::runtime::Handle;

use crate::Failure;
use crate::board::Board;
use crate::peer::Peer;
use crate::task::{CONCURRENCY, Message, Task};

const QUEUE: &str = "bench";
/// Where it notes who is done.
const DONE: &str = "bench:done";
/// How often an idle worker looks: as often as in its own tests. In about half of the runs with few
/// tasks it was seen to look no more after a while, with 10 ms and 100 ms, too; why was not found
/// out.
const POLL: Duration = Duration::from_secs(1);

pub(crate) struct ApalisRedis {
    storage: RedisStorage<Message>,
    connection: ConnectionManager,
}

impl ApalisRedis {
    pub(crate) async fn open(url: &str) -> Result<Self, Failure> {
        let connection = ::apalis_redis::connect(url).await?;
        let config = Config::default().queue(QUEUE).batch_size(CONCURRENCY);
        Ok(Self {
            storage: RedisStorage::new(connection.clone()).with_config(config),
            connection,
        })
    }
}

#[async_trait]
impl Peer for ApalisRedis {
    async fn submit_all(&self, tasks: Vec<Task>) -> Result<(), Failure> {
        let built = tasks.into_iter().map(build);
        self.storage.clone().push_all(stream::iter(built)).await?;
        Ok(())
    }

    async fn submit(&self, task: Task) -> Result<(), Failure> {
        self.storage.clone().push_task(build(task)).await?;
        Ok(())
    }

    async fn work(&self, board: Arc<Board>) -> Result<(), Failure> {
        let ended = Arc::clone(&board);
        let run = move |message: Message| {
            let board = Arc::clone(&board);
            async move {
                board.started(message.number());
                Ok::<_, BoxDynError>(())
            }
        };
        let worker = WorkerBuilder::new("bench-worker")
            .backend(self.storage.clone().poll_with_interval(POLL))
            .parallelize(tokio::spawn)
            .build(run);
        // The compiler finds its future not general enough to be spawned, so that it gets a thread
        // to be polled by.
        let runtime = Handle::current();
        // It ends with the first error of its store.
        tokio::task::spawn_blocking(move || ended.ended(runtime.block_on(worker.run())));
        Ok(())
    }

    async fn unsettled(&self, count: usize) -> Result<usize, Failure> {
        let mut done = redis::cmd("SCARD");
        let done: usize = done
            .arg(DONE)
            .query_async(&mut self.connection.clone())
            .await?;
        Ok(count.saturating_sub(done))
    }
}

fn build(task: Task) -> ::apalis::prelude::Task<Message> {
    let built = TaskBuilder::new(task.message);
    if task.delay.is_zero() {
        return built.build();
    }
    built.run_after(task.delay).build()
}
