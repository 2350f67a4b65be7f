//! A task on its way to the store.

use delayq_core::store::SubmitOutcome;
use delayq_core::{Error, NewTask, Result, TaskId, TaskType, When};
use tracing::trace;

use super::TaskSubmitService;
use crate::clock_skew::{CallWindow, ClockSkew};
use crate::events::TaskEventKind;
use crate::receipt::Receipt;

/// A task that was given to the store.
pub(super) struct Sent {
    /// Where its result belongs.
    pub(super) index: usize,
    task_type: TaskType,
    id: TaskId,
    when: When,
}

impl Sent {
    pub(super) fn new(index: usize, task: &NewTask) -> Self {
        Self {
            index,
            task_type: task.task_type.clone(),
            id: task.id.clone(),
            when: task.when,
        }
    }

    /// The receipt for the store's answer, or the error; and the reports of it.
    pub(super) fn result(
        self,
        service: &TaskSubmitService,
        outcome: Result<SubmitOutcome>,
        window: CallWindow,
    ) -> Result<Receipt> {
        let metrics = service.telemetry.metrics.as_ref();
        let counts = metrics.map(|metrics| metrics.sends(&self.task_type));
        let result = outcome.and_then(|outcome| self.receipt(service, outcome, window));
        if let Some(counts) = counts {
            counts.sent(result.as_ref().map(|receipt| receipt.outcome));
        }
        result
    }

    fn receipt(
        self,
        service: &TaskSubmitService,
        outcome: SubmitOutcome,
        window: CallWindow,
    ) -> Result<Receipt> {
        let clock_skew = self.clock_skew(service, outcome, window);
        let Self { task_type, id, .. } = self;
        trace!(%task_type, %id, ?outcome, "submitted");
        if let SubmitOutcome::Accepted { due_at, .. } | SubmitOutcome::RunsAgain { due_at } =
            outcome
        {
            let submitted = || TaskEventKind::Submitted { due_at };
            service.telemetry.hub.emit(&task_type, &id, submitted);
            if let Some(unserved) = &service.telemetry.unserved {
                unserved.sent(&task_type, &service.store);
            }
        }
        if let SubmitOutcome::Conflict { state } = outcome {
            let (task_type, id) = (task_type.to_string(), id.to_string());
            return Err(Error::Conflict {
                task_type,
                id,
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

    /// A relative delay shows the store's clock: the due time less the delay. A task that takes the
    /// place of another one may be due earlier, see
    /// [`debounce`](delayq_core::DelayQueueJob::debounce).
    fn clock_skew(
        &self,
        service: &TaskSubmitService,
        outcome: SubmitOutcome,
        window: CallWindow,
    ) -> Option<ClockSkew> {
        let (
            When::After(delay),
            SubmitOutcome::Accepted {
                due_at,
                replaced: false,
            },
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
