//! What somebody does to one scheduled task: cancel, reschedule, update. And to a type: pause, resume.

use super::RedisStore;
use super::client::{Fields, Lane};
use super::flight::state_of;
use super::keys::Partition;
use super::record;
use super::scope::Scope;
use super::scripts::Script;
use super::seek::{Heard, Known};
use crate::error::{Error, Result};
use crate::job::When;
use crate::name::TaskId;
use crate::state::TaskState;
use crate::store::{CancelOutcome, ChangeOutcome, Setting};
use crate::time::Timestamp;

/// The largest number that Lua keeps exact.
const MAX_EXACT: u64 = 1 << 53;

/// Times that an update looks again because the task was replaced meanwhile. Each time somebody else has
/// made progress, so more would only hide a fight.
const MAX_UPDATE_TRIES: usize = 8;

impl RedisStore {
    pub(super) async fn cancel_task(
        &self,
        part: &Partition,
        id: &TaskId,
    ) -> Result<Heard<CancelOutcome>> {
        let command = part
            .script(Script::Cancel, 192)
            .arg(id.as_str())
            .number(self.scope.retention_ms())
            .number(Scope::generation());
        let mut fields = self.run(Lane::Main, part, command).await?;
        let letter = fields.text()?;
        let answer = match letter.as_str() {
            "ok" => CancelOutcome::Cancelled,
            "" => CancelOutcome::NotFound,
            "r" => CancelOutcome::Running,
            letter => CancelOutcome::Finished(state_of(letter)?),
        };
        let known = known(&letter, &mut fields)?;
        Ok(Heard { known, answer })
    }

    pub(super) async fn reschedule_task(
        &self,
        part: &Partition,
        id: &TaskId,
        when: When,
    ) -> Result<Heard<ChangeOutcome>> {
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
            self.scope.wake(part);
        }
        let outcome = fields.text()?;
        let answer = changed(part, id, &outcome, fields.time()?)?;
        let known = known(&outcome, &mut fields)?;
        Ok(Heard { known, answer })
    }

    /// The checksum covers expiry and headers, too, which the script compares with what is assumed here:
    /// none at first, as most tasks have none.
    pub(super) async fn update_task(
        &self,
        part: &Partition,
        id: &TaskId,
        message: &[u8],
    ) -> Result<Heard<ChangeOutcome>> {
        let mut fixed = String::new();
        for _ in 0..MAX_UPDATE_TRIES {
            let mut tail = Vec::new();
            record::push_tail(&mut tail, &fixed, message);
            let command = part
                .script(Script::Update, 192 + message.len() + fixed.len())
                .arg(id.as_str())
                .arg(&fixed)
                .arg(tail)
                .number(self.scope.retention_ms());
            let mut fields = self.run(Lane::Main, part, command).await?;
            let outcome = fields.text()?;
            if outcome != "changed" {
                let answer = changed(part, id, &outcome, fields.time()?)?;
                let known = known(&outcome, &mut fields)?;
                return Ok(Heard { known, answer });
            }
            fields.time()?;
            fixed = fields.text()?;
        }
        Err(Error::Unavailable {
            store: self.client.place().to_string(),
            detail: format!("task {id} is being replaced again and again"),
        })
    }

    /// Changes the settings of one partition. Returns what it says of being split.
    pub(super) async fn configure_part(
        &self,
        part: &Partition,
        max_pending: Setting<u64>,
    ) -> Result<String> {
        let max_pending = match max_pending {
            Setting::Keep => String::new(),
            Setting::Unset => "-".to_owned(),
            Setting::To(most) => most.min(MAX_EXACT).to_string(),
        };
        let command = part.script(Script::Configure, 32).arg(max_pending);
        self.run(Lane::Main, part, command).await?.text()
    }

    /// `until` at or before now ends a pause. Returns what the partition says of being split.
    pub(super) async fn pause_part(&self, part: &Partition, until: Timestamp) -> Result<String> {
        let command = part
            .script(Script::Pause, 256)
            .number(until.as_millis())
            .arg(self.scope.wake_channel(part))
            .arg(self.scope.wake_message(part));
        let mut fields = self.run(Lane::Main, part, command).await?;
        if fields.flag()? {
            self.scope.wake(part);
        }
        fields.text()
    }
}

/// How much a partition knows of a task, from the word for its state; of one that is not known, what comes next.
fn known(word: &str, fields: &mut Fields) -> Result<Known> {
    Ok(match word {
        "" => Known::Nothing {
            split: fields.text()?,
        },
        "d" | "c" | "e" => Known::Ended,
        _ => Known::Live,
    })
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

#[cfg(test)]
mod tests {
    use super::super::client::Reply;
    use super::*;

    #[test]
    fn what_has_ended_in_a_partition_is_not_taken_for_live_there() {
        let known = |word| {
            let split = Reply::Bytes(b"8".to_vec());
            known(word, &mut split.fields()).unwrap()
        };
        for word in ["d", "c", "e"] {
            assert_eq!(known(word), Known::Ended, "{word}");
        }
        for word in ["ok", "r", "k", "s", "damaged"] {
            assert_eq!(known(word), Known::Live, "{word}");
        }
        let split = "8".to_owned();
        assert_eq!(known(""), Known::Nothing { split });
    }
}
