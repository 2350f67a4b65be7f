//! The store over two stores.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use delayq_core::history::{EndPosition, EndsStatus, WaitingEnd};
use delayq_core::operate::{AuditReport, Cursor, DeadFilter, Page, TypeSettings, TypeStats};
use delayq_core::store::{
    CancelOutcome, ChangeOutcome, Concern, Durability, Layer, SqlPlace, SubmitOutcome,
};
use delayq_core::task::Headers;
use delayq_core::{
    Error, NewTask, Result, Store, TaskId, TaskInfo, TaskState, TaskType, Timestamp, When, millis,
};
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use crate::change::{self, Change};
use crate::counts::Counts;
use crate::late::{LateStore, Later};
use crate::marks::Marks;
use crate::options::TierOptions;
use crate::parts::{Parts, pause};
use crate::promoter::Promoters;
use crate::trouble::Trouble;
use crate::{ends, operate, submit};

/// A store whose far tasks wait in a second store.
///
/// Tasks that are due within the horizon are in the hot store, which also runs all tasks. Those
/// that are due later are in the cold store, and are moved to the hot one a minute ahead of their
/// due time. Whoever uses the store sees one store.
///
/// Where it differs from a single store:
///
/// - The submit time of a task that was moved is the time of its move. An occurrence of a recurring
///   task keeps that of its first submit in a header, see [`accepted_at`](crate::accepted_at).
/// - A submit learns within a second that another process has put the first far task of its type
///   into cold. Until then it does not see that such a task has its id, and both are accepted. The
///   far one is then set aside as dead when it becomes due, if the other one still exists.
/// - The limit of scheduled tasks counts both stores, in two steps: submits at the same time may
///   exceed it. A limit that is lowered below the tasks of hot delays the moves.
/// - A pause concerns the start of tasks. They are moved all the same.
#[derive(Debug)]
pub struct TieredStore {
    parts: Arc<Parts>,
    /// `None` if other processes move the tasks.
    promoters: Option<Promoters>,
}

impl TieredStore {
    /// Opens a tier over two stores, which are open, of the same namespace, and used through no
    /// other tier. It starts a thread that moves tasks.
    ///
    /// # Errors
    /// `InvalidInput` for a horizon below five minutes, for a retention of two minutes or less, and
    /// for stores of two namespaces or of the same place.
    pub fn open(
        hot: Arc<dyn Store>,
        cold: Arc<dyn Store>,
        options: TierOptions,
    ) -> Result<Arc<Self>> {
        options.check()?;
        refuse_unlike(&*hot, &*cold)?;
        Self::start(hot, cold, options, None)
    }

    /// The same over a cold store that is away. It is opened once it is back; until then its calls
    /// are `Unavailable`.
    ///
    /// # Errors
    /// `InvalidInput` for a horizon below five minutes, for a retention of two minutes or less, and
    /// for a tier that moves nothing: it would open the cold store never.
    pub fn open_before_cold(
        hot: Arc<dyn Store>,
        cold: Later,
        options: TierOptions,
    ) -> Result<Arc<Self>> {
        options.check()?;
        if options.moves_nothing {
            let reason = "it is away: a program that moves no tasks starts once it is back";
            return Err(Error::invalid("cold store", reason));
        }
        let late = Arc::new(LateStore::new(cold.name, cold.options));
        let opened = Arc::clone(&late);
        let opening = Box::pin(async move { opened.open(cold.opener).await });
        Self::start(hot, late, options, Some(opening))
    }

    fn start(
        hot: Arc<dyn Store>,
        cold: Arc<dyn Store>,
        options: TierOptions,
        opening: Option<BoxFuture<'static, ()>>,
    ) -> Result<Arc<Self>> {
        let parts = Arc::new(Parts {
            hot,
            cold,
            options,
            counts: Counts::default(),
            marks: Marks::default(),
            trouble: Trouble::default(),
            hurry: Notify::new(),
            away: Mutex::default(),
        });
        let promoters = if parts.options.moves_nothing {
            None
        } else {
            Some(Promoters::start(Arc::clone(&parts), opening)?)
        };
        Ok(Arc::new(Self { parts, promoters }))
    }

