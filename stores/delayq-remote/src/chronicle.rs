//! Figures, and the log of actions.

use async_trait::async_trait;
use delayq_core::chronicle::{Action, LoggedAction, Spell, Step};
use delayq_core::{Chronicle, Result, TaskType, Timestamp};
use delayq_proto::{pb, time};

use crate::remote::{Client, RemoteStore};

#[async_trait]
impl Chronicle for RemoteStore {
    async fn add_figures(&self, task_type: &TaskType, minutes: &[Spell]) -> Result<()> {
        let request = pb::AddFiguresRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
            minutes: minutes.iter().cloned().map(Into::into).collect(),
        };
        let response = self.call(async move |mut client: Client| client.add_figures(request).await);
        response.await.map(drop)
    }

    async fn figures(
        &self,
        task_type: &TaskType,
        step: Step,
        since: Timestamp,
    ) -> Result<Vec<Spell>> {
        let request = pb::GetFiguresRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
            step: pb::Step::from(step).into(),
            since: Some(time(since)),
        };
        let response = self.call(async move |mut client: Client| client.get_figures(request).await);
        let spells = response.await?.spells;
        spells.into_iter().map(TryInto::try_into).collect()
    }

    async fn log_action(&self, action: &Action) -> Result<()> {
        let request = pb::LogActionRequest {
            namespace: self.namespace.to_string(),
            action: Some(action.clone().into()),
        };
        let response = self.call(async move |mut client: Client| client.log_action(request).await);
        response.await.map(drop)
    }

    async fn actions(&self, before: Option<u64>, limit: usize) -> Result<Vec<LoggedAction>> {
        let request = pb::ActionsRequest {
            namespace: self.namespace.to_string(),
            before,
            limit: Some(u32::try_from(limit).unwrap_or(u32::MAX)),
        };
        let response = self.call(async move |mut client: Client| client.actions(request).await);
        let actions = response.await?.actions;
        actions.into_iter().map(TryInto::try_into).collect()
    }
}
