//! Random sequences of steps do the same to a store as to a trivial model.
//!
//! Each step is done to the store first, between two looks at the store's clock. The model then
//! does it for a time in between, and must come to the same answer and the same tasks. On a virtual
//! clock there is only one such time; on a real one there are a few milliseconds. Two of them can
//! show the same and differ in what shows later: then the model goes on in both ways.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests: a panic is a failure"
)]

mod model;
mod op;
mod task;

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use delayq_core::operate::TypeTotals;
use delayq_core::store::{ClaimRequest, Claimed, DEFAULT_RETENTION, Settlement, StoreOptions};
use delayq_core::{Bucket, Lock, Namespace, Store, TaskId, TaskInfo, TaskState, Timestamp, millis};
use delayq_testing::contract::StoreUnderTest;
use delayq_tests::stores::{Memory, PackedRedis, Postgres, Redis, Sqlite};
use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use tokio::runtime::Runtime;

use model::{Model, Outcome, wait};
use op::{IDS, Op, task_type};

/// Redis connections live on the runtime that made them, so one runtime lives through all cases.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// How many steps pass between two looks at the listings; every single task is looked at each time.
const VIEWS_EVERY: usize = 4;

/// A place where cases run: how to make one, and which retentions make sense on its clock.
trait Place: StoreUnderTest + Sized {
    /// Retentions whose ends a case can meet only if the clock is virtual.
    const RETENTIONS: &[Duration];
    fn new() -> Self;
}

impl Place for Memory {
    const RETENTIONS: &[Duration] = &[Duration::ZERO, millis(15), DEFAULT_RETENTION];
    fn new() -> Self {
        Self::default()
    }
}

impl Place for Sqlite {
    const RETENTIONS: &[Duration] = Memory::RETENTIONS;
    fn new() -> Self {
        Self::unsynced()
    }
}

impl Place for Redis {
    const RETENTIONS: &[Duration] = &[Duration::ZERO, DEFAULT_RETENTION];
    fn new() -> Self {
        Self
    }
}

impl Place for PackedRedis {
    const RETENTIONS: &[Duration] = Redis::RETENTIONS;
    fn new() -> Self {
        Self
    }
}

impl Place for Postgres {
    const RETENTIONS: &[Duration] = Redis::RETENTIONS;
    fn new() -> Self {
        Self
    }
}

/// The steps of a case; what comes of them is computed beside the store, which knows the time.
struct Steps<P>(PhantomData<P>);

impl<P: Place> ReferenceStateMachine for Steps<P> {
    /// The retention.
    type State = Duration;
    type Transition = Op;

    fn init_state() -> BoxedStrategy<Duration> {
        prop::sample::select(P::RETENTIONS).boxed()
    }

    fn transitions(_: &Duration) -> BoxedStrategy<Op> {
        op::any()
    }

    fn apply(retention: Duration, _: &Op) -> Duration {
        retention
    }
}

/// A store and the model beside it.
struct Pair {
    harness: Box<dyn StoreUnderTest>,
    store: Arc<dyn Store>,
    start: Timestamp,
    /// Each agrees with all that the store has shown; never none.
    models: Vec<Model>,
    /// The locks taken so far, by number.
    locks: Vec<Lock>,
    steps: usize,
}

struct Compare<P>(PhantomData<P>);

impl<P: Place> StateMachineTest for Compare<P> {
    type SystemUnderTest = Pair;
    type Reference = Steps<P>;

    fn init_test(retention: &Duration) -> Pair {
        RUNTIME.block_on(Pair::new(P::new(), *retention))
    }

    fn apply(mut pair: Pair, _: &Duration, op: Op) -> Pair {
        RUNTIME.block_on(pair.step(op));
        pair
    }

    fn teardown(pair: Pair, _: Duration) {
        RUNTIME.block_on(pair.audit());
    }
}

impl Pair {
    async fn new(harness: impl StoreUnderTest, retention: Duration) -> Self {
        let options = StoreOptions {
            namespace: Namespace::new(TaskId::generate().as_str()).unwrap(),
            retention,
            ..StoreOptions::default()
        };
        let store = harness.open(options).await;
        let start = store.stats(&task_type()).await.unwrap().now;
        Self {
            harness: Box::new(harness),
            store,
            start,
            models: vec![Model::new(retention)],
            locks: Vec::new(),
            steps: 0,
        }
    }

    async fn now(&self) -> Timestamp {
        self.store.stats(&task_type()).await.unwrap().now
    }

    async fn step(&mut self, op: Op) {
        let Some(op) = self.resolve(op) else {
            return;
        };
        let before = self.now().await;
        let outcome = self.execute(&op, before).await;
        let after = self.now().await;
        let tasks = self.tasks().await;
        self.follow(&op, (before, after), &outcome, &tasks);
        self.steps += 1;
        if self.steps.is_multiple_of(VIEWS_EVERY) {
            self.compare_views().await;
        }
    }

