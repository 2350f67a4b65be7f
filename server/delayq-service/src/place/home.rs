//! A store that holds a namespace, and the names of its buckets.

use std::sync::Arc;

use delayq_plugin::Store;
use delayq_plugin::store::{Bucket, Wakeup};

/// The prefix of bucket names in a store that a namespace was moved to.
const MARK: char = 'm';

/// A store, and the number of moves that led the namespace there.
#[derive(Clone, Debug)]
pub(super) struct Home {
    pub(super) generation: u64,
    /// The pool of the store; `None` means the server's own store. A cancelled move leaves its
    /// generation to the next move, which may lead elsewhere.
    pub(super) pool: Option<String>,
    pub(super) store: Arc<dyn Store>,
}

/// Splits a bucket name of this server into the generation and the store's own name.
pub(super) fn split(bucket: &Bucket) -> (u64, Bucket) {
    let named = bucket.shard_name().strip_prefix(MARK);
    let named = named.and_then(|name| name.split_once('.'));
    let named = named.and_then(|(generation, own)| Some((generation.parse().ok()?, own)));
    match named {
        Some((generation, "")) => (generation, Bucket::whole(bucket.task_type().clone())),
        Some((generation, own)) => (generation, Bucket::shard(bucket.task_type().clone(), own)),
        None => (0, bucket.clone()),
    }
}

impl Home {
    /// The bucket under this server's name. Unchanged until the namespace is moved.
    pub(super) fn outer(&self, own: &Bucket) -> Bucket {
        let name = own.shard_name();
        if self.generation == 0 && !name.starts_with(MARK) {
            return own.clone();
        }
        let name = format!("{MARK}{}.{name}", self.generation);
        Bucket::shard(own.task_type().clone(), name)
    }

    /// The wake-up under this server's bucket names.
    pub(super) fn wakeup(&self, own: Wakeup) -> Wakeup {
        match own {
            Wakeup::Bucket(bucket) => Wakeup::Bucket(self.outer(&bucket)),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use delayq_plugin::TaskType;
    use delayq_plugin::store::MemoryStore;

    use super::*;

    #[test]
    fn a_bucket_is_found_again_by_its_name_and_no_two_stores_share_one() {
        let task_type = TaskType::new("mail").unwrap();
        let mut seen = std::collections::HashSet::new();
        for generation in [0, 1, 12] {
            let home = Home {
                generation,
                pool: None,
                store: Arc::new(MemoryStore::default()),
            };
            for name in ["", "2.5", "2.5.3", "m1.", "m", "m1.2.5"] {
                let own = match name {
                    "" => Bucket::whole(task_type.clone()),
                    name => Bucket::shard(task_type.clone(), name),
                };
                let outer = home.outer(&own);
                assert_eq!(split(&outer), (generation, own));
                assert!(seen.insert(outer.clone()), "{outer}");
            }
        }
    }
}
