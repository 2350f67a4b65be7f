//! The tasks that a worker holds.

use std::collections::HashMap;
use std::time::Duration;

use delayq_plugin::store::{AttemptEnd, Bucket};
use delayq_plugin::{Lock, TaskType};
use delayq_service::pull::{Pull, Pulled};
use futures_util::future::join_all;

/// A task that a worker holds.
#[derive(Debug)]
struct HeldTask {
    bucket: Bucket,
    /// The workers that have succeeded so far; a release passes them on.
    succeeded: Vec<String>,
}

/// The tasks that a worker holds, by type and lock.
#[derive(Debug, Default)]
pub(super) struct Held(HashMap<(TaskType, Lock), HeldTask>);

impl Held {
    /// Adds tasks that were sent to the worker.
    pub(super) fn add(&mut self, tasks: &[Pulled]) {
        for Pulled { bucket, task } in tasks {
            let key = (bucket.task_type().clone(), task.lock.clone());
            let held = HeldTask {
                bucket: bucket.clone(),
                succeeded: task.history.succeeded.clone(),
            };
            self.0.insert(key, held);
        }
    }

    /// Moves a task to `other` and returns its bucket; the bucket of `shard` if the task is not
    /// held.
    pub(super) fn hand_on(
        &mut self,
        task_type: &TaskType,
        lock: &Lock,
        shard: String,
        other: &mut Self,
    ) -> Bucket {
        let key = (task_type.clone(), lock.clone());
        let Some(held) = self.0.remove(&key) else {
            return bucket_of(task_type, shard);
        };
        let bucket = held.bucket.clone();
        other.0.insert(key, held);
        bucket
    }

    /// The bucket of a task; the bucket of `shard` if the task is not held.
    pub(super) fn bucket(&self, task_type: &TaskType, lock: &Lock, shard: String) -> Bucket {
        let held = self.0.get(&(task_type.clone(), lock.clone()));
        held.map_or_else(|| bucket_of(task_type, shard), |held| held.bucket.clone())
    }

    /// Removes a task.
    pub(super) fn forget(&mut self, task_type: &TaskType, lock: &Lock) {
        self.0.remove(&(task_type.clone(), lock.clone()));
    }

    /// Takes back tasks that were not settled.
    pub(super) fn take_back(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Releases all tasks at once, which costs no attempt. A task that cannot be released starts
    /// again when its lock expires.
    pub(super) async fn release(&mut self, pull: &Pull) {
        let releases = self.0.drain().map(|((_, lock), held)| {
            let end = AttemptEnd::Release {
                after: Duration::ZERO,
                succeeded: held.succeeded,
            };
            pull.end(held.bucket, lock, end)
        });
        let releases: Vec<_> = releases.collect();
        join_all(releases).await;
    }
}

fn bucket_of(task_type: &TaskType, shard: String) -> Bucket {
    if shard.is_empty() {
        Bucket::whole(task_type.clone())
    } else {
        Bucket::shard(task_type.clone(), shard)
    }
}
