//! A change of all tasks that a filter matches.

use std::collections::HashSet;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use delayq_core::job::check_delay;
use delayq_core::store::{CancelOutcome, ChangeOutcome};
use delayq_core::{Error, Result, TaskId, TaskInfo, TaskState, TaskType, When};
use tokio::task::JoinSet;
use tracing::info;

use super::target::Target;
use super::walk::Walk;
use super::{BulkError, BulkReport, TaskFilter};
use crate::submit::TaskSubmitService;

/// A cancel or a reschedule of many tasks; `.await` runs it.
///
/// It works in slices of up to 128 tasks, between which the store does other work. Its memory holds
/// one slice, and the ids of the running tasks. Dropped or failed in the middle, it has changed a
/// part; the same call again does the rest. A task that is sent, moved or started while it works
/// may be changed or not.
#[derive(Debug)]
#[must_use = "nothing happens before .await"]
pub struct BulkChange<'a> {
    service: &'a TaskSubmitService,
    types: &'a str,
    filter: &'a TaskFilter,
    kind: Kind,
    report: BulkReport,
    /// Running tasks that were counted: their places in a listing change with each extension.
    seen_running: HashSet<TaskId>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Cancel,
    Reschedule(When),
}

/// What became of one task.
enum Outcome {
    Cancel(CancelOutcome),
    Change(ChangeOutcome),
}

impl<'a> BulkChange<'a> {
    pub(super) fn cancel(
        service: &'a TaskSubmitService,
        types: &'a str,
        filter: &'a TaskFilter,
    ) -> Self {
        let report = BulkReport {
            is_complete: true,
            ..BulkReport::default()
        };
        Self {
            service,
            types,
            filter,
            kind: Kind::Cancel,
            report,
            seen_running: HashSet::new(),
        }
    }

    pub(super) fn reschedule(mut self, when: When) -> Self {
        self.kind = Kind::Reschedule(when);
        self
    }

    /// Changes nothing: the report says what would happen.
    pub fn dry_run(mut self) -> Self {
        self.report.is_dry_run = true;
        self
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
        self.filter.check_change()?;
        if let Kind::Reschedule(when) = self.kind {
            if self.filter.only_state() == TaskState::Running {
                let reason = "running tasks cannot be moved";
                return Err(Error::invalid("filter", reason));
            }
            let (limits, now) = self.service.limits_now();
            check_delay("delay", when, &limits, now)?;
        }
        for task_type in self.service.matching_types(self.types).await? {
            self.change_type(&task_type).await?;
            self.report.types.push(task_type);
        }
        Ok(())
    }

    async fn change_type(&mut self, task_type: &TaskType) -> Result<()> {
        let (service, filter) = (self.service, self.filter);
        let store = &**service.store();
        let stats = store.stats(task_type).await?;
        let (mut target, states) = match self.kind {
            Kind::Cancel => (None, filter.states_to_cancel()),
            Kind::Reschedule(when) => {
                let target = Target::new(when, stats.now);
                (Some(target), vec![TaskState::Scheduled])
            }
        };
        self.seen_running.clear();
        for state in states {
            let mut walk = Walk::new(store, task_type, state, filter, &stats);
            while let Some(mut tasks) = walk.next().await? {
                tasks.retain(|task| self.is_open(task, target));
                self.report.matched += tasks.len() as u64;
                self.change_slice(task_type, tasks, &mut target).await?;
            }
            self.report.is_complete &= walk.is_over();
        }
        Ok(())
    }

    /// Whether a task that matches is still to be changed.
    fn is_open(&mut self, task: &TaskInfo, target: Option<Target>) -> bool {
        let is_there = target.is_some_and(|target| target.is_there(task.at));
        let is_running = task.state == TaskState::Running;
        !is_there && !(is_running && self.seen_running.contains(&task.id))
    }

    /// Changes some tasks at once, so that they share the store's syncs and round trips.
    async fn change_slice(
        &mut self,
        task_type: &TaskType,
        tasks: Vec<TaskInfo>,
        target: &mut Option<Target>,
    ) -> Result<()> {
        if self.report.is_dry_run {
            tasks.into_iter().for_each(|task| self.foresee(task));
            return Ok(());
        }
        let mut calls = JoinSet::new();
        for task in tasks {
            let (service, task_type) = (self.service.clone(), task_type.clone());
            let when = target.map(Target::when);
            calls.spawn(async move {
                let outcome = change_one(&service, &task_type, &task.id, when).await;
                (task.id, outcome)
            });
        }
        let mut failed = None;
        while let Some(ended) = calls.join_next().await {
            match ended {
                Ok((id, Ok(outcome))) => self.count(id, &outcome, target),
                Ok((_, Err(error))) => failed = failed.or(Some(error)),
                // The runtime ends.
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

    fn count(&mut self, id: TaskId, outcome: &Outcome, target: &mut Option<Target>) {
        match outcome {
            Outcome::Cancel(CancelOutcome::Cancelled) => self.report.changed += 1,
            Outcome::Change(ChangeOutcome::Changed { due_at }) => {
                self.report.changed += 1;
                if let Some(target) = target {
                    target.moved_to(*due_at);
                }
            }
            Outcome::Cancel(CancelOutcome::Running) | Outcome::Change(ChangeOutcome::Running) => {
                self.note_running(id);
            }
            _ => self.report.gone += 1,
        }
    }
}

async fn change_one(
    service: &TaskSubmitService,
    task_type: &TaskType,
    id: &TaskId,
    when: Option<When>,
) -> Result<Outcome> {
    match when {
        None => service
            .cancel_task(task_type, id)
            .await
            .map(Outcome::Cancel),
        Some(when) => {
            let changed = service.store().reschedule(task_type, id, when).await;
            changed.map(Outcome::Change)
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
