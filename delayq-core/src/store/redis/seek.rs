//! Edges of tasks that are known by their ids: each is asked for in the one partition of each generation that may
//! have it, at the same time.

use std::collections::HashMap;
use std::sync::Arc;

use super::RedisStore;
use super::keys::Partition;
use super::spread::Spread;
use super::together::together;
use crate::error::{Error, Result};
use crate::name::{TaskId, TaskType};

/// How often a layout is read again for one call. Each time somebody has raised the number of partitions
/// meanwhile, so more would only hide a fight.
pub(super) const MAX_LOOKS: usize = 8;

/// What a partition says of one task.
pub(super) struct Heard<T> {
    pub(super) known: Known,
    pub(super) answer: T,
}

/// How much a partition knows of a task. What is live somewhere has ended everywhere else, if it was ever there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Live,
    Ended,
    /// Nothing. Of an id that is not known, the partition also says how its type is split.
    Nothing {
        split: String,
    },
}

/// What a partition says of several locks.
pub(super) struct Locks<T> {
    /// One each, in order; `None` for a lock that does not hold.
    pub(super) outcomes: Vec<Option<T>>,
    /// What the partition says of being split, if one does not hold.
    pub(super) split: String,
}

/// Locks of one partition, by their places among all.
type Group = (Arc<Partition>, Vec<usize>);

impl RedisStore {
    /// Asks for the task `id`.
    pub(super) async fn seek<T, F, A>(&self, task_type: &TaskType, id: &TaskId, ask: F) -> Result<T>
    where
        F: Fn(Arc<Partition>) -> A,
        A: Future<Output = Result<Heard<T>>>,
    {
        for _ in 0..MAX_LOOKS {
            let spread = self.scope.spread(task_type);
            let parts: Vec<_> = spread.of(id.as_str().as_bytes()).cloned().collect();
            let heard = together(parts.iter().cloned().map(&ask)).await;
            let is_outdated = match (heard.first(), parts.first()) {
                (Some(Ok(newest)), Some(part)) => newest.known.is_elsewhere(part),
                _ => false,
            };
            let best = best_of(heard)?;
            if !is_outdated || !matches!(best.known, Known::Nothing { .. }) {
                return Ok(best.answer);
            }
            self.look_again(task_type, &spread).await?;
        }
        Err(self.unsettled(task_type))
    }

    /// Asks for locks, by the ids of their tasks; `None` for those that hold nowhere.
    pub(super) async fn seek_locks<T, F, A>(
        &self,
        task_type: &TaskType,
        ids: &[&[u8]],
        ask: F,
    ) -> Result<Vec<Option<T>>>
    where
        F: Fn(Arc<Partition>, Vec<usize>) -> A,
        A: Future<Output = Result<Locks<T>>>,
    {
        let mut outcomes: Vec<Option<T>> = ids.iter().map(|_| None).collect();
        let mut open: Vec<usize> = (0..ids.len()).collect();
        for _ in 0..MAX_LOOKS {
            let spread = self.scope.spread(task_type);
            let groups = groups(&spread, ids, &open);
            let calls = groups
                .iter()
                .map(|(part, places)| ask(Arc::clone(part), places.clone()));
            let mut is_outdated = false;
            for ((part, places), found) in groups.iter().zip(together(calls).await) {
                let found = found?;
                let is_lost = found.outcomes.iter().any(Option::is_none);
                is_outdated |= is_lost && spread.is_newest(part) && found.split != part.open;
                for (place, outcome) in places.iter().zip(found.outcomes) {
                    if let (Some(slot), Some(outcome)) = (outcomes.get_mut(*place), outcome) {
                        *slot = Some(outcome);
                    }
                }
            }
            open.retain(|place| outcomes.get(*place).is_some_and(Option::is_none));
            if !is_outdated || open.is_empty() {
                return Ok(outcomes);
            }
            self.look_again(task_type, &spread).await?;
        }
        Err(self.unsettled(task_type))
    }

    /// The error of a type that is split again and again, or that says so.
    pub(super) fn unsettled(&self, task_type: &TaskType) -> Error {
        Error::Unavailable {
            store: self.client.place().to_string(),
            detail: format!("the partitions of {task_type} are being changed again and again"),
        }
    }
}

impl Known {
    /// Whether the id may be in a generation that is not known here.
    fn is_elsewhere(&self, part: &Partition) -> bool {
        matches!(self, Self::Nothing { split } if *split != part.open)
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Live => 2,
            Self::Ended => 1,
            Self::Nothing { .. } => 0,
        }
    }
}

/// A live task before one that has ended before none, and the newest of them. A task that was not found is only
/// known to be nowhere when everybody has answered.
fn best_of<T>(heard: Vec<Result<Heard<T>>>) -> Result<Heard<T>> {
    let mut best: Option<Heard<T>> = None;
    let mut failed = None;
    for heard in heard {
        match heard {
            Ok(heard) => {
                if best
                    .as_ref()
                    .is_none_or(|best| heard.known.rank() > best.known.rank())
                {
                    best = Some(heard);
                }
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match (best, failed) {
        (Some(best), None) => Ok(best),
        (Some(best), Some(_)) if best.known == Known::Live => Ok(best),
        (_, Some(error)) => Err(error),
        (None, None) => Err(Error::Closed("a type without a partition")),
    }
}

/// Which partitions to ask for which locks. Those of one id keep their order.
fn groups(spread: &Spread, ids: &[&[u8]], open: &[usize]) -> Vec<Group> {
    if let Some(part) = spread.single() {
        return vec![(Arc::clone(part), open.to_vec())];
    }
    let mut groups: Vec<Group> = Vec::new();
    let mut at: HashMap<&str, usize> = HashMap::new();
    for place in open {
        for part in spread.of(ids.get(*place).copied().unwrap_or_default()) {
            let group = *at.entry(&part.stem).or_insert(groups.len());
            if group == groups.len() {
                groups.push((Arc::clone(part), Vec::new()));
            }
            if let Some((_, places)) = groups.get_mut(group) {
                places.push(*place);
            }
        }
    }
    groups
}
