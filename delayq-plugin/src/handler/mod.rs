//! The handler of one task type: claim, hand out, collect, settle, sleep until there is something to do.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{ExtendOutcome, MAX_BATCH, SettleOutcome, Settlement, Taken};
use delayq_core::{Delivery, Lock, Result};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tracing::field::display;
use tracing::{info, warn};

mod answers;
mod unsure;

use crate::call::{Backoff, Call};
use crate::claim::{Batch, Bucket, Reckoning, give_back};
use crate::health::Status;
use crate::held::{Due, HeldLocks, Seq};
use crate::run::HandResult;
use unsure::Unsure;

/// Most tasks of one claim: a batch of each of eight partitions.
const MAX_CLAIM: usize = 8 * MAX_BATCH;
/// A handler stops claiming while so many settlements wait for the store.
const MAX_UNSETTLED: usize = 16 * MAX_BATCH;
/// How long workers may take to react to `cancelled()` once the grace time of a shutdown is over.
const STOP_NOTICE: Duration = Duration::from_millis(500);
/// How long a stopping handler tries to settle what is left.
const LAST_SETTLE: Duration = Duration::from_secs(5);

/// Whether to go on; sent to all handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Running,
    /// Claim nothing more, and stop the workers at this `Clock::elapsed`.
    Stopping(Duration),
}

/// What a handler shares with the plugin that made it.
#[derive(Clone, Debug)]
pub(crate) struct Wiring {
    pub(crate) app: Handle,
    pub(crate) poll: Duration,
    pub(crate) status: Status,
    pub(crate) wake: Arc<Notify>,
    /// What another instance has taken last.
    pub(crate) taken: watch::Receiver<Option<Taken>>,
    pub(crate) phase: watch::Receiver<Phase>,
    /// Tells the router to look after the list of types.
    pub(crate) store_lost_data: Arc<Notify>,
}

/// The handler of one task type, on a scheduler thread.
///
/// It claims what is due under a lock, hands it to the workers, settles their results in batches, keeps
/// the locks extended meanwhile, and sleeps until the next due time, the next lock to extend, or the
/// poll interval, whichever is first, or until woken. Any error of the store is survived: it backs off,
/// tries again, and says so in its health. Only a shutdown ends it.
#[derive(Debug)]
pub struct DelayBucketHandler {
    bucket: Arc<Bucket>,
    wiring: Wiring,
    held: HeldLocks,
    results: JoinSet<Vec<HandResult>>,
    unsettled: VecDeque<Settlement>,
    to_extend: Vec<(Seq, Lock)>,
    claiming: Call<Result<Batch>>,
    settling: Call<Settled>,
    extending: Call<Extended>,
    unsure: Unsure,
    claim_at: Duration,
    settle_at: Duration,
    /// As many as a claim took, if that is more than a batch: what was in several partitions goes back to as many.
    settle_most: usize,
    /// Woken while a claim was under way, which may have looked too early to see why.
    woken: bool,
    /// Of the last claim, unless it failed.
    reckoning: Option<Reckoning>,
    claim_backoff: Backoff,
    settle_backoff: Backoff,
    timer: Call<()>,
    timer_at: Duration,
    /// The calls whose last answer was an error.
    failing: Vec<&'static str>,
    /// The workers have been told to stop.
    notice_given: bool,
    /// The largest fence of the type that this handler knows of.
    last_fence: u64,
}

/// What was to be settled, when that was sent, and what the store says.
type Settled = (Vec<Settlement>, Duration, Result<Vec<SettleOutcome>>);
/// The same of locks to extend.
type Extended = (Vec<Seq>, Duration, Result<Vec<ExtendOutcome>>);

#[derive(Debug)]
enum Event {
    Claimed(Result<Batch>),
    Settled(Settled),
    SettledAgain(Settled),
    Extended(Extended),
    Finished(Result<(Id, Vec<HandResult>), JoinError>),
    Woken,
    /// Another instance has taken what was due.
    Taken,
    Timer,
}

