//! The recorded ends of a memory store.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use async_trait::async_trait;

use super::MemoryStore;
use crate::error::Result;
use crate::history::{
    DEFAULT_HISTORY_BUFFER, EndPosition, Ends, EndsStatus, Life, MAX_ENDS, WaitingEnd,
};
use crate::store::StoreOptions;

/// The queue: records by position.
#[derive(Debug, Default)]
pub(super) struct EndQueue {
    records: BTreeMap<u64, Life>,
    last: u64,
    bytes: u64,
    lost: u64,
}

impl EndQueue {
    /// Adds records, and drops the oldest ones beyond `limit` bytes.
    pub(super) fn push(&mut self, lives: Vec<Life>, limit: u64) {
        for life in lives {
            self.last += 1;
            self.bytes += life.bytes();
            self.records.insert(self.last, life);
        }
        while self.bytes > limit
            && let Some((_, dropped)) = self.records.pop_first()
        {
            self.bytes -= dropped.bytes();
            self.lost += 1;
        }
    }

    fn remove(&mut self, position: &EndPosition) -> bool {
        let number = position.as_str().parse().ok();
        let removed = number.and_then(|number: u64| self.records.remove(&number));
        if let Some(life) = &removed {
            self.bytes -= life.bytes();
        }
        removed.is_some()
    }
}

fn open(store: &MemoryStore) -> Result<MutexGuard<'_, EndQueue>> {
    store.refuse_closed()?;
    Ok(store.ends.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The maximum size of what waits, in bytes.
pub(super) fn limit(options: &StoreOptions) -> u64 {
    options.history_buffer.unwrap_or(DEFAULT_HISTORY_BUFFER)
}

#[async_trait]
impl Ends for MemoryStore {
    async fn ends(&self, limit: usize) -> Result<Vec<WaitingEnd>> {
        let queue = open(self)?;
        let waiting = queue.records.iter().take(limit.min(MAX_ENDS));
        let waiting = waiting.map(|(number, life)| WaitingEnd {
            position: EndPosition::new(number.to_string()),
            life: life.clone(),
        });
        Ok(waiting.collect())
    }

    async fn remove_ends(&self, positions: &[EndPosition]) -> Result<u64> {
        let mut queue = open(self)?;
        let removed = positions.iter().filter(|position| queue.remove(position));
        Ok(removed.count() as u64)
    }

    async fn ends_status(&self) -> Result<EndsStatus> {
        let queue = open(self)?;
        Ok(EndsStatus {
            waiting: queue.records.len() as u64,
            oldest: queue.records.values().next().map(|life| life.ended_at),
            bytes: queue.bytes,
            limit: limit(&self.options),
            lost: queue.lost,
        })
    }
}
