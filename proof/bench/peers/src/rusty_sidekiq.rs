//! rusty-sidekiq.

use std::sync::Arc;

use async_trait::async_trait;
use sidekiq::{Processor, ProcessorConfig, RedisConnectionManager, RedisPool, Worker};

use crate::Failure;
use crate::board::Board;
use crate::peer::Peer;
use crate::task::{CONCURRENCY, IN_FLIGHT, Message, Task};

const QUEUE: &str = "bench";
const CLASS: &str = "Empty";
/// Every worker blocks a connection while it waits, and takes another one to note what it does.
const WORKER_CONNECTIONS: usize = 2 * CONCURRENCY + 8;

pub(crate) struct RustySidekiq {
    url: String,
    /// Apart from the worker's, as its README advises.
    senders: RedisPool,
}

impl RustySidekiq {
    pub(crate) async fn open(url: &str) -> Result<Self, Failure> {
        Ok(Self {
            url: url.to_owned(),
            senders: pool(url, IN_FLIGHT).await?,
        })
    }
}

#[async_trait]
impl Peer for RustySidekiq {
    fn has_bulk(&self) -> bool {
        false
    }

    async fn submit_all(&self, _tasks: Vec<Task>) -> Result<(), Failure> {
        Err("no call takes several tasks".into())
    }

    async fn submit(&self, task: Task) -> Result<(), Failure> {
        let (class, queue) = (CLASS.to_owned(), QUEUE.to_owned());
        if task.delay.is_zero() {
            sidekiq::perform_async(&self.senders, class, queue, task.message).await?;
        } else {
            sidekiq::perform_in(&self.senders, task.delay, class, queue, task.message).await?;
        }
        Ok(())
    }

    async fn work(&self, board: Arc<Board>) -> Result<(), Failure> {
        let connections = pool(&self.url, WORKER_CONNECTIONS).await?;
        let config = ProcessorConfig::default().num_workers(CONCURRENCY);
        let mut processor = Processor::new(connections, vec![QUEUE.to_owned()]).with_config(config);
        processor.register(Empty(board));
        tokio::spawn(processor.run());
        Ok(())
    }

    /// It takes a task out of Redis before it runs it: none is left to be settled.
    async fn unsettled(&self, _count: usize) -> Result<usize, Failure> {
        Ok(0)
    }
}

async fn pool(url: &str, connections: usize) -> Result<RedisPool, Failure> {
    let pool = bb8::Pool::builder().max_size(u32::try_from(connections)?);
    Ok(pool.build(RedisConnectionManager::new(url)?).await?)
}

struct Empty(Arc<Board>);

#[async_trait]
impl Worker<Message> for Empty {
    async fn perform(&self, message: Message) -> sidekiq::Result<()> {
        self.0.started(message.number());
        Ok(())
    }
}
