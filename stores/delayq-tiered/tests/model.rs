//! Random steps do the same to a tier as to one memory store beside it, on the same clock.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests: a panic is a failure, and the seed of one is printed"
)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::memory::MemoryStore;
use delayq_core::operate::Operate;
use delayq_core::store::{
    AttemptEnd, Bucket, ClaimRequest, MAX_BATCH, Settlement, StoreOptions, SubmitOutcome,
};
use delayq_core::{
    Clock, Expiry, NewTask, OnConflict, Result, Store, TaskId, TaskInfo, TaskState, TaskType,
    Timestamp, VirtualClock, When, hours, millis, seconds,
};
use delayq_tiered::{TierOptions, TieredStore};
use fastrand::Rng;

const LEAD: Duration = millis(200);
const HORIZON: Duration = seconds(1);
const CASES: u64 = 400;
const STEPS: usize = 60;

struct Pair {
    clock: VirtualClock,
    tier: Arc<TieredStore>,
    one: Arc<MemoryStore>,
    dice: Rng,
    /// The starts of both.
    runs: [Vec<(TaskId, Timestamp, Vec<u8>)>; 2],
}

fn task_type() -> TaskType {
    TaskType::new("job").unwrap()
}

impl Pair {
    fn new(seed: u64) -> Self {
        let clock = VirtualClock::default();
        let options = StoreOptions {
            retention: hours(1),
            ..StoreOptions::default()
        };
        let memory = || MemoryStore::new(Arc::new(clock.clone()), options.clone());
        let tier = TierOptions::new(HORIZON, &options);
        let tier = tier.for_tests(LEAD, hours(1), Arc::new(clock.clone()));
        let tier = TieredStore::open(Arc::new(memory()), Arc::new(memory()), tier).unwrap();
        Self {
            tier,
            one: Arc::new(memory()),
            clock,
            dice: Rng::with_seed(seed),
            runs: [Vec::new(), Vec::new()],
        }
    }

    fn id(&mut self) -> TaskId {
        TaskId::new(format!("t{}", self.dice.u8(0..4))).unwrap()
    }

    fn when(&mut self) -> When {
        let delays = [0, 50, 150, 201, 900, 1_000, 1_001, 1_500, 5_000];
        let delay = millis(*self.dice.choice(&delays).unwrap());
        if self.dice.bool() {
            When::After(delay)
        } else {
            When::At(self.clock.now().plus(delay))
        }
    }

    fn task(&mut self) -> NewTask {
        let message = vec![self.dice.u8(0..2)];
        let mut task = NewTask::new(task_type(), self.id(), message);
        task.when = self.when();
        let rules = [OnConflict::Reject, OnConflict::Keep, OnConflict::Replace];
        task.on_conflict = *self.dice.choice(&rules).unwrap();
        task.expiry = match self.dice.u8(0..8) {
            0 => Some(Expiry::AfterDue(millis(300))),
            1 => Some(Expiry::At(self.clock.now().plus(millis(6_000)))),
            _ => None,
        };
        task
    }

    async fn step(&mut self) {
        let stores: [Arc<dyn Store>; 2] = [self.tier.clone(), self.one.clone()];
        let id = self.id();
        match self.dice.u8(0..10) {
            0..4 => {
                let task = self.task();
                let mut said = Vec::new();
                for store in &stores {
                    said.push(judged(store.submit(vec![task.clone()]).await.remove(0)));
                }
                println!("{} {task:?}: {:?}", self.clock.now(), said[0]);
                assert_eq!(said[0], said[1], "{task:?}");
            }
            4 => {
                let said = [
                    stores[0].cancel(&task_type(), &id).await,
                    stores[1].cancel(&task_type(), &id).await,
                ];
                println!("{} cancel of {id}: {:?}", self.clock.now(), said[0]);
                assert_eq!(said[0], said[1], "cancel of {id}");
            }
            5 => {
                let when = self.when();
                let said = [
                    stores[0].reschedule(&task_type(), &id, when).await,
                    stores[1].reschedule(&task_type(), &id, when).await,
                ];
                println!("{} {id} to {when:?}: {:?}", self.clock.now(), said[0]);
                assert_eq!(said[0], said[1], "{id} to {when:?}");
            }
            6 => {
                let message = vec![self.dice.u8(0..2)];
                let said = [
                    stores[0].update(&task_type(), &id, message.clone()).await,
                    stores[1].update(&task_type(), &id, message).await,
                ];
                println!("{} update of {id}: {:?}", self.clock.now(), said[0]);
                assert_eq!(said[0], said[1], "update of {id}");
            }
            7 => self.run().await,
            _ => {
                let span = millis(self.dice.u64(1..900));
                self.advance(span).await;
            }
        }
        // No two ends have the same time.
        self.tier.has_moved_all().await.unwrap();
        self.advance(millis(1)).await;
        self.compare().await;
    }

