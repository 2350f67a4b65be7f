//! Tallies: what handlers do, counted by type and minute, until maintenance collects them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delayq_core::chronicle::{Figures, Spell, Step};
use delayq_core::{Clock, TaskType, Timestamp};

/// Maximum number of types counted. Only an application that invents types at run time has more.
const MAX_TYPES: usize = 1_000;

/// Maximum number of minutes kept for a type, for a store that is away. Older ones are dropped.
pub(crate) const MAX_MINUTES: usize = 10;

/// The tallies of one process. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Tallies {
    clock: Arc<dyn Clock>,
    types: Arc<Mutex<BTreeMap<TaskType, Arc<Tally>>>>,
}

/// The tally of one type.
#[derive(Debug)]
pub(crate) struct Tally {
    clock: Arc<dyn Clock>,
    minutes: Mutex<Minutes>,
}

#[derive(Debug)]
struct Minutes {
    /// The minute that new counts belong to.
    present: Timestamp,
    /// Usually one, the current minute.
    spells: VecDeque<Spell>,
}

impl Tallies {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let types = Arc::default();
        Self { clock, types }
    }

    /// The tally of a type; `None` for types beyond the first 1,000.
    pub(crate) fn of(&self, task_type: &TaskType) -> Option<Arc<Tally>> {
        let mut types = self.types.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = types.get(task_type) {
            return Some(Arc::clone(known));
        }
        if types.len() >= MAX_TYPES {
            return None;
        }
        let tally = Arc::new(Tally::new(Arc::clone(&self.clock)));
        types.insert(task_type.clone(), Arc::clone(&tally));
        Some(tally)
    }

    /// Takes the counts of each type that has any.
    pub(crate) fn take(&self) -> BTreeMap<TaskType, Vec<Spell>> {
        let types = self.types.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = types
            .iter()
            .map(|(task_type, tally)| (task_type, tally.take()));
        taken
            .filter(|(_, minutes)| !minutes.is_empty())
            .map(|(task_type, minutes)| (task_type.clone(), minutes))
            .collect()
    }
}

impl Tally {
    fn new(clock: Arc<dyn Clock>) -> Self {
        let minutes = Mutex::new(Minutes {
            present: Step::Minute.begin(clock.now()),
            spells: VecDeque::new(),
        });
        Self { clock, minutes }
    }

    fn minutes(&self) -> MutexGuard<'_, Minutes> {
        self.minutes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the minute for the next counts. Reading the clock costs more than counting, so the
    /// counts of a batch share one reading.
    pub(crate) fn read_clock(&self) {
        let present = Step::Minute.begin(self.clock.now());
        self.minutes().present = present;
    }

    /// An attempt starts, this much after its due time.
    pub(crate) fn started(&self, lateness: Duration) {
        self.count(|figures| {
            figures.started += 1;
            figures.lateness.record(lateness);
        });
    }

    /// An attempt succeeded, and its task is done.
    pub(crate) fn done(&self, run_time: Duration) {
        self.count(|figures| {
            figures.done += 1;
            figures.ran(run_time);
        });
    }

    /// An attempt failed.
    pub(crate) fn failed(&self, run_time: Duration) {
        self.count(|figures| {
            figures.failed += 1;
            figures.ran(run_time);
        });
    }

    /// A task went to dead.
    pub(crate) fn died(&self) {
        self.count(|figures| figures.dead += 1);
    }

    /// Called twice for each task, so it costs only a lock that is usually free.
    fn count(&self, count: impl FnOnce(&mut Figures)) {
        let Minutes { present, spells } = &mut *self.minutes();
        if spells.back().is_none_or(|last| last.at != *present) {
            spells.push_back(Spell {
                at: *present,
                figures: Figures::default(),
            });
            if spells.len() > MAX_MINUTES {
                spells.pop_front();
            }
        }
        if let Some(last) = spells.back_mut() {
            count(&mut last.figures);
        }
    }

    fn take(&self) -> Vec<Spell> {
        self.minutes().spells.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use delayq_core::time::VirtualClock;

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn task_type(n: usize) -> TaskType {
        TaskType::new(format!("type.{n}")).unwrap()
    }

    #[test]
    fn what_happens_is_counted_in_its_minute_and_taken_once() {
        let clock = VirtualClock::default();
        let tallies = Tallies::new(Arc::new(clock.clone()));
        let tally = tallies.of(&task_type(1)).unwrap();
        let first = Step::Minute.begin(clock.now());
        tally.started(Duration::from_millis(3));
        tally.failed(Duration::from_millis(7));
        tally.died();
        clock.advance(MINUTE);
        tally.read_clock();
        tallies.of(&task_type(1)).unwrap().done(MINUTE);
        let taken = tallies.take();
        let minutes = &taken[&task_type(1)];
        let at: Vec<_> = minutes.iter().map(|minute| minute.at).collect();
        assert_eq!(at, [first, first.plus(MINUTE)]);
        let counts = |figures: &Figures| {
            let counts = [figures.started, figures.done, figures.failed, figures.dead];
            (counts, figures.longest_run_ms, figures.lateness.count())
        };
        assert_eq!(counts(&minutes[0].figures), ([1, 0, 1, 1], 7, 1));
        assert_eq!(counts(&minutes[1].figures), ([0, 1, 0, 0], 60_000, 0));
        assert!(tallies.take().is_empty());
    }

    #[test]
    fn only_the_last_minutes_and_the_first_types_are_kept() {
        let clock = VirtualClock::default();
        let tallies = Tallies::new(Arc::new(clock.clone()));
        let tally = tallies.of(&task_type(0)).unwrap();
        for _ in 0..15 {
            tally.read_clock();
            tally.died();
            clock.advance(MINUTE);
        }
        let minutes = &tallies.take()[&task_type(0)];
        assert_eq!(minutes.len(), MAX_MINUTES);
        let last = Step::Minute.begin(clock.now()).minus(MINUTE);
        assert_eq!(minutes.last().unwrap().at, last);
        assert!((1..MAX_TYPES).all(|n| tallies.of(&task_type(n)).is_some()));
        assert!(tallies.of(&task_type(MAX_TYPES)).is_none());
        assert!(tallies.of(&task_type(5)).is_some());
    }
}
