//! Claimed tasks on the way to a client.

use std::time::Duration;

use delayq_core::ClaimedTask;
use delayq_plugin::TaskType;
use delayq_plugin::store::{AttemptEnd, Bucket, Settlement};

use super::lock_text::LockText;
use super::settler::Settler;

/// A task claimed for a client.
#[derive(Debug)]
pub struct Pulled {
    pub bucket: Bucket,
    pub task: ClaimedTask,
}

impl Pulled {
    pub fn task_type(&self) -> &TaskType {
        self.bucket.task_type()
    }

    /// The lock in the form that the client sends back.
    pub fn lock(&self) -> LockText {
        LockText::new(
            &self.bucket,
            self.task.lock.fence,
            self.task.history.tried(),
        )
    }
}

/// Tasks on the way to a client. If dropped before [`delivered`](Self::delivered), they are
/// released at once, which costs no attempt.
#[derive(Debug)]
pub struct Handover {
    tasks: Vec<Pulled>,
    settler: Option<Settler>,
}

impl Handover {
    pub(super) fn new(tasks: Vec<Pulled>, settler: Settler) -> Self {
        Self {
            tasks,
            settler: Some(settler),
        }
    }

    /// Releases the tasks for a while, which costs no attempt.
    pub(super) fn put_off(mut self, after: Duration) {
        self.release(after);
    }

    /// A handover without tasks.
    pub(super) fn nothing() -> Self {
        Self {
            tasks: Vec::new(),
            settler: None,
        }
    }

    /// The tasks.
    pub fn tasks(&self) -> &[Pulled] {
        &self.tasks
    }

    /// Marks the tasks as delivered. From then on they are only returned when their locks expire.
    pub fn delivered(mut self) -> Vec<Pulled> {
        self.settler = None;
        std::mem::take(&mut self.tasks)
    }

    fn release(&mut self, after: Duration) {
        let Some(settler) = &self.settler else {
            return;
        };
        for Pulled { bucket, task } in self.tasks.drain(..) {
            let end = AttemptEnd::Release {
                after,
                succeeded: task.history.succeeded,
            };
            // The answer is not awaited; if the release fails, the lock expires.
            drop(settler.settle(bucket, Settlement::new(task.lock, end)));
        }
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        self.release(Duration::ZERO);
    }
}
