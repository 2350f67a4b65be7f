//! A store that fails on request, as if seen through a broken network.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{
    CancelOutcome, ClaimRequest, Claimed, ExtendOutcome, Layer, SettleOutcome, Settlement,
    StoreCall, Wakeup, Wakeups,
};
use delayq_core::time::Sleep;
use delayq_core::{Bucket, Clock, Error, Lock, Result, Store, TaskId, TaskType};
use tokio::sync::broadcast;

mod crash;
mod fault;
mod inline;
mod observed;

pub use crash::Crash;
pub use fault::Fault;
pub(crate) use inline::{Inline, InlineStore};
pub use observed::Observed;

/// Chooses the fault by the name of the operation (`claim`, `settle`, ..).
type Plan = Box<dyn Fn(&'static str) -> Fault + Send + Sync>;

/// Chooses the fault by the bucket and the name of the operation.
type BucketPlan = Box<dyn Fn(&Bucket, &'static str) -> Fault + Send + Sync>;

/// Observes the effects on the store behind the faults.
type Witness = Box<dyn Fn(Observed<'_>) + Send + Sync>;

/// Creates the wait of a late call.
type Delay = Box<dyn Fn() -> Sleep + Send + Sync>;

/// Wraps a store; a plan decides what happens to each call.
///
/// ```
/// # use std::sync::Arc;
/// # use delayq_core::{Operate, memory::MemoryStore};
/// use delayq_testing::{Fault, FaultyStore};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let store = FaultyStore::new(Arc::new(MemoryStore::default()), |operation| match operation {
///     "types" => Fault::AnswerLost,
///     _ => Fault::None,
/// });
/// assert!(store.types().await.unwrap_err().is_indeterminate());
/// # }
/// ```
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    plan: Plan,
    bucket_plan: BucketPlan,
    wakeups: Option<broadcast::Sender<Wakeup>>,
    witness: Witness,
    crash: Crash,
    delay: Delay,
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyStore({})", self.inner.name())
    }
}

impl FaultyStore {
    /// Wraps `inner` with `plan`, which chooses faults by the name of the operation: that of the
    /// method.
    pub fn new(
        inner: Arc<dyn Store>,
        plan: impl Fn(&'static str) -> Fault + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner,
            plan: Box::new(plan),
            bucket_plan: Box::new(|_, _| Fault::None),
            wakeups: None,
            witness: Box::new(|_| ()),
            crash: Crash::default(),
            delay: Box::new(|| Box::pin(std::future::ready(()))),
        }
    }

    /// Adds `plan`, which chooses first for claims, settlements and extensions of a bucket.
    #[must_use]
    pub fn with_bucket_plan(
        mut self,
        plan: impl Fn(&Bucket, &'static str) -> Fault + Send + Sync + 'static,
    ) -> Self {
        self.bucket_plan = Box::new(plan);
        self
    }

    /// Makes late calls and answers late by `delay`, on `clock`.
    #[must_use]
    pub fn with_delay(mut self, clock: Arc<dyn Clock>, delay: Duration) -> Self {
        self.delay = Box::new(move || clock.sleep_until(clock.elapsed() + delay));
        self
    }

    /// Lets `witness` observe the effects on the store.
    #[must_use]
    pub fn with_witness(mut self, witness: impl Fn(Observed<'_>) + Send + Sync + 'static) -> Self {
        self.witness = Box::new(witness);
        self
    }

    /// Drops all wake-ups.
    #[must_use]
    pub fn without_wakeups(self) -> Self {
        self.with_wakeups(broadcast::Sender::new(1))
    }

    /// Replaces the wake-ups by those that the test sends.
    #[must_use]
    pub fn with_wakeups(mut self, wakeups: broadcast::Sender<Wakeup>) -> Self {
        self.wakeups = Some(wakeups);
        self
    }

    /// The crash of this store's process. After it no call is sent and none is answered.
    #[must_use]
    pub fn crash(&self) -> Crash {
        self.crash.clone()
    }

    async fn call_bucket<T: Send>(
        &self,
        call: StoreCall,
        bucket: &Bucket,
        answer: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        match (self.bucket_plan)(bucket, call.name()) {
            Fault::None => self.around(call, answer).await,
            fault => self.answer(call.name(), fault, answer).await,
        }
    }

    /// The answer of a call with `fault`. A call in progress when the process crashes is applied,
    /// but its answer never arrives.
    async fn answer<T: Send>(
        &self,
        operation: &'static str,
        fault: Fault,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let Some(call_under_way) = self.crash.begin() else {
            return pending().await;
        };
        let answer = self.suffer(operation, fault, call).await;
        drop(call_under_way);
        if self.crash.has_happened() {
            return pending().await;
        }
        answer
    }

    async fn suffer<T: Send>(
        &self,
        operation: &'static str,
        fault: Fault,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let store = self.inner.name();
        let detail = format!("{operation}: planned fault");
        match fault {
            Fault::None => call.await,
            Fault::NotApplied => Err(Error::Unavailable { store, detail }),
            Fault::ReadOnly => Err(Error::ReadOnly { store, detail }),
            Fault::AnswerLost => {
                call.await?;
                Err(Error::Indeterminate { store, detail })
            }
            Fault::Late => {
                (self.delay)().await;
                call.await
            }
            Fault::AnswerLate => {
                let answer = call.await;
                (self.delay)().await;
                answer
            }
            Fault::Hang => {
                (self.delay)().await;
                Err(Error::Indeterminate { store, detail })
            }
            Fault::CrashBefore => {
                self.crash.happen();
                pending().await
            }
            Fault::CrashAfter => {
                // The answer is lost with the process.
                let _ = call.await;
                self.crash.happen();
                pending().await
            }
        }
    }
}

impl Layer for FaultyStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn around<T: Send>(
        &self,
        call: StoreCall,
        answer: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let fault = (self.plan)(call.name());
        self.answer(call.name(), fault, answer).await
    }

    async fn claim(&self, bucket: &Bucket, request: &ClaimRequest) -> Result<Claimed> {
        let claim = async {
            let claimed = self.inner.claim(bucket, request).await?;
            (self.witness)(Observed::Claim {
                bucket,
                claimed: &claimed,
            });
            Ok(claimed)
        };
        self.call_bucket(StoreCall::Claim, bucket, claim).await
    }

    async fn settle(
        &self,
        bucket: &Bucket,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        let settle = async {
            let outcomes = self.inner.settle(bucket, settlements.clone()).await?;
            (self.witness)(Observed::Settle {
                bucket,
                settlements: &settlements,
                outcomes: &outcomes,
            });
            Ok(outcomes)
        };
        self.call_bucket(StoreCall::Settle, bucket, settle).await
    }

    async fn extend(
        &self,
        bucket: &Bucket,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        let extend = self.inner.extend(bucket, locks, lock_for);
        self.call_bucket(StoreCall::Extend, bucket, extend).await
    }

    async fn extend_alone(
        &self,
        bucket: &Bucket,
        lock: &Lock,
        lock_for: Duration,
    ) -> Result<ExtendOutcome> {
        let extend = self.inner.extend_alone(bucket, lock, lock_for);
        self.call_bucket(StoreCall::ExtendAlone, bucket, extend)
            .await
    }

    async fn note_failure(&self, bucket: &Bucket, lock: &Lock, error: &str) -> Result<bool> {
        let note = self.inner.note_failure(bucket, lock, error);
        self.call_bucket(StoreCall::NoteFailure, bucket, note).await
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        let cancel = async {
            let outcome = self.inner.cancel(task_type, id).await?;
            (self.witness)(Observed::Cancel(outcome));
            Ok(outcome)
        };
        self.around(StoreCall::Cancel, cancel).await
    }

    fn wakeups(&self) -> Wakeups {
        self.wakeups.as_ref().map_or_else(
            || self.inner.wakeups(),
            |wakeups| Wakeups::new(wakeups.subscribe()),
        )
    }
}