    /// Moves the clock in steps shorter than the lead.
    async fn advance(&mut self, span: Duration) {
        let mut rest = span;
        while !rest.is_zero() {
            let step = rest.min(LEAD / 2);
            self.clock.advance(step);
            self.tier.has_moved_all().await.unwrap();
            rest -= step;
        }
    }

    /// Runs what is due.
    async fn run(&mut self) {
        let stores: [Arc<dyn Store>; 2] = [self.tier.clone(), self.one.clone()];
        for (store, runs) in stores.into_iter().zip(&mut self.runs) {
            let bucket = Bucket::whole(task_type());
            let request = ClaimRequest::new(MAX_BATCH, seconds(60), self.clock.now());
            let claimed = store.claim(&bucket, &request).await.unwrap();
            for task in claimed.tasks {
                runs.push((task.lock.id.clone(), task.due_at, task.message));
                let done = Settlement::new(task.lock, AttemptEnd::Done);
                store.settle(&bucket, vec![done]).await.unwrap();
            }
        }
        assert_eq!(self.runs[0], self.runs[1]);
    }

    /// Both show the same tasks.
    async fn compare(&self) {
        self.tier.has_moved_all().await.unwrap();
        for n in 0..4 {
            let id = TaskId::new(format!("t{n}")).unwrap();
            let tier = self.tier.find(&task_type(), &id).await.unwrap();
            let one = self.one.find(&task_type(), &id).await.unwrap();
            assert_eq!(tier.map(plain), one.map(plain));
        }
        let scheduled = TaskState::Scheduled;
        let tier = self
            .tier
            .list(&task_type(), scheduled, None, 10)
            .await
            .unwrap();
        let one = self
            .one
            .list(&task_type(), scheduled, None, 10)
            .await
            .unwrap();
        let ids = |tasks: Vec<TaskInfo>| -> BTreeSet<_> {
            tasks.into_iter().map(|task| task.id).collect()
        };
        assert_eq!(ids(tier.tasks), ids(one.tasks));
        let [tier, one] = [
            self.tier.stats(&task_type()).await.unwrap(),
            self.one.stats(&task_type()).await.unwrap(),
        ];
        assert_eq!(tier.scheduled, one.scheduled);
        // A task that took the place of a far one and is due at once may be shown later.
        let most = one.next_due.map(|due| due.plus(LEAD));
        assert!(tier.next_due >= one.next_due && tier.next_due <= most);
        let counted = (tier.totals.done, tier.totals.dead, tier.totals.expired);
        assert_eq!(
            counted,
            (one.totals.done, one.totals.dead, one.totals.expired)
        );
        assert_eq!(tier.totals.cancelled, one.totals.cancelled);
    }
}

/// An answer as far as both give the same: of a task that was moved, a delay is a time, so that its
/// repeat may count as another request.
fn judged(outcome: Result<SubmitOutcome>) -> Result<SubmitOutcome> {
    outcome.map(|outcome| match outcome {
        SubmitOutcome::Conflict { state } => SubmitOutcome::AlreadyExists { state },
        other => other,
    })
}

/// A task without its submit time, which a move changes.
fn plain(mut task: TaskInfo) -> TaskInfo {
    task.submitted_at = None;
    task.waits_for = None;
    (task.settled_fence, task.fence) = (None, None);
    task
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tier_does_what_one_store_does() {
    let first = fastrand::u64(..u64::MAX / 2);
    for seed in first..first + CASES {
        println!("seed {seed}");
        let mut pair = Pair::new(seed);
        for _ in 0..STEPS {
            pair.step().await;
        }
        let report = pair.tier.audit(&task_type(), false).await.unwrap();
        assert_eq!(report.problems, []);
    }
}
