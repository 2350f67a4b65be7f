//! Figures, and the log of actions.

use delayq_core::chronicle::{Action, MAX_ACTION_PAGE, Spell, Step};
use delayq_plugin::Result;
use delayq_proto::{pb, read_time_if, required};
use delayq_service::access::Scope;

use super::call::{Call, Run};
use super::refusal::CallError;

impl Run for pb::AddFiguresRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let task_type = call.task_type(&self.task_type)?;
        let minutes = self.minutes.into_iter().map(Spell::try_from);
        let minutes = minutes.collect::<Result<Vec<_>>>()?;
        call.store().add_figures(&task_type, &minutes).await?;
        Ok(pb::AddFiguresResponse {})
    }
}

impl Run for pb::GetFiguresRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let task_type = call.task_type(&self.task_type)?;
        let step: Step = self.step().try_into()?;
        let since = read_time_if("since", self.since)?.unwrap_or_default();
        let spells = call.store().figures(&task_type, step, since).await?;
        Ok(pb::GetFiguresResponse {
            spells: spells.into_iter().map(Into::into).collect(),
        })
    }
}

impl Run for pb::LogActionRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let mut action: Action = required("action", self.action)?.try_into()?;
        // An admin token, such as that of a web page with its own login, may name the acting user.
        // Other callers are logged under the name of their token.
        if !call.caller.token.has(Scope::Admin) {
            action.actor = call.caller.to_string();
            action.origin.clone_from(&call.caller.origin);
        }
        call.store().log_action(&action).await?;
        Ok(pb::LogActionResponse {})
    }
}

impl Run for pb::ActionsRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let limit = self.limit.map(usize::try_from).and_then(Result::ok);
        let limit = limit.unwrap_or(MAX_ACTION_PAGE);
        call.caller.require_all_types()?;
        let actions = call.store().actions(self.before, limit).await?;
        Ok(pb::ActionsResponse {
            actions: actions.into_iter().map(Into::into).collect(),
        })
    }
}
