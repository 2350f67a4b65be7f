//! Origins of locks: a lock is settled only in the bucket where it was claimed.

use std::collections::HashMap;
use std::sync::Mutex;

use delayq_core::{Bucket, ClaimedTask, Lock};

/// The bucket that each lock was claimed from.
#[derive(Debug, Default)]
pub(super) struct Origins {
    buckets: Mutex<HashMap<Lock, Bucket>>,
}

impl Origins {
    pub(super) fn note(&self, bucket: &Bucket, tasks: &[ClaimedTask]) {
        let locks = tasks.iter().map(|task| (task.lock.clone(), bucket.clone()));
        self.buckets.lock().unwrap().extend(locks);
    }

    /// The bucket of this lock; for a lock that never existed, that of another lock of the same
    /// task.
    pub(super) fn of(&self, lock: &Lock) -> Option<Bucket> {
        let buckets = self.buckets.lock().unwrap();
        let of_task = || buckets.iter().find(|(known, _)| known.id == lock.id);
        let found = buckets.get_key_value(lock).or_else(of_task);
        found.map(|(_, bucket)| bucket.clone())
    }
}
