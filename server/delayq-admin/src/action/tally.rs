//! What became of several tasks or types that one form changes.

use delayq_plugin::Error;
use delayq_plugin::store::ChangeOutcome;

use crate::flash::Flash;
use crate::said::counted;

/// The number of failures of the store after which the rest is not tried.
const GIVES_UP: u32 = 3;

/// What became of what a form selects.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) done: u64,
    /// Running tasks that were asked to stop.
    pub(super) asked: u64,
    /// Tasks in a state that does not allow the action, or that are gone.
    pub(super) passed: u64,
    /// What was not tried, because the store had failed several times.
    pub(super) left: u64,
    failed: u64,
    first: Option<Error>,
    store_failures: u32,
}

impl Tally {
    /// False after several failures of the store.
    pub(super) fn goes_on(&self) -> bool {
        self.store_failures < GIVES_UP
    }

    /// Adds a failure to change this many.
    pub(super) fn failed(&mut self, count: u64, error: Error) {
        self.failed += count;
        self.store_failures += u32::from(error.is_transient());
        self.first.get_or_insert(error);
    }

    pub(super) fn changed(&mut self, outcome: &ChangeOutcome) {
        match outcome {
            ChangeOutcome::Changed { .. } => self.done += 1,
            _ => self.passed += 1,
        }
    }

    /// The result of an action on tasks or types, such as `cancelled`.
    pub(super) fn flash(&self, noun: &str, done: &str) -> Flash {
        let mut said = format!("{} {done}", counted(self.done, noun));
        if self.asked > 0 {
            let asked = counted(self.asked, &format!("running {noun}"));
            said = format!("{said}, {asked} asked to stop");
        }
        if self.passed > 0 {
            let passed = counted(self.passed, noun);
            said = format!("{said}; {passed} unchanged: not in a state that allows it");
        }
        if self.left > 0 {
            said = format!("{said}; {} not tried", counted(self.left, noun));
        }
        match &self.first {
            Some(first) => {
                let failed = counted(self.failed, noun);
                Flash::failed(format!("{said}; {failed} not changed: {first}"))
            }
            None if self.done + self.asked == 0 => Flash::failed(said),
            None => Flash::done(said),
        }
    }
}
