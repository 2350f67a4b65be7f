//! Shard map of a type, as known to one store.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use delayq_core::TaskId;

use super::stored::{Layout, shard_of};
use crate::lock::lock;
use crate::shard::Shard;

/// The shards of a type according to a layout. The layout may have been replaced since; then the
/// shard that is asked says so. `S` is a shard.
#[derive(Debug)]
pub(crate) struct ShardMap<S> {
    pub(crate) layout: Layout,
    /// Oldest epoch first, never empty; within each epoch the shards by number.
    epochs: Vec<Vec<S>>,
    /// The names of old shards that are sealed and empty.
    drained: Mutex<HashSet<String>>,
}

/// One shard among those of its type.
pub(crate) trait Named {
    /// Its name, unique within the type.
    fn name(&self) -> &str;
}

impl Named for Arc<Shard> {
    fn name(&self) -> &str {
        self.keys.bucket.shard_name()
    }
}

impl<S: Named> ShardMap<S> {
    /// The map of `layout`, with shards created by `make`.
    pub(crate) fn new(layout: Layout, make: impl Fn(crate::scripts::ShardId) -> S) -> Self {
        let epochs = layout.shards().map(|shards| shards.map(&make).collect());
        Self {
            epochs: epochs.collect(),
            layout,
            drained: Mutex::default(),
        }
    }

    /// Every shard, oldest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &S> {
        self.epochs.iter().flatten()
    }

    /// The shards that new tasks go to.
    pub(crate) fn newest(&self) -> impl Iterator<Item = &S> {
        self.epochs.last().into_iter().flatten()
    }

    /// The shards of every epoch except the newest.
    pub(crate) fn older(&self) -> impl Iterator<Item = &S> {
        let older = self.epochs.split_last();
        older.into_iter().flat_map(|(_, older)| older).flatten()
    }

    pub(crate) fn is_newest(&self, shard: &S) -> bool {
        self.newest().any(|newest| newest.name() == shard.name())
    }

    /// True if new tasks went to `shard` before the newest epoch began.
    pub(crate) fn is_second_newest(&self, shard: &S) -> bool {
        let second = self.epochs.iter().rev().nth(1);
        second.is_some_and(|shards| shards.iter().any(|known| known.name() == shard.name()))
    }

    /// The shards that may have `id`, newest first: one for each epoch.
    pub(crate) fn of(&self, id: &[u8]) -> impl Iterator<Item = &S> {
        let newest_first = self.epochs.iter().rev();
        newest_first.filter_map(|epoch| epoch.get(shard_of(id, epoch.len())))
    }

    /// The first shard for a submit of `id`: the oldest.
    pub(crate) fn first(&self, id: &TaskId) -> Option<&S> {
        self.of(id.as_str().as_bytes()).last()
    }

    /// The next shard for a submit of `id` after `shard`, which is sealed.
    pub(crate) fn after(&self, shard: &S, id: &TaskId) -> Option<&S> {
        let mut newer = None;
        for candidate in self.of(id.as_str().as_bytes()) {
            if candidate.name() == shard.name() {
                return newer;
            }
            newer = Some(candidate);
        }
        None
    }

    /// Notes that a shard is sealed and empty, which is final. Returns the numbers of the old
    /// epochs whose shards are all drained.
    pub(crate) fn drained(&self, name: &str) -> Vec<u32> {
        let mut drained = lock(&self.drained);
        drained.insert(name.to_owned());
        let Some((_, older)) = self.epochs.split_last() else {
            return Vec::new();
        };
        let is_drained = |shards: &[S]| shards.iter().all(|shard| drained.contains(shard.name()));
        let epochs = older.iter().zip(self.layout.epochs());
        let drained = epochs.filter(|(shards, _)| is_drained(shards));
        drained.map(|(_, epoch)| epoch.number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Shard(String);

    impl Named for Shard {
        fn name(&self) -> &str {
            &self.0
        }
    }

    fn map(layout: &str) -> ShardMap<Shard> {
        let layout = Layout::parse(layout).unwrap();
        ShardMap::new(layout, |id| Shard(format!("{}.{}", id.epoch, id.number)))
    }

    #[test]
    fn a_submit_asks_one_shard_of_each_epoch_oldest_first() {
        let (id, both) = (TaskId::new("1").unwrap(), map("1 0:1 3:8"));
        let first = both.first(&id).unwrap();
        assert_eq!(first.name(), "0.0");
        let second = both.after(first, &id).unwrap();
        assert_eq!(second.name(), "3.7");
        assert_eq!(both.after(second, &id), None);
        assert_eq!(map("1 3:4").after(second, &id), None, "it is none of these");
        assert_eq!(both.all().count(), 9);
        assert_eq!((both.older().count(), both.newest().count()), (1, 8));
    }

    #[test]
    fn a_lookup_asks_the_newest_shard_first() {
        let names = |layout| {
            let map = map(layout);
            let found = map.of(b"1").map(|shard| shard.name().to_owned());
            found.collect::<Vec<_>>()
        };
        assert_eq!(names("1 0:1 3:8"), ["3.7", "0.0"]);
        assert_eq!(names("1 0:1"), ["0.0"]);
    }

    #[test]
    fn a_shard_is_known_by_its_epoch() {
        let (three, other) = (map("1 0:1 1:2 2:4"), map("1 3:2"));
        for (at, shard) in three.all().enumerate() {
            assert_eq!(three.is_second_newest(shard), (1..3).contains(&at), "{at}");
            assert_eq!(three.is_newest(shard), at >= 3, "{at}");
            assert!(!other.is_newest(shard), "{at}");
        }
        assert!(!other.newest().any(|shard| other.is_second_newest(shard)));
    }

    #[test]
    fn an_epoch_has_drained_once_all_its_shards_have_and_the_newest_never() {
        let map = map("1 1:2 2:2");
        assert_eq!(map.drained("1.0"), [0; 0]);
        assert_eq!(map.drained("1.0"), [0; 0], "the same one again");
        assert_eq!(map.drained("2.0"), [0; 0]);
        assert_eq!(map.drained("2.1"), [0; 0]);
        assert_eq!(map.drained("1.1"), [1]);
    }
}
