//! Edges of tasks that are known by their ids: each is asked for in the one partition of each generation that may
//! have it, at the same time.

use std::collections::{HashMap, HashSet};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

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

/// The outcomes of locks of which no partition says that they hold.
pub(super) struct Otherwise<T> {
    /// All that may have it have answered.
    pub(super) lost: T,
    /// One that may have it has not.
    pub(super) unknown: T,
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

    /// Asks for locks, by the ids of their tasks; what `patience` after an answer is silent is unknown. Fails when
    /// nothing is known of any.
    pub(super) async fn seek_locks<T, F, A>(
        &self,
        task_type: &TaskType,
        ids: &[&[u8]],
        (otherwise, patience): (Otherwise<T>, Duration),
        ask: F,
    ) -> Result<Vec<T>>
    where
        T: Copy,
        F: Fn(Arc<Partition>, Vec<usize>) -> A,
        A: Future<Output = Result<Locks<T>>>,
    {
        let mut outcomes: Vec<Option<T>> = ids.iter().map(|_| None).collect();
        let mut open: Vec<usize> = (0..ids.len()).collect();
        for _ in 0..MAX_LOOKS {
            let spread = self.scope.spread(task_type);
            let groups = groups(&spread, ids, &open);
            let (answered, _) = watch::channel(false);
            let calls = groups.iter().map(|(part, places)| {
                let call = ask(Arc::clone(part), places.clone());
                self.in_time(part, call, (&answered, patience))
            });
            let (mut is_outdated, mut failed) = (false, None);
            let mut unheard = HashSet::new();
            for ((part, places), found) in groups.iter().zip(together(calls).await) {
                let found = match found {
                    Ok(found) => found,
                    Err(error) => {
                        unheard.extend(places.iter().copied());
                        failed = failed.or(Some(error));
                        continue;
                    }
                };
                let is_lost = found.outcomes.iter().any(Option::is_none);
                is_outdated |= is_lost && spread.is_newest(part) && found.split != part.open;
                for (place, outcome) in places.iter().zip(found.outcomes) {
                    if let (Some(slot), Some(outcome)) = (outcomes.get_mut(*place), outcome) {
                        *slot = Some(outcome);
                    }
                }
            }
            open.retain(|place| outcomes.get(*place).is_some_and(Option::is_none));
            if is_outdated && !open.is_empty() {
                match self.look_again(task_type, &spread).await {
                    Ok(()) => continue,
                    Err(error) => {
                        unheard.extend(open.iter().copied());
                        failed = failed.or(Some(error));
                    }
                }
            }
            unheard.retain(|place| outcomes.get(*place).is_some_and(Option::is_none));
            return match failed {
                Some(error) if unheard.len() == ids.len() => Err(error),
                _ => Ok(conclude(outcomes, &unheard, &otherwise)),
            };
        }
        Err(self.unsettled(task_type))
    }

    /// An answer of one of several partitions that are asked at the same time. It is waited for only a little longer
    /// than those of others, so that they arrive; where no other one answers, as long as a claim waits.
    async fn in_time<T>(
        &self,
        part: &Partition,
        call: impl Future<Output = Result<T>>,
        (answered, patience): (&watch::Sender<bool>, Duration),
    ) -> Result<T> {
        let trouble = self.scope.visits.patience_in_trouble(part);
        let after_others = async {
            // The sender outlives this.
            let _ = answered.subscribe().wait_for(|answered| *answered).await;
            self.client.rest(patience).await;
        };
        let alone = async {
            match trouble {
                Some(patience) => self.client.rest(patience).await,
                None => pending().await,
            }
        };
        let answer = tokio::select! {
            biased;
            answer = call => answer,
            () = after_others => Err(self.slower(patience)),
            () = alone => Err(self.slower(trouble.unwrap_or_default())),
        };
        match &answer {
            Ok(_) => {
                answered.send_replace(true);
            }
            Err(error) => {
                tracing::debug!(task_type = %part.task_type, partition = part.name, %error,
                    "locks of a partition are unknown");
            }
        }
        answer
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

fn conclude<T: Copy>(
    outcomes: Vec<Option<T>>,
    unheard: &HashSet<usize>,
    otherwise: &Otherwise<T>,
) -> Vec<T> {
    let outcomes = outcomes.into_iter().enumerate();
    let known = outcomes.map(|(place, outcome)| match outcome {
        Some(outcome) => outcome,
        None if unheard.contains(&place) => otherwise.unknown,
        None => otherwise.lost,
    });
    known.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> Known {
        let split = String::new();
        Known::Nothing { split }
    }

    #[test]
    fn a_live_task_is_believed_although_a_partition_is_silent_and_no_other() {
        let heard = |known, answer| Ok(Heard { known, answer });
        let silent = || Err(Error::Closed("a test"));
        for (heards, expected) in [
            (vec![heard(nothing(), 1), heard(Known::Ended, 2)], Some(2)),
            (vec![heard(Known::Ended, 1), heard(Known::Live, 2)], Some(2)),
            (vec![heard(Known::Live, 1), heard(Known::Live, 2)], Some(1)),
            (vec![heard(nothing(), 1), heard(nothing(), 2)], Some(1)),
            (vec![silent(), heard(Known::Live, 2)], Some(2)),
            (vec![heard(Known::Live, 1), silent()], Some(1)),
            (vec![silent(), heard(Known::Ended, 2)], None),
            (vec![heard(nothing(), 1), silent()], None),
            (vec![silent()], None),
        ] {
            let best = best_of(heards).ok().map(|best| best.answer);
            assert_eq!(best, expected);
        }
    }

    #[test]
    fn a_lock_of_which_not_all_have_answered_is_not_said_to_be_lost() {
        let otherwise = Otherwise {
            lost: "lost",
            unknown: "unknown",
        };
        let (outcomes, unheard) = (vec![Some("held"), None, None], HashSet::from([0, 2]));
        let concluded = conclude(outcomes, &unheard, &otherwise);
        assert_eq!(concluded, ["held", "lost", "unknown"]);
    }
}
