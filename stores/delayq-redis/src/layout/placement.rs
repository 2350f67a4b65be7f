//! Placement of new shards on the nodes of a cluster: the same number on each.
//!
//! The node of a shard is the node of its keys' slot, which follows from their names. So the names
//! of some get a suffix, which is chosen once and stored. Slots may move later, and their shards
//! with them.

use delayq_core::TaskType;

use super::stored::shard_of;
use crate::scripts::ShardId;

/// Number of suffixes tried for one shard. With a hundred nodes, one shard in ten thousand finds
/// none and is placed on another node than intended.
const MAX_SUFFIX: u32 = 1_000;

/// The suffixes of the `count` shards of an epoch on `nodes` nodes. `has` returns true if the node
/// with this index has the slot of this shard. The first shards of different types are also on
/// different nodes.
pub(crate) fn suffixes(
    task_type: &TaskType,
    epoch: u32,
    count: usize,
    nodes: usize,
    has: impl Fn(usize, ShardId) -> bool,
) -> Vec<u32> {
    let first = shard_of(task_type.as_str().as_bytes(), nodes);
    let suffix = |number: usize| {
        let wanted = (first + number).checked_rem(nodes)?;
        let is_there = |suffix: &u32| {
            let shard = ShardId {
                epoch,
                number,
                suffix: *suffix,
                count,
                packs: false,
            };
            has(wanted, shard)
        };
        (0..MAX_SUFFIX).find(is_there)
    };
    (0..count)
        .map(|number| suffix(number).unwrap_or(0))
        .collect()
}

#[cfg(test)]
mod tests {
    use delayq_core::Namespace;

    use super::*;
    use crate::scripts::Keyspace;

    /// A number of nodes, each of which has every n-th slot.
    struct EveryNth {
        count: u16,
        task_type: TaskType,
        keys: Keyspace,
    }

    impl EveryNth {
        fn new(count: u16, task_type: &str) -> Self {
            Self {
                count,
                task_type: TaskType::new(task_type).unwrap(),
                keys: Keyspace::new(Namespace::default()),
            }
        }

        fn node_of(&self, shard: ShardId) -> usize {
            let slot = self.keys.shard(&self.task_type, shard).slot;
            usize::from(slot % self.count)
        }
    }

    #[test]
    fn shards_are_spread_evenly_over_the_nodes() {
        for (count, shards) in [(3_u16, 6), (3, 8), (7, 5), (20, 100)] {
            for name in ["a", "order.cancel"] {
                let nodes = EveryNth::new(count, name);
                let has = |index, shard| nodes.node_of(shard) == index;
                let count = usize::from(count);
                let suffixes = suffixes(&nodes.task_type, 1, shards, count, has);
                let mut found = vec![0; count];
                for (number, suffix) in suffixes.into_iter().enumerate() {
                    found[nodes.node_of(ShardId {
                        epoch: 1,
                        number,
                        suffix,
                        count: shards,
                        packs: false,
                    })] += 1;
                }
                let (least, most) = (found.iter().min().unwrap(), found.iter().max().unwrap());
                assert!(most - least <= 1, "{shards} on {count}: {found:?}");
            }
        }
    }

    #[test]
    fn without_a_node_there_is_no_suffix() {
        let task_type = TaskType::new("a").unwrap();
        // As while a cluster fails over.
        let has_none = |_, _| false;
        assert_eq!(suffixes(&task_type, 1, 3, 0, has_none), [0, 0, 0]);
        assert_eq!(suffixes(&task_type, 1, 2, 1, has_none), [0, 0]);
    }
}
