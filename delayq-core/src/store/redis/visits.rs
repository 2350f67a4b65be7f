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

/// The visits of one store. Types of one partition have none.
#[derive(Debug)]
pub(super) struct Visits {
    /// How long an answer is waited for once another partition has given one. It doubles with each failure of one
    /// that answers questions beside the claims, so that a slow one is heard in the end.
    pub(super) patience: Duration,
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
    /// Not to be dropped before.
    stays_until: Option<Instant>,
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
    /// How long an answer is waited for once another partition has answered.
    pub(super) patience: Duration,
}

/// Visits that were not answered, or refused. Claims leave the partition out and ask beside them whether it is back:
/// one that hangs must not hold up the others again and again.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    /// How long the next visit waits for it.
    patience: Duration,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is to be asked again then.
    Silent { until: Instant },
    /// It is being asked.
    Asked,
    /// It has answered, and is visited as if nothing had been, but with more patience.
    Heard,
}

/// Which partitions a claim goes to.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Those that are due, the one first that has been due for longest.
    pub(super) due: Parts,
    /// The others that answer, in case there is nothing to be had of the first ones.
    pub(super) others: Parts,
    /// Those in trouble that are to be asked beside the claim, by the caller.
    pub(super) asked: Parts,
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

    /// The same, if nobody had woken it: who does also tells its handlers to come. So does who is asking it now.
    pub(super) fn due_by_itself(&self) -> Option<Since> {
        if self.is_drained {
            // Nobody visits it, whatever is noted of it: a time that has come would never pass.
            return None;
        }
        match self.trouble.map(|trouble| trouble.stage) {
            Some(Stage::Silent { until }) => return Some(Since::Instant(until)),
            Some(Stage::Asked) => return None,
            Some(Stage::Heard) | None => {}
        }
        let Some(seen) = &self.seen else {
            return Some(Since::Ever);
        };
        Some(Since::Instant(seen.next_at()?))
    }

    /// Whether it answers, as far as is known.
    fn is_heard(&self) -> bool {
        let heard = |trouble: Trouble| trouble.stage == Stage::Heard;
        self.trouble.is_none_or(heard)
    }

    fn is_due(&self, now: Instant) -> bool {
        let by_itself = self.due().is_some_and(|since| since <= Since::Instant(now));
        let may_be_forgotten = self.seen.is_some_and(|seen| now >= seen.sent + REVISIT);
        self.woken.is_some() || (self.is_heard() && (by_itself || may_be_forgotten))
    }

    /// Whether it has to be asked beside the claims now; from then on it is being asked.
    fn begin_question(&mut self, now: Instant) -> bool {
        let Some(trouble) = &mut self.trouble else {
            return false;
        };
        let has_come = matches!(trouble.stage, Stage::Silent { until } if until <= now);
        if has_come {
            trouble.stage = Stage::Asked;
        }
        has_come
    }
}

impl Visits {
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            patience,
            all: Mutex::default(),
            tops: Mutex::default(),
        }
    }

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

    /// Which of `parts` a claim goes to now. Those in trouble are visited only if somebody has woken them, or where
    /// no other one answers.
    pub(super) fn due(&self, parts: Parts, now: Instant) -> Turn {
        let mut all = self.all();
        let (mut due, mut others, mut troubled) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            let visit = all.entry(part.stem.clone()).or_default();
            match visit {
                Visit {
                    is_drained: true, ..
                } => {}
                visit if visit.is_due(now) => due.push((visit.due(), part)),
                visit if visit.is_heard() => others.push(part),
                _ => troubled.push(part),
            }
        }
        // Those that are only looked after come last.
        due.sort_by_key(|(since, _)| (since.is_none(), *since));
        let mut due: Parts = due.into_iter().map(|(_, part)| part).collect();
        if due.is_empty() {
            due = std::mem::take(&mut others);
        }
        if due.is_empty() {
            due = std::mem::take(&mut troubled);
        }
        let mut begin = |part: &Arc<Partition>| {
            let visit = all.get_mut(&part.stem);
            visit.is_some_and(|visit| visit.begin_question(now))
        };
        troubled.retain(|part| begin(part));
        Turn {
            due,
            others,
            asked: troubled,
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
            let heard = all.get(&part.stem).filter(|visit| visit.is_heard());
            let next_at = heard.and_then(|visit| visit.seen?.next_at());
            next_at.is_some_and(|next_at| next_at <= now)
        })
    }

    /// A visit begins.
    pub(super) fn begin(&self, part: &Partition) -> Begun {
        let mut all = self.all();
        let visit = all.entry(part.stem.clone()).or_default();
        visit.woken = None;
        // One that has answered nothing since may hang.
        let heard = visit
            .trouble
            .filter(|trouble| trouble.stage == Stage::Heard);
        Begun {
            known_fence: visit.high_water,
            patience: heard.map_or(self.patience, |trouble| trouble.patience),
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
        let before = visit.trouble;
        let waited = before.map_or(self.patience, |trouble| trouble.patience);
        let patience = if visit.is_heard() {
            (waited * 2).min(longest)
        } else {
            waited
        };
        let until = Instant::now() + waited.min(REVISIT);
        let stage = match before {
            Some(Trouble {
                stage: Stage::Asked,
                ..
            }) => Stage::Asked,
            _ => Stage::Silent { until },
        };
        visit.trouble = Some(Trouble { patience, stage });
        before.is_none()
    }

    /// A partition in trouble has answered a question that was sent then: it is visited again. What it says counts
    /// like a visit, but for fences, by which the next one has to tell what was lost.
    pub(super) fn heard(&self, part: &Partition, sent: Instant, claimed: &Claimed) {
        if let Some(visit) = self.all().get_mut(&part.stem)
            && let Some(trouble) = &mut visit.trouble
        {
            trouble.stage = Stage::Heard;
            visit.seen = Some(Seen::new(claimed, sent));
        }
    }

    /// It has not answered.
    pub(super) fn not_heard(&self, part: &Partition, sent: Instant) {
        if let Some(visit) = self.all().get_mut(&part.stem)
            && let Some(trouble) = &mut visit.trouble
            && trouble.stage == Stage::Asked
        {
            let until = sent + REVISIT;
            trouble.stage = Stage::Silent { until };
        }
    }

    /// Notes that a partition is sealed and empty.
    pub(super) fn drained(&self, part: &Partition) {
        if let Some(visit) = self.all().get_mut(&part.stem) {
            visit.is_drained = true;
        }
    }

    /// Whether it is to be dropped: sealed and empty.
    pub(super) fn is_drained(&self, part: &Partition) -> bool {
        let is_left = |until: Instant| until > Instant::now();
        self.all()
            .get(&part.stem)
            .is_some_and(|visit| visit.is_drained && !visit.stays_until.is_some_and(is_left))
    }

    /// The drained ones cannot be dropped now. Not every claim tries: each would wait for that.
    pub(super) fn not_dropped<'a>(&self, parts: impl Iterator<Item = &'a Arc<Partition>>) {
        let mut all = self.all();
        for part in parts {
            if let Some(visit) = all.get_mut(&part.stem) {
                visit.stays_until = Some(Instant::now() + REVISIT);
            }
        }
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
