//! What the claims of a split type know of its partitions: when each has to be visited next, and on which clock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::keys::Partition;
use crate::name::TaskType;
use crate::store::Claimed;
use crate::time::Timestamp;

/// A partition is visited at least so often while others are claimed from: a wake-up may have been lost.
const REVISIT: Duration = Duration::from_secs(1);
/// How long an answer is waited for once another partition has given one, and how long a partition that gave none
/// is left alone. Both double with each failure in a row, so that a slow one is heard in the end.
pub(super) const FIRST_PATIENCE: Duration = Duration::from_millis(250);
const PAUSE: u32 = 2;

/// The visits of one store. Types of one partition have none.
#[derive(Debug, Default)]
pub(super) struct Visits {
    /// By what the keys of the partition have in common.
    all: Mutex<HashMap<String, Visit>>,
    /// The largest fence known of a type. Its partitions come and go.
    tops: Mutex<HashMap<TaskType, u64>>,
}

/// What is known of a partition.
#[derive(Debug, Default)]
pub(super) struct Visit {
    pub(super) seen: Option<Seen>,
    /// Since when somebody has said that it has to be visited earlier.
    woken: Option<Instant>,
    /// The largest fence known to have been given in it.
    high_water: u64,
    /// The last visit took tasks, and left others that are due.
    pub(super) has_more: bool,
    /// Sealed and empty, which is for ever.
    is_drained: bool,
    trouble: Option<Trouble>,
}

/// The last visit that was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// When the claim was sent: everything is reckoned from then, as if it had arrived at once.
    pub(super) sent: Instant,
    pub(super) now: Timestamp,
    pub(super) store_now: Timestamp,
    pub(super) past: Duration,
    pub(super) next_due: Option<Timestamp>,
    pub(super) next_in: Option<Duration>,
}

type Parts = Vec<Arc<Partition>>;

/// A visit that begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    /// The largest fence known to have been given in the partition.
    pub(super) known_fence: u64,
    /// Whether the last visit failed.
    pub(super) is_in_trouble: bool,
    /// How long an answer is waited for: of a partition in trouble from now on, of another once one has answered.
    pub(super) patience: Duration,
}

/// Visits that were not answered, or refused.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    patience: Duration,
    until: Instant,
}

/// Since when a partition waits for a visit: one that was never seen comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Since {
    Ever,
    Instant(Instant),
}

impl Seen {
    pub(super) fn new(claimed: &Claimed, sent: Instant) -> Self {
        Self {
            sent,
            now: claimed.now,
            store_now: claimed.store_now,
            past: claimed.past,
            next_due: claimed.next_due,
            next_in: claimed.next_in(),
        }
    }

    /// When another claim can find something.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.sent.checked_add(self.next_in?)
    }
}

impl Visit {
    /// When it should be visited, and since when if that has come.
    fn due(&self) -> Option<Since> {
        let woken = self.woken.map(Since::Instant);
        self.due_by_itself().into_iter().chain(woken).min()
    }

    /// The same, if nobody had woken it: who does also tells its handlers to come.
    pub(super) fn due_by_itself(&self) -> Option<Since> {
        let Some(seen) = &self.seen else {
            return Some(self.after_trouble(Since::Ever));
        };
        Some(self.after_trouble(Since::Instant(seen.next_at()?)))
    }

    fn after_trouble(&self, since: Since) -> Since {
        match self.trouble {
            Some(trouble) if self.woken.is_none() => since.max(Since::Instant(trouble.until)),
            _ => since,
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        let by_itself = self.due().is_some_and(|since| since <= Since::Instant(now));
        let may_be_forgotten = self.seen.is_some_and(|seen| now >= seen.sent + REVISIT);
        by_itself || (may_be_forgotten && self.trouble.is_none())
    }
}

impl Visits {
    /// Notes that a partition has to be visited earlier, if claims visit it at all.
    pub(super) fn wake(&self, part: &Partition) {
        if let Some(visit) = self.all().get_mut(&part.stem) {
            visit.woken.get_or_insert_with(Instant::now);
        }
    }

    /// Notes that a lock of a partition ends after `span`, perhaps earlier than it did.
    pub(super) fn lock_ends_in(&self, part: &Partition, span: Duration) {
        let mut all = self.all();
        if let Some(seen) = all
            .get_mut(&part.stem)
            .and_then(|visit| visit.seen.as_mut())
        {
            let next_in = seen.sent.elapsed().saturating_add(span);
            if seen.next_in.is_none_or(|known| known > next_in) {
                (seen.next_in, seen.next_due) = (Some(next_in), None);
            }
        }
    }

    /// Notes that any partition may have to be visited earlier.
    pub(super) fn wake_all(&self) {
        let now = Instant::now();
        for visit in self.all().values_mut() {
            visit.woken.get_or_insert(now);
        }
    }

