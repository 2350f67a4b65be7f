//! The names of everything in Redis: the only place that builds keys.
//!
//! The keys of one type share one hash tag, so that each script touches one slot of a cluster. Neither
//! a namespace nor a task type can hold `/`, `{` or `}`, so no two of them share a key.

use crate::name::{Namespace, TaskType};

/// The keys of one type, in the order in which every script takes them (see `lua/model.lua`).
const OF_A_TYPE: [&str; 9] = [
    "due", "running", "locks", "dead", "tasks", "trail", "meta", "gone", "gone_old",
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

    /// The nine keys of a type.
    pub(super) fn of_type(&self, task_type: &TaskType) -> [String; 9] {
        OF_A_TYPE.map(|name| format!("{}:{name}", self.of_any(task_type)))
    }

    /// The key that tells what the last claim of `instance` took. It expires with the locks.
    pub(super) fn claim(&self, task_type: &TaskType, instance: &str) -> String {
        format!("{}:claim:{instance}", self.of_any(task_type))
    }

    /// What the keys of a type have in common, for messages.
    pub(super) fn of_any(&self, task_type: &TaskType) -> String {
        format!("delayq:{{{}/{task_type}}}", self.namespace)
    }

    /// The key that holds the records of a type, for messages.
    pub(super) fn tasks(&self, task_type: &TaskType) -> String {
        format!("{}:tasks", self.of_any(task_type))
    }

    /// The set of all types.
    pub(super) fn types(&self) -> String {
        format!("delayq:{{{}}}:types", self.namespace)
    }

    /// The channel of wake-ups.
    pub(super) fn wake_channel(&self) -> String {
        format!("delayq:{{{}}}:wake", self.namespace)
    }

    /// Keys of no type, for a look at what the user of the connection may do.
    pub(super) fn probes(&self) -> [String; 9] {
        OF_A_TYPE.map(|name| format!("delayq:{{{}/}}:{name}", self.namespace))
    }
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    /// The slot of a key as Redis Cluster computes it: CRC-16/XMODEM of the hash tag, modulo 16384.
    fn slot(key: &str) -> u16 {
        let tag = key
            .split_once('{')
            .and_then(|(_, rest)| rest.split_once('}'))
            .map(|(tag, _)| tag)
            .filter(|tag| !tag.is_empty())
            .unwrap_or(key);
        let crc = tag.bytes().fold(0_u16, |crc, byte| {
            (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
                (crc << 1) ^ (if crc & 0x8000 == 0 { 0 } else { 0x1021 })
            })
        });
        crc % 16_384
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
        let keys = keyspace("shop").of_type(&TaskType::new("order.cancel").unwrap());
        assert_eq!(keys[0], "delayq:{shop/order.cancel}:due");
        assert_eq!(keys[8], "delayq:{shop/order.cancel}:gone_old");
        assert_eq!(keyspace("shop").types(), "delayq:{shop}:types");
        assert_eq!(keyspace("shop").wake_channel(), "delayq:{shop}:wake");
    }

    proptest! {
        #[test]
        fn every_key_of_a_script_call_shares_one_slot(
            namespace in "[A-Za-z0-9._:-]{1,64}", task_type in "[A-Za-z0-9._:-]{1,100}",
        ) {
            let task_type = TaskType::new(task_type).unwrap();
            let slots: HashSet<u16> = keyspace(&namespace)
                .of_type(&task_type)
                .into_iter()
                .chain([keyspace(&namespace).claim(&task_type, "instance")])
                .map(|key| slot(&key))
                .collect();
            prop_assert_eq!(slots.len(), 1);
        }

        #[test]
        fn no_two_namespaces_or_types_share_a_key(
            names in prop::collection::hash_set(("[ab:.]{1,3}", "[ab:.]{1,3}"), 1..40),
        ) {
            let mut seen = HashSet::new();
            let namespaces: HashSet<_> = names.iter().map(|(namespace, _)| namespace).collect();
            for namespace in namespaces {
                prop_assert!(seen.insert(keyspace(namespace).types()));
                prop_assert!(seen.insert(keyspace(namespace).wake_channel()));
            }
            for (namespace, task_type) in &names {
                for key in keyspace(namespace).of_type(&TaskType::new(task_type).unwrap()) {
                    prop_assert!(seen.insert(key.clone()), "{key} twice");
                }
            }
        }
    }
}
