//! A task on its way to the store.

use delayq_core::job::check_content;
use delayq_core::store::SubmitOutcome;
use delayq_core::{DelayQueueJob, Error, NewTask, Result, TaskId, TaskType, Timestamp, When};
use delayq_transaction::DynTransaction;
use tracing::trace;

use super::TaskSubmitService;
use crate::clock_skew::{CallWindow, ClockSkew};
use crate::events::TaskEventKind;
use crate::receipt::Receipt;

/// The tasks of some jobs, and the errors of those that are none.
struct Prepared {
    tasks: Vec<NewTask>,
    /// One for each job, in order; `None` for one that became a task.
    refused: Vec<Option<Error>>,
}

impl Prepared {
    async fn new(service: &TaskSubmitService, jobs: Vec<DelayQueueJob>, now: Timestamp) -> Self {
        let (mut refused, mut tasks) = (Vec::with_capacity(jobs.len()), Vec::new());
        for job in jobs {
            match prepare(service, job, now).await {
                Ok(task) => {
                    tasks.push(task);
                    refused.push(None);
                }
                Err(error) => refused.push(Some(error)),
            }
        }
        Self { tasks, refused }
    }
}

/// The results of all jobs, in order.
fn merged(refused: Vec<Option<Error>>, sent: Vec<Result<Receipt>>) -> Vec<Result<Receipt>> {
    let mut sent = sent.into_iter();
    let results = refused.into_iter().map(|refused| match refused {
        Some(error) => Err(error),
        None => sent.next().unwrap_or(Err(Error::Closed("the store"))),
    });
    results.collect()
}

/// The task for a job that has passed the middleware and is within the limits. A refusal counts.
pub(super) async fn prepare(
    service: &TaskSubmitService,
    job: DelayQueueJob,
    now: Timestamp,
) -> Result<NewTask> {
    let refusals = service.telemetry.refusals(&job);
    let job = service.pass_middleware(job).await;
    let task = job.and_then(|job| {
        let task = job.into_task(&service.limits, now)?;
        check_content(&task.headers, &task.message)?;
        Ok(task)
    });
    task.inspect_err(|error| refusals(error))
}

/// Sends jobs; one result for each, in order.
pub(super) async fn send_all(
    service: &TaskSubmitService,
    jobs: Vec<DelayQueueJob>,
) -> Vec<Result<Receipt>> {
    let before = service.clock.now();
    let Prepared { tasks, refused } = Prepared::new(service, jobs, before).await;
    merged(refused, submit(service, tasks, before).await)
}

/// Sends jobs in a transaction of the application; one result for each, in order.
pub(super) async fn send_within(
    service: &TaskSubmitService,
    jobs: Vec<DelayQueueJob>,
    tx: &mut dyn DynTransaction,
) -> Vec<Result<Receipt>> {
    let before = service.clock.now();
    let Prepared { tasks, refused } = Prepared::new(service, jobs, before).await;
    let sent: Vec<_> = tasks.iter().map(PendingSubmit::new).collect();
    let outcomes = match service.within(tx) {
        Ok(mut within) => within.send(&tasks).await,
        Err(error) => Err(error),
    };
    let outcomes = outcomes.unwrap_or_else(|error| vec![Err(error); tasks.len()]);
    let after = service.clock.now();
    let window = CallWindow { before, after };
    let answers = sent.into_iter().zip(outcomes);
    let receipts = answers.map(|(sent, outcome)| sent.answered_within(service, outcome, window));
    merged(refused, receipts.collect())
}

/// Submits tasks; one result for each, in order.
pub(super) async fn submit(
    service: &TaskSubmitService,
    tasks: Vec<NewTask>,
    before: Timestamp,
) -> Vec<Result<Receipt>> {
    if tasks.is_empty() {
        return Vec::new();
    }
    let sent: Vec<_> = tasks.iter().map(PendingSubmit::new).collect();
    let outcomes = service.store.submit(tasks).await;
    let after = service.clock.now();
    let window = CallWindow { before, after };
    let answers = sent.into_iter().zip(outcomes);
    answers
        .map(|(sent, outcome)| sent.answered(service, outcome, window))
        .collect()
}

/// A task that was passed to the store.
struct PendingSubmit {
    task_type: TaskType,
    id: TaskId,
    when: When,
}

impl PendingSubmit {
    fn new(task: &NewTask) -> Self {
        Self {
            task_type: task.task_type.clone(),
            id: task.id.clone(),
            when: task.when,
        }
    }

    /// Reports the store's answer in counts, events and the log. A conflict is an error.
    fn answered(
        self,
        service: &TaskSubmitService,
        outcome: Result<SubmitOutcome>,
        window: CallWindow,
    ) -> Result<Receipt> {
        let (task_type, id) = (&self.task_type, &self.id);
        if let Ok(SubmitOutcome::Accepted { due_at, .. } | SubmitOutcome::RunsAgain { due_at }) =
            outcome
        {
            let submitted = || TaskEventKind::Submitted { due_at };
            service.telemetry.hub.emit(task_type, id, submitted);
        }
        if let Some(metrics) = &service.telemetry.metrics {
            metrics.sends(task_type).sent(outcome.as_ref().copied());
        }
        self.receipt(service, outcome, window)
    }

    /// The same for an answer in a transaction of the application. Whether that is committed is not
    /// known here, so only a refusal is counted, and no event tells of the task.
    fn answered_within(
        self,
        service: &TaskSubmitService,
        outcome: Result<SubmitOutcome>,
        window: CallWindow,
    ) -> Result<Receipt> {
        let is_refused = matches!(outcome, Err(_) | Ok(SubmitOutcome::Conflict { .. }));
        if let Some(metrics) = service.telemetry.metrics.as_ref().filter(|_| is_refused) {
            metrics
                .sends(&self.task_type)
                .sent(outcome.as_ref().copied());
        }
        self.receipt(service, outcome, window)
    }

    fn receipt(
        self,
        service: &TaskSubmitService,
        outcome: Result<SubmitOutcome>,
        window: CallWindow,
    ) -> Result<Receipt> {
        let clock_skew = self.clock_skew(service, &outcome, window);
        let Self { task_type, id, .. } = self;
        let outcome = outcome?;
        trace!(%task_type, %id, ?outcome, "submitted");
        let is_new = matches!(
            outcome,
            SubmitOutcome::Accepted { .. } | SubmitOutcome::RunsAgain { .. }
        );
        if let Some(unserved) = service.telemetry.unserved.as_ref().filter(|_| is_new) {
            unserved.sent(&task_type, &service.store);
        }
        if let SubmitOutcome::Conflict { state } = outcome {
            return Err(Error::Conflict {
                task_type: task_type.to_string(),
                id: id.to_string(),
                state,
            });
        }
        Ok(Receipt {
            id,
            outcome,
            durability: service.store.durability(),
            clock_skew,
        })
    }

    /// A relative delay reveals the store's clock: the due time minus the delay. A task that
    /// replaces another may be due earlier, see [`debounce`](delayq_core::DelayQueueJob::debounce).
    fn clock_skew(
        &self,
        service: &TaskSubmitService,
        outcome: &Result<SubmitOutcome>,
        window: CallWindow,
    ) -> Option<ClockSkew> {
        let (
            When::After(delay),
            Ok(SubmitOutcome::Accepted {
                due_at,
                replaced: false,
            }),
        ) = (self.when, outcome)
        else {
            return None;
        };
        let skew = ClockSkew::measure(due_at.minus(delay), window);
        service
            .telemetry
            .skew
            .observe(skew, service.clock.elapsed());
        skew
    }
}
