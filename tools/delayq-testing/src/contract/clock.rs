//! For stores with a clock that a test can set: the time of day is set forwards and backwards.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::store::{AttemptEnd, ExtendOutcome, SettleOutcome, StoreOptions};
use delayq_core::{Store, TaskState, Timestamp, days, hours};

use super::rig::{LONG, Rig, job, retry};
use super::{SettableClock, StoreUnderTest};

/// A store whose clock is set by a test.
pub struct Timed<H> {
    harness: Arc<H>,
    rig: Rig,
}

impl<H> fmt::Debug for Timed<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timed")
            .field("rig", &self.rig)
            .finish_non_exhaustive()
    }
}

/// The harness, also held by the test that sets its clock.
struct SharedHarness<H>(Arc<H>);

#[async_trait]
impl<H: SettableClock> StoreUnderTest for SharedHarness<H> {
    async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        self.0.open(options).await
    }

    async fn advance(&self, span: Duration) {
        self.0.advance(span).await;
    }
}

impl<H: SettableClock> Timed<H> {
    /// Opens the harness' store.
    pub async fn open(harness: H) -> Self {
        let harness = Arc::new(harness);
        let rig = Rig::open(SharedHarness(harness.clone())).await;
        Self { harness, rig }
    }

    /// Sets the clock back by `span`.
    async fn step_back(&self, span: Duration) -> Timestamp {
        let time = self.rig.now().await.minus(span);
        self.harness.set_clock(time);
        assert_eq!(self.rig.now().await, time);
        time
    }

    /// The end of every test.
    pub async fn finish(self) {
        self.rig.finish().await;
    }
}

pub async fn fences_grow_though_the_clock_steps_back<H: SettableClock>(store: &Timed<H>) {
    let rig = &store.rig;
    let mut last = rig.run("1").await.lock.fence;
    for step in [days(1), days(300)] {
        store.step_back(step).await;
        for id in ["2", "3"] {
            let id = format!("{id} {step:?}").replace(' ', "-");
            let fence = rig.run(&id).await.lock.fence;
            assert!(fence > last, "{fence} after {last}");
            last = fence;
        }
    }
}

pub async fn nothing_starts_early_though_the_clock_steps_back<H: SettableClock>(store: &Timed<H>) {
    let rig = &store.rig;
    let due_at = rig.accept(job("1")).await;
    store.step_back(hours(2)).await;
    assert_eq!(rig.claim().await.tasks, []);
    assert_eq!(rig.claim().await.next_at(), Some(due_at));
    rig.pass(hours(2)).await;
    assert_eq!(rig.claim_one().await.due_at, due_at);
}

pub async fn a_lock_holds_longer_when_the_clock_steps_back<H: SettableClock>(store: &Timed<H>) {
    let rig = &store.rig;
    let task = rig.run("1").await;
    store.step_back(hours(5)).await;
    rig.pass(LONG + LONG).await;
    rig.claims_nothing().await;
    let until = rig.now().await.plus(LONG);
    assert_eq!(
        rig.extend(&task.lock, LONG).await,
        ExtendOutcome::Extended(until)
    );
    assert_eq!(
        rig.settle(&task.lock, AttemptEnd::Done).await,
        SettleOutcome::Settled
    );
}

pub async fn an_ended_task_stays_known_when_the_clock_steps_back<H: SettableClock>(
    store: &Timed<H>,
) {
    let rig = &store.rig;
    rig.bring("1", TaskState::Done).await;
    store.step_back(hours(5)).await;
    assert_eq!(rig.state("1").await, Some(TaskState::Done));
}

pub async fn a_leap_forward_loses_nothing<H: SettableClock>(store: &Timed<H>) {
    let rig = &store.rig;
    rig.accept(job("waits").after(LONG)).await;
    let running = rig.run("runs").await;
    rig.bring("dead", TaskState::Dead).await;
    let retried = rig.run("retried").await;
    rig.settled(&retried.lock, retry(LONG)).await;
    store.harness.set_clock(rig.now().await.plus(days(10_000)));
    assert_eq!(
        rig.settle(&running.lock, retry(LONG)).await,
        SettleOutcome::Settled
    );
    assert_eq!(rig.claim().await.tasks.len(), 2);
    assert_eq!(rig.state("dead").await, Some(TaskState::Dead));
    let due_at = rig.info("runs").await.at;
    assert_eq!(due_at, rig.now().await.plus(LONG));
}
