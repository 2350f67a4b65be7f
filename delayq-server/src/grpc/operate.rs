//! Lists, and dead tasks.

use delayq_core::operate::{Cursor, DeadFilter};
use delayq_core::store::MAX_BATCH;
use delayq_plugin::{Result, TaskType};
use delayq_proto::{pb, read_span_or_zero, read_state, required};

use super::call::{Call, Operation};
use super::deed::{Deed, of_type};
use super::refusal::Refusal;
use crate::access::Scope;

impl Operation for pb::ListRequest {
    type Answer = pb::ListResponse;
    const SCOPE: Option<Scope> = Some(Scope::Read);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let task_type = call.task_type(&self.task_type)?;
        let state = read_state(self.state)?;
        let cursor = self.cursor.map(Cursor::try_from).transpose()?;
        let limit = self.limit.map(usize::try_from).and_then(Result::ok);
        let limit = limit.unwrap_or(MAX_BATCH);
        let store = call.store();
        let page = store
            .list(&task_type, state, cursor.as_ref(), limit)
            .await?;
        Ok(page.into())
    }
}

impl Operation for pb::RequeueDeadRequest {
    type Answer = pb::RequeueDeadResponse;
    const SCOPE: Option<Scope> = Some(Scope::Operate);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let task_type = call.task_type(&self.task_type)?;
        let filter: DeadFilter = required("filter", self.filter)?.try_into()?;
        let interval = read_span_or_zero("interval", self.interval)?;
        let store = call.store();
        let deed = on_dead("requeue", &task_type, &filter);
        let requeued = store.requeue_dead(&task_type, &filter, interval);
        let ids = deed
            .log(call, requeued, |ids| Some(ids.len() as u64))
            .await?;
        Ok(pb::RequeueDeadResponse {
            ids: ids.iter().map(ToString::to_string).collect(),
        })
    }
}

impl Operation for pb::DiscardDeadRequest {
    type Answer = pb::DiscardDeadResponse;
    const SCOPE: Option<Scope> = Some(Scope::Operate);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let task_type = call.task_type(&self.task_type)?;
        let filter: DeadFilter = required("filter", self.filter)?.try_into()?;
        let deed = on_dead("discard", &task_type, &filter);
        let discarded = call.store().discard_dead(&task_type, &filter);
        let ids = deed
            .log(call, discarded, |ids| Some(ids.len() as u64))
            .await?;
        Ok(pb::DiscardDeadResponse {
            ids: ids.iter().map(ToString::to_string).collect(),
        })
    }
}

/// What is done to dead tasks, with the selection in words.
fn on_dead<'a>(verb: &'static str, task_type: &'a TaskType, filter: &DeadFilter) -> Deed<'a> {
    let target = match filter {
        DeadFilter::Ids(ids) => match ids.as_slice() {
            [id] => id.to_string(),
            ids => format!("{} ids", ids.len()),
        },
        DeadFilter::Matching {
            died_before,
            error_contains,
            ..
        } => {
            let before = died_before.map(|time| format!("died before {time}"));
            let text = error_contains.as_ref();
            let text = text.map(|text| format!("error contains {text:?}"));
            let words: Vec<_> = before.into_iter().chain(text).collect();
            if words.is_empty() {
                "all dead".to_owned()
            } else {
                words.join(", ")
            }
        }
    };
    Deed {
        target,
        ..of_type(verb, task_type)
    }
}
