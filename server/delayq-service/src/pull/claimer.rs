//! The claimer of a namespace: one loop for all waiting clients. Many clients that wait for the
//! same type share one claim, and idle clients cost nothing.
//!
//! The claimer claims from a bucket when a client waits for it and a claim may find something:
//! first at once, then at the time that the last claim named, after a wake-up, and at least every
//! second.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::ClaimedTask;
use delayq_core::machine::loss;
use delayq_plugin::store::{Bucket, BucketState, ClaimRequest, Claimed, Wakeup, Wakeups};
use delayq_plugin::{Clock, Result, Store, TaskType};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tracing::error;

use super::handover::{Handover, Pulled};
use super::queue::Queue;
use super::record::Record;
use super::settler::Settler;
use super::suspects::NEXT_IN;
use super::type_line::{Phase, WaiterId};
use super::waiter::Waiter;

/// The longest time between two claims of a bucket with waiting clients, for up to 500 types.
const POLL: Duration = Duration::from_secs(1);
/// Added for each type if there are more, so that polls stay below 500 a second.
const POLL_SHARE: Duration = Duration::from_millis(2);
/// The number of lock expiries after which a task is dead whose worker said that it ran alone.
const MOST_ALONE: u32 = 3;
/// The pause of a bucket after a failed claim.
const AFTER_ERROR: Duration = Duration::from_millis(250);
/// The largest number of waiters taken in one step.
const MOST_ARRIVALS: usize = 1_000;
/// How often waiters that are gone are removed.
const SWEEP: Duration = Duration::from_secs(1);

/// The result of a call to the store.
enum CallEnd {
    Listed(TaskType, Result<Vec<Bucket>>),
    Claimed {
        bucket: Bucket,
        waiters: Vec<WaiterId>,
        limit: usize,
        /// The server counts lock expiries, not the door.
        is_counted: bool,
        result: Result<Claimed>,
    },
}

/// The times when quiet buckets become ready.
type Timers = BTreeSet<(Duration, Bucket)>;

/// The state of the loop.
pub(super) struct Claimer {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    settler: Settler,
    record: Arc<Record>,
    queue: Queue,
    timers: Timers,
    calls: FuturesUnordered<BoxFuture<'static, CallEnd>>,
    swept_at: Duration,
}

