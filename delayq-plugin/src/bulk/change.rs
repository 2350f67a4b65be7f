//! Changes of many tasks: the selection, the results, and the reason for an early end.

use std::collections::HashSet;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use delayq_core::store::{CancelOutcome, ChangeOutcome};
use delayq_core::{
    Error, Result, TaskId, TaskInfo, TaskState, TaskType, Timestamp, TypePattern, When, millis,
};
use serde::Serialize;
use tokio::task::JoinSet;
use tracing::info;

use super::query::Walk;
use super::{Desk, TaskFilter, matching_types};

/// A cancel or a reschedule of many tasks; `.await` runs it.
///
/// The change works in slices of up to 128 tasks, between which the store does other work. It keeps
/// one slice and the ids of the running tasks in memory. If it is dropped or fails in the middle,
/// it has changed some of the tasks; the same call again does the rest. A task that is sent, moved
/// or started meanwhile may or may not be changed.
#[derive(Debug)]
#[must_use = "nothing happens before .await"]
pub struct BulkChange<'a> {
    desk: Desk,
    types: &'a str,
    filter: &'a TaskFilter,
    kind: ChangeKind,
    report: BulkReport,
    /// Running tasks that were already counted: their positions in a listing change with each
    /// extension.
    seen_running: HashSet<TaskId>,
}

#[derive(Clone, Debug)]
enum ChangeKind {
    Cancel,
    /// The new time, or the reason why it is not valid.
    Reschedule(Result<When>),
}

/// The result for one task.
enum ChangeResult {
    Cancel(CancelOutcome),
    Change(ChangeOutcome),
}

impl<'a> BulkChange<'a> {
    pub(crate) fn cancel(desk: Desk, types: &'a str, filter: &'a TaskFilter) -> Self {
        let report = BulkReport {
            is_complete: true,
            ..BulkReport::default()
        };
        Self {
            desk,
            types,
            filter,
            kind: ChangeKind::Cancel,
            report,
            seen_running: HashSet::new(),
        }
    }

    /// A change that moves tasks, or fails.
    pub(crate) fn reschedule(
        desk: Desk,
        types: &'a str,
        filter: &'a TaskFilter,
        when: Result<When>,
    ) -> Self {
        Self {
            kind: ChangeKind::Reschedule(when),
            ..Self::cancel(desk, types, filter)
        }
    }

    /// Changes nothing: the report says what would change.
    pub fn dry_run(mut self) -> Self {
        self.report.is_dry_run = true;
        self
    }

    /// Refuses an invalid pattern, filter or time, as `.await` does, but without a call to the
    /// store.
    ///
    /// # Errors
    /// `InvalidName` and `InvalidInput`.
    pub fn check(&self) -> Result<()> {
        TypePattern::new(self.types)?;
        self.filter.check_change()?;
        let is_move = self.when()?.is_some();
        if is_move && self.filter.only_state() == TaskState::Running {
            return Err(Error::invalid("filter", "running tasks cannot be moved"));
        }
        Ok(())
    }

    async fn run(mut self) -> Result<BulkReport, BulkError> {
        let result = self.change_types().await;
        let report = self.report;
        info!(
            types = self.types,
            matched = report.matched,
            changed = report.changed,
            running = report.running,
            gone = report.gone,
            is_dry_run = report.is_dry_run,
            error = result.as_ref().err().map(tracing::field::display),
            "bulk change"
        );
        match result {
            Ok(()) => Ok(report),
            Err(error) => Err(BulkError {
                report: Box::new(report),
                error,
            }),
        }
    }

    async fn change_types(&mut self) -> Result<()> {
        self.check()?;
        let when = self.when()?;
        for task_type in matching_types(&*self.desk.store, self.types).await? {
            self.change_type(&task_type, when).await?;
            self.report.types.push(task_type);
        }
        Ok(())
    }

    /// The time that tasks are moved to; `None` if they are cancelled.
    fn when(&self) -> Result<Option<When>> {
        match &self.kind {
            ChangeKind::Cancel => Ok(None),
            ChangeKind::Reschedule(when) => when.clone().map(Some),
        }
    }

    async fn change_type(&mut self, task_type: &TaskType, when: Option<When>) -> Result<()> {
        let (store, filter) = (Arc::clone(&self.desk.store), self.filter);
        let store = &*store;
        let counts = store.stats(task_type).await?;
        let mut target = when.map(|when| Target::new(when, counts.now));
        let states = match target {
            None => filter.states_to_cancel(),
            Some(_) => vec![TaskState::Scheduled],
        };
        self.seen_running.clear();
        for state in states {
            let mut walk = Walk::new(store, task_type, state, filter, &counts);
            while let Some(mut tasks) = walk.next().await? {
                tasks.retain(|task| self.is_open(task, target));
                self.report.matched += tasks.len() as u64;
                self.change_slice(task_type, tasks, &mut target).await?;
            }
            self.report.is_complete &= walk.is_over();
        }
        Ok(())
    }

    /// True if a task that matches has not been changed yet.
    fn is_open(&mut self, task: &TaskInfo, target: Option<Target>) -> bool {
        let is_there = target.is_some_and(|target| target.is_there(task.at));
        let is_running = task.state == TaskState::Running;
        let is_seen = is_running && self.seen_running.contains(&task.id);
        !is_there && !is_seen
    }

