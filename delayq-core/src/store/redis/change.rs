//! What somebody does to one scheduled task: cancel, reschedule, update. And to a type: pause, resume.

use super::RedisStore;
use super::client::Lane;
use super::flight::state_of;
use super::record;
use super::scope::Scope;
use super::scripts::Script;
use crate::error::{Error, Result};
use crate::job::When;
use crate::name::{TaskId, TaskType};
use crate::state::TaskState;
use crate::store::{CancelOutcome, ChangeOutcome, Wakeup};
use crate::time::Timestamp;

/// Times that an update looks again because the task was replaced meanwhile. Each time somebody else has
/// made progress, so more would only hide a fight.
const MAX_UPDATE_TRIES: usize = 8;

impl RedisStore {
    pub(super) async fn cancel_task(
        &self,
        task_type: &TaskType,
        id: &TaskId,
    ) -> Result<CancelOutcome> {
        let command = self
            .scope
            .script(Script::Cancel, task_type, 192)
            .arg(id.as_str())
            .number(self.scope.retention_ms())
            .number(Scope::generation());
        let mut fields = self.run(Lane::Main, task_type, command).await?;
        Ok(match fields.text()?.as_str() {
            "ok" => CancelOutcome::Cancelled,
            "" => CancelOutcome::NotFound,
            "r" => CancelOutcome::Running,
            letter => CancelOutcome::Finished(state_of(letter)?),
        })
    }

    pub(super) async fn reschedule_task(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        let (kind, ms) = record::time_of(when);
        let command = self
            .scope
            .script(Script::Reschedule, task_type, 384)
            .arg(id.as_str())
            .arg(kind.to_string())
            .number(ms)
            .number(self.scope.retention_ms())
            .arg(self.scope.keys.wake_channel())
            .arg(self.scope.wake_message(task_type));
        let mut fields = self.run(Lane::Main, task_type, command).await?;
        if fields.flag()? {
            self.scope.wake(Wakeup::Type(task_type.clone()));
        }
        let outcome = fields.text()?;
        self.changed(task_type, id, &outcome, fields.time()?)
    }

    /// The checksum covers expiry and headers, too, which the script compares with what is assumed here:
    /// none at first, as most tasks have none.
    pub(super) async fn update_task(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: &[u8],
    ) -> Result<ChangeOutcome> {
        let mut fixed = String::new();
        for _ in 0..MAX_UPDATE_TRIES {
            let command = self
                .scope
                .script(Script::Update, task_type, 192 + message.len() + fixed.len())
                .arg(id.as_str())
                .arg(&fixed)
                .arg(record::tail(&fixed, message))
                .number(self.scope.retention_ms());
            let mut fields = self.run(Lane::Main, task_type, command).await?;
            let outcome = fields.text()?;
            if outcome != "changed" {
                return self.changed(task_type, id, &outcome, fields.time()?);
            }
            fields.time()?;
            fixed = fields.text()?;
        }
        Err(Error::Unavailable {
            store: self.client.place().to_string(),
            detail: format!("task {id} is being replaced again and again"),
        })
    }

    fn changed(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        outcome: &str,
        due_at: Timestamp,
    ) -> Result<ChangeOutcome> {
        Ok(match outcome {
            "ok" => ChangeOutcome::Changed { due_at },
            "" => ChangeOutcome::NotFound,
            "damaged" => return Err(self.corrupt(task_type, id.as_str(), "its head is damaged")),
            letter => match state_of(letter)? {
                TaskState::Running => ChangeOutcome::Running,
                state => ChangeOutcome::Finished(state),
            },
        })
    }

    /// `until` at or before now ends a pause.
    pub(super) async fn set_pause(&self, task_type: &TaskType, until: Timestamp) -> Result<()> {
        let command = self
            .scope
            .script(Script::Pause, task_type, 256)
            .number(until.as_millis())
            .arg(self.scope.keys.wake_channel())
            .arg(self.scope.wake_message(task_type));
        if self.run(Lane::Main, task_type, command).await?.flag()? {
            self.scope.wake(Wakeup::Type(task_type.clone()));
        }
        Ok(())
    }
}
