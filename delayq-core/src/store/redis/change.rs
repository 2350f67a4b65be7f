//! What somebody does to one scheduled task: cancel, reschedule, update. And to a type: pause, resume.

use super::RedisStore;
use super::client::Lane;
use super::flight::state_of;
use super::keys::Partition;
use super::record;
use super::scope::Scope;
use super::scripts::Script;
use crate::error::{Error, Result};
use crate::job::When;
use crate::name::TaskId;
use crate::state::TaskState;
use crate::store::{CancelOutcome, ChangeOutcome, Setting, TypeSettings, Wakeup};
use crate::time::Timestamp;

/// The largest number that Lua keeps exact.
const MAX_EXACT: u64 = 1 << 53;

/// Times that an update looks again because the task was replaced meanwhile. Each time somebody else has
/// made progress, so more would only hide a fight.
const MAX_UPDATE_TRIES: usize = 8;

impl RedisStore {
    pub(super) async fn cancel_task(&self, part: &Partition, id: &TaskId) -> Result<CancelOutcome> {
        let command = part
            .script(Script::Cancel, 192)
            .arg(id.as_str())
            .number(self.scope.retention_ms())
            .number(Scope::generation());
        let mut fields = self.run(Lane::Main, part, command).await?;
        Ok(match fields.text()?.as_str() {
            "ok" => CancelOutcome::Cancelled,
            "" => CancelOutcome::NotFound,
            "r" => CancelOutcome::Running,
            letter => CancelOutcome::Finished(state_of(letter)?),
        })
    }

    pub(super) async fn reschedule_task(
        &self,
        part: &Partition,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        let (kind, ms) = record::time_of(when);
        let command = part
            .script(Script::Reschedule, 384)
            .arg(id.as_str())
            .arg(kind.to_string())
            .number(ms)
            .number(self.scope.retention_ms())
            .arg(self.scope.wake_channel(part))
            .arg(self.scope.wake_message(part));
        let mut fields = self.run(Lane::Main, part, command).await?;
        if fields.flag()? {
            self.scope.wake(Wakeup::Type(part.task_type.clone()));
        }
        let outcome = fields.text()?;
        changed(part, id, &outcome, fields.time()?)
    }

    /// The checksum covers expiry and headers, too, which the script compares with what is assumed here:
    /// none at first, as most tasks have none.
    pub(super) async fn update_task(
        &self,
        part: &Partition,
        id: &TaskId,
        message: &[u8],
    ) -> Result<ChangeOutcome> {
        let mut fixed = String::new();
        for _ in 0..MAX_UPDATE_TRIES {
            let command = part
                .script(Script::Update, 192 + message.len() + fixed.len())
                .arg(id.as_str())
                .arg(&fixed)
                .arg(record::tail(&fixed, message))
                .number(self.scope.retention_ms());
            let mut fields = self.run(Lane::Main, part, command).await?;
            let outcome = fields.text()?;
            if outcome != "changed" {
                return changed(part, id, &outcome, fields.time()?);
            }
            fields.time()?;
            fixed = fields.text()?;
        }
        Err(Error::Unavailable {
            store: self.client.place().to_string(),
            detail: format!("task {id} is being replaced again and again"),
        })
    }

    pub(super) async fn configure(&self, part: &Partition, settings: &TypeSettings) -> Result<()> {
        let max_pending = match settings.max_pending {
            Setting::Keep => String::new(),
            Setting::Unset => "-".to_owned(),
            Setting::To(most) => most.min(MAX_EXACT).to_string(),
        };
        let command = part.script(Script::Configure, 32).arg(max_pending);
        self.run(Lane::Main, part, command).await?;
        Ok(())
    }

    /// `until` at or before now ends a pause.
    pub(super) async fn set_pause(&self, part: &Partition, until: Timestamp) -> Result<()> {
        let command = part
            .script(Script::Pause, 256)
            .number(until.as_millis())
            .arg(self.scope.wake_channel(part))
            .arg(self.scope.wake_message(part));
        if self.run(Lane::Main, part, command).await?.flag()? {
            self.scope.wake(Wakeup::Type(part.task_type.clone()));
        }
        Ok(())
    }
}

fn changed(
    part: &Partition,
    id: &TaskId,
    outcome: &str,
    due_at: Timestamp,
) -> Result<ChangeOutcome> {
    Ok(match outcome {
        "ok" => ChangeOutcome::Changed { due_at },
        "" => ChangeOutcome::NotFound,
        "damaged" => return Err(part.corrupt(id.as_str(), "its head is damaged")),
        letter => match state_of(letter)? {
            TaskState::Running => ChangeOutcome::Running,
            state => ChangeOutcome::Finished(state),
        },
    })
}
