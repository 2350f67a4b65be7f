//! Suspects: tasks whose lock has expired several times, so that their worker may have crashed of
//! them. One of a type is handed out at a time, or those that were lost together would be together
//! at the next crash, too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delayq_core::ClaimedTask;
use delayq_plugin::{AttemptHistory, TaskType, Timestamp};

use crate::policy::Policies;

/// After so many lock expiries a task is a suspect, or after one less than the limit.
const SUSPECT_AFTER: u32 = 2;
/// How long the others wait for one that is neither settled here nor lost.
const WAIT: Duration = Duration::from_mins(1);
/// When the next suspect is tried while one is under way.
pub(super) const NEXT_IN: Duration = Duration::from_secs(1);

/// The suspects that clients of this server have.
#[derive(Debug)]
pub(super) struct Suspects {
    policies: Arc<Policies>,
    handed_out: Mutex<BTreeMap<TaskType, HandedOut>>,
}

#[derive(Debug)]
struct HandedOut {
    fence: u64,
    /// When the next one may go.
    until: Timestamp,
}

impl Suspects {
    pub(super) fn new(policies: Arc<Policies>) -> Self {
        Self {
            policies,
            handed_out: Mutex::default(),
        }
    }

    /// The number of lock expiries after which a task of a type is dead.
    pub(super) fn max_lock_expiries(&self, task_type: &TaskType) -> u32 {
        self.policies.max_lock_expiries(task_type)
    }

    /// True if the task was lost with its worker so often that it is handed out by itself.
    pub(super) fn has(&self, task_type: &TaskType, history: &AttemptHistory) -> bool {
        let last = self.max_lock_expiries(task_type).saturating_sub(1);
        history.lock_expiries >= last.clamp(1, SUSPECT_AFTER)
    }

    /// Notes that a suspect is handed out; false while a client has another one of its type.
    pub(super) fn hand_out(
        &self,
        task_type: &TaskType,
        task: &ClaimedTask,
        now: Timestamp,
    ) -> bool {
        let mut handed_out = self.handed_out();
        handed_out.retain(|_, one| one.until > now);
        if handed_out.contains_key(task_type) {
            return false;
        }
        let one = HandedOut {
            fence: task.lock.fence,
            until: task.lock_until.min(now.plus(WAIT)),
        };
        handed_out.insert(task_type.clone(), one);
        true
    }

    /// Notes the settlement of a lock.
    pub(super) fn unlocked(&self, task_type: &TaskType, fence: u64) {
        let mut handed_out = self.handed_out();
        if handed_out
            .get(task_type)
            .is_some_and(|one| one.fence == fence)
        {
            handed_out.remove(task_type);
        }
    }

    fn handed_out(&self) -> MutexGuard<'_, BTreeMap<TaskType, HandedOut>> {
        self.handed_out
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
