//! The names of everything in Redis: the only place that builds keys.
//!
//! The keys of one type share one hash tag, so that each script touches one slot of a cluster. Neither
//! a namespace nor a task type can hold `/`, `{` or `}`, so no two of them share a key.

use std::fmt;

use super::client::Command;
use super::layout::Place;
use super::record;
use super::scripts::Script;
use crate::error::Error;
use crate::name::{Namespace, TaskType};

/// The keys of one type, in the order in which every script takes them (see `lua/model.lua`).
const OF_A_TYPE: [&str; 9] = [
    "due", "running", "locks", "dead", "tasks", "trail", "meta", "gone", "gone_old",
];

/// What each of the nine keys of a type is, in their order.
pub(super) const KINDS: [&str; 9] = [
    "zset", "zset", "hash", "zset", "hash", "hash", "hash", "hash", "hash",
];

/// The names of one namespace.
#[derive(Clone, Debug)]
pub(super) struct Keyspace {
    namespace: Namespace,
}

impl Keyspace {
    pub(super) fn new(namespace: Namespace) -> Self {
        Self { namespace }
    }

    /// One partition of a type. The only one of a type that was never split has the tag of the type; the
    /// others have a place behind it: generation, number, and a suffix that moved it to a node of a cluster.
    pub(super) fn partition(&self, task_type: &TaskType, place: Place) -> Partition {
        let whole = format!("{}/{task_type}", self.namespace);
        let name = place.name();
        let tag = if name.is_empty() {
            whole
        } else {
            format!("{whole}/{name}")
        };
        let stem = format!("delayq:{{{tag}}}");
        Partition {
            task_type: task_type.clone(),
            open: place.open(),
            name,
            keys: OF_A_TYPE.map(|name| format!("{stem}:{name}")),
            slot: slot_of_tag(&tag),
            stem,
        }
    }

    #[cfg(test)]
    pub(super) fn whole(&self, task_type: &TaskType) -> Partition {
        let whole = super::layout::Layout::default();
        let place = whole.generations()[0].places().next().unwrap();
        self.partition(task_type, place)
    }

    /// The hash that tells how types are split.
    pub(super) fn layouts(&self) -> String {
        format!("delayq:{{{}}}:layouts", self.namespace)
    }

    /// The set of all types.
    pub(super) fn types(&self) -> String {
        format!("delayq:{{{}}}:types", self.namespace)
    }

    /// The keys of the instances that are there, in the order in which their scripts take them.
    pub(super) fn instances(&self) -> [String; 2] {
        ["instances", "seen"].map(|name| format!("delayq:{{{}}}:{name}", self.namespace))
    }

    /// What the limits of a split type are kept in, in the order in which `permit.lua` takes them.
    pub(super) fn permits(&self, task_type: &TaskType) -> [String; 2] {
        ["permits", "places"]
            .map(|name| format!("delayq:{{{}}}:{name}:{task_type}", self.namespace))
    }

    /// The slot of what belongs to the namespace, and to no type.
    pub(super) fn slot(&self) -> u16 {
        slot_of_tag(self.namespace.as_str())
    }

    /// The channel of wake-ups.
    pub(super) fn wake_channel(&self) -> String {
        format!("delayq:{{{}}}:wake", self.namespace)
    }

    /// A key of no type, for a look at what the user of the connection may do.
    pub(super) fn probe(&self) -> String {
        format!("delayq:{{{}/}}:tasks", self.namespace)
    }
}

/// A part of a type's tasks: all that one script can reach, as its keys share one slot.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Partition {
    pub(super) task_type: TaskType,
    /// Which one of its type it is, see [`Place::name`].
    pub(super) name: String,
    /// What `split` in its META is while it takes new tasks.
    pub(super) open: String,
    /// What its keys have in common.
    pub(super) stem: String,
    /// Its nine keys.
    pub(super) keys: [String; 9],
    pub(super) slot: u16,
}

impl Partition {
    /// The key that tells what the last claim of `instance` took. It expires with the locks.
    pub(super) fn claim(&self, instance: &str) -> String {
        format!("{}:claim:{instance}", self.stem)
    }

    /// The key that holds the records, for messages.
    pub(super) fn tasks(&self) -> String {
        format!("{}:tasks", self.stem)
    }

    /// The command that reads a field of its META.
    pub(super) fn setting(&self, field: &str) -> Command {
        let meta = format!("{}:meta", self.stem);
        Command::read(&["HGET", &meta, field]).at(self.slot)
    }

    /// The channel of its wake-ups in a cluster.
    pub(super) fn wake_channel(&self) -> String {
        format!("{}:wake", self.stem)
    }

    /// A call of `script`; `bytes` is about how long its arguments will be.
    pub(super) fn script(&self, script: Script, bytes: usize) -> Command {
        Command::script(script, self.slot, self.keys.iter(), bytes)
    }

    /// The error of a damaged task.
    pub(super) fn corrupt(&self, id: &str, what: &str) -> Error {
        Error::Corrupt {
            key: format!("{}, field {id}", self.tasks()),
            detail: what.to_owned(),
        }
    }

    /// The error of a record of a newer version.
    pub(super) fn incompatible(&self, id: &str, found: u32) -> Error {
        Error::Incompatible {
            what: format!("{}, field {id}", self.tasks()),
            found,
            supported: record::VERSION,
        }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.task_type.fmt(f)
    }
}

/// Slots of a cluster.
const SLOTS: u16 = 16_384;

