//! A task on its way to the store.

use delayq_core::store::SubmitOutcome;
use delayq_core::{Error, NewTask, Result, TaskId, TaskType, When};
use tracing::trace;

use super::TaskSubmitService;
use crate::clock_skew::{CallWindow, ClockSkew};
use crate::events::TaskEventKind;
use crate::receipt::Receipt;

/// A task that was passed to the store.
pub(super) struct PendingSubmit {
    task_type: TaskType,
    id: TaskId,
    when: When,
}

impl PendingSubmit {
    pub(super) fn new(task: &NewTask) -> Self {
        Self {
            task_type: task.task_type.clone(),
            id: task.id.clone(),
            when: task.when,
        }
    }

    /// Reports the store's answer in counts, events and the log. A conflict is an error.
    pub(super) fn answered(
        self,
        service: &TaskSubmitService,
        outcome: Result<SubmitOutcome>,
        window: CallWindow,
    ) -> Result<Receipt> {
        let clock_skew = self.clock_skew(service, &outcome, window);
        let Self { task_type, id, .. } = self;
        if let Ok(outcome) = outcome {
            trace!(%task_type, %id, ?outcome, "submitted");
        }
        if let Ok(SubmitOutcome::Accepted { due_at, .. } | SubmitOutcome::RunsAgain { due_at }) =
            outcome
        {
            let submitted = || TaskEventKind::Submitted { due_at };
            service.telemetry.hub.emit(&task_type, &id, submitted);
            if let Some(unserved) = &service.telemetry.unserved {
                unserved.sent(&task_type, &service.store);
            }
        }
        if let Some(metrics) = &service.telemetry.metrics {
            metrics.sends(&task_type).sent(outcome.as_ref().copied());
        }
        let outcome = outcome?;
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