    /// Those of `parts` that are due, the one first that has been due for longest; and the others that can be asked,
    /// in case there is nothing to be had of the first ones.
    pub(super) fn due(&self, parts: Parts, now: Instant) -> (Parts, Parts) {
        let mut all = self.all();
        let (mut due, mut others, mut troubled) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            let visit = all.entry(part.stem.clone()).or_default();
            match visit {
                Visit {
                    is_drained: true, ..
                } => {}
                visit if visit.is_due(now) => due.push((visit.due(), part)),
                Visit {
                    trouble: Some(_), ..
                } => troubled.push(part),
                _ => others.push(part),
            }
        }
        drop(all);
        // Those that are only looked after come last.
        due.sort_by_key(|(since, _)| (since.is_none(), *since));
        let due: Parts = due.into_iter().map(|(_, part)| part).collect();
        match (due.is_empty(), others.is_empty()) {
            (true, true) => (troubled, others),
            (true, false) => (others, due),
            (false, _) => (due, others),
        }
    }

    /// Whether one of `parts` is known to have something that is due.
    pub(super) fn know_due<'a>(
        &self,
        mut parts: impl Iterator<Item = &'a Arc<Partition>>,
        now: Instant,
    ) -> bool {
        let all = self.all();
        parts.any(|part| {
            let heard = all.get(&part.stem).filter(|visit| visit.trouble.is_none());
            let next_at = heard.and_then(|visit| visit.seen?.next_at());
            next_at.is_some_and(|next_at| next_at <= now)
        })
    }

    /// A visit begins.
    pub(super) fn begin(&self, part: &Partition) -> Begun {
        let mut all = self.all();
        let visit = all.entry(part.stem.clone()).or_default();
        visit.woken = None;
        Begun {
            known_fence: visit.high_water,
            is_in_trouble: visit.trouble.is_some(),
            patience: visit
                .trouble
                .map_or(FIRST_PATIENCE, |trouble| trouble.patience),
        }
    }

    /// A visit was answered that knew this fence and was sent then. Returns whether the one before had failed.
    pub(super) fn answered(
        &self,
        part: &Partition,
        (known, sent): (u64, Instant),
        claimed: &Claimed,
    ) -> bool {
        let mut all = self.all();
        let visit = all.entry(part.stem.clone()).or_default();
        visit.seen = Some(Seen::new(claimed, sent));
        visit.has_more = !claimed.tasks.is_empty() && claimed.next_in() == Some(Duration::ZERO);
        let given = claimed.tasks.iter().map(|task| task.lock.fence);
        let found = given.chain([claimed.high_water]).max().unwrap_or(0);
        visit.high_water = if claimed.high_water < known {
            found
        } else {
            visit.high_water.max(found)
        };
        visit.trouble.take().is_some()
    }

    /// How long a partition in trouble is waited for, even if no other one answers.
    pub(super) fn patience_in_trouble(&self, part: &Partition) -> Option<Duration> {
        let patience = |visit: &Visit| Some(visit.trouble?.patience);
        self.look(part, patience).flatten()
    }

    /// A visit failed. Returns whether it is the first one in a row.
    pub(super) fn failed(&self, part: &Partition, longest: Duration) -> bool {
        let mut all = self.all();
        let visit = all.entry(part.stem.clone()).or_default();
        let is_first = visit.trouble.is_none();
        let before = visit
            .trouble
            .map_or(FIRST_PATIENCE, |trouble| trouble.patience);
        let patience = (before * 2).min(longest);
        let until = Instant::now() + patience * PAUSE;
        visit.trouble = Some(Trouble { patience, until });
        is_first
    }

    /// Notes that a partition is sealed and empty.
    pub(super) fn drained(&self, part: &Partition) {
        if let Some(visit) = self.all().get_mut(&part.stem) {
            visit.is_drained = true;
        }
    }

    pub(super) fn is_drained(&self, part: &Partition) -> bool {
        self.all()
            .get(&part.stem)
            .is_some_and(|visit| visit.is_drained)
    }

    /// Forgets a partition that claims visit no more.
    pub(super) fn forget(&self, part: &Partition) {
        self.all().remove(&part.stem);
    }

    /// What is known of a partition, for as long as nothing else is asked.
    pub(super) fn look<T>(&self, part: &Partition, look: impl FnOnce(&Visit) -> T) -> Option<T> {
        self.all().get(&part.stem).map(look)
    }

    /// The largest fence of a type known before, and from now on `fence` if that is larger.
    pub(super) fn top(&self, task_type: &TaskType, fence: u64) -> u64 {
        // No panic leaves it half changed.
        let mut tops = self.tops.lock().unwrap_or_else(PoisonError::into_inner);
        let before = tops.get(task_type).copied().unwrap_or(0);
        if fence > before {
            tops.insert(task_type.clone(), fence);
        }
        before
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Visit>> {
        // No panic leaves a visit half changed.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