    /// Waits until no task of cold is due and none is being moved. For tests.
    ///
    /// # Errors
    /// `Unavailable` if that takes ten seconds.
    #[doc(hidden)]
    pub async fn has_moved_all(&self) -> Result<()> {
        for _ in 0..5_000 {
            let mut is_idle = true;
            for task_type in self.parts.cold.types().await? {
                let stats = self.parts.cold.stats(&task_type).await?;
                is_idle &= stats.due == 0 && stats.running == 0;
            }
            if is_idle {
                return Ok(());
            }
            pause(millis(2)).await;
        }
        let detail = "there are still tasks to be moved";
        Err(Error::unavailable(self.parts.name(), detail))
    }
}

/// Refuses stores that cannot be a tier.
fn refuse_unlike(hot: &dyn Store, cold: &dyn Store) -> Result<()> {
    if let (Some(own), Some(other)) = (hot.namespace(), cold.namespace())
        && own != other
    {
        let reason = format!("it is of the namespace {other}, and the hot one of {own}");
        return Err(Error::invalid("cold store", reason));
    }
    let (name, is_memory) = (hot.name(), hot.durability() == Durability::Memory);
    if name == cold.name() && !is_memory {
        let reason = format!("{name} is the hot store: name another place");
        return Err(Error::invalid("cold store", reason));
    }
    Ok(())
}

impl Layer for TieredStore {
    fn inner(&self) -> &dyn Store {
        &*self.parts.hot
    }

    fn name(&self) -> String {
        self.parts.name()
    }

    fn durability(&self) -> Durability {
        let (hot, cold) = (self.parts.hot.durability(), self.parts.cold.durability());
        hot.min(cold)
    }

    /// A call in a transaction would not see what cold has.
    fn sql_place(&self) -> Option<SqlPlace> {
        None
    }

    async fn close(&self) {
        if let Some(promoters) = &self.promoters {
            promoters.stop().await;
        }
        self.parts.hot.close().await;
        self.parts.cold.close().await;
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        submit::submit(&self.parts, tasks).await
    }

    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        change::find(&self.parts, task_type, id).await
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        change::cancel(&self.parts, task_type, id).await
    }

    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        change::change(&self.parts, task_type, id, Change::Move(when)).await
    }

    async fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome> {
        change::change(&self.parts, task_type, id, Change::Message(message, None)).await
    }

    async fn update_with(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
        headers: &Headers,
    ) -> Result<ChangeOutcome> {
        let headers = change::without_mark(headers.clone());
        let change = Change::Message(message, Some(headers));
        change::change(&self.parts, task_type, id, change).await
    }

    async fn check(&self) -> Result<()> {
        self.parts.hot.check().await?;
        self.parts.cold.check().await
    }

    async fn concerns(&self) -> Result<Vec<Concern>> {
        operate::concerns(&self.parts).await
    }

    async fn ends(&self, limit: usize) -> Result<Vec<WaitingEnd>> {
        ends::ends(&self.parts, limit).await
    }

    async fn remove_ends(&self, positions: &[EndPosition]) -> Result<u64> {
        ends::remove(&self.parts, positions).await
    }

    async fn ends_status(&self) -> Result<EndsStatus> {
        ends::status(&self.parts).await
    }

    async fn types(&self) -> Result<Vec<TaskType>> {
        operate::types(&self.parts).await
    }

    async fn configure_type(&self, task_type: &TaskType, settings: &TypeSettings) -> Result<()> {
        operate::configure(&self.parts, task_type, settings).await
    }

    async fn stats(&self, task_type: &TaskType) -> Result<TypeStats> {
        operate::stats(&self.parts, task_type).await
    }

    async fn list(
        &self,
        task_type: &TaskType,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        operate::list(&self.parts, task_type, state, cursor, limit).await
    }

    async fn due_histogram(
        &self,
        task_type: &TaskType,
        from: Timestamp,
        to: Timestamp,
        steps: usize,
    ) -> Result<Vec<u64>> {
        operate::histogram(&self.parts, task_type, from, to, steps).await
    }

    async fn requeue_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        operate::requeue(&self.parts, task_type, filter, interval).await
    }

    async fn discard_dead(&self, task_type: &TaskType, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        operate::discard(&self.parts, task_type, filter).await
    }

    async fn purge(&self, task_type: &TaskType, state: TaskState) -> Result<u64> {
        operate::purge(&self.parts, task_type, state).await
    }

    async fn drop_type(&self, task_type: &TaskType) -> Result<()> {
        operate::drop_type(&self.parts, task_type).await
    }

    async fn audit(&self, task_type: &TaskType, repair: bool) -> Result<AuditReport> {
        operate::audit(&self.parts, task_type, repair).await
    }
}
