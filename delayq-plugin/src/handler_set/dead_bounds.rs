//! Limits on dead tasks: if they are too old or too many, the oldest are discarded first.

use std::time::Duration;

use delayq_core::operate::DeadFilter;
use delayq_core::store::MAX_BATCH;
use delayq_core::{Result, Store, TaskState, TaskType, Timestamp};
use tracing::{debug, warn};

use super::shared::Shared;
use crate::settings::DeadBounds;

/// How often the dead tasks of the served types are counted.
const INTERVAL: Duration = Duration::from_mins(1);
/// Maximum number of discarding calls for one type in a round: about 8,000 tasks, so that no type
/// keeps maintenance busy for long.
const MOST_CALLS: usize = 64;

/// The time of the next round after one at `elapsed`; never without limits.
pub(super) fn next_round(bounds: DeadBounds, elapsed: Duration) -> Duration {
    if bounds == DeadBounds::default() {
        return Duration::MAX;
    }
    elapsed.saturating_add(INTERVAL)
}

/// Applies the limits to the served types. Every instance does this; tasks that another one has
/// discarded are simply gone.
pub(super) async fn keep(bounds: DeadBounds, shared: &Shared) {
    for task_type in shared.served() {
        match keep_type(bounds, &*shared.store, &task_type).await {
            Ok(0) => {}
            Ok(discarded) => {
                warn!(%task_type, discarded, "dead tasks beyond their bounds were discarded");
            }
            Err(error) => {
                debug!(%task_type, %error, "cannot discard dead tasks; there may be more than their bounds allow");
            }
        }
    }
}

/// Discards the tasks beyond the limits and returns their number.
async fn keep_type(bounds: DeadBounds, store: &dyn Store, task_type: &TaskType) -> Result<u64> {
    let stats = store.stats(task_type).await?;
    let mut discarded = 0;
    if stats.dead == 0 {
        return Ok(discarded);
    }
    if let Some(retention) = bounds.retention {
        let before = stats.now.minus(retention);
        discarded += discard_older(store, task_type, before).await?;
    }
    if let Some(most) = bounds.most {
        discarded += discard_beyond(store, task_type, most).await?;
    }
    Ok(discarded)
}

async fn discard_older(store: &dyn Store, task_type: &TaskType, before: Timestamp) -> Result<u64> {
    let filter = DeadFilter::Matching {
        died_before: Some(before),
        error_contains: None,
        limit: MAX_BATCH,
    };
    let mut discarded = 0;
    for _ in 0..MOST_CALLS {
        let gone = store.discard_dead(task_type, &filter).await?.len();
        discarded += gone as u64;
        if gone < MAX_BATCH {
            break;
        }
    }
    Ok(discarded)
}

/// Lists the oldest tasks before it counts all. If another instance discards some meanwhile, they
/// either make the excess smaller or are among those discarded here. So two instances together
/// never discard too many.
async fn discard_beyond(store: &dyn Store, task_type: &TaskType, most: u64) -> Result<u64> {
    let mut discarded = 0;
    for _ in 0..MOST_CALLS {
        let first = store.list(task_type, TaskState::Dead, None, MAX_BATCH);
        let ids = first.await?.tasks.into_iter().map(|task| task.id);
        let excess = store.stats(task_type).await?.dead.saturating_sub(most);
        let excess = usize::try_from(excess).unwrap_or(MAX_BATCH);
        let ids: Vec<_> = ids.take(excess).collect();
        if ids.is_empty() {
            break;
        }
        let gone = store.discard_dead(task_type, &DeadFilter::Ids(ids)).await?;
        discarded += gone.len() as u64;
    }
    Ok(discarded)
}
