//! Figures of both stores combined, and the log of actions of the store that receives new tasks.

use std::collections::BTreeMap;

use async_trait::async_trait;
use delayq_plugin::store::{Action, Chronicle, Figures, LoggedAction, Spell, Step};
use delayq_plugin::{Result, TaskType, Timestamp};

use super::placed_store::PlacedStore;

#[async_trait]
impl Chronicle for PlacedStore {
    async fn add_figures(&self, task_type: &TaskType, minutes: &[Spell]) -> Result<()> {
        let view = self.view()?;
        view.main().store.add_figures(task_type, minutes).await
    }

    async fn figures(
        &self,
        task_type: &TaskType,
        step: Step,
        since: Timestamp,
    ) -> Result<Vec<Spell>> {
        let (view, mut spells) = (self.view()?, BTreeMap::<Timestamp, Figures>::new());
        for home in view.homes() {
            for spell in home.store.figures(task_type, step, since).await? {
                *spells.entry(spell.at).or_default() += &spell.figures;
            }
        }
        let spells = spells.into_iter();
        Ok(spells.map(|(at, figures)| Spell { at, figures }).collect())
    }

    async fn log_action(&self, action: &Action) -> Result<()> {
        self.view()?.main().store.log_action(action).await
    }

    async fn actions(&self, before: Option<u64>, limit: usize) -> Result<Vec<LoggedAction>> {
        self.view()?.main().store.actions(before, limit).await
    }
}