impl DelayBucketHandler {
    pub(crate) fn new(bucket: Arc<Bucket>, wiring: Wiring) -> Self {
        // At-most-once tasks are settled before they start: there is no lock to extend.
        let lock_for = match bucket.options.delivery {
            Delivery::AtLeastOnce => bucket.options.lock,
            Delivery::AtMostOnce => Duration::MAX,
        };
        let held = HeldLocks::new(lock_for, bucket.options.timeout);
        Self {
            bucket,
            wiring,
            held,
            results: JoinSet::new(),
            unsettled: VecDeque::new(),
            to_extend: Vec::new(),
            claiming: Call::none(),
            settling: Call::none(),
            extending: Call::none(),
            unsure: Unsure::default(),
            claim_at: Duration::ZERO,
            settle_at: Duration::ZERO,
            settle_most: MAX_BATCH,
            woken: false,
            reckoning: None,
            claim_backoff: Backoff::default(),
            settle_backoff: Backoff::default(),
            timer: Call::none(),
            timer_at: Duration::ZERO,
            failing: Vec::new(),
            notice_given: false,
            last_fence: 0,
        }
    }

    /// Runs until a shutdown is complete.
    pub(crate) async fn run(mut self) {
        info!(task_type = %self.bucket.task_type, workers = ?self.bucket.crew.hands, "handler started");
        loop {
            let now = self.elapsed();
            self.take_finished();
            self.do_what_is_due(now);
            if self.is_finished(now) {
                break;
            }
            let event = self.next_event(now).await;
            self.apply(event);
        }
        let task_type = &self.bucket.task_type;
        match self.count_unsettled() {
            0 => info!(%task_type, "handler stopped"),
            unsettled => {
                warn!(%task_type, unsettled, "handler stopped; these locks expire by themselves");
            }
        }
    }

    fn elapsed(&self) -> Duration {
        self.bucket.clock.elapsed()
    }

    fn stop_at(&self) -> Option<Duration> {
        match *self.wiring.phase.borrow() {
            Phase::Running => None,
            Phase::Stopping(at) => Some(at),
        }
    }

    fn do_what_is_due(&mut self, now: Duration) {
        let due = self.held.take_due(now);
        self.take_due(due);
        self.stop_what_is_due(now);
        if !self.extending.is_under_way() && !self.to_extend.is_empty() {
            let locks = std::mem::take(&mut self.to_extend);
            self.extending.start(self.extend(locks, now));
        }
        if !self.settling.is_under_way() && !self.unsettled.is_empty() && self.settle_at <= now {
            let batch = next_batch(&mut self.unsettled, self.settle_most);
            self.settling.start(self.settle(batch, now));
        }
        self.ask_again(now);
        if self.may_claim() && self.claim_at <= now {
            self.start_claim();
        }
    }

    fn take_due(&mut self, due: Due) {
        let task_type = &self.bucket.task_type;
        for seq in due.run_out {
            let id = self.held.get(seq).map(|held| display(&held.lock.id));
            warn!(%task_type, id, "its lock ran out before it could be extended; told the worker to stop");
            self.wiring
                .status
                .update(|counters| counters.locks_lost += 1);
        }
        for held in due
            .timed_out
            .into_iter()
            .filter_map(|seq| self.held.get(seq))
        {
            let end = self.time_is_up(held);
            if self.bucket.options.delivery == Delivery::AtLeastOnce {
                self.unsettled.push_back(Settlement {
                    lock: held.lock.clone(),
                    end,
                });
            }
        }
        self.to_extend.extend(due.extend);
        self.unsure.locks.extend(due.again);
    }

    /// When stopping: tells the workers at the end of the grace time, and gives back what is left soon
    /// after.
    fn stop_what_is_due(&mut self, now: Duration) {
        let Some(stop_at) = self.stop_at().filter(|at| *at <= now) else {
            return;
        };
        if !self.notice_given {
            self.notice_given = true;
            if !self.held.is_empty() {
                let (task_type, running) = (&self.bucket.task_type, self.held.len());
                info!(%task_type, running, "the grace time is over; told the workers to stop");
            }
            self.held.cancel_all();
        }
        if stop_at.saturating_add(STOP_NOTICE) <= now {
            let left = self.held.conclude_all();
            for (lock, trail) in left {
                let (task_type, id) = (&self.bucket.task_type, &lock.id);
                if self.bucket.options.delivery == Delivery::AtMostOnce {
                    warn!(%task_type, %id, "cut off by the shutdown; it is done at most once, so never again");
                    continue;
                }
                info!(%task_type, %id, "given back by the shutdown");
                self.unsettled.push_back(give_back(lock, trail));
            }
        }
    }