    /// Changes several tasks concurrently, so that they share the store's syncs and round trips.
    async fn change_slice(
        &mut self,
        task_type: &TaskType,
        tasks: Vec<TaskInfo>,
        target: &mut Option<Target>,
    ) -> Result<()> {
        if self.report.is_dry_run {
            for task in tasks {
                self.foresee(task);
            }
            return Ok(());
        }
        let mut calls = JoinSet::new();
        for task in tasks {
            let (desk, task_type) = (self.desk.clone(), task_type.clone());
            let when = target.map(Target::when);
            calls.spawn(async move {
                let outcome = change_one(&desk, &task_type, &task.id, when).await;
                (task.id, outcome)
            });
        }
        let mut failed = None;
        while let Some(ended) = calls.join_next().await {
            match ended {
                Ok((id, Ok(outcome))) => self.count(id, &outcome, target),
                Ok((_, Err(error))) => failed = failed.or(Some(error)),
                // The runtime is shutting down.
                Err(_) => failed = failed.or(Some(Error::Closed("the runtime"))),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn foresee(&mut self, task: TaskInfo) {
        if task.state == TaskState::Running {
            self.note_running(task.id);
        } else {
            self.report.changed += 1;
        }
    }

    fn note_running(&mut self, id: TaskId) {
        self.report.running += 1;
        self.seen_running.insert(id);
    }

    fn count(&mut self, id: TaskId, outcome: &ChangeResult, target: &mut Option<Target>) {
        match outcome {
            ChangeResult::Cancel(CancelOutcome::Cancelled) => self.report.changed += 1,
            ChangeResult::Change(ChangeOutcome::Changed { due_at }) => {
                self.report.changed += 1;
                if let Some(target) = target {
                    target.moved_to(*due_at);
                }
            }
            ChangeResult::Cancel(CancelOutcome::Running)
            | ChangeResult::Change(ChangeOutcome::Running) => {
                self.note_running(id);
            }
            _ => self.report.gone += 1,
        }
    }
}

async fn change_one(
    desk: &Desk,
    task_type: &TaskType,
    id: &TaskId,
    when: Option<When>,
) -> Result<ChangeResult> {
    match when {
        None => desk.cancel(task_type, id).await.map(ChangeResult::Cancel),
        Some(when) => {
            let changed = desk.store.reschedule(task_type, id, when).await;
            changed.map(ChangeResult::Change)
        }
    }
}

impl<'a> IntoFuture for BulkChange<'a> {
    type Output = Result<BulkReport, BulkError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// The result of a bulk change or of its dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BulkReport {
    /// The types searched; none if no known type matches the pattern.
    pub types: Vec<TaskType>,
    /// Tasks that the filter matched. A task that already has the time of a reschedule is not
    /// counted; one that is moved by others meanwhile may be counted twice.
    pub matched: u64,
    /// Tasks cancelled or moved by this call.
    pub changed: u64,
    /// Running tasks: a cancel has asked them to stop, a reschedule has not changed them.
    pub running: u64,
    /// Tasks that ended or died before their turn: nothing was changed.
    pub gone: u64,
    /// True if the change reached the end. It gives up after reading about three times as many
    /// tasks as there were at its start, because others send or move tasks faster than it reads.
    pub is_complete: bool,
    /// True for a dry run, which changes nothing.
    pub is_dry_run: bool,
}

/// A bulk change that failed, with its error and the changes made before. The same call can be
/// repeated.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}; until then {} of {} matching tasks were changed", report.changed, report.matched)]
#[non_exhaustive]
pub struct BulkError {
    /// The changes made. A task whose own call failed is counted only in `matched`.
    pub report: Box<BulkReport>,
    /// The first failure.
    #[source]
    pub error: Error,
}

impl BulkError {
    /// A failure before any change.
    #[must_use]
    pub fn before(error: Error) -> Self {
        Self {
            report: Box::default(),
            error,
        }
    }
}

/// The same text as `Display`, because a `main` that returns an error prints it with `Debug`.
impl fmt::Debug for BulkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Only the error, for functions that return this crate's error.
impl From<BulkError> for Error {
    fn from(failed: BulkError) -> Self {
        failed.error
    }
}

/// One target time for all tasks of the call. A moved task is then recognised when the walk meets
/// it again, and a repeated call with the same time finds it done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    time: Timestamp,
    /// The latest time known to have passed by the store's clock.
    passed: Timestamp,
}

impl Target {
    /// A delay counts from the end of the millisecond `now`, by the store's clock.
    pub(super) fn new(when: When, now: Timestamp) -> Self {
        let time = match when {
            When::At(time) => time,
            When::After(delay) if delay.is_zero() => now,
            When::After(delay) => now.plus(delay).plus(millis(1)),
        };
        Self { time, passed: now }
    }

    pub(super) fn when(self) -> When {
        When::At(self.time)
    }

    /// Notes the due time that a moved task got: the present time, if the target time has passed.
    pub(super) fn moved_to(&mut self, due_at: Timestamp) {
        if due_at > self.time {
            self.passed = self.passed.max(due_at);
        }
    }

    /// True if a task due at `at` need not be moved: it has the target time, or is due now as the
    /// moved tasks are.
    pub(super) fn is_there(self, at: Timestamp) -> bool {
        at == self.time || (self.time <= self.passed && at <= self.passed)
    }
}
