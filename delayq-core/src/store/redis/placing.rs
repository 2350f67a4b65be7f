//! Which node of a cluster each partition of a new generation comes to lie on: as many on each as on the others.
//!
//! A partition lies where the slot of its keys does, which follows from their names. So the names of some get a
//! suffix, chosen once and stored: slots may move later, and their partitions with them.

use super::layout::{Place, partition_of};
use crate::name::TaskType;

/// Suffixes that are tried for one partition. With a hundred nodes, one in ten thousand partitions would find none,
/// and lie on another node than it should.
const MAX_SUFFIX: u32 = 1_000;

/// The suffixes of the partitions of a generation, of which `slot` tells the slots and `owner` the node that has a
/// slot now. The first partitions of different types lie on different nodes, too.
pub(super) fn suffixes<N: PartialEq>(
    task_type: &TaskType,
    (generation, count): (u32, usize),
    nodes: &[N],
    slot: impl Fn(Place) -> u16,
    owner: impl Fn(u16) -> Option<N>,
) -> Vec<u32> {
    let first = partition_of(task_type.as_str().as_bytes(), nodes.len());
    let suffix = |number: usize| {
        let wanted = nodes.get((first + number).checked_rem(nodes.len())?)?;
        let is_there = |suffix: &u32| {
            let place = Place {
                generation,
                number,
                suffix: *suffix,
                count,
            };
            owner(slot(place)).as_ref() == Some(wanted)
        };
        (0..MAX_SUFFIX).find(is_there)
    };
    (0..count)
        .map(|number| suffix(number).unwrap_or(0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::keys::Keyspace;
    use super::*;
    use crate::name::Namespace;

    #[test]
    fn partitions_are_spread_evenly_over_the_nodes() {
        let keys = Keyspace::new(Namespace::default());
        for (nodes, count) in [(3_u16, 6), (3, 8), (7, 5), (20, 100)] {
            let owner = |slot: u16| Some(slot % nodes);
            for name in ["a", "order.cancel"] {
                let task_type = TaskType::new(name).unwrap();
                let slot = |place| keys.partition(&task_type, place).slot;
                let all: Vec<u16> = (0..nodes).collect();
                let suffixes = suffixes(&task_type, (1, count), &all, slot, owner);
                let mut found = vec![0; usize::from(nodes)];
                for (number, suffix) in suffixes.into_iter().enumerate() {
                    let place = Place {
                        generation: 1,
                        number,
                        suffix,
                        count,
                    };
                    found[usize::from(slot(place) % nodes)] += 1;
                }
                let (least, most) = (found.iter().min().unwrap(), found.iter().max().unwrap());
                assert!(most - least <= 1, "{count} on {nodes}: {found:?}");
            }
        }
    }

    #[test]
    fn without_a_node_there_is_no_suffix() {
        let task_type = TaskType::new("a").unwrap();
        let none = suffixes::<u8>(&task_type, (1, 3), &[], |_| 0, |_| None);
        assert_eq!(none, [0, 0, 0]);
        let unowned = suffixes(&task_type, (1, 2), &[1], |_| 0, |_| None);
        assert_eq!(unowned, [0, 0]);
    }
}
