//! Tubes: each is a task type of the namespace.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use delayq_plugin::store::{AttemptEnd, Bucket, MAX_BATCH, Settlement};
use delayq_plugin::{Error, Lock, Namespace, TaskState, TaskType};
use delayq_service::space::Space;
use serde::Serialize;
use tokio::time::Instant;

use super::refusal::GrapeError;
use delayq_service::context::Context;

/// The longest name of a tube.
const MAX_NAME: usize = 64;
/// How long a known tube is assumed to exist without another check.
const KNOWN_FOR: Duration = Duration::from_millis(500);
/// How often emptying a tube is repeated because new jobs arrived.
const ROUNDS: usize = 5;

/// The states that are purged with their tube.
const PURGED: [TaskState; 5] = [
    TaskState::Scheduled,
    TaskState::Dead,
    TaskState::Done,
    TaskState::Cancelled,
    TaskState::Expired,
];

/// Statistics of a tube.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TubeStats {
    date_time: i64,
    tube_name: String,
    delay_queue_size: u64,
    retain_queue_size: u64,
    failed_queue_size: u64,
}

/// The existing tubes, as of a moment ago.
#[derive(Debug, Default)]
pub(super) struct Tubes(Mutex<HashMap<Namespace, KnownTubes>>);

#[derive(Debug)]
struct KnownTubes {
    at: Instant,
    types: BTreeSet<TaskType>,
}

impl Tubes {
    /// An existing tube that the client has a right to.
    pub(super) async fn known(&self, client: &Context, name: &str) -> Result<TaskType, GrapeError> {
        let Ok(tube) = TaskType::new(name) else {
            return Err(GrapeError::unknown_tube(name));
        };
        let tube = client.caller.require_type(tube.as_str())?;
        let is_known = {
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let known = known.get(&client.space.namespace);
            known.is_some_and(|one| one.at.elapsed() < KNOWN_FOR && one.types.contains(&tube))
        };
        if is_known || self.read(&client.space).await?.contains(&tube) {
            return Ok(tube);
        }
        Err(GrapeError::unknown_tube(name))
    }

    async fn read(&self, space: &Space) -> Result<BTreeSet<TaskType>, GrapeError> {
        let at = Instant::now();
        let types: BTreeSet<_> = space.tasks.store().types().await?.into_iter().collect();
        let known = KnownTubes {
            at,
            types: types.clone(),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(space.namespace.clone(), known);
        Ok(types)
    }

    fn forget(&self, space: &Space) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&space.namespace);
    }

    /// All tubes that the client has a right to.
    pub(super) async fn all(&self, client: &Context) -> Result<Vec<TaskType>, GrapeError> {
        let types = self.read(&client.space).await?.into_iter();
        let tubes =
            types.filter(|one| client.caller.token.covers(one) && check_name(one.as_str()).is_ok());
        Ok(tubes.collect())
    }

    /// Creates a tube. Repeating it is harmless.
    pub(super) async fn create(&self, client: &Context, name: &str) -> Result<(), GrapeError> {
        check_name(name)?;
        let tube = client.caller.require_type(name)?;
        client.space.tasks.store().register_type(&tube).await?;
        self.forget(&client.space);
        Ok(())
    }

    /// Removes a tube with all its jobs. Repeating it is harmless.
    pub(super) async fn delete(&self, client: &Context, name: &str) -> Result<(), GrapeError> {
        let Ok(tube) = TaskType::new(name) else {
            return Ok(());
        };
        let tube = client.caller.require_type(tube.as_str())?;
        if !self.read(&client.space).await?.contains(&tube) {
            return Ok(());
        }
        let mut dropped = Ok(());
        for _ in 0..ROUNDS {
            empty(&client.space, &tube).await?;
            dropped = client.space.tasks.store().drop_type(&tube).await;
            if !matches!(dropped, Err(Error::TypeInUse { .. })) {
                break;
            }
        }
        self.forget(&client.space);
        dropped?;
        client.operator().note("delete-tube", name, "").await;
        Ok(())
    }
}

/// The statistics of a tube.
pub(super) async fn stats(client: &Context, tube: &TaskType) -> Result<TubeStats, GrapeError> {
    let stats = client.space.tasks.store().stats(tube).await?;
    Ok(TubeStats {
        date_time: stats.now.as_millis(),
        tube_name: tube.to_string(),
        delay_queue_size: stats.scheduled,
        retain_queue_size: stats.running,
        failed_queue_size: stats.dead,
    })
}

/// Ends everything in a tube.
async fn empty(space: &Space, tube: &TaskType) -> Result<(), GrapeError> {
    let store = space.tasks.store();
    loop {
        let running = store
            .list(tube, TaskState::Running, None, MAX_BATCH)
            .await?;
        if running.tasks.is_empty() {
            break;
        }
        let buckets = store.buckets(tube).await?;
        for task in running.tasks {
            if let Some(fence) = task.fence {
                let lock = Lock { id: task.id, fence };
                end(space, &buckets, &Settlement::new(lock, AttemptEnd::Expired)).await?;
            }
        }
    }
    for state in PURGED {
        store.purge(tube, state).await?;
    }
    Ok(())
}

/// Ends an attempt in any bucket of its type; returns true if the lock was valid.
pub(super) async fn end(
    space: &Space,
    buckets: &[Bucket],
    settlement: &Settlement,
) -> Result<bool, GrapeError> {
    for bucket in buckets {
        let ended = space.pull.conclude(bucket.clone(), settlement.clone());
        if ended.await? == delayq_plugin::store::SettleOutcome::Settled {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Refuses an invalid name of a tube.
fn check_name(name: &str) -> Result<(), GrapeError> {
    let mut bytes = name.bytes();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic()) || !bytes.all(is_word) {
        let text = "tube name not match ^([a-z]|[A-Z])(\\w|-)*";
        return Err(GrapeError::Named(1_002, text.to_owned()));
    }
    if name.len() > MAX_NAME {
        let text = format!("tube name great than {MAX_NAME}");
        return Err(GrapeError::Named(1_003, text));
    }
    Ok(())
}