/// The slot of the keys with this hash tag, as Redis Cluster computes it: CRC-16/XMODEM modulo 16384 (its
/// specification, "Key distribution model").
fn slot_of_tag(tag: &str) -> u16 {
    let crc = tag.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            (crc << 1) ^ (if crc & 0x8000 == 0 { 0 } else { 0x1021 })
        })
    });
    crc % SLOTS
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use super::*;

    /// The slot of a key as a node finds it.
    fn slot(key: &str) -> u16 {
        let tag = key
            .split_once('{')
            .and_then(|(_, rest)| rest.split_once('}'))
            .map(|(tag, _)| tag)
            .filter(|tag| !tag.is_empty())
            .unwrap_or(key);
        slot_of_tag(tag)
    }

    fn places() -> impl Strategy<Value = Place> {
        let numbers = (0..12_u32, 0..12_usize, 0..12_u32);
        numbers.prop_map(|(generation, number, suffix)| Place {
            generation,
            number,
            suffix,
            count: 12,
        })
    }

    fn keyspace(namespace: &str) -> Keyspace {
        Keyspace::new(Namespace::new(namespace).unwrap())
    }

    #[test]
    fn the_slot_of_a_known_key_is_what_redis_says() {
        // CLUSTER KEYSLOT foo, CLUSTER KEYSLOT {user1000}.following
        assert_eq!(slot("foo"), 12_182);
        assert_eq!(slot("{user1000}.following"), 3_443);
    }

    #[test]
    fn the_layout_is_what_earlier_releases_wrote() {
        let keys = keyspace("shop")
            .whole(&TaskType::new("order.cancel").unwrap())
            .keys;
        assert_eq!(keys[0], "delayq:{shop/order.cancel}:due");
        assert_eq!(keys[8], "delayq:{shop/order.cancel}:gone_old");
        let place = Place {
            generation: 2,
            number: 5,
            suffix: 0,
            count: 6,
        };
        let moved = Place { suffix: 3, ..place };
        let task_type = TaskType::new("order.cancel").unwrap();
        let tasks =
            [place, moved].map(|place| keyspace("shop").partition(&task_type, place).tasks());
        assert_eq!(tasks[0], "delayq:{shop/order.cancel/2.5}:tasks");
        assert_eq!(tasks[1], "delayq:{shop/order.cancel/2.5.3}:tasks");
        let part = keyspace("shop").partition(&task_type, place);
        assert_eq!(part.wake_channel(), "delayq:{shop/order.cancel/2.5}:wake");
        assert_eq!(keyspace("shop").layouts(), "delayq:{shop}:layouts");
        assert_eq!(keyspace("shop").types(), "delayq:{shop}:types");
        let instances = ["delayq:{shop}:instances", "delayq:{shop}:seen"];
        assert_eq!(keyspace("shop").instances(), instances);
        assert_eq!(keyspace("shop").wake_channel(), "delayq:{shop}:wake");
        let permits =
            ["permits", "places"].map(|name| format!("delayq:{{shop}}:{name}:order.cancel"));
        assert_eq!(keyspace("shop").permits(&task_type), permits);
    }

    proptest! {
        #[test]
        fn every_key_of_a_script_call_shares_one_slot(
            namespace in "[A-Za-z0-9._:-]{1,64}", task_type in "[A-Za-z0-9._:-]{1,100}",
            place in places(),
        ) {
            let task_type = TaskType::new(task_type).unwrap();
            let part = keyspace(&namespace).partition(&task_type, place);
            let keys = part.keys.iter().cloned().chain([part.claim("instance")]);
            let slots: HashSet<u16> = keys.map(|key| slot(&key)).collect();
            prop_assert_eq!(slots, HashSet::from([part.slot]));
            let keyspace = keyspace(&namespace);
            for own in [keyspace.instances(), keyspace.permits(&part.task_type)] {
                prop_assert_eq!(own.map(|key| slot(&key)), [keyspace.slot(); 2]);
            }
        }

        #[test]
        fn no_two_namespaces_types_or_partitions_share_a_key(
            names in prop::collection::hash_set(("[1b:.]{1,3}", "[1b:.]{1,3}"), 1..20),
            places in prop::collection::vec(places(), 1..8),
        ) {
            let mut seen = HashSet::new();
            let namespaces: HashSet<_> = names.iter().map(|(namespace, ..)| namespace).collect();
            for namespace in namespaces {
                for key in keyspace(namespace).instances() {
                    prop_assert!(seen.insert(key));
                }
                prop_assert!(seen.insert(keyspace(namespace).types()));
                prop_assert!(seen.insert(keyspace(namespace).layouts()));
                prop_assert!(seen.insert(keyspace(namespace).wake_channel()));
            }
            // A place is known by its generation, number and suffix; there is one without a generation.
            let named = places.into_iter().map(|place| match place.generation {
                0 => ((0, 0, 0), place),
                generation => ((generation, place.number, place.suffix), place),
            });
            let places: HashMap<_, Place> = named.collect();
            for (namespace, task_type) in &names {
                let task_type = TaskType::new(task_type).unwrap();
                for key in keyspace(namespace).permits(&task_type) {
                    prop_assert!(seen.insert(key.clone()), "{key} twice");
                }
                for place in places.values() {
                    for key in keyspace(namespace).partition(&task_type, *place).keys {
                        prop_assert!(seen.insert(key.clone()), "{key} twice");
                    }
                }
            }
        }
    }
}
