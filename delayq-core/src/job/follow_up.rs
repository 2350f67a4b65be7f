//! A job as the follow-up of a task, see [`TaskContext::then`](crate::TaskContext::then).

use super::{DelayQueueJob, OnConflict};

impl DelayQueueJob {
    /// Whether its id was generated, not given.
    #[must_use]
    pub fn has_generated_id(&self) -> bool {
        self.is_id_generated
    }

    /// The job under `id`, unless it was given one; what has its id already is kept, unless it says
    /// [`replace`](Self::replace).
    pub fn following_as(mut self, id: &str) -> Self {
        if self.is_id_generated {
            id.clone_into(&mut self.id);
        }
        if self.on_conflict == OnConflict::Reject {
            self.on_conflict = OnConflict::Keep;
        }
        self
    }
}
