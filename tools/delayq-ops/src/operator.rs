//! An operator: changes tasks and types, and leaves an entry in the log for each.

use std::future::Future;
use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use delayq_plugin::store::{Action, ActionEnd};
use delayq_plugin::{
    AuditReport, BATCH_TYPE, BulkError, BulkReport, CancelOutcome, ChangeOutcome, DeadFilter,
    DelayQueueJob, Error, Receipt, Result, TaskFilter, TaskId, TaskState, TaskSubmitService,
    TaskType, Timestamp, TypeSettings, When,
};

mod dead_selection;
mod deed;
mod history;
mod listing;
mod many;
mod setting;
mod transfers;
mod words;

pub use dead_selection::DeadSelection;
pub use history::forget_history;

use self::deed::{is_no_deed, is_refusal};
use self::many::DeadAction;
use crate::lmstfy::{LmstfyError, LmstfyImport, LmstfyReport};
use crate::transfer::{DeadTasks, Progress, TransferError, TransferReport, copy, import};

/// Somebody who changes tasks and types by hand. All its changes are in the log of
/// [actions](delayq_plugin::store::Chronicle::actions): one entry after a change of one task or
/// type, and two entries for a change of many, before and after it.
///
/// The log is in the same store. If it cannot be written, a change of many tasks is refused; a
/// change of a single task has already happened, and a line at `error` shows the missing entry. A
/// store without a log is changed without entries.
#[derive(Clone, Debug)]
pub struct Operator {
    tasks: TaskSubmitService,
    actor: String,
    origin: String,
    /// True if somebody else writes the log.
    is_silent: bool,
    /// True if a type that is not listed is made instead of refused.
    is_creating: bool,
    may_name: listing::MayName,
}

impl Operator {
    /// `actor` is the name of the user or token that acts. `origin` is the place it acts from: an
    /// address, or a host and its program.
    #[must_use]
    pub fn new(
        tasks: &TaskSubmitService,
        actor: impl Into<String>,
        origin: impl Into<String>,
    ) -> Self {
        Self {
            tasks: tasks.clone(),
            actor: actor.into(),
            origin: origin.into(),
            is_silent: false,
            is_creating: false,
            may_name: listing::MayName::default(),
        }
    }

    /// The same operator without entries in the log and without refusals of types that are not
    /// listed, for an application that does both itself because it has this store behind a server.
    #[must_use]
    pub fn silent(mut self) -> Self {
        self.is_silent = true;
        self
    }

    /// The same operator, which makes a type that is not listed instead of refusing it, if
    /// `is_creating`: for [`send`](Self::send), [`pause`](Self::pause) and
    /// [`configure_type`](Self::configure_type).
    #[must_use]
    pub fn creating(mut self, is_creating: bool) -> Self {
        self.is_creating = is_creating;
        self
    }

    /// The same operator, for a caller who may not see every type: `UnknownType` names only a type
    /// of which `may_name` is true.
    #[must_use]
    pub fn naming(mut self, may_name: impl Fn(&TaskType) -> bool + Send + Sync + 'static) -> Self {
        self.may_name = listing::MayName(Arc::new(may_name));
        self
    }

    /// The same operator on another store.
    #[must_use]
    pub fn of(&self, tasks: &TaskSubmitService) -> Self {
        Self {
            tasks: tasks.clone(),
            ..self.clone()
        }
    }

    /// The name of the actor.
    #[must_use]
    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// The service that it uses.
    #[must_use]
    pub fn tasks(&self) -> &TaskSubmitService {
        &self.tasks
    }

    /// Sends a task, like [`send`](TaskSubmitService::send).
    ///
    /// # Errors
    /// `UnknownType` for a type that is not listed, and as `send`.
    pub async fn send(&self, job: DelayQueueJob) -> Result<Receipt> {
        listing::expect(self, job.task_type()).await?;
        let action = self.action("send", job.task_type());
        let sent = self.tasks.send(job).await;
        let id = sent.as_ref().map_or("", |receipt| receipt.id.as_str());
        self.log_end(action.on(id), &sent, words::sent).await;
        sent
    }

    /// Cancels a task, as [`cancel`](TaskSubmitService::cancel).
    ///
    /// # Errors
    /// As `cancel`.
    pub async fn cancel(&self, task_type: &str, id: &str) -> Result<CancelOutcome> {
        let action = self.action("cancel", task_type).on(id);
        let cancelled = self.tasks.cancel(task_type, id);
        self.logged(action, cancelled, words::cancelled).await
    }

