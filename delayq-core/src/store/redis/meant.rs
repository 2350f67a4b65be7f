//! Which dead tasks of a split type an operator means, and in which partitions they are.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::RedisStore;
use super::dead::Walk;
use super::keys::Partition;
use crate::error::Result;
use crate::name::{TaskId, TaskType};
use crate::state::TaskState;
use crate::store::{Cursor, DeadFilter, MAX_BATCH};
use crate::time::Timestamp;

/// Which dead tasks are meant, in which partitions.
struct Meant {
    /// To be asked one after the other.
    parts: Vec<(Arc<Partition>, DeadFilter)>,
    /// Their order in the whole type; none of a type that has but one partition, which keeps the order itself.
    ids: Vec<TaskId>,
}

impl RedisStore {
    pub(super) async fn requeue(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        let now = self.type_stats(task_type).await?.now;
        let (mut requeued, mut due) = (Vec::new(), String::new());
        let meant = self
            .meant(task_type, filter, now, !interval.is_zero())
            .await?;
        for (part, own) in meant.parts {
            let (walk, due) = (Walk::new(&own, now), (&mut due, interval));
            self.requeue_part(&part, walk, due, &mut requeued).await?;
        }
        Ok(in_order_of(&meant.ids, requeued))
    }

    pub(super) async fn discard(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
    ) -> Result<Vec<TaskId>> {
        let now = self.type_stats(task_type).await?.now;
        let mut discarded = Vec::new();
        let meant = self.meant(task_type, filter, now, false).await?;
        for (part, own) in meant.parts {
            let walk = Walk::new(&own, now);
            self.discard_part(&part, walk, &mut discarded).await?;
        }
        Ok(in_order_of(&meant.ids, discarded))
    }

    /// What a filter means. With `in_order`, one after the other gives the order of the whole type.
    async fn meant(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        now: Timestamp,
        in_order: bool,
    ) -> Result<Meant> {
        let spread = self.look(task_type).await?;
        if let Some(part) = spread.single() {
            return Ok(Meant {
                parts: vec![(Arc::clone(part), filter.clone())],
                ids: Vec::new(),
            });
        }
        let ids = match filter {
            DeadFilter::Ids(ids) => ids.clone(),
            DeadFilter::Matching { .. } => self.dead_ids(task_type, filter, now).await?,
        };
        let mut seen = HashSet::new();
        let mut runs: Vec<(Vec<&Arc<Partition>>, Vec<TaskId>)> = Vec::new();
        for id in ids.iter().filter(|id| seen.insert(*id)) {
            let parts: Vec<_> = spread.of(id.as_str().as_bytes()).collect();
            let open = if in_order {
                runs.len().saturating_sub(1)
            } else {
                0
            };
            let open = runs.get_mut(open..).unwrap_or_default();
            match open.iter_mut().find(|(of, _)| *of == parts) {
                Some((_, run)) => run.push(id.clone()),
                None => runs.push((parts, vec![id.clone()])),
            }
        }
        let parts = runs.into_iter().flat_map(|(parts, run)| {
            let run = DeadFilter::Ids(run);
            let own = parts.into_iter().cloned();
            own.map(move |part| (part, run.clone()))
        });
        let parts = parts.collect();
        Ok(Meant { parts, ids })
    }

    /// The dead tasks that a filter means, in order of death, up to now.
    async fn dead_ids(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        now: Timestamp,
    ) -> Result<Vec<TaskId>> {
        let DeadFilter::Matching {
            died_before,
            error_contains,
            limit,
        } = filter
        else {
            return Ok(Vec::new());
        };
        let end = died_before.unwrap_or(Timestamp::MAX);
        let text = error_contains.as_deref().unwrap_or_default();
        let mut ids = Vec::new();
        let mut cursor: Option<Cursor> = None;
        loop {
            let page = self
                .list_tasks(task_type, TaskState::Dead, cursor.as_ref(), MAX_BATCH)
                .await?;
            for task in page.tasks {
                if ids.len() >= *limit || task.at >= end || task.at > now {
                    return Ok(ids);
                }
                let error = task.trail.last_error.unwrap_or_default();
                if error.contains(text) {
                    ids.push(task.id);
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(ids);
            }
        }
    }
}

/// The ids that were found, in the order in which they were meant.
fn in_order_of(meant: &[TaskId], mut found: Vec<TaskId>) -> Vec<TaskId> {
    let mut places: HashMap<&TaskId, usize> = HashMap::new();
    for (place, id) in meant.iter().enumerate() {
        places.entry(id).or_insert(place);
    }
    found.sort_by_key(|id| places.get(id).copied());
    found
}
