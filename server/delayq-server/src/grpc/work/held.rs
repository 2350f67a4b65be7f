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
    /// What a release hands on.
    succeeded: Vec<String>,
}

/// The tasks that a worker holds, by type and lock.
#[derive(Debug, Default)]
pub(super) struct Held(HashMap<(TaskType, Lock), HeldTask>);

impl Held {
    /// Tasks that were sent to the worker.
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

    /// Moves a task to `other`, and says its bucket; that of `shard` if it is not held.
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

    /// The bucket of a task; that of `shard` if it is not held.
    pub(super) fn bucket(&self, task_type: &TaskType, lock: &Lock, shard: String) -> Bucket {
        let held = self.0.get(&(task_type.clone(), lock.clone()));
        held.map_or_else(|| bucket_of(task_type, shard), |held| held.bucket.clone())
    }

    /// A task is not held any more.
    pub(super) fn forget(&mut self, task_type: &TaskType, lock: &Lock) {
        self.0.remove(&(task_type.clone(), lock.clone()));
    }

    /// Takes tasks back that were not settled after all.
    pub(super) fn take_back(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Gives all tasks back at once, which costs no attempt. What cannot be given back starts again
    /// when its lock has expired.
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