    fn is_finished(&self, now: Duration) -> bool {
        let Some(stop_at) = self.stop_at() else {
            return false;
        };
        let stopped = stop_at.saturating_add(STOP_NOTICE);
        let workers_gone = self.held.is_empty() || stopped <= now;
        let all_told = self.count_unsettled() == 0
            && !self.settling.is_under_way()
            && !self.unsure.settling.is_under_way()
            && !self.claiming.is_under_way();
        workers_gone && (all_told || stopped.saturating_add(LAST_SETTLE) <= now)
    }

    fn free_places(&self) -> usize {
        self.bucket
            .options
            .concurrency
            .saturating_sub(self.held.len())
    }

    fn may_claim(&self) -> bool {
        !self.claiming.is_under_way()
            && self.free_places() > 0
            && self.count_unsettled() < MAX_UNSETTLED
            && self.stop_at().is_none()
    }

    fn start_claim(&mut self) {
        self.woken = false;
        let (bucket, phase) = (Arc::clone(&self.bucket), self.wiring.phase.clone());
        let is_stopping = move || *phase.borrow() != Phase::Running;
        let limit = self.free_places().min(MAX_CLAIM);
        self.claiming.start(bucket.claim(limit, is_stopping));
    }

    fn settle(
        &self,
        batch: Vec<Settlement>,
        now: Duration,
    ) -> impl Future<Output = Settled> + Send + 'static {
        let bucket = Arc::clone(&self.bucket);
        async move {
            let outcomes = bucket.store.settle(&bucket.task_type, batch.clone()).await;
            (batch, now, outcomes)
        }
    }

    fn extend(
        &self,
        locks: Vec<(Seq, Lock)>,
        now: Duration,
    ) -> impl Future<Output = Extended> + Send + 'static {
        let (seqs, locks) = locks.into_iter().unzip();
        let bucket = Arc::clone(&self.bucket);
        async move {
            let (task_type, lock_for) = (&bucket.task_type, bucket.options.lock);
            let outcomes = bucket.store.extend(task_type, locks, lock_for).await;
            (seqs, now, outcomes)
        }
    }

    /// When to look again if nothing happens.
    fn next_wake(&self, now: Duration) -> Option<Duration> {
        let claim = self.may_claim().then_some(self.claim_at);
        let unsettled = !self.settling.is_under_way() && !self.unsettled.is_empty();
        let settle = unsettled.then_some(self.settle_at);
        let stop = self.stop_at().map(|at| {
            let ends = [at, at.saturating_add(STOP_NOTICE)];
            let last = at.saturating_add(STOP_NOTICE + LAST_SETTLE);
            ends.into_iter().find(|end| now < *end).unwrap_or(last)
        });
        let again = self.unsure.next_wake();
        [claim, settle, again, stop, self.held.next_timer()]
            .into_iter()
            .flatten()
            .min()
    }

    async fn next_event(&mut self, now: Duration) -> Event {
        let wake_at = self
            .next_wake(now)
            .unwrap_or(now.saturating_add(self.wiring.poll));
        if !self.timer.is_under_way() || self.timer_at != wake_at {
            self.timer_at = wake_at;
            self.timer.start(self.bucket.clock.sleep_until(wake_at));
        }
        tokio::select! {
            // In this order calls are sent: a claim must not take over a lock that has just run out while
            // the settlement or the extension that would have saved it waits behind.
            biased;
            settled = self.settling.answer() => Event::Settled(settled),
            extended = self.extending.answer() => Event::Extended(extended),
            settled = self.unsure.settling.answer() => Event::SettledAgain(settled),
            extended = self.unsure.extending.answer() => Event::Extended(extended),
            claimed = self.claiming.answer() => Event::Claimed(claimed),
            Some(result) = self.results.join_next_with_id() => Event::Finished(result),
            () = self.wiring.wake.notified() => Event::Woken,
            // An error means that nobody will tell any more.
            Ok(()) = self.wiring.taken.changed() => Event::Taken,
            () = self.timer.answer() => Event::Timer,
            // An error means that the plugin is gone without a shutdown: the timer goes on until its
            // threads end.
            Ok(()) = self.wiring.phase.changed() => Event::Timer,
        }
    }
}

/// Takes what one call settles.
fn next_batch(unsettled: &mut VecDeque<Settlement>, most: usize) -> Vec<Settlement> {
    let count = unsettled.len().min(most);
    unsettled.drain(..count).collect()
}
