//! Pull: clients claim tasks with a long poll, and settle, extend and release them.
//!
//! ```text
//! requests -> waiters -> claimer (one a namespace) -> Store::claim, one call for many waiters
//!          <- handovers <-
//! settlements -> settler (one a namespace) -> Store::settle, one call for many clients
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use delayq_core::time::MAX_DELAY;
use delayq_plugin::store::{
    AttemptEnd, Bucket, ClaimRequest, Claimed, ExtendOutcome, SettleOutcome, Settlement,
};
use delayq_plugin::{Clock, Error, Lock, Reply, Result, RetryPolicy, Store, TaskType};
use futures_util::future::{Either, join_all};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::policy::Policies;
use crate::problem::Problem;
use crate::stop::Stopping;

mod asked;
mod claimer;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod handover;
mod lock_text;
mod queue;
mod record;
mod reply;
mod settler;
mod suspects;
mod type_line;
mod waiter;

pub use asked::{Asked, lock_span};
pub use handover::{Handover, Pulled};
pub use lock_text::LockText;
pub use reply::keep_own;
pub use waiter::Demand;

use claimer::Claimer;
use record::Record;
use reply::keep_held;
use settler::Settler;
use waiter::Waiter;

/// The longest wait of a claim.
pub const MAX_WAIT: Duration = Duration::from_mins(1);

/// The end of an attempt, as a client reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEnd {
    /// An end that needs no decision.
    Plain(AttemptEnd),
    /// A failure: the retry policy of the type decides.
    Failed(Failure),
}

/// A failed attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong, for people to read.
    pub error: String,
    /// The wait before the next attempt; without it that of the policy.
    pub after: Option<Duration>,
    /// The number of attempts after which the task is dead; without it that of the policy.
    pub max_attempts: Option<u32>,
}

impl Failure {
    /// The largest `max_attempts`.
    const MAX_ATTEMPTS: u32 = 1_000_000;

    /// Refuses a number of attempts, or a wait, beyond its limit.
    pub fn check(&self) -> Result<(), Problem> {
        let is_beyond = |most: u32| !(1..=Self::MAX_ATTEMPTS).contains(&most);
        if self.max_attempts.is_some_and(is_beyond) {
            let text = format!("max_attempts: use 1 to {}", Self::MAX_ATTEMPTS);
            return Err(Problem::bad_request(text));
        }
        if self.after.is_some_and(|after| after > MAX_DELAY) {
            return Err(Problem::bad_request("a task waits at most 10 years"));
        }
        Ok(())
    }

    /// The end of the attempt by this policy, which counts it as the one of this number.
    fn into_end(self, mut policy: RetryPolicy, tried: u32) -> AttemptEnd {
        let (error, succeeded) = (self.error, Vec::new());
        policy.max_attempts = self.max_attempts.unwrap_or(policy.max_attempts);
        match policy.wait_after(tried) {
            Some(wait) => AttemptEnd::Retry {
                after: self.after.unwrap_or(wait),
                error,
                succeeded,
            },
            None => AttemptEnd::Dead { error, succeeded },
        }
    }
}

/// A client's request to end one attempt.
#[derive(Clone, Debug)]
pub struct Ending {
    /// The bucket that the task was claimed from.
    pub bucket: Bucket,
    /// The lock of the attempt.
    pub lock: Lock,
    /// The number of attempts that a retry policy counts, this one included; `None` if the client
    /// does not know it.
    pub tried: Option<u32>,
    /// How it ended.
    pub end: ClientEnd,
    /// For an attempt that is done: the reply to callers that wait for the task.
    pub reply: Option<Reply>,
    /// The note of the settlement.
    pub note: Option<String>,
}

impl Ending {
    /// The end of an attempt, without a reply and a note.
    pub fn new(bucket: Bucket, lock: Lock, end: ClientEnd) -> Self {
        Self {
            bucket,
            lock,
            tried: None,
            end,
            reply: None,
            note: None,
        }
    }
}

/// Claims and settlements of all clients of a namespace. Cheap to clone; all clones share the
/// state.
#[derive(Clone, Debug)]
pub struct Pull {
    store: Arc<dyn Store>,
    waiters: mpsc::UnboundedSender<Waiter>,
    settler: Settler,
    record: Arc<Record>,
    policies: Arc<Policies>,
    stopping: Stopping,
    turns: Arc<AtomicUsize>,
    _tasks: Arc<[AbortOnDropHandle<()>; 3]>,
}

