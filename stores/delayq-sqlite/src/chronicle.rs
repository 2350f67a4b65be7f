//! Figures and the log of actions, as calls to the engine.

use async_trait::async_trait;
use delayq_core::chronicle::{Action, Chronicle, LoggedAction, Spell, Step};
use delayq_core::error::Result;
use delayq_core::name::TaskType;
use delayq_core::time::Timestamp;

use crate::commit::{Lane, Size};
use crate::operations::{actions, figures};
use crate::rows::{Tx, TypeTasks};
use crate::store::SqliteStore;

#[async_trait]
impl Chronicle for SqliteStore {
    async fn add_figures(&self, task_type: &TaskType, minutes: &[Spell]) -> Result<()> {
        let (task_type, minutes) = (task_type.clone(), minutes.to_vec());
        let add = move |tx: &mut Tx<'_>| figures::add(&tx.made(&task_type)?, &minutes);
        self.engine.write(Lane::Operations, Size::ONE, add).await
    }

    async fn figures(
        &self,
        task_type: &TaskType,
        step: Step,
        since: Timestamp,
    ) -> Result<Vec<Spell>> {
        let read = move |tasks: &mut TypeTasks<'_>| figures::read(tasks, step, since);
        self.query(task_type, read).await
    }

    async fn log_action(&self, action: &Action) -> Result<()> {
        let action = action.clone();
        let log = move |tx: &mut Tx<'_>| actions::log(tx, &action);
        self.engine.write(Lane::Operations, Size::ONE, log).await
    }

    async fn actions(&self, before: Option<u64>, limit: usize) -> Result<Vec<LoggedAction>> {
        let read = move |tx: &mut Tx<'_>| actions::actions(tx, before, limit);
        self.engine.read(read).await
    }
}