    /// Absolute times from the start of this case, locks by number. A step on a lock before there
    /// is any is left out.
    fn resolve(&self, op: Op) -> Option<Op> {
        let count = self.locks.len();
        let number = |back: usize| count.checked_sub(1).map(|last| last - back % count);
        Some(match op.from(self.start) {
            Op::Settle { lock, ending } => Op::Settle {
                lock: number(lock)?,
                ending,
            },
            Op::Extend {
                lock,
                lock_for,
                is_alone,
            } => Op::Extend {
                lock: number(lock)?,
                lock_for,
                is_alone,
            },
            op => op,
        })
    }

    /// Does the step to the store.
    async fn execute(&mut self, op: &Op, now: Timestamp) -> Outcome {
        let task_type = task_type();
        let store = self.store.clone();
        match op {
            Op::Submit(task) => {
                let outcomes = store.submit(vec![task.clone()]).await;
                Outcome::Submit(outcomes[0].clone().unwrap())
            }
            Op::Claim(claim) => {
                let mut request =
                    ClaimRequest::new(claim.limit, claim.lock_for, now.minus(claim.behind))
                        .max_lock_expiries(claim.max_lock_expiries);
                request.max_alone_expiries = claim.max_alone_expiries;
                let claimed = store
                    .claim(&Bucket::whole(task_type), &request)
                    .await
                    .unwrap();
                Outcome::Claim(self.number_locks(claimed))
            }
            Op::Settle { lock, ending } => {
                let (lock, end) = (self.locks[*lock].clone(), ending.end.clone());
                let mut settlement = Settlement::new(lock, end);
                settlement.note.clone_from(&ending.note);
                let settlements = vec![settlement];
                Outcome::Settle(
                    store
                        .settle(&Bucket::whole(task_type), settlements)
                        .await
                        .unwrap()[0],
                )
            }
            Op::Extend {
                lock,
                lock_for,
                is_alone: true,
            } => {
                let lock = &self.locks[*lock];
                let bucket = Bucket::whole(task_type);
                Outcome::Extend(store.extend_alone(&bucket, lock, *lock_for).await.unwrap())
            }
            Op::Extend { lock, lock_for, .. } => {
                let locks = vec![self.locks[*lock].clone()];
                Outcome::Extend(
                    store
                        .extend(&Bucket::whole(task_type), locks, *lock_for)
                        .await
                        .unwrap()[0],
                )
            }
            Op::Cancel(id) => Outcome::Cancel(store.cancel(&task_type, id).await.unwrap()),
            Op::Reschedule(id, when) => {
                Outcome::Change(store.reschedule(&task_type, id, *when).await.unwrap())
            }
            Op::Update(id, message) => {
                Outcome::Change(store.update(&task_type, id, message.clone()).await.unwrap())
            }
            op => self.execute_on_type(op).await,
        }
    }

    /// The steps that concern more than one task.
    async fn execute_on_type(&self, op: &Op) -> Outcome {
        let (store, task_type) = (&self.store, task_type());
        match op {
            Op::Requeue(filter, interval) => Outcome::Ids(
                store
                    .requeue_dead(&task_type, filter, *interval)
                    .await
                    .unwrap(),
            ),
            Op::Discard(filter) => {
                Outcome::Ids(store.discard_dead(&task_type, filter).await.unwrap())
            }
            Op::Pause(until) => {
                store.pause(&task_type, *until).await.unwrap();
                Outcome::Nothing
            }
            Op::Resume => {
                store.resume(&task_type).await.unwrap();
                Outcome::Nothing
            }
            Op::Purge(state) => Outcome::Count(store.purge(&task_type, *state).await.unwrap()),
            Op::Advance(span) => {
                self.harness.advance(*span).await;
                Outcome::Nothing
            }
            op => unreachable!("{op:?} concerns one task"),
        }
    }

    /// Puts the number of each lock in the place of its fence, which has to be the largest so far.
    fn number_locks(&mut self, mut claimed: Claimed) -> Claimed {
        let last = self.locks.last().map_or(0, |lock| lock.fence);
        assert_eq!(claimed.high_water, last);
        claimed.high_water = self.locks.len() as u64;
        // A real clock has parts of a millisecond; the model has none.
        let time = |span| claimed.now.plus(span);
        claimed.next_in = claimed.next_in.map(|span| wait(&claimed, time(span)));
        for task in &mut claimed.tasks {
            let last = self.locks.last().map_or(0, |lock| lock.fence);
            assert!(
                task.lock.fence > last,
                "fence {} after {last}",
                task.lock.fence
            );
            self.locks.push(task.lock.clone());
            task.lock.fence = (self.locks.len() - 1) as u64;
        }
        claimed
    }

