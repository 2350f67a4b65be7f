//! Wake-ups: tell a handler to claim earlier than planned.

use tokio::sync::broadcast;

use super::Bucket;
use crate::name::TaskType;

/// The handlers that should claim now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wakeup {
    /// The handler of this bucket. An unknown bucket may belong to a type that was just resized.
    Bucket(Bucket),
    /// The handlers of all buckets of this type.
    Type(TaskType),
    /// All handlers: wake-ups may have been missed.
    All,
}

impl Wakeup {
    /// The type concerned, if it is a single one.
    #[must_use]
    pub fn task_type(&self) -> Option<&TaskType> {
        match self {
            Self::Bucket(bucket) => Some(bucket.task_type()),
            Self::Type(task_type) => Some(task_type),
            Self::All => None,
        }
    }
}

/// A stream of wake-ups. They are hints: a handler that misses one finds the task with its next
/// poll.
#[derive(Debug)]
pub struct Wakeups {
    receiver: broadcast::Receiver<Wakeup>,
}

impl Wakeups {
    /// Wraps the receiving end of a store's wake-up channel.
    #[must_use]
    pub fn new(receiver: broadcast::Receiver<Wakeup>) -> Self {
        Self { receiver }
    }

    /// The next wake-up; `None` once the store is gone.
    pub async fn next(&mut self) -> Option<Wakeup> {
        match self.receiver.recv().await {
            Ok(wakeup) => Some(wakeup),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Wakeup::All),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