impl Pull {
    /// Starts to claim from `store` for waiting clients, by the policies of the types.
    pub fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        stopping: Stopping,
        policies: Arc<Policies>,
    ) -> Self {
        let record = Record::new(
            Arc::clone(&store),
            Arc::clone(&clock),
            Arc::clone(&policies),
        );
        let record = Arc::new(record);
        let (settler, settling) = Settler::new(Arc::clone(&store), Arc::clone(&record));
        let (waiters, arrivals) = mpsc::unbounded_channel();
        let claimer = Claimer::new(
            Arc::clone(&store),
            clock,
            settler.clone(),
            Arc::clone(&record),
        );
        let tasks = [
            tokio::spawn(settling),
            tokio::spawn(claimer.run(arrivals)),
            tokio::spawn(Arc::clone(&record).keep()),
        ];
        Self {
            store,
            waiters,
            settler,
            record,
            policies,
            stopping,
            turns: Arc::default(),
            _tasks: Arc::new(tasks.map(AbortOnDropHandle::new)),
        }
    }

    /// A number that grows with each call, used to rotate types.
    pub fn turn(&self) -> usize {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }

    /// Claims tasks for a demand, now or within `wait`. Empty if no task became due. Dropping the
    /// future at any point releases what was claimed.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn claim(&self, demand: Demand, wait: Duration) -> Result<Handover> {
        let wait = wait.min(MAX_WAIT);
        let (waiter, answer) = Waiter::new(demand, wait);
        if self.waiters.send(waiter).is_err() {
            return Err(Error::Closed("the server"));
        }
        answer.within(wait, &self.stopping).await
    }

    /// Claims from one bucket, for a caller that chooses among buckets itself. A request without a
    /// holder gets this server as its holder.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn claim_of(&self, bucket: &Bucket, mut request: ClaimRequest) -> Result<Claimed> {
        // With a limit of 0 a claim only asks for the next time.
        if request.limit > 0 {
            self.record.asked(bucket.task_type());
        }
        if request.holder.is_none() {
            request = request.holder(self.record.holder()).counting_own_only();
        }
        let claimed = self.store.claim(bucket, &request).await?;
        self.record.claimed(bucket.task_type(), &claimed);
        Ok(claimed)
    }

    /// Releases claimed tasks whose client is gone, which costs no attempt. The store's answer is
    /// not awaited; if a release fails, its lock expires.
    pub fn give_back(&self, bucket: &Bucket, claimed: Claimed) {
        let pulled = claimed.tasks.into_iter().map(|task| Pulled {
            bucket: bucket.clone(),
            task,
        });
        drop(Handover::new(pulled.collect(), self.settler.clone()));
    }

    /// Ends attempts and returns one outcome for each, in order.
    pub async fn settle(&self, endings: Vec<Ending>) -> Vec<Result<SettleOutcome>> {
        // All settlements are sent before the first is awaited, so that they share a call.
        join_all(endings.into_iter().map(|ending| self.settle_one(ending))).await
    }

    async fn settle_one(&self, ending: Ending) -> Result<SettleOutcome> {
        let Ending {
            bucket,
            lock,
            tried,
            end,
            reply,
            note,
        } = ending;
        let end = match end {
            ClientEnd::Plain(end) => end,
            ClientEnd::Failed(failure) => {
                let usual = RetryPolicy::DEFAULT.max_attempts;
                let set = self.policies.retry(bucket.task_type(), usual);
                let tried = match tried {
                    Some(tried) => tried,
                    None => self.tried(&bucket, &lock).await?,
                };
                failure.into_end(set.unwrap_or(RetryPolicy::DEFAULT), tried)
            }
        };
        if let Some(reply) = reply {
            return self.end_with(bucket, lock, end, Some(reply)).await;
        }
        let mut settlement = Settlement::new(lock, end);
        settlement.note = note;
        self.conclude(bucket, settlement).await
    }

    /// The number of attempts of a running task that a retry policy counts.
    async fn tried(&self, bucket: &Bucket, lock: &Lock) -> Result<u32> {
        let task = self.store.find(bucket.task_type(), &lock.id).await?;
        // Without the task its lock is lost, as its settlement will answer.
        Ok(task.map_or(1, |task| {
            // A repeat: the failure of this attempt is counted already.
            let is_settled = task.settled_fence == Some(lock.fence);
            let tried = task.history.tried() - u32::from(is_settled);
            tried.max(1)
        }))
    }

    /// Ends one attempt. Stores its reply first, so that a caller that sees the task done also
    /// finds the reply. Without a reply, the attempt ends even if the future is dropped.
    pub fn end_with(
        &self,
        bucket: Bucket,
        lock: Lock,
        end: AttemptEnd,
        reply: Option<Reply>,
    ) -> impl Future<Output = Result<SettleOutcome>> + use<> {
        let Some(reply) = reply else {
            return Either::Left(self.end(bucket, lock, end));
        };
        let pull = self.clone();
        Either::Right(async move {
            keep_held(&*pull.store, bucket.task_type(), &lock, &reply).await?;
            pull.end(bucket, lock, end).await
        })
    }

    /// Ends one attempt, even if the future is dropped.
    pub fn end(
        &self,
        bucket: Bucket,
        lock: Lock,
        end: AttemptEnd,
    ) -> impl Future<Output = Result<SettleOutcome>> + use<> {
        self.conclude(bucket, Settlement::new(lock, end))
    }

    /// Ends one attempt as [`end`](Self::end) does, with the note of the settlement.
    pub fn conclude(
        &self,
        bucket: Bucket,
        settlement: Settlement,
    ) -> impl Future<Output = Result<SettleOutcome>> + use<> {
        let (record, fence) = (Arc::clone(&self.record), settlement.lock.fence);
        let end = settlement.end.clone();
        let answer = self.settler.settle(bucket.clone(), settlement);
        async move {
            let outcome = answer.await;
            if matches!(outcome, Ok(SettleOutcome::Settled)) {
                record.ended(bucket.task_type(), fence, &end);
            }
            outcome
        }
    }

    /// Ends an attempt that is no work of a client, such as one that moves a task: no figure counts
    /// it.
    pub fn conclude_uncounted(
        &self,
        bucket: Bucket,
        settlement: Settlement,
    ) -> impl Future<Output = Result<SettleOutcome>> + use<> {
        self.settler.settle(bucket, settlement)
    }

    /// Extends locks of one type and returns one outcome for each, in order.
    ///
    /// # Errors
    /// Those of the store; some locks may have been extended.
    pub async fn extend(
        &self,
        task_type: &TaskType,
        locks: Vec<(delayq_plugin::TaskId, LockText)>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        let mut outcomes = vec![ExtendOutcome::LockLost; locks.len()];
        let mut buckets: Vec<(Bucket, Vec<usize>, Vec<Lock>)> = Vec::new();
        for (index, (id, lock)) in locks.into_iter().enumerate() {
            let bucket = lock.bucket(task_type);
            let known = buckets.iter().position(|(one, _, _)| *one == bucket);
            let lock = lock.of(id);
            match known.and_then(|known| buckets.get_mut(known)) {
                Some((_, indexes, locks)) => {
                    indexes.push(index);
                    locks.push(lock);
                }
                None => buckets.push((bucket, vec![index], vec![lock])),
            }
        }
        for (bucket, indexes, locks) in buckets {
            let answers = self.extend_of(&bucket, locks, lock_for).await?;
            for (index, answer) in indexes.into_iter().zip(answers) {
                if let Some(outcome) = outcomes.get_mut(index) {
                    *outcome = answer;
                }
            }
        }
        Ok(outcomes)
    }

    /// Extends locks of one bucket and returns one outcome for each, in order.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn extend_of(
        &self,
        bucket: &Bucket,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        let fences: Vec<_> = locks.iter().map(|lock| lock.fence).collect();
        let outcomes = self.store.extend(bucket, locks, lock_for).await?;
        self.extended(bucket, &fences, &outcomes);
        Ok(outcomes)
    }

    /// Extends the lock of a client that runs nothing else, see [`Store::extend_alone`].
    ///
    /// # Errors
    /// Those of the store.
    pub async fn extend_alone(
        &self,
        bucket: &Bucket,
        lock: &Lock,
        lock_for: Duration,
    ) -> Result<ExtendOutcome> {
        let outcome = self.store.extend_alone(bucket, lock, lock_for).await?;
        self.extended(bucket, &[lock.fence], &[outcome]);
        Ok(outcome)
    }

    fn extended(&self, bucket: &Bucket, fences: &[u64], outcomes: &[ExtendOutcome]) {
        let held = fences.iter().copied().zip(outcomes);
        let held = held.filter_map(|(fence, outcome)| match outcome {
            ExtendOutcome::Extended(until) | ExtendOutcome::CancelRequested(until) => {
                Some((fence, *until))
            }
            _ => None,
        });
        let held: Vec<_> = held.collect();
        self.record.locked(bucket.task_type(), &held);
    }

    /// Records that a client outside this queue waits for tasks of a type or works on them.
    pub fn serves(&self, task_type: &TaskType) {
        self.record.asked(task_type);
    }

    /// Removes this server from the list of instances and stores the remaining figures.
    pub async fn close(&self) {
        self.record.close().await;
    }
}
