//! Settling attempts and extending locks.

use std::collections::HashSet;
use std::time::Duration;

use super::RedisStore;
use super::client::Lane;
use super::keys::Partition;
use super::record;
use super::scope::Scope;
use super::scripts::Script;
use crate::error::Result;
use crate::store::{
    AttemptEnd, ExtendOutcome, MAX_BATCH, SettleOutcome, Settlement, Wakeup, cut_error,
};
use crate::task::Lock;

/// A settlement as `settle.lua` takes it. The id is what is stored, which damage may have made invalid.
pub(super) struct Ending {
    pub(super) id: Vec<u8>,
    pub(super) fence: u64,
    pub(super) end: Vec<u8>,
}

impl Ending {
    pub(super) fn new(settlement: &Settlement) -> Self {
        let kept = |kind: &str, succeeded: &[String], error: &str| {
            let names = record::encode_succeeded(succeeded);
            format!("{kind} {names}\n{}", cut_error(error))
        };
        let again = |kind: char, after: Duration| format!("{kind}{}", record::span_ms(after));
        let end = match &settlement.end {
            AttemptEnd::Done => "D".to_owned(),
            AttemptEnd::Expired => "E".to_owned(),
            AttemptEnd::Dead { error, succeeded } => kept("K", succeeded, error),
            AttemptEnd::Retry {
                after,
                error,
                succeeded,
            } => kept(&again('R', *after), succeeded, error),
            AttemptEnd::Release { after, succeeded } => kept(&again('L', *after), succeeded, ""),
        };
        Self {
            id: settlement.lock.id.as_str().as_bytes().to_vec(),
            fence: settlement.lock.fence,
            end: end.into_bytes(),
        }
    }
}

/// The length of the longest beginning of `endings` that one call takes: its ids differ.
fn one_call(endings: &[Ending]) -> usize {
    let mut ids = HashSet::with_capacity(MAX_BATCH);
    let fitting = endings.iter().take(MAX_BATCH);
    fitting.take_while(|ending| ids.insert(&ending.id)).count()
}

impl RedisStore {
    pub(super) async fn settle_all(
        &self,
        part: &Partition,
        endings: Vec<Ending>,
    ) -> Result<Vec<SettleOutcome>> {
        let mut outcomes = Vec::with_capacity(endings.len());
        let mut rest = endings.as_slice();
        while let Some((batch, after)) = rest.split_at_checked(one_call(rest)) {
            if batch.is_empty() {
                break;
            }
            self.settle_batch(part, batch, &mut outcomes).await?;
            rest = after;
        }
        Ok(outcomes)
    }

    async fn settle_batch(
        &self,
        part: &Partition,
        batch: &[Ending],
        outcomes: &mut Vec<SettleOutcome>,
    ) -> Result<()> {
        let bytes = batch.iter().map(|ending| ending.end.len() + 160).sum();
        let mut command = part
            .script(Script::Settle, bytes)
            .number(self.scope.retention_ms())
            .number(Scope::generation())
            .arg(self.scope.wake_channel(part))
            .arg(self.scope.wake_message(part));
        for ending in batch {
            command.push(&ending.id);
            command.push(ending.fence.to_string());
            command.push(&ending.end);
        }
        let mut fields = self.run(Lane::Main, part, command).await?;
        if fields.flag()? {
            self.scope.wake(Wakeup::Type(part.task_type.clone()));
        }
        let mut own = vec![SettleOutcome::Settled; batch.len()];
        while !fields.is_empty() {
            *fields.place_in(&mut own)? = SettleOutcome::LockLost;
        }
        outcomes.append(&mut own);
        Ok(())
    }

    pub(super) async fn extend_locks(
        &self,
        part: &Partition,
        locks: &[Lock],
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        let mut outcomes = Vec::with_capacity(locks.len());
        for batch in locks.chunks(MAX_BATCH) {
            let mut command = part
                .script(Script::Extend, 160 * batch.len())
                .number(record::span_ms(lock_for));
            for lock in batch {
                command.push(lock.id.as_str());
                command.push(lock.fence.to_string());
            }
            let mut fields = self.run(Lane::Extend, part, command).await?;
            let lock_until = fields.time()?;
            for _ in batch {
                outcomes.push(match fields.int()? {
                    1 => ExtendOutcome::Extended(lock_until),
                    2 => ExtendOutcome::CancelRequested(lock_until),
                    _ => ExtendOutcome::LockLost,
                });
            }
        }
        Ok(outcomes)
    }
}
