//! Settling attempts and extending locks.

use std::collections::HashSet;
use std::time::Duration;

use super::RedisStore;
use super::client::Lane;
use super::keys::Partition;
use super::record;
use super::scope::Scope;
use super::scripts::Script;
use super::seek::{Locks, Otherwise};
use crate::error::Result;
use crate::name::TaskType;
use crate::store::{AttemptEnd, ExtendOutcome, MAX_BATCH, SettleOutcome, Settlement, cut_error};
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
fn one_call(endings: &[&Ending]) -> usize {
    let mut ids = HashSet::with_capacity(MAX_BATCH);
    let fitting = endings.iter().take(MAX_BATCH);
    fitting.take_while(|ending| ids.insert(&ending.id)).count()
}

impl RedisStore {
    pub(super) async fn settle_tasks(
        &self,
        task_type: &TaskType,
        settlements: &[Settlement],
    ) -> Result<Vec<SettleOutcome>> {
        let endings: Vec<Ending> = settlements.iter().map(Ending::new).collect();
        let ids: Vec<&[u8]> = endings.iter().map(|ending| &*ending.id).collect();
        let otherwise = Otherwise {
            lost: SettleOutcome::LockLost,
            unknown: SettleOutcome::Unknown,
        };
        let how = (otherwise, self.patience());
        let settled = self.seek_locks(task_type, &ids, how, |part, places| {
            let own = places.iter().filter_map(|place| endings.get(*place));
            let own: Vec<&Ending> = own.collect();
            async move { self.settle_part(&part, &own).await }
        });
        let outcomes = settled.await?;
        self.free_places(task_type, settlements, &outcomes).await;
        Ok(outcomes)
    }

    /// Settles tasks of one partition.
    pub(super) async fn settle_part(
        &self,
        part: &Partition,
        endings: &[&Ending],
    ) -> Result<Locks<SettleOutcome>> {
        let mut locks = Locks {
            outcomes: Vec::with_capacity(endings.len()),
            split: String::new(),
        };
        let mut rest = endings;
        while let Some((batch, after)) = rest.split_at_checked(one_call(rest)) {
            if batch.is_empty() {
                break;
            }
            self.settle_batch(part, batch, &mut locks).await?;
            rest = after;
        }
        Ok(locks)
    }

    async fn settle_batch(
        &self,
        part: &Partition,
        batch: &[&Ending],
        locks: &mut Locks<SettleOutcome>,
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
            self.scope.wake(part);
        }
        let split = fields.text()?;
        let mut own = vec![Some(SettleOutcome::Settled); batch.len()];
        while !fields.is_empty() {
            *fields.place_in(&mut own)? = None;
            locks.split.clone_from(&split);
        }
        locks.outcomes.append(&mut own);
        Ok(())
    }

    pub(super) async fn extend_locks(
        &self,
        task_type: &TaskType,
        locks: &[Lock],
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        let ids: Vec<&[u8]> = locks
            .iter()
            .map(|lock| lock.id.as_str().as_bytes())
            .collect();
        let otherwise = Otherwise {
            lost: ExtendOutcome::LockLost,
            unknown: ExtendOutcome::Unknown,
        };
        self.keep_places(task_type, locks, lock_for).await?;
        // Those of the others have to hear of it while they hold: they are extended when a third has passed.
        let how = (otherwise, self.patience().min(lock_for / 3));
        let extended = self.seek_locks(task_type, &ids, how, |part, places| {
            let own = places.iter().filter_map(|place| locks.get(*place));
            let own: Vec<&Lock> = own.collect();
            async move { self.extend_part(&part, &own, lock_for).await }
        });
        let outcomes = extended.await?;
        self.note_ends(task_type, locks, &outcomes, lock_for);
        Ok(outcomes)
    }

    async fn extend_part(
        &self,
        part: &Partition,
        locks: &[&Lock],
        lock_for: Duration,
    ) -> Result<Locks<ExtendOutcome>> {
        let mut outcomes = Vec::with_capacity(locks.len());
        let mut split = String::new();
        for batch in locks.chunks(MAX_BATCH) {
            let mut command = part
                .script(Script::Extend, 160 * batch.len())
                .number(record::span_ms(lock_for));
            for lock in batch {
                command.push(lock.id.as_str());
                command.push(lock.fence.to_string());
            }
            let mut fields = self.run(Lane::Extend, part, command).await?;
            let (lock_until, told) = (fields.time()?, fields.text()?);
            for _ in batch {
                outcomes.push(match fields.int()? {
                    1 => Some(ExtendOutcome::Extended(lock_until)),
                    2 => Some(ExtendOutcome::CancelRequested(lock_until)),
                    _ => {
                        split.clone_from(&told);
                        None
                    }
                });
            }
        }
        self.scope.visits.lock_ends_in(part, lock_for);
        Ok(Locks { outcomes, split })
    }
}
