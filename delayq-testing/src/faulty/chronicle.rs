//! The chronicle, through the plan.

use async_trait::async_trait;
use delayq_core::chronicle::{Action, LoggedAction, Spell, Step};
use delayq_core::{Chronicle, Result, TaskType, Timestamp};

use super::FaultyStore;

#[async_trait]
impl Chronicle for FaultyStore {
    async fn add_figures(&self, task_type: &TaskType, minutes: &[Spell]) -> Result<()> {
        self.call("add_figures", self.inner.add_figures(task_type, minutes))
            .await
    }

    async fn figures(
        &self,
        task_type: &TaskType,
        step: Step,
        since: Timestamp,
    ) -> Result<Vec<Spell>> {
        self.call("figures", self.inner.figures(task_type, step, since))
            .await
    }

    async fn log_action(&self, action: &Action) -> Result<()> {
        self.call("log_action", self.inner.log_action(action)).await
    }

    async fn actions(&self, before: Option<u64>, limit: usize) -> Result<Vec<LoggedAction>> {
        self.call("actions", self.inner.actions(before, limit))
            .await
    }
}
