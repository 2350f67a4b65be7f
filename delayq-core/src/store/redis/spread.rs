//! The partitions of a type, as one store knows them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::keys::{Keyspace, Partition};
use super::layout::{Layout, partition_of};
use crate::name::{TaskId, TaskType};

/// Partitions that were made together, by their numbers.
type Together = Vec<Arc<Partition>>;

/// Where the tasks of a type are, by a layout that may have been followed by another one since: then a partition
/// that is asked says so.
#[derive(Debug)]
pub(super) struct Spread {
    pub(super) layout: Layout,
    /// Oldest first, never empty.
    generations: Vec<Together>,
    /// No task runs any more that was started before the type was split.
    pub(super) has_stated_all: AtomicBool,
}

impl Spread {
    pub(super) fn new(keys: &Keyspace, task_type: &TaskType, layout: Layout) -> Self {
        let partition = |place| Arc::new(keys.partition(task_type, place));
        let generations = layout.generations().iter();
        let generations =
            generations.map(|generation| generation.places().map(partition).collect());
        Self {
            generations: generations.collect(),
            layout,
            has_stated_all: AtomicBool::new(false),
        }
    }

    /// Every partition, oldest first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Partition>> {
        self.generations.iter().flatten()
    }

    /// The partitions of all generations but the newest.
    pub(super) fn older(&self) -> impl Iterator<Item = &Arc<Partition>> {
        let older = self.generations.split_last();
        older.into_iter().flat_map(|(_, older)| older).flatten()
    }

    /// The partitions of the newest generation.
    pub(super) fn newest(&self) -> impl Iterator<Item = &Arc<Partition>> {
        self.generations.last().into_iter().flatten()
    }

    pub(super) fn is_newest(&self, part: &Partition) -> bool {
        self.newest().any(|newest| newest.as_ref() == part)
    }

    /// Whether new tasks went to `part` before the newest generation was begun.
    pub(super) fn is_second_newest(&self, part: &Partition) -> bool {
        let second = self.generations.iter().rev().nth(1);
        second.is_some_and(|parts| parts.iter().any(|known| known.as_ref() == part))
    }

    /// Whether `part` is one of these.
    pub(super) fn holds(&self, part: &Partition) -> bool {
        self.all().any(|known| known.as_ref() == part)
    }

    /// The partition of a type that has only one.
    pub(super) fn single(&self) -> Option<&Arc<Partition>> {
        match self.generations.as_slice() {
            [generation] => match generation.as_slice() {
                [part] => Some(part),
                _ => None,
            },
            _ => None,
        }
    }

    /// The numbers of the older generations whose partitions are all drained.
    pub(super) fn drained(&self, is_drained: impl Fn(&Partition) -> bool) -> Vec<u32> {
        let Some((_, older)) = self.generations.split_last() else {
            return Vec::new();
        };
        let all = older.iter().zip(self.layout.generations());
        let drained = all.filter(|(parts, _)| parts.iter().all(|part| is_drained(part)));
        drained.map(|(_, generation)| generation.number).collect()
    }

    /// Where `id` may be, the newest partition first: one of each generation.
    pub(super) fn of(&self, id: &[u8]) -> impl Iterator<Item = &Arc<Partition>> {
        self.generations
            .iter()
            .rev()
            .filter_map(|generation| generation.get(partition_of(id, generation.len())))
    }

    /// Where a submit of `id` has to ask first.
    pub(super) fn first(&self, id: &TaskId) -> Option<&Arc<Partition>> {
        self.of(id.as_str().as_bytes()).last()
    }

    /// Where a submit of `id` has to go on that `part` does not take.
    pub(super) fn after(&self, part: &Partition, id: &TaskId) -> Option<&Arc<Partition>> {
        let mut newer = None;
        for candidate in self.of(id.as_str().as_bytes()) {
            if candidate.as_ref() == part {
                return newer;
            }
            newer = Some(candidate);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Namespace;

    #[test]
    fn a_submit_asks_one_partition_of_each_generation_oldest_first() {
        let keys = Keyspace::new(Namespace::default());
        let task_type = TaskType::new("a").unwrap();
        let spread = |layout| Spread::new(&keys, &task_type, Layout::parse(layout).unwrap());
        let (id, both) = (TaskId::new("1").unwrap(), spread("1 0:1 3:8"));
        let first = both.first(&id).unwrap();
        assert_eq!(first.name, "");
        let second = both.after(first, &id).unwrap();
        assert_eq!(second.name, "3.7");
        assert_eq!(both.after(second, &id), None);
        assert_eq!(spread("1 3:4").after(second, &id), None);
        assert_eq!(both.all().count(), 9);
        assert_eq!((both.older().count(), both.newest().count()), (1, 8));
        assert!(both.single().is_none() && spread("1 0:1").single().is_some());
    }

    #[test]
    fn a_partition_is_known_by_its_generation() {
        let keys = Keyspace::new(Namespace::default());
        let task_type = TaskType::new("a").unwrap();
        let spread = |layout| Spread::new(&keys, &task_type, Layout::parse(layout).unwrap());
        let (three, other) = (spread("1 0:1 1:2 2:4"), spread("1 3:2"));
        for (at, part) in three.all().enumerate() {
            assert_eq!(three.is_second_newest(part), (1..3).contains(&at), "{at}");
            assert_eq!(three.is_newest(part), at >= 3, "{at}");
            assert!(three.holds(part) && !other.holds(part), "{at}");
        }
        assert!(!other.newest().any(|part| other.is_second_newest(part)));
    }
}
