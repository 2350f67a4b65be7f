//! Moves the tasks of one type.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{AttemptEnd, ClaimRequest, MAX_BATCH, Settlement};
use delayq_core::{
    Bucket, Clock, Error, Result, SystemClock, TaskState, TaskType, millis, seconds,
};
use futures_util::future::join_all;
use tokio::sync::watch;

use super::delivery::deliver;
use super::is_over;
use crate::parts::{Parts, pause};

/// Moves of a type at the same time, while more tasks are due than one of them takes.
const LANES: usize = 4;

/// The number of lock expiries that a task survives: a promoter that dies does not die of it.
const MANY: u32 = 1_000_000;

/// The wait after the first failure, doubled with each further one.
const FIRST_WAIT: Duration = millis(100);

/// The longest wait after a failure.
const LONGEST_WAIT: Duration = seconds(5);

/// From so many moved tasks on cold is told to forget them.
const FORGET_FROM: u64 = 10_000;

/// How long a moved task may be remembered by cold.
const FORGET_AFTER: Duration = seconds(30);

/// The promoter of one type.
#[derive(Debug)]
pub(super) struct Mover {
    parts: Arc<Parts>,
    task_type: TaskType,
    failures: u32,
    /// Tasks that were moved since cold forgot such tasks, and when it did.
    moved: u64,
    forgot_at: Duration,
}

/// What one move of a batch did.
#[derive(Clone, Debug, Default)]
pub(super) struct Moved {
    pub(super) tasks: u64,
    /// True if more may be due.
    pub(super) is_full: bool,
    /// Time after which another claim can find something.
    pub(super) next_in: Option<Duration>,
    /// The reason why hot did not take a task.
    pub(super) refused: Option<Error>,
}

impl Moved {
    /// True if another batch may be moved at once.
    fn goes_on(&self) -> bool {
        self.is_full && (self.refused.is_none() || self.tasks > 0)
    }

    fn and(self, other: Self) -> Self {
        let next_in = self.next_in.into_iter().chain(other.next_in).min();
        Self {
            tasks: self.tasks + other.tasks,
            is_full: self.is_full || other.is_full,
            next_in,
            refused: self.refused.or(other.refused),
        }
    }
}

impl Mover {
    pub(super) fn new(parts: Arc<Parts>, task_type: TaskType) -> Self {
        Self {
            parts,
            task_type,
            failures: 0,
            moved: 0,
            forgot_at: SystemClock.elapsed(),
        }
    }

    /// Moves all that is due, until the store is closed. Answers how long to wait.
    pub(super) async fn move_due(&mut self, stopped: &watch::Receiver<bool>) -> Wait {
        let pass = async {
            if self.failures > 0 {
                // A hot store that is away is not asked to take a batch, as nobody would know
                // whether it did.
                self.parts.hot.stats(&self.task_type).await?;
            }
            pass(&self.parts, &self.task_type, stopped).await
        };
        let moved = match pass.await {
            Ok(moved) => moved,
            Err(error) => return self.failed(&error),
        };
        self.moved += moved.tasks;
        match &moved.refused {
            None => self.parts.trouble.end(&self.task_type),
            Some(error) if moved.tasks == 0 => return self.failed(error),
            // Each task that hot did not take waits by itself.
            Some(error) => self.parts.trouble.note(&self.task_type, error),
        }
        self.failures = 0;
        self.forget().await;
        let poll = self.parts.options.poll;
        Wait::Until(moved.next_in.map_or(poll, |next| next.min(poll)))
    }

    /// Notes that nothing could be moved. Answers how long to wait.
    fn failed(&mut self, error: &Error) -> Wait {
        self.parts.trouble.note(&self.task_type, error);
        let wait = FIRST_WAIT * 2_u32.saturating_pow(self.failures.min(6));
        self.failures = self.failures.saturating_add(1);
        Wait::Failed(wait.min(LONGEST_WAIT))
    }

    /// Waits, on the clock of the store or on the real one.
    pub(super) async fn sleep(&self, wait: Wait) {
        match wait {
            Wait::Failed(wait) => pause(wait).await,
            Wait::Until(wait) => {
                let clock = &self.parts.options.clock;
                clock.sleep_until(clock.elapsed() + wait).await;
            }
        }
    }

    /// Has cold forget what was moved: it keeps no history.
    async fn forget(&mut self) {
        let now = SystemClock.elapsed();
        let is_old = self.moved > 0 && now > self.forgot_at + FORGET_AFTER;
        if self.moved < FORGET_FROM && !is_old {
            return;
        }
        let purge = self.parts.cold.purge(&self.task_type, TaskState::Done);
        if purge.await.is_ok() {
            (self.moved, self.forgot_at) = (0, now);
        }
    }
}

/// The time until the next look.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    /// On the clock of the store.
    Until(Duration),
    /// On the real clock.
    Failed(Duration),
}

/// Moves all that is due in every bucket of a type, until the store is closed.
async fn pass(
    parts: &Parts,
    task_type: &TaskType,
    stopped: &watch::Receiver<bool>,
) -> Result<Moved> {
    let mut all = Moved::default();
    for bucket in parts.cold.buckets(task_type).await? {
        let mut moved = step(parts, &bucket).await?;
        all.tasks += moved.tasks;
        while moved.goes_on() && !is_over(stopped) {
            let lanes = (0..LANES).map(|_| step(parts, &bucket));
            let lanes: Result<Vec<Moved>> = join_all(lanes).await.into_iter().collect();
            moved = lanes?.into_iter().fold(Moved::default(), Moved::and);
            all.tasks += moved.tasks;
        }
        moved.tasks = 0;
        all = all.and(moved);
    }
    Ok(all)
}

/// Moves one batch.
async fn step(parts: &Parts, bucket: &Bucket) -> Result<Moved> {
    let began = SystemClock.elapsed();
    let request = ClaimRequest::new(MAX_BATCH, parts.options.lock, parts.now());
    let request = request.max_lock_expiries(MANY);
    let claimed = parts.cold.claim(bucket, &request).await?;
    let mut moved = Moved {
        is_full: claimed.taken() >= MAX_BATCH,
        next_in: claimed.next_in,
        ..Moved::default()
    };
    if claimed.tasks.is_empty() {
        return Ok(moved);
    }
    let locks: Vec<_> = claimed.tasks.iter().map(|task| task.lock.clone()).collect();
    let delivered = match deliver(parts, bucket, claimed.tasks, began).await {
        Ok(delivered) => delivered,
        Err(error) => {
            // They are not in doubt: nothing was submitted.
            let given_back = locks.into_iter().map(|lock| {
                let (after, succeeded) = (Duration::ZERO, Vec::new());
                Settlement::new(lock, AttemptEnd::Release { after, succeeded })
            });
            parts.cold.settle(bucket, given_back.collect()).await?;
            return Err(error);
        }
    };
    moved.tasks = delivered.done;
    moved.refused = delivered.refused;
    parts.cold.settle(bucket, delivered.settlements).await?;
    Ok(moved)
}
