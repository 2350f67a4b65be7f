//! A store that fails on request: the edges as seen through a broken network.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::store::{
    AuditReport, CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, Cursor, DeadFilter,
    Durability, ExtendOutcome, InstanceId, InstanceInfo, Page, SettleOutcome, Settlement, Store,
    SubmitOutcome, TypeSettings, TypeStats, Wakeup, Wakeups,
};
use delayq_core::time::Sleep;
use delayq_core::{
    Clock, Error, Lock, NewTask, Result, TaskId, TaskInfo, TaskState, TaskType, Timestamp, When,
};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: it goes through.
    None,
    /// It fails and is not applied.
    NotApplied,
    /// It is applied and its answer is lost.
    AnswerLost,
    /// It is refused: the store takes no writes now.
    ReadOnly,
    /// It is applied late, after the store's [delay](FaultyStore::with_delay).
    Late,
    /// It is applied, and its answer is as late.
    AnswerLate,
    /// The process ends before the call is sent.
    CrashBefore,
    /// The process ends when the call has been applied, before it hears of it.
    CrashAfter,
}

/// What a store was asked and did, whether or not anybody hears of it.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    /// A claim was applied.
    Claimed(&'a Claimed),
    /// Settlements were applied, with these outcomes.
    Settled(&'a [Settlement], &'a [SettleOutcome]),
    /// A cancel was applied.
    Cancelled(CancelOutcome),
}

/// Is told what the store behind the faults did.
pub type Witness = Box<dyn Fn(Seen<'_>) + Send + Sync>;

/// Decides by the name of the edge (`claim`, `settle`, ..).
pub type Plan = Box<dyn Fn(&'static str) -> Fault + Send + Sync>;

/// Wraps a store; `plan` decides the fate of each call. Wake-ups are dropped if so asked.
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    plan: Plan,
    mute: Option<broadcast::Sender<Wakeup>>,
    witness: Witness,
    crashed: CancellationToken,
    delay: Delay,
    silence: Silence,
}

/// Says of which tasks nobody can tell what becomes of their locks.
type Silence = Box<dyn Fn(&TaskId) -> bool + Send + Sync>;

/// Makes the wait of a late call.
type Delay = Box<dyn Fn() -> Sleep + Send + Sync>;

impl std::fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FaultyStore({})", self.inner.name())
    }
}

impl FaultyStore {
    /// `inner` seen through `plan`.
    pub fn new(
        inner: Arc<dyn Store>,
        plan: impl Fn(&'static str) -> Fault + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner,
            plan: Box::new(plan),
            mute: None,
            witness: Box::new(|_| ()),
            crashed: CancellationToken::new(),
            delay: Box::new(|| Box::pin(std::future::ready(()))),
            silence: Box::new(|_| false),
        }
    }

    /// The same, and the outcome of settling or extending locks of these tasks is unknown, with nothing applied. A
    /// call that asks for no others fails after the [delay](Self::with_delay).
    #[must_use]
    pub fn with_silence(
        mut self,
        is_silent: impl Fn(&TaskId) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.silence = Box::new(is_silent);
        self
    }

    /// The same, and late calls and answers are late by `delay`, on `clock`.
    #[must_use]
    pub fn with_delay(mut self, clock: Arc<dyn Clock>, delay: Duration) -> Self {
        self.delay = Box::new(move || clock.sleep_until(clock.elapsed() + delay));
        self
    }

    /// The same, and `witness` is told what the store did.
    #[must_use]
    pub fn with_witness(mut self, witness: impl Fn(Seen<'_>) + Send + Sync + 'static) -> Self {
        self.witness = Box::new(witness);
        self
    }

    /// Fired when the process of this store has crashed. From then on no call is sent, and none answered: to the
    /// world it has ended.
    #[must_use]
    pub fn crashed(&self) -> CancellationToken {
        self.crashed.clone()
    }

    /// The same, and no wake-up ever arrives.
    #[must_use]
    pub fn without_wakeups(mut self) -> Self {
        self.mute = Some(broadcast::Sender::new(1));
        self
    }

    /// The same, and the only wake-ups are what the test sends.
    #[must_use]
    pub fn with_wakeups(mut self, wakeups: broadcast::Sender<Wakeup>) -> Self {
        self.mute = Some(wakeups);
        self
    }

    async fn call<T: Send>(
        &self,
        edge: &'static str,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if self.crashed.is_cancelled() {
            return pending().await;
        }
        let answer = self.suffer(edge, call).await;
        // What was on its way when the process ended is applied, and nobody is there to hear of it.
        if self.crashed.is_cancelled() {
            return pending().await;
        }
        answer
    }

    /// Asks for the locks that are heard; `unknown` for the others.
    async fn heard<Q: Send, T: Copy + Send, A: Future<Output = Result<Vec<T>>> + Send>(
        &self,
        asked: Vec<Q>,
        (id, unknown): (fn(&Q) -> &TaskId, T),
        ask: impl FnOnce(Vec<Q>) -> A + Send,
    ) -> Result<Vec<T>> {
        let silent: Vec<bool> = asked.iter().map(|one| (self.silence)(id(one))).collect();
        if !silent.is_empty() && silent.iter().all(|is_silent| *is_silent) {
            (self.delay)().await;
            let (store, detail) = (self.inner.name(), "silent".to_owned());
            return Err(Error::Indeterminate { store, detail });
        }
        let heard = asked.into_iter().zip(&silent);
        let heard = heard.filter_map(|(one, is_silent)| (!is_silent).then_some(one));
        let mut outcomes = ask(heard.collect()).await?.into_iter();
        let outcome = |is_silent: bool| {
            if is_silent {
                Some(unknown)
            } else {
                outcomes.next()
            }
        };
        Ok(silent.into_iter().map_while(outcome).collect())
    }

