//! Recorded ends: those of each shard of each type wait in a stream of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use delayq_core::history::{EndPosition, Ends, EndsStatus, MAX_ENDS, WaitingEnd};
use delayq_core::store::MAX_BATCH;
use delayq_core::{Result, TaskType};
use futures_util::future::join_all;

use super::RedisStore;
use crate::connection::Command;
use crate::scripts::ends;
use crate::shard::Shard;

/// Number of types read in one step.
const TYPES_AT_ONCE: &str = "1000";

/// All shards of the types whose ends are recorded, or were.
async fn shards(store: &RedisStore) -> Result<Vec<Arc<Shard>>> {
    let (key, mut types, mut cursor) = (store.cx.keys.recorded(), BTreeSet::new(), "0".to_owned());
    loop {
        let scan = Command::read(&["SSCAN", &key, &cursor, "COUNT", TYPES_AT_ONCE]);
        let mut fields = store.call_types(scan).await?;
        cursor = fields.text()?;
        let mut names = fields.list()?;
        while !names.is_empty() {
            types.extend(TaskType::new(names.text()?));
        }
        if cursor == "0" {
            break;
        }
    }
    let types: Vec<TaskType> = types.into_iter().collect();
    store.shards.learn_all(&types).await?;
    let maps = types.iter().map(|task_type| store.shards.known(task_type));
    let all = maps.flat_map(|map| map.all().cloned().collect::<Vec<_>>());
    Ok(all.collect())
}

#[async_trait]
impl Ends for RedisStore {
    /// The oldest of each shard that has any, as many of each as fit.
    async fn ends(&self, limit: usize) -> Result<Vec<WaitingEnd>> {
        let limit = limit.min(MAX_ENDS);
        let all = shards(self).await?;
        let states = join_all(all.iter().map(|shard| shard.upkeep().ends_status())).await;
        let mut shards = Vec::new();
        for (shard, status) in all.iter().zip(states) {
            if status?.waiting > 0 {
                shards.push(shard);
            }
        }
        let share = limit.div_ceil(shards.len().max(1)).max(1);
        let bytes = ends::PAGE_BYTES / shards.len().max(1);
        let oldest = shards
            .iter()
            .map(|shard| shard.upkeep().oldest_ends(share, bytes));
        let mut all = Vec::new();
        for waiting in join_all(oldest).await {
            all.extend(waiting?);
        }
        all.sort_by_key(|waiting| waiting.life.ended_at);
        all.truncate(limit);
        Ok(all)
    }

    async fn remove_ends(&self, positions: &[EndPosition]) -> Result<u64> {
        let mut of_shards: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
        for (bucket, place, bytes) in positions.iter().filter_map(ends::parts) {
            of_shards.entry(bucket).or_default().push((place, bytes));
        }
        let mut removed = 0;
        for shard in shards(self).await? {
            let name = shard.keys.bucket.to_string();
            let places = of_shards.remove(name.as_str()).unwrap_or_default();
            for places in places.chunks(MAX_BATCH) {
                removed += shard.upkeep().take_ends(places).await?;
            }
        }
        Ok(removed)
    }

    /// The sums. The limit is the size of all records at which the fullest shard drops some, if
    /// each goes on to have its present part.
    async fn ends_status(&self) -> Result<EndsStatus> {
        let shards = shards(self).await?;
        let states = join_all(shards.iter().map(|shard| shard.upkeep().ends_status())).await;
        let states = states.into_iter().collect::<Result<Vec<_>>>()?;
        let mut sum = EndsStatus::default();
        for status in &states {
            sum.waiting += status.waiting;
            sum.oldest = sum.oldest.into_iter().chain(status.oldest).min();
            sum.bytes += status.bytes;
            sum.lost += status.lost;
            sum.limit = sum.limit.saturating_add(status.limit);
        }
        if states.is_empty() {
            sum.limit = self.cx.history_buffer.unwrap_or(ends::SHARD_BUFFER);
        }
        let of_all = |status: &EndsStatus| {
            let all = u128::from(sum.bytes) * u128::from(status.limit);
            all.checked_div(u128::from(status.bytes))
        };
        if let Some(limit) = states.iter().filter_map(of_all).min() {
            sum.limit = u64::try_from(limit).unwrap_or(u64::MAX);
        }
        Ok(sum)
    }
}