    /// What the store says of every id.
    async fn tasks(&self) -> BTreeMap<&'static str, Option<TaskInfo>> {
        let mut tasks = BTreeMap::new();
        for id in IDS {
            let info = self
                .store
                .find(&task_type(), &TaskId::new(id).unwrap())
                .await;
            tasks.insert(id, info.unwrap().map(unexplained));
        }
        tasks
    }

    /// Does the step to the model, for a time at which all comes out as it did in the store.
    fn follow(
        &mut self,
        op: &Op,
        (before, after): (Timestamp, Timestamp),
        outcome: &Outcome,
        tasks: &BTreeMap<&'static str, Option<TaskInfo>>,
    ) {
        let mut agreeing: Vec<Model> = Vec::new();
        let mut differences = Vec::new();
        // Delays may count from the end of the present millisecond.
        let times = before.as_millis()..=after.as_millis() + 1;
        for (ms, model) in times.flat_map(|ms| self.models.iter().map(move |model| (ms, model))) {
            let mut model = model.clone();
            let expected = model.apply(op, Timestamp::from_millis(ms), before);
            let known = |id| (id, model.find(&TaskId::new(id).unwrap()));
            let known: BTreeMap<_, _> = IDS.into_iter().map(known).collect();
            if expected != *outcome || known != *tasks {
                differences.push((expected, known));
            } else if !agreeing.contains(&model) {
                agreeing.push(model);
            }
        }
        assert!(
            !agreeing.is_empty(),
            "{op:#?}\nthe store: {outcome:#?}\n{tasks:#?}\nthe model: {differences:#?}"
        );
        self.models = agreeing;
    }

    /// Every other view of the store shows the same tasks.
    async fn compare_views(&self) {
        let task_type = task_type();
        // They differ in nothing that can be seen.
        let model = &self.models[0];
        let mut stats = self.store.stats(&task_type).await.unwrap();
        // The contract tests compare what has ended.
        (stats.totals, stats.remembered) = (TypeTotals::default(), 0);
        stats.remembered_since = None;
        assert_eq!(stats, model.stats(stats.now));
        for state in [TaskState::Scheduled, TaskState::Running, TaskState::Dead] {
            let mut listed = Vec::new();
            let mut cursor = None;
            loop {
                let page = self
                    .store
                    .list(&task_type, state, cursor.as_ref(), 3)
                    .await
                    .unwrap();
                listed.extend(page.tasks.into_iter().map(unexplained));
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(listed, model.list(state));
        }
        let (from, to) = (self.start, self.start.plus(millis(100)));
        let forecast = self
            .store
            .due_histogram(&task_type, from, to, 4)
            .await
            .unwrap();
        let mut expected = vec![0; 4];
        for info in model.list(TaskState::Scheduled) {
            if info.at < to {
                expected[usize::try_from(info.at.since(from).as_millis() / 25).unwrap()] += 1;
            }
        }
        assert_eq!(forecast, expected);
    }

    /// An audit finds nothing, and mends nothing that is right.
    async fn audit(self) {
        self.compare_views().await;
        let before = self.tasks().await;
        let report = self.store.audit(&task_type(), true).await.unwrap();
        assert_eq!(report.problems, []);
        assert_eq!(self.tasks().await, before);
    }
}

/// Failing cases are printed, not kept in files: a new seed is drawn for every run.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        // A quarter of what the soak plays.
        cases: if cfg!(feature = "soak") {
            cases
        } else {
            cases / 4
        },
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    }
}

prop_state_machine! {
    #![proptest_config(config(5_000))]

    #[test]
    fn the_memory_store_does_what_the_model_does(sequential 1..60 => Compare<Memory>);
}

prop_state_machine! {
    #![proptest_config(config(2_000))]

    #[test]
    fn the_sqlite_store_does_what_the_model_does(sequential 1..60 => Compare<Sqlite>);
}

prop_state_machine! {
    #![proptest_config(config(300))]

    #[test]
    fn the_redis_store_does_what_the_model_does(sequential 1..60 => Compare<Redis>);
}

prop_state_machine! {
    #![proptest_config(config(300))]

    #[test]
    fn a_redis_store_that_packs_every_task_does_what_the_model_does(
        sequential 1..60 => Compare<PackedRedis>
    );
}

prop_state_machine! {
    #![proptest_config(config(100))]

    #[test]
    fn the_postgres_store_does_what_the_model_does(sequential 1..60 => Compare<Postgres>);
}

/// Without what explains a task, of which the model has nothing.
fn unexplained(mut info: TaskInfo) -> TaskInfo {
    (info.started_at, info.attempt_due_at) = (None, None);
    (info.holder, info.waits_for) = (None, None);
    info.errors.clear();
    // Replies are told apart by it: the contract tests hold it.
    (info.fence, info.settled_fence) = (None, None);
    info
}