    /// Moves a scheduled task, as [`reschedule`](TaskSubmitService::reschedule).
    ///
    /// # Errors
    /// As `reschedule`.
    pub async fn reschedule(&self, task_type: &str, id: &str, when: When) -> Result<ChangeOutcome> {
        let action = self.action("reschedule", task_type).on(id);
        let moved = self.tasks.reschedule(task_type, id, when);
        self.logged(action, moved, words::changed).await
    }

    /// Makes a scheduled task due now, as [`run_now`](TaskSubmitService::run_now).
    ///
    /// # Errors
    /// As `run_now`.
    pub async fn run_now(&self, task_type: &str, id: &str) -> Result<ChangeOutcome> {
        let action = self.action("run-now", task_type).on(id);
        let moved = self.tasks.run_now(task_type, id);
        self.logged(action, moved, words::changed).await
    }

    /// Replaces the message of a scheduled task, as [`update_raw`](TaskSubmitService::update_raw).
    ///
    /// # Errors
    /// As `update_raw`.
    pub async fn update(
        &self,
        task_type: &str,
        id: &str,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome> {
        let action = self.action("update", task_type).on(id);
        let updated = self.tasks.update_raw(task_type, id, message);
        self.logged(action, updated, words::changed).await
    }

    /// Pauses a type or the listed types that a pattern matches, as
    /// [`pause`](TaskSubmitService::pause).
    ///
    /// # Errors
    /// `UnknownType` for a type that is not listed or a pattern that matches none, and as `pause`.
    pub async fn pause(&self, types: &str, until: Option<Timestamp>) -> Result<Vec<TaskType>> {
        listing::expect(self, types).await?;
        let action = self.action("pause", types);
        let detail = until.map_or("until resumed".to_owned(), |until| format!("until {until}"));
        let end = |paused: &Vec<TaskType>| words::of_types(types, paused, &detail);
        let paused = self.logged(action, self.tasks.pause(types, until), end);
        let paused = paused.await?;
        listing::list(self, types).await?;
        Ok(paused)
    }

    /// Ends pauses, as [`resume`](TaskSubmitService::resume).
    ///
    /// # Errors
    /// `UnknownType` as for [`pause`](Self::pause), and as `resume`.
    pub async fn resume(&self, types: &str) -> Result<Vec<TaskType>> {
        listing::expect_known(self, types).await?;
        let action = self.action("resume", types);
        let end = |resumed: &Vec<TaskType>| words::of_types(types, resumed, "");
        self.logged(action, self.tasks.resume(types), end).await
    }

    /// Changes settings of a type, as [`configure_type`](TaskSubmitService::configure_type).
    ///
    /// # Errors
    /// `UnknownType` for a type that is not listed, `Unsupported` for several shards in a store
    /// that has none, and as `configure_type`.
    pub async fn configure_type(&self, task_type: &str, settings: &TypeSettings) -> Result<()> {
        TaskType::new(task_type)?;
        settings.check()?;
        listing::expect(self, task_type).await?;
        let action = self.action("configure", task_type);
        let end = |(): &()| (ActionEnd::Done, words::settings(settings));
        let configured = setting::configure(self, task_type, settings);
        self.logged(action, configured, end).await?;
        listing::list(self, task_type).await
    }

    /// Adds an entry for an action done in another way, such as a setting of a server.
    pub async fn note(&self, verb: &str, task_type: &str, detail: &str) {
        let action = self.action(verb, task_type);
        self.record(&action.ended(ActionEnd::Done, detail)).await;
    }

    /// Removes an empty type, as [`drop_type`](TaskSubmitService::drop_type).
    ///
    /// # Errors
    /// As `drop_type`.
    pub async fn drop_type(&self, task_type: &str) -> Result<()> {
        let end = |(): &()| (ActionEnd::Done, String::new());
        let action = self.action("drop-type", task_type);
        self.logged(action, self.tasks.drop_type(task_type), end)
            .await
    }

    /// Mends the stored structure of a type, as [`audit`](TaskSubmitService::audit) with repair.
    ///
    /// # Errors
    /// `UnknownType` for a type that is not listed, and as `audit`.
    pub async fn repair(&self, task_type: &str) -> Result<AuditReport> {
        listing::expect_known(self, task_type).await?;
        let end = |report: &AuditReport| {
            let found = report.problems.len();
            (ActionEnd::Done, format!("{found} problems found"))
        };
        let action = self.action("repair", task_type);
        self.logged(action, self.tasks.audit(task_type, true), end)
            .await
    }

    /// Cancels the waiting occurrences of a recurring task, as
    /// [`remove_recurring`](TaskSubmitService::remove_recurring).
    ///
    /// # Errors
    /// As `remove_recurring`.
    pub async fn remove_recurring(&self, task_type: &str, name: &str) -> Result<usize> {
        let action = self.action("remove-recurring", task_type).on(name);
        let end = |removed: &usize| (ActionEnd::Done, format!("{removed} occurrences cancelled"));
        let removed = self.tasks.remove_recurring(task_type, name);
        self.logged(action, removed, end).await
    }

    /// Cancels the members of a batch, as
    /// [`cancel_batch`](TaskSubmitService::cancel_batch).
    ///
    /// # Errors
    /// As `cancel_batch`.
    pub async fn cancel_batch(&self, name: &str) -> Result<Option<BulkReport>> {
        let action = self.action("cancel-batch", BATCH_TYPE).on(name);
        let end = |report: &Option<BulkReport>| match report {
            Some(report) => {
                let (changed, running) = (report.changed, report.running);
                let said = format!("{changed} cancelled, {running} asked to stop");
                (ActionEnd::Done, said)
            }
            None => (ActionEnd::Refused, "no such batch waits".to_owned()),
        };
        self.logged(action, self.tasks.cancel_batch(name), end)
            .await
    }

    /// Schedules dead tasks again with their attempts reset, one `interval` after the other (zero:
    /// all at once). Returns their number. `progress` is called with the number done and the total.
    ///
    /// It runs for as long as the intervals take. If it is dropped or fails in the middle, the rest
    /// stays dead.
    ///
    /// # Errors
    /// `InvalidInput` for a contradictory filter, and the store's errors; the log has the number
    /// requeued.
    pub async fn requeue(
        &self,
        selection: &DeadSelection,
        interval: Duration,
        progress: impl FnMut(u64, u64) + Send,
    ) -> Result<u64> {
        many::change_dead(self, selection, DeadAction::Requeue { interval }, progress).await
    }

    /// Schedules dead tasks again in one call of the store, as
    /// [`requeue_dead`](TaskSubmitService::requeue_dead).
    ///
    /// # Errors
    /// As `requeue_dead`, and the log's errors.
    pub async fn requeue_dead(
        &self,
        task_type: &str,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        many::change_dead_once(self, task_type, filter, DeadAction::Requeue { interval }).await
    }

    /// Removes dead tasks for good in one call of the store, as
    /// [`discard_dead`](TaskSubmitService::discard_dead).
    ///
    /// # Errors
    /// As `discard_dead`, and the log's errors.
    pub async fn discard_dead(&self, task_type: &str, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        many::change_dead_once(self, task_type, filter, DeadAction::Discard).await
    }

    /// Removes dead tasks for good. Returns their number. `progress` is called with the number done
    /// and the total.
    ///
    /// # Errors
    /// As [`requeue`](Self::requeue).
    pub async fn discard(
        &self,
        selection: &DeadSelection,
        progress: impl FnMut(u64, u64) + Send,
    ) -> Result<u64> {
        many::change_dead(self, selection, DeadAction::Discard, progress).await
    }

    /// Cancels every task that matches, as
    /// [`cancel_all`](delayq_plugin::TaskSubmitService::cancel_all).
    ///
    /// # Errors
    /// As `cancel_all`, and the log's errors.
    pub async fn cancel_all(
        &self,
        types: &str,
        filter: &TaskFilter,
    ) -> Result<BulkReport, BulkError> {
        let action = self.action("cancel-all", types).on(filter.to_string());
        let change = self.tasks.cancel_all(types, filter);
        many::change_all(self, action, change).await
    }

    /// Moves every scheduled task that matches, as
    /// [`reschedule_all`](delayq_plugin::TaskSubmitService::reschedule_all).
    ///
    /// # Errors
    /// As `reschedule_all`, and the log's errors.
    pub async fn reschedule_all(
        &self,
        types: &str,
        filter: &TaskFilter,
        when: When,
    ) -> Result<BulkReport, BulkError> {
        let target = match when {
            When::At(time) => format!("{filter} to {time}"),
            When::After(delay) => format!("{filter} to {delay:?} from now"),
        };
        let action = self.action("reschedule-all", types).on(target);
        let change = self.tasks.reschedule_all(types, filter, when);
        many::change_all(self, action, change).await
    }

    /// Removes every task of a type in `state`, as
    /// [`purge`](delayq_plugin::TaskSubmitService::purge).
    ///
    /// # Errors
    /// `UnknownType` for a type that is not listed, as `purge`, and the log's errors.
    pub async fn purge(&self, task_type: &str, state: TaskState) -> Result<u64> {
        listing::expect_known(self, task_type).await?;
        many::purge(self, task_type, state).await
    }

    /// Sends the tasks of a file, as [`import`]. `file` is its name, for the log.
    ///
    /// # Errors
    /// As `import`, and the log's errors, after which no task is sent.
    pub async fn import(
        &self,
        file: &str,
        dead: DeadTasks,
        reader: &mut (dyn BufRead + Send),
        progress: Progress<'_>,
    ) -> Result<TransferReport, TransferError> {
        let action = self.action("import", "").on(file);
        transfers::begin(self, &action).await?;
        let done = import(&self.tasks, dead, reader, progress).await;
        transfers::end(self, action, done).await
    }

    /// Sends the tasks of another store to this one, as [`copy`].
    ///
    /// # Errors
    /// As `copy`, and the log's errors, after which no task is sent.
    pub async fn copy_from(
        &self,
        from: &TaskSubmitService,
        types: &str,
        dead: DeadTasks,
        progress: Progress<'_>,
    ) -> Result<TransferReport, TransferError> {
        let place = format!("from {}", from.store().name());
        let action = self.action("copy", types).on(place);
        transfers::begin(self, &action).await?;
        let done = copy(from, &self.tasks, types, dead, progress).await;
        transfers::end(self, action, done).await
    }

    /// Moves the waiting jobs of a running lmstfy to this store, like [`LmstfyImport`]. `place` is
    /// the address of its Redis without secrets, for the log.
    ///
    /// # Errors
    /// As for the import, and the log's errors, after which no job is moved.
    pub async fn import_lmstfy(
        &self,
        place: &str,
        import: LmstfyImport<'_>,
        follow: bool,
        progress: &mut (dyn FnMut(&LmstfyReport) + Send),
    ) -> Result<LmstfyReport, LmstfyError> {
        let action = self.action("import", "").on(place);
        many::begin(self, &action, None).await?;
        let done = import.run(follow, progress).await;
        let action = match &done {
            Ok(report) => {
                let detail = format!("{} refused", report.refused);
                let action = action.counted(report.moved);
                action.ended(ActionEnd::Done, detail)
            }
            Err(error) => action.ended(ActionEnd::Failed, error.to_string()),
        };
        self.record(&action).await;
        done
    }

    /// Begins an entry, for [`record`](Self::record).
    #[must_use]
    pub fn action(&self, verb: &str, task_type: &str) -> Action {
        Action::new(&self.actor, &self.origin, verb, task_type)
    }

    /// Runs the change and logs its end.
    async fn logged<T>(
        &self,
        action: Action,
        deed: impl Future<Output = Result<T>>,
        end: impl FnOnce(&T) -> (ActionEnd, String),
    ) -> Result<T> {
        let done = deed.await;
        self.log_end(action, &done, end).await;
        done
    }

    /// Logs the end of a change. A mistake of the caller is not logged, as nothing was done.
    async fn log_end<T>(
        &self,
        action: Action,
        done: &Result<T>,
        end: impl FnOnce(&T) -> (ActionEnd, String),
    ) {
        let action = match done {
            Ok(done) => {
                let (end, detail) = end(done);
                action.ended(end, detail)
            }
            Err(error) if is_no_deed(error) => return,
            Err(error) if is_refusal(error) => action.ended(ActionEnd::Refused, error.to_string()),
            Err(error) => action.ended(ActionEnd::Failed, error.to_string()),
        };
        self.record(&action).await;
    }

    /// Logs an action that was done. If the log cannot be written, a line at `error` shows the
    /// missing entry.
    pub async fn record(&self, action: &Action) {
        if let Err(error) = self.log(action).await {
            tracing::error!(%error, ?action, "an action was done, but it is missing from the log");
        }
    }

    /// Adds an entry to the log, unless the store has none.
    async fn log(&self, action: &Action) -> Result<()> {
        if self.is_silent {
            return Ok(());
        }
        match self.tasks.store().log_action(action).await {
            Err(Error::Unsupported(_)) => Ok(()),
            logged => logged,
        }
    }
}
