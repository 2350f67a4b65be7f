//! Changes of several tasks: by id, or of every matching task.

use delayq_plugin::{BulkReport, TaskFilter, When};
use delayq_proto::{pb, read_state, read_time_if, required};
use delayq_service::operation::{AllChange, WantedTasks, cancel_each};

use super::call::{Call, Run};
use super::refusal::CallError;

impl Run for pb::CancelEachRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let task_type = call.task_type(&self.task_type)?;
        let ids = self.ids.iter().map(String::as_str);
        let outcomes = cancel_each(call, task_type.as_str(), ids).await?;
        Ok(pb::CancelEachResponse {
            outcomes: outcomes.into_iter().map(Into::into).collect(),
        })
    }
}

impl Run for pb::CancelAllRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let types = call.types(&self.task_type)?;
        let (filter, operator) = (filter(self.selection)?, call.operator());
        let made = AllChange::Cancel.make(&operator, types, &filter, self.dry_run);
        Ok(answer(&call.while_admitted(made).await?))
    }
}

impl Run for pb::RescheduleAllRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let types = call.types(&self.task_type)?;
        let when: When = required("when", self.when)?.try_into()?;
        let (filter, operator) = (filter(self.selection)?, call.operator());
        let change = AllChange::Reschedule(when);
        let made = change.make(&operator, types, &filter, self.dry_run);
        Ok(answer(&call.while_admitted(made).await?))
    }
}

fn filter(sent: Option<pb::TaskSelection>) -> Result<TaskFilter, CallError> {
    let sent = required("selection", sent)?;
    let is_any = sent.state == i32::from(pb::TaskState::Unspecified);
    let state = (!is_any).then(|| read_state(sent.state));
    let wanted = WantedTasks {
        all: sent.all,
        id_prefix: sent.id_prefix,
        group: sent.group,
        headers: sent.headers,
        due_before: read_time_if("selection.due_before", sent.due_before)?,
        due_after: read_time_if("selection.due_after", sent.due_after)?,
        state: state.transpose()?,
    };
    Ok(wanted.filter()?)
}

pub(super) fn answer(report: &BulkReport) -> pb::ChangeAllResponse {
    pb::ChangeAllResponse {
        task_types: report.types.iter().map(ToString::to_string).collect(),
        matched: report.matched,
        changed: report.changed,
        running: report.running,
        gone: report.gone,
        is_complete: report.is_complete,
        is_dry_run: report.is_dry_run,
    }
}
