//! A consumer of queues: takes ready jobs and hands them to its client.

use std::time::Duration;

use delayq_plugin::Result;
use delayq_plugin::store::AttemptEnd;
use delayq_service::pull::MAX_WAIT;
use delayq_service::stop::Stopping;
use tokio::time::Instant;
use tracing::warn;

use super::engine::Engine;
use super::job::{Appetite, Job, Taken};
use super::names::QueueName;

/// One consumer of some queues; the first queues come first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Consumer<'a> {
    pub(super) engine: &'a Engine,
    pub(super) queues: &'a [QueueName],
    pub(super) appetite: Appetite,
    pub(super) stopping: &'a Stopping,
}

impl Consumer<'_> {
    /// Takes ready jobs, or the first job that becomes ready within `wait`. Dropped jobs are
    /// released.
    pub(super) async fn take(&self, wait: Duration) -> Result<Vec<Taken>> {
        let mut gathered = Vec::new();
        match self.gather(&mut gathered).await {
            Err(error) if !has_jobs(&gathered) => return Err(error),
            Err(error) => warn!(%error, "fewer jobs are handed out than may be ready"),
            Ok(()) if !has_jobs(&gathered) => self.wait(wait, &mut gathered).await?,
            Ok(()) => {}
        }
        Ok(gathered)
    }

    /// Takes what is ready.
    async fn gather(&self, gathered: &mut Vec<Taken>) -> Result<()> {
        loop {
            let count: usize = gathered.iter().map(Taken::count).sum();
            let left = self.appetite.count.saturating_sub(count);
            if left == 0 {
                return Ok(());
            }
            let wanted = Appetite {
                count: left,
                ..self.appetite
            };
            let taken = self.engine.take(self.queues, wanted, Duration::ZERO);
            let taken = taken.await?;
            if taken.is_nothing() {
                return Ok(());
            }
            gathered.push(taken);
        }
    }

    /// Waits for one job.
    async fn wait(&self, wait: Duration, gathered: &mut Vec<Taken>) -> Result<()> {
        let one = Appetite {
            count: 1,
            ..self.appetite
        };
        let end = Instant::now() + wait;
        while !has_jobs(gathered) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let taken = self.engine.take(self.queues, one, left.min(MAX_WAIT));
            let taken = taken.await?;
            if taken.is_nothing() && self.stopping.is_leaving() {
                return Ok(());
            }
            gathered.push(taken);
        }
        Ok(())
    }

    /// Gives the jobs to the client.
    pub(super) async fn hand_out(&self, gathered: Vec<Taken>) -> Result<Vec<Job>> {
        let is_frozen = self.appetite.is_frozen;
        let mut jobs = Vec::new();
        for taken in gathered {
            jobs.extend(taken.jobs(is_frozen, self.engine.now()));
            let pulled = taken.delivered();
            if !is_frozen {
                continue;
            }
            // Released at once, and due when their time to run is over: that costs no attempt.
            let ends = pulled.into_iter().map(|one| {
                let end = AttemptEnd::Release {
                    after: self.appetite.ttr,
                    succeeded: one.task.history.succeeded,
                };
                self.engine.space.pull.end(one.bucket, one.task.lock, end)
            });
            // All are sent before one is awaited: the client may leave meanwhile.
            for end in ends.collect::<Vec<_>>() {
                end.await?;
            }
        }
        Ok(jobs)
    }
}

/// Returns true if there is a job to hand out. A taken job may have used all its tries.
fn has_jobs(gathered: &[Taken]) -> bool {
    gathered.iter().any(|taken| taken.count() > 0)
}