impl Claimer {
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        settler: Settler,
        record: Arc<Record>,
    ) -> Self {
        Self {
            store,
            clock,
            settler,
            record,
            queue: Queue::default(),
            timers: Timers::new(),
            calls: FuturesUnordered::new(),
            swept_at: Duration::ZERO,
        }
    }

    /// Runs until no more waiters can arrive.
    pub(super) async fn run(mut self, mut arrivals: mpsc::UnboundedReceiver<Waiter>) {
        let mut wakeups = self.store.wakeups();
        let mut arrived = Vec::new();
        loop {
            let mut end = self.swept_at + SWEEP;
            if let Some((first, _)) = self.timers.first() {
                end = end.min(*first);
            }
            tokio::select! {
                count = arrivals.recv_many(&mut arrived, MOST_ARRIVALS) => {
                    if count == 0 {
                        return;
                    }
                    for waiter in arrived.drain(..) {
                        self.arrive(waiter);
                    }
                }
                Some(answer) = self.calls.next() => self.answered(answer),
                wakeup = next_wakeup(&mut wakeups) => self.woken(&wakeup),
                () = self.clock.sleep_until(end) => {}
            }
            self.pass_time();
            self.queue.answer_hasty();
        }
    }

    fn arrive(&mut self, waiter: Waiter) {
        let now = self.clock.elapsed();
        let types = waiter.demand.types.clone();
        let is_hasty = waiter.is_hasty;
        self.queue.enter(waiter, now);
        for task_type in &types {
            self.record.asked(task_type);
            // A claim without a wait must see every task submitted before it, so it does not rely
            // on wake-ups that may still be on their way.
            if is_hasty {
                self.wake(task_type, None);
            }
            if self.queue.needs_list(task_type, now) {
                self.read_buckets(task_type);
            }
        }
        for task_type in &types {
            self.start(task_type);
        }
    }

    fn read_buckets(&mut self, task_type: &TaskType) {
        let Some(line) = self.queue.lines.get_mut(task_type) else {
            return;
        };
        if std::mem::replace(&mut line.is_listing, true) {
            return;
        }
        let (store, task_type) = (Arc::clone(&self.store), task_type.clone());
        self.calls.push(Box::pin(async move {
            let listed = store.buckets(&task_type).await;
            CallEnd::Listed(task_type, listed)
        }));
    }

    fn wake(&mut self, task_type: &TaskType, only: Option<&Bucket>) {
        if let Some(line) = self.queue.lines.get_mut(task_type) {
            line.wake(only);
        }
    }

    fn woken(&mut self, wakeup: &Wakeup) {
        match wakeup {
            Wakeup::Bucket(bucket) => {
                let task_type = bucket.task_type();
                let line = self.queue.lines.get_mut(task_type);
                let Some(is_known) = line.map(|line| line.bucket(bucket).is_some()) else {
                    return;
                };
                self.wake(task_type, Some(bucket));
                if !is_known {
                    self.read_buckets(task_type);
                }
                self.start(task_type);
            }
            Wakeup::Type(task_type) => {
                self.wake(task_type, None);
                self.start(task_type);
            }
            _ => {
                let types: Vec<_> = self.queue.lines.keys().cloned().collect();
                for task_type in types {
                    self.wake(&task_type, None);
                    self.start(&task_type);
                }
            }
        }
    }

    /// Starts a claim from each ready bucket of a type that a client wants.
    fn start(&mut self, task_type: &TaskType) {
        loop {
            let line = self.queue.lines.get(task_type);
            let mut buckets = line.iter().flat_map(|line| line.buckets.iter());
            let ready = buckets.find(|one| one.phase == Phase::Ready);
            let Some(bucket) = ready.map(|one| one.bucket.clone()) else {
                return;
            };
            let (waiters, limit, terms) = self.queue.reserve(task_type);
            if waiters.is_empty() {
                return;
            }
            if let Some(line) = self.queue.lines.get_mut(task_type)
                && let Some(one) = line.bucket(&bucket)
            {
                one.phase = Phase::Claiming { is_woken: false };
            }
            let request = ClaimRequest::new(limit, terms.lock_for, self.clock.now());
            let request = request.holder(self.record.holder());
            let is_counted = terms.max_lock_expiries.is_none();
            let request = if let Some(most) = terms.max_lock_expiries {
                request.max_lock_expiries(most)
            } else {
                // Whether a server that has died handed a task out, nobody knows.
                let most = self.record.suspects.max_lock_expiries(task_type);
                request
                    .max_lock_expiries(most)
                    .max_alone_expiries(most.min(MOST_ALONE))
                    .counting_own_only()
            };
            let store = Arc::clone(&self.store);
            self.calls.push(Box::pin(async move {
                let result = store.claim(&bucket, &request).await;
                CallEnd::Claimed {
                    bucket,
                    waiters,
                    limit,
                    is_counted,
                    result,
                }
            }));
        }
    }

    fn answered(&mut self, answer: CallEnd) {
        match answer {
            CallEnd::Listed(task_type, listed) => {
                let now = self.clock.elapsed();
                let Some(line) = self.queue.lines.get_mut(&task_type) else {
                    return;
                };
                let error = listed.as_ref().err().cloned();
                line.list(listed, now);
                if line.buckets.is_empty() {
                    let waiters = std::mem::take(&mut line.waiters);
                    self.queue.lines.remove(&task_type);
                    if let Some(error) = error {
                        self.queue.fail(waiters, &error);
                    }
                }
                self.start(&task_type);
            }
            CallEnd::Claimed {
                bucket,
                waiters,
                limit,
                is_counted,
                result,
            } => {
                let mut touched = match self.noted(&bucket, limit, result) {
                    Ok(tasks) => self.hand_out(&bucket, waiters, tasks, is_counted),
                    Err(error) => {
                        self.queue.fail(waiters, &error);
                        BTreeSet::new()
                    }
                };
                let task_type = bucket.task_type().clone();
                touched.retain(|one| *one != task_type);
                self.start(&task_type);
                for task_type in touched {
                    self.start(&task_type);
                }
            }
        }
    }

    /// Notes the answer of a claim. Returns its tasks.
    fn noted(
        &mut self,
        bucket: &Bucket,
        limit: usize,
        result: Result<Claimed>,
    ) -> Result<Vec<ClaimedTask>> {
        let now = self.clock.elapsed();
        let claimed = match result {
            Ok(claimed) => claimed,
            Err(error) => {
                self.quiet(bucket, now + AFTER_ERROR, Some(error.clone()));
                return Err(error);
            }
        };
        let next_in = if claimed.taken() >= limit {
            Duration::ZERO
        } else {
            let poll = POLL.max(share(self.queue.lines.len()));
            claimed.next_in.unwrap_or(poll).min(poll)
        };
        self.quiet(bucket, now + next_in, None);
        let line = self.queue.lines.get(bucket.task_type());
        let is_listed_lately = line.is_none_or(|line| now < line.listed_at + SWEEP);
        if claimed.bucket != BucketState::Open && !is_listed_lately {
            self.read_buckets(bucket.task_type());
        }
        self.record.claimed(bucket.task_type(), &claimed);
        self.compare_fences(bucket, &claimed);
        Ok(claimed.tasks)
    }

    /// Says if the store has lost data since the last claim.
    fn compare_fences(&mut self, bucket: &Bucket, claimed: &Claimed) {
        let line = self.queue.lines.get_mut(bucket.task_type());
        let Some(one) = line.and_then(|line| line.bucket(bucket)) else {
            return;
        };
        if let Some(what) = loss(one.last_fence, claimed.high_water) {
            error!(%bucket, %what,
                "the store has lost data: accepted tasks may be gone, ended ones may run again");
        }
        let fences = claimed.tasks.iter().map(|task| task.lock.fence);
        one.last_fence = fences.fold(claimed.high_water, u64::max);
    }

    /// Hands out claimed tasks, a suspect by itself. Returns the types of waiters that got nothing
    /// and can be reserved again.
    fn hand_out(
        &mut self,
        bucket: &Bucket,
        waiters: Vec<WaiterId>,
        tasks: Vec<ClaimedTask>,
        is_counted: bool,
    ) -> BTreeSet<TaskType> {
        let tasks = tasks.into_iter().map(|task| Pulled {
            bucket: bucket.clone(),
            task,
        });
        let suspects = &self.record.suspects;
        let is_suspect =
            |one: &Pulled| is_counted && suspects.has(bucket.task_type(), &one.task.history);
        let (suspects, tasks): (Vec<_>, Vec<_>) = tasks.partition(is_suspect);
        let mut suspect = self.one_of(suspects);
        let mut tasks = tasks.into_iter();
        let mut touched = BTreeSet::new();
        for id in waiters {
            let Some(waiter) = self.queue.waiters.get_mut(&id) else {
                continue;
            };
            let is_over = waiter.free();
            let is_gone = waiter.is_gone();
            let most = if is_gone { 0 } else { waiter.demand.limit };
            let part: Vec<_> = match suspect.take_if(|_| most > 0) {
                Some(suspect) => vec![suspect],
                None => tasks.by_ref().take(most).collect(),
            };
            if part.is_empty() && !is_gone && !is_over {
                touched.extend(waiter.demand.types.iter().cloned());
            } else if let Some(waiter) = self.queue.waiters.remove(&id) {
                waiter.answer(Ok(Handover::new(part, self.settler.clone())));
            }
        }
        // Tasks of waiters that left meanwhile are released.
        let rest = tasks.chain(suspect).collect();
        drop(Handover::new(rest, self.settler.clone()));
        touched
    }

    /// The suspect that may be handed out now, if there is one. The others are released for a
    /// while.
    fn one_of(&self, suspects: Vec<Pulled>) -> Option<Pulled> {
        let mut one = None;
        let mut others = Vec::new();
        for suspect in suspects {
            let may_go = one.is_none() && {
                let now = self.clock.now();
                let (task_type, task) = (suspect.task_type(), &suspect.task);
                self.record.suspects.hand_out(task_type, task, now)
            };
            if may_go {
                one = Some(suspect);
            } else {
                others.push(suspect);
            }
        }
        Handover::new(others, self.settler.clone()).put_off(NEXT_IN);
        one
    }

    /// Pauses a bucket until `end`, unless a wake-up came during the claim.
    fn quiet(&mut self, bucket: &Bucket, end: Duration, error: Option<delayq_plugin::Error>) {
        let now = self.clock.elapsed();
        let Some(line) = self.queue.lines.get_mut(bucket.task_type()) else {
            return;
        };
        let Some(one) = line.bucket(bucket) else {
            return;
        };
        let is_woken = one.phase == Phase::Claiming { is_woken: true } && error.is_none();
        one.error = error;
        one.phase = if is_woken || end <= now {
            Phase::Ready
        } else {
            self.timers.insert((end, bucket.clone()));
            Phase::Quiet(end)
        };
    }

    /// Claims from buckets whose pause is over, and removes waiters and lines that are gone.
    fn pass_time(&mut self) {
        let now = self.clock.elapsed();
        while let Some((end, _)) = self.timers.first()
            && *end <= now
            && let Some((end, bucket)) = self.timers.pop_first()
        {
            let line = self.queue.lines.get_mut(bucket.task_type());
            let one = line.and_then(|line| line.bucket(&bucket));
            if let Some(one) = one
                && one.phase == Phase::Quiet(end)
            {
                one.phase = Phase::Ready;
                self.start(bucket.task_type());
            }
        }
        if now < self.swept_at + SWEEP {
            return;
        }
        self.swept_at = now;
        self.queue.forget_the_gone(now);
        let waited = self.queue.waited_types();
        for task_type in waited {
            self.record.asked(&task_type);
            if self.queue.needs_list(&task_type, now) {
                self.read_buckets(&task_type);
            }
        }
    }
}

/// The part of the poll interval for this number of types.
fn share(types: usize) -> Duration {
    POLL_SHARE.saturating_mul(u32::try_from(types).unwrap_or(u32::MAX))
}

/// The next wake-up; pending for ever once the store is gone.
async fn next_wakeup(wakeups: &mut Wakeups) -> Wakeup {
    match wakeups.next().await {
        Some(wakeup) => wakeup,
        None => std::future::pending().await,
    }
}