    async fn suffer<T: Send>(
        &self,
        edge: &'static str,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let (store, detail) = (self.inner.name(), format!("{edge}: planned fault"));
        match (self.plan)(edge) {
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
            Fault::CrashBefore => {
                self.crashed.cancel();
                pending().await
            }
            Fault::CrashAfter => {
                // What the call would have said is lost with the process.
                let _ = call.await;
                self.crashed.cancel();
                pending().await
            }
        }
    }
}

fn settled_id(settlement: &Settlement) -> &TaskId {
    &settlement.lock.id
}

fn lock_id(lock: &Lock) -> &TaskId {
    &lock.id
}

#[async_trait]
impl Store for FaultyStore {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    async fn check(&self) -> Result<()> {
        self.call("check", self.inner.check()).await
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        let count = tasks.len();
        match self
            .call("submit", async { Ok(self.inner.submit(tasks).await) })
            .await
        {
            Ok(results) => results,
            Err(error) => vec![Err(error); count],
        }
    }

    async fn claim(&self, task_type: &TaskType, request: &ClaimRequest) -> Result<Claimed> {
        self.call("claim", async {
            let claimed = self.inner.claim(task_type, request).await?;
            (self.witness)(Seen::Claimed(&claimed));
            Ok(claimed)
        })
        .await
    }

    async fn settle(
        &self,
        task_type: &TaskType,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        self.call("settle", async {
            let how = (
                settled_id as fn(&Settlement) -> &TaskId,
                SettleOutcome::Unknown,
            );
            self.heard(
                settlements,
                how,
                |settlements: Vec<Settlement>| async move {
                    let outcomes = self.inner.settle(task_type, settlements.clone()).await?;
                    (self.witness)(Seen::Settled(&settlements, &outcomes));
                    Ok(outcomes)
                },
            )
            .await
        })
        .await
    }

    async fn extend(
        &self,
        task_type: &TaskType,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        let how = (lock_id as fn(&Lock) -> &TaskId, ExtendOutcome::Unknown);
        let extend = |locks| self.inner.extend(task_type, locks, lock_for);
        self.call("extend", self.heard(locks, how, extend)).await
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        self.call("cancel", async {
            let outcome = self.inner.cancel(task_type, id).await?;
            (self.witness)(Seen::Cancelled(outcome));
            Ok(outcome)
        })
        .await
    }

    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        self.call("reschedule", self.inner.reschedule(task_type, id, when))
            .await
    }

    async fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome> {
        self.call("update", self.inner.update(task_type, id, message))
            .await
    }

    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        self.call("find", self.inner.find(task_type, id)).await
    }

    async fn types(&self) -> Result<Vec<TaskType>> {
        self.call("types", self.inner.types()).await
    }

    async fn register_type(&self, task_type: &TaskType) -> Result<()> {
        self.call("register_type", self.inner.register_type(task_type))
            .await
    }

    async fn configure_type(&self, task_type: &TaskType, settings: &TypeSettings) -> Result<()> {
        let configured = self.inner.configure_type(task_type, settings);
        self.call("configure_type", configured).await
    }

    async fn stats(&self, task_type: &TaskType) -> Result<TypeStats> {
        self.call("stats", self.inner.stats(task_type)).await
    }

    async fn list(
        &self,
        task_type: &TaskType,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        self.call("list", self.inner.list(task_type, state, cursor, limit))
            .await
    }

    async fn due_histogram(
        &self,
        task_type: &TaskType,
        from: Timestamp,
        to: Timestamp,
        steps: usize,
    ) -> Result<Vec<u64>> {
        self.call(
            "due_histogram",
            self.inner.due_histogram(task_type, from, to, steps),
        )
        .await
    }

    async fn requeue_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        self.call(
            "requeue_dead",
            self.inner.requeue_dead(task_type, filter, interval),
        )
        .await
    }

    async fn discard_dead(&self, task_type: &TaskType, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        self.call("discard_dead", self.inner.discard_dead(task_type, filter))
            .await
    }

    async fn pause(&self, task_type: &TaskType, until: Option<Timestamp>) -> Result<()> {
        self.call("pause", self.inner.pause(task_type, until)).await
    }

    async fn resume(&self, task_type: &TaskType) -> Result<()> {
        self.call("resume", self.inner.resume(task_type)).await
    }

    async fn purge(&self, task_type: &TaskType, state: TaskState) -> Result<u64> {
        self.call("purge", self.inner.purge(task_type, state)).await
    }

    async fn audit(&self, task_type: &TaskType, repair: bool) -> Result<AuditReport> {
        self.call("audit", self.inner.audit(task_type, repair))
            .await
    }

    async fn announce(&self, instance: &InstanceInfo, holds: Duration) -> Result<()> {
        self.call("announce", self.inner.announce(instance, holds))
            .await
    }

    async fn withdraw(&self, id: &InstanceId) -> Result<()> {
        self.call("withdraw", self.inner.withdraw(id)).await
    }

    async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        self.call("instances", self.inner.instances()).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    fn wakeups(&self) -> Wakeups {
        self.mute.as_ref().map_or_else(
            || self.inner.wakeups(),
            |mute| Wakeups::new(mute.subscribe()),
        )
    }
}
