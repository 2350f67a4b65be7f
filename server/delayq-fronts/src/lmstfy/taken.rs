//! Claimed jobs on their way to a client.

use delayq_plugin::Timestamp;
use delayq_service::pull::{Handover, Pulled};

use super::job::{Job, tries};
use super::queue_name::QueueName;

/// Claimed jobs on their way to a client. Dropped before they are delivered they are given back,
/// which costs no attempt.
#[derive(Debug)]
pub(super) struct Taken {
    handover: Handover,
    queues: Vec<QueueName>,
}

impl Taken {
    pub(super) fn new(handover: Handover, queues: &[QueueName]) -> Self {
        let queues = queues.to_vec();
        Self { handover, queues }
    }

    /// Whether no job was ready.
    pub(super) fn is_nothing(&self) -> bool {
        self.handover.tasks().is_empty()
    }

    /// Jobs that have had all their tries.
    pub(super) fn spent(&self) -> impl Iterator<Item = &Pulled> {
        self.handover.tasks().iter().filter(|one| is_spent(one))
    }

    /// How many jobs there are for the client.
    pub(super) fn count(&self) -> usize {
        self.handover.tasks().len() - self.spent().count()
    }

    /// The jobs for the client; `is_frozen`: the attempt does not count.
    pub(super) fn jobs(&self, is_frozen: bool, now: Timestamp) -> Vec<Job> {
        let left = self.handover.tasks().iter().filter(|one| !is_spent(one));
        left.filter_map(|pulled| {
            let is_its = |queue: &&QueueName| {
                queue
                    .task_type()
                    .is_ok_and(|own| own == *pulled.task_type())
            };
            let queue = self.queues.iter().find(is_its)?;
            Some(Job::claimed(queue, pulled, is_frozen, now))
        })
        .collect()
    }

    /// The client has them: from here on their locks decide.
    pub(super) fn delivered(self) -> Vec<Pulled> {
        let all = self.handover.delivered();
        all.into_iter().filter(|one| !is_spent(one)).collect()
    }
}

/// Whether its attempts before were all that it has.
fn is_spent(pulled: &Pulled) -> bool {
    pulled.task.attempt > tries(&pulled.task.headers)
}
