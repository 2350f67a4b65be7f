//! Recurring tasks that are declared to the server.

use delayq_plugin::store::MAX_BATCH;
use delayq_proto::{pb, required, time};
use delayq_service::operation::recurring::{self, NamedRecurring};
use delayq_service::problem::Problem;
use delayq_service::recurring::RecurringTask;
use pb::recurring_task::Body;

use super::call::{Call, Run};
use super::refusal::CallError;

/// The default number of recurring tasks on a page.
const PAGE: usize = 50;

impl Run for pb::ListRecurringRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let limit = self.limit.map(usize::try_from).transpose();
        let limit = limit.unwrap_or(Some(usize::MAX)).unwrap_or(PAGE);
        if !(1..=MAX_BATCH).contains(&limit) {
            let text = format!("limit={limit}: use 1 to {MAX_BATCH}");
            return Err(Problem::bad_request(text).into());
        }
        let cursor = (!self.cursor.is_empty()).then_some(self.cursor.as_str());
        let page = recurring::list(call, cursor, limit).await?;
        Ok(pb::ListRecurringResponse {
            recurring: page.recurring.into_iter().map(shown).collect(),
            next: page.next.unwrap_or_default(),
        })
    }
}

impl Run for pb::GetRecurringRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        Ok(answer(recurring::get(call, &self.id).await?))
    }
}

impl Run for pb::SetRecurringRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let sent = required("recurring", self.recurring)?;
        let task_type = call.task_type(&sent.task_type)?;
        let message = match sent.body {
            Some(Body::Message(message)) => message,
            Some(Body::Text(text)) => text.into_bytes(),
            None => Vec::new(),
        };
        let mut task = RecurringTask::new(task_type, sent.every, &message);
        task.zone = (!sent.zone.is_empty()).then_some(sent.zone);
        task.headers = sent.headers;
        task.is_paused = sent.paused;
        Ok(answer(recurring::set(call, &sent.id, task).await?))
    }
}

impl Run for pb::RemoveRecurringRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        recurring::remove(call, &self.id).await?;
        Ok(pb::RemoveRecurringResponse {})
    }
}

impl Run for pb::PauseRecurringRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        Ok(answer(recurring::pause(call, &self.id, true).await?))
    }
}

impl Run for pb::ResumeRecurringRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        Ok(answer(recurring::pause(call, &self.id, false).await?))
    }
}

fn answer(named: NamedRecurring) -> pb::RecurringResponse {
    pb::RecurringResponse {
        recurring: Some(shown(named)),
    }
}

fn shown(named: NamedRecurring) -> pb::RecurringTask {
    let task = &named.task;
    pb::RecurringTask {
        task_type: task.task_type.to_string(),
        every: task.every.clone(),
        zone: task.zone.clone().unwrap_or_default(),
        body: Some(Body::Message(task.message())),
        headers: task.headers.clone(),
        paused: task.is_paused,
        next_at: named.next_at.map(time),
        since: Some(time(task.since())),
        id: named.id,
    }
}
