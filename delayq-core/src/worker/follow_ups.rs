//! Follow-ups: the jobs to send at the end of an attempt, as recorded by its workers.

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::job::DelayQueueJob;

/// Maximum number of follow-ups of one worker in one attempt.
const MAX_FOLLOW_UPS: usize = 1_000;

/// The jobs recorded so far, each with the index of its worker. Most attempts record none; then
/// this is one word.
#[derive(Debug, Default)]
pub(super) struct FollowUps(OnceLock<Mutex<Vec<(usize, DelayQueueJob)>>>);

impl FollowUps {
    /// Returns true if there was room.
    pub(super) fn push(&self, worker: usize, job: DelayQueueJob) -> bool {
        let recorded = self.0.get_or_init(Mutex::default);
        let mut recorded = recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let of_worker = recorded.iter().filter(|(of, _)| *of == worker).count();
        let has_room = of_worker < MAX_FOLLOW_UPS;
        if has_room {
            recorded.push((worker, job));
        }
        has_room
    }

    pub(super) fn take(&self, worker: usize) -> Vec<DelayQueueJob> {
        let Some(recorded) = self.0.get() else {
            return Vec::new();
        };
        let mut recorded = recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = recorded.extract_if(.., |(of, _)| *of == worker);
        taken.map(|(_, job)| job).collect()
    }
}
