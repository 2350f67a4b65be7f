//! A pool: the queues that its tokens reach.

use std::time::Duration;

use delayq_plugin::store::AttemptEnd;
use delayq_plugin::{Result, TaskInfo};
use delayq_service::pull::MAX_WAIT;
use delayq_service::stop::Stopping;
use tokio::time::Instant;
use tracing::warn;

use super::engine::{DeadLetters, Engine};
use super::job::{Appetite, Job, Taken};
use super::names::QueueName;

/// The longest single wait while a pool is drained, before the drained pool is checked again.
const DRAIN_WAIT: Duration = Duration::from_secs(1);

/// Taken jobs, with the engine that each came from.
pub(super) type Catch<'a> = Vec<(&'a Engine, Taken)>;

/// A pool: its engine, and optionally another one that is being drained.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub(super) engine: Engine,
    /// The drained engine. Its jobs come first, and it gets no new ones.
    pub(super) drained: Option<Engine>,
    pub(super) stopping: Stopping,
}

impl Pool {
    fn engines(&self) -> impl Iterator<Item = &Engine> {
        self.drained.iter().chain([&self.engine])
    }

    /// Takes ready jobs, or the first that becomes ready within `wait`. If the result is dropped,
    /// the jobs are released.
    pub(super) async fn take(
        &self,
        queues: &[QueueName],
        appetite: Appetite,
        wait: Duration,
    ) -> Result<Catch<'_>> {
        let mut gathered = Vec::new();
        let mut error = None;
        for engine in self.engines() {
            error = self
                .gather(engine, queues, appetite, &mut gathered)
                .await
                .err();
            if error.is_some() {
                break;
            }
        }
        if !has_jobs(&gathered) && error.is_none() && !wait.is_zero() {
            let one = Appetite {
                count: 1,
                ..appetite
            };
            self.wait(queues, one, wait, &mut gathered).await?;
        }
        match error {
            Some(error) if !has_jobs(&gathered) => return Err(error),
            Some(error) => warn!(%error, "cannot take all jobs; fewer are handed out"),
            None => {}
        }
        Ok(gathered)
    }

    /// Takes ready jobs.
    async fn gather<'a>(
        &self,
        engine: &'a Engine,
        queues: &[QueueName],
        appetite: Appetite,
        gathered: &mut Catch<'a>,
    ) -> Result<()> {
        loop {
            let jobs = |(_, one): &(&Engine, Taken)| one.count();
            let count: usize = gathered.iter().map(jobs).sum();
            let left = appetite.count.saturating_sub(count);
            if left == 0 {
                return Ok(());
            }
            let wanted = Appetite {
                count: left,
                ..appetite
            };
            let taken = engine.take(queues, wanted, Duration::ZERO).await?;
            if taken.is_nothing() {
                return Ok(());
            }
            gathered.push((engine, taken));
        }
    }

    async fn wait<'a>(
        &'a self,
        queues: &[QueueName],
        appetite: Appetite,
        wait: Duration,
        gathered: &mut Catch<'a>,
    ) -> Result<()> {
        let end = Instant::now() + wait;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            if let Some(drained) = &self.drained {
                self.gather(drained, queues, appetite, gathered).await?;
            }
            let most = self.drained.as_ref().map_or(MAX_WAIT, |_| DRAIN_WAIT);
            if !has_jobs(gathered) {
                let taken = self.engine.take(queues, appetite, left.min(most)).await?;
                if taken.is_nothing() && self.stopping.is_leaving() {
                    return Ok(());
                }
                gathered.push((&self.engine, taken));
            }
            if has_jobs(gathered) {
                return Ok(());
            }
        }
    }

    /// Hands the jobs to the client.
    pub(super) async fn hand_out(&self, caught: Catch<'_>, appetite: Appetite) -> Result<Vec<Job>> {
        let mut jobs = Vec::new();
        for (engine, taken) in caught {
            jobs.extend(taken.jobs(appetite.is_frozen, engine.now()));
            let pulled = taken.delivered();
            if !appetite.is_frozen {
                continue;
            }
            // Released at once, to become due when the time to run is over. This costs no attempt.
            let ends = pulled.into_iter().map(|one| {
                let end = AttemptEnd::Release {
                    after: appetite.ttr,
                    succeeded: one.task.history.succeeded,
                };
                engine.space.pull.end(one.bucket, one.task.lock, end)
            });
            // All ends are sent before the first is awaited, because the client may leave
            // meanwhile.
            for end in ends.collect::<Vec<_>>() {
                end.await?;
            }
        }
        Ok(jobs)
    }

    /// Ends a job in any state.
    pub(super) async fn delete(&self, queue: &QueueName, id: &str) -> Result<()> {
        for engine in self.engines() {
            engine.delete(queue, id).await?;
        }
        Ok(())
    }

    /// Finds a job.
    pub(super) async fn find(&self, queue: &QueueName, id: &str) -> Result<Option<TaskInfo>> {
        for engine in self.engines() {
            if let Some(found) = engine.find(queue, id).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The next job.
    pub(super) async fn peek(&self, queue: &QueueName) -> Result<Option<TaskInfo>> {
        for engine in self.engines() {
            if let Some(found) = engine.peek(queue).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The number of ready jobs.
    pub(super) async fn size(&self, queue: &QueueName) -> Result<u64> {
        let mut size = 0;
        for engine in self.engines() {
            size += engine.size(queue).await?;
        }
        Ok(size)
    }

    /// Destroys a queue.
    pub(super) async fn destroy(&self, queue: &QueueName, is_all: bool) -> Result<()> {
        for engine in self.engines() {
            engine.destroy(queue, is_all).await?;
        }
        Ok(())
    }

    fn dead<'a>(&'a self, queue: &'a QueueName) -> impl Iterator<Item = DeadLetters<'a>> {
        self.engines()
            .map(move |engine| DeadLetters { engine, queue })
    }

    /// The number of dead jobs.
    pub(super) async fn dead_size(&self, queue: &QueueName) -> Result<u64> {
        let mut size = 0;
        for letters in self.dead(queue) {
            size += letters.size().await?;
        }
        Ok(size)
    }

    /// The job that has been dead longest.
    pub(super) async fn dead_head(&self, queue: &QueueName) -> Result<Option<String>> {
        for letters in self.dead(queue) {
            if let Some(head) = letters.head().await? {
                return Ok(Some(head));
            }
        }
        Ok(None)
    }

    /// Removes dead jobs; returns their number.
    pub(super) async fn delete_dead(&self, queue: &QueueName, limit: usize) -> Result<usize> {
        let mut count = 0;
        for letters in self.dead(queue) {
            count += letters.delete(limit - count).await?;
        }
        Ok(count)
    }

    /// Makes dead jobs ready again; returns their number.
    pub(super) async fn respawn(
        &self,
        queue: &QueueName,
        limit: usize,
        ttl: Duration,
    ) -> Result<usize> {
        let mut count = 0;
        for letters in self.dead(queue) {
            count += letters.respawn(limit - count, ttl).await?;
        }
        Ok(count)
    }
}

/// Returns true if there is a job to hand out. A taken job may have used all its tries.
fn has_jobs(gathered: &[(&Engine, Taken)]) -> bool {
    gathered.iter().any(|(_, taken)| taken.count() > 0)
}
