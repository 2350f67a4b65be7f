//! Names of all keys and channels in Redis. Only this module builds them.
//!
//! The keys of one shard share one hash tag, so that each script touches one slot of a cluster. A
//! namespace or task type cannot contain `/`, `{` or `}`, so no two of them share a key.

use std::fmt;

use delayq_core::{Bucket, Error, Namespace, TaskId, TaskType};

use super::Script;
use super::packing::Packing;
use super::record::{self, Damage};
use crate::connection::Command;

/// The keys of one shard, in the order in which every script takes them (see `model.lua`).
const OF_A_SHARD: [&str; 10] = [
    "due", "running", "locks", "dead", "tasks", "trail", "meta", "gone", "gone_old", "ends",
];

/// The Redis type of each of the ten keys of a shard, in their order.
pub(crate) const KINDS: [&str; 10] = [
    "zset", "zset", "hash", "zset", "hash", "hash", "hash", "hash", "hash", "stream",
];

/// The names of one namespace.
#[derive(Clone, Debug)]
pub(crate) struct Keyspace {
    namespace: Namespace,
    packing: Packing,
}

impl Keyspace {
    pub(crate) fn new(namespace: Namespace) -> Self {
        Self {
            namespace,
            packing: Packing::default(),
        }
    }

    /// The same keys, of shards with this packing.
    pub(crate) fn with(mut self, packing: Packing) -> Self {
        self.packing = packing;
        self
    }

    pub(crate) fn packing(&self) -> Packing {
        self.packing
    }

    pub(crate) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The keys of one shard of a type. The only shard of an unsharded type has the hash tag of the
    /// type; the tags of others end with their name.
    pub(crate) fn shard(&self, task_type: &TaskType, id: ShardId) -> ShardKeys {
        let whole = format!("{}/{task_type}", self.namespace);
        let name = id.name();
        let tag = if name.is_empty() {
            whole
        } else {
            format!("{whole}/{name}")
        };
        let stem = format!("delayq:{{{tag}}}");
        ShardKeys {
            bucket: if name.is_empty() {
                Bucket::whole(task_type.clone())
            } else {
                Bucket::shard(task_type.clone(), name)
            },
            open: id.open(),
            keys: OF_A_SHARD.map(|name| format!("{stem}:{name}")),
            slot: slot_of_tag(&tag),
            packing: self.packing,
            stem,
        }
    }

    /// The keys of the shard named by a bucket; `None` for a name that this store never returns.
    pub(crate) fn shard_of(&self, bucket: &Bucket) -> Option<ShardKeys> {
        let id = ShardId::parse(bucket.shard_name())?;
        Some(self.shard(bucket.task_type(), id))
    }

    /// The hash that holds the shard map of every type.
    pub(crate) fn layouts(&self) -> String {
        format!("delayq:{{{}}}:layouts", self.namespace)
    }

    /// The set of all types.
    pub(crate) fn types(&self) -> String {
        format!("delayq:{{{}}}:types", self.namespace)
    }

    /// The set of the types whose ends are recorded, or were.
    pub(crate) fn recorded(&self) -> String {
        format!("delayq:{{{}}}:recorded", self.namespace)
    }

    /// The keys of the list of instances, in the order in which its scripts take them.
    pub(crate) fn instances(&self) -> [String; 2] {
        ["instances", "seen"].map(|name| format!("delayq:{{{}}}:{name}", self.namespace))
    }

    /// The list of operators' actions.
    pub(crate) fn actions(&self) -> String {
        format!("delayq:{{{}}}:actions", self.namespace)
    }

    /// The hash of a folder of documents.
    pub(crate) fn folder(&self, folder: &str) -> String {
        format!("delayq:{{{}}}:documents:{folder}", self.namespace)
    }

    /// The slot of the keys that belong to the namespace and not to a type.
    pub(crate) fn slot(&self) -> u16 {
        slot_of_tag(self.namespace.as_str())
    }

    /// The channel of wake-ups.
    pub(crate) fn wake_channel(&self) -> String {
        format!("delayq:{{{}}}:wake", self.namespace)
    }

    /// A key of no type, for testing the rights of the connection's user.
    pub(crate) fn probe(&self) -> String {
        format!("delayq:{{{}/}}:tasks", self.namespace)
    }
}

/// Identifies a shard within its type; its keys are named after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShardId {
    /// The epoch: the shards created together; 0 for an unsharded type.
    pub(crate) epoch: u32,
    /// Its number in the epoch.
    pub(crate) number: usize,
    /// Chosen so that the slot of the shard is on the right node; 0 for none.
    pub(crate) suffix: u32,
    /// The number of shards in the epoch; 0 if unknown.
    pub(crate) count: usize,
    /// Its tasks may be packed.
    pub(crate) packs: bool,
}

impl ShardId {
    /// The only shard of an unsharded type.
    pub(crate) const WHOLE: Self = Self {
        epoch: 0,
        number: 0,
        suffix: 0,
        count: 1,
        packs: false,
    };

    /// Its name: `EPOCH.NUMBER`, then `.SUFFIX` unless that is 0; empty for the whole type.
    fn name(self) -> String {
        match (self.epoch, self.suffix) {
            (0, _) => String::new(),
            (epoch, 0) => format!("{epoch}.{}", self.number),
            (epoch, suffix) => format!("{epoch}.{}.{suffix}", self.number),
        }
    }

    fn parse(name: &str) -> Option<Self> {
        if name.is_empty() {
            return Some(Self::WHOLE);
        }
        let mut parts = name.split('.').map(str::parse);
        let id = Self {
            epoch: parts.next()?.ok()?,
            number: usize::try_from(parts.next()?.ok()?).ok()?,
            suffix: parts.next().unwrap_or(Ok(0)).ok()?,
            count: 0,
            packs: false,
        };
        (parts.next().is_none() && id.epoch > 0 && id.name() == name).then_some(id)
    }

    /// The field `split` of its meta while it takes new tasks: the number of shards in its epoch.
    /// An unsharded type has no such field. A `P` comes first if its tasks may be packed.
    fn open(self) -> String {
        let mark = if self.packs { "P" } else { "" };
        match self.epoch {
            0 => mark.to_owned(),
            _ => format!("{mark}{}", self.count),
        }
    }
}

/// The names of one shard: all keys that one script can use, as they share one slot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShardKeys {
    pub(crate) bucket: Bucket,
    /// The field `split` of its meta while it takes new tasks.
    pub(crate) open: String,
    /// The common beginning of its keys.
    pub(crate) stem: String,
    /// Its ten keys.
    pub(crate) keys: [String; 10],
    pub(crate) slot: u16,
    /// When its tasks are packed. The names of packed tasks begin with `STEM:far:`, see
    /// `far/far.lua`, which builds them: they follow from what is stored.
    pub(crate) packing: Packing,
}

impl ShardKeys {
    pub(crate) fn task_type(&self) -> &TaskType {
        self.bucket.task_type()
    }

    /// True if `split`, the field of its meta, is that of a shard which takes new tasks. A shard
    /// whose type may pack tasks gets its mark with the next submit.
    pub(crate) fn is_open(&self, split: &str) -> bool {
        self.open == split || self.open.strip_prefix('P') == Some(split)
    }

    /// True if its tasks may be packed.
    pub(crate) fn packs(&self) -> bool {
        self.open.starts_with('P')
    }

    /// The key with the result of the last claim of `instance`. It expires with the locks.
    pub(crate) fn claim(&self, instance: &str) -> String {
        format!("{}:claim:{instance}", self.stem)
    }

    /// The figures of its type, if this is the only shard of an unsharded type: its keys have the
    /// tag of the type.
    pub(crate) fn figures(&self) -> String {
        format!("{}:figures", self.stem)
    }

    /// The reply of a task, if this is the only shard of an unsharded type.
    pub(crate) fn reply(&self, id: &TaskId) -> String {
        format!("{}:reply:{id}", self.stem)
    }

    /// The keys of packed tasks whose names do not follow from stored data, and their Redis types.
    pub(crate) fn packed(&self) -> [(String, &'static str); 3] {
        let key = |name: &str| format!("{}:far:{name}", self.stem);
        [
            (key("hours"), "zset"),
            (key("minutes"), "zset"),
            (key("open"), "hash"),
        ]
    }

    /// The key that holds the records, for messages.
    pub(crate) fn tasks(&self) -> String {
        format!("{}:tasks", self.stem)
    }

    /// The command that reads a field of its meta.
    pub(crate) fn setting(&self, field: &str) -> Command {
        let meta = format!("{}:meta", self.stem);
        Command::read(&["HGET", &meta, field]).at(self.slot)
    }

    /// The stream of the records of its ends.
    pub(crate) fn ends(&self) -> String {
        format!("{}:ends", self.stem)
    }

    /// The channel of its wake-ups in a cluster.
    pub(crate) fn wake_channel(&self) -> String {
        format!("{}:wake", self.stem)
    }

    /// A call of `script`; `bytes` is the approximate length of its arguments.
    pub(crate) fn script(&self, script: Script, bytes: usize) -> Command {
        Command::script(script.lua(), self.slot, &self.keys, bytes)
    }

    /// The error for a damaged task.
    pub(crate) fn corrupt(&self, id: &str, what: &str) -> Error {
        Error::corrupt(format!("{}, field {id}", self.tasks()), what)
    }

    /// The error for a task whose record cannot be read.
    pub(crate) fn unreadable(&self, id: &str, damage: Damage) -> Error {
        match damage {
            Damage::Bad(what) => self.corrupt(id, what),
            Damage::Newer(found) => self.incompatible(id, found),
        }
    }

    /// The error for a record of a newer version.
    pub(crate) fn incompatible(&self, id: &str, found: u32) -> Error {
        Error::Incompatible {
            what: format!("{}, field {id}", self.tasks()),
            found,
            supported: record::VERSION,
        }
    }
}

impl fmt::Display for ShardKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bucket.fmt(f)
    }
}

/// Number of slots in a cluster.
const SLOTS: u16 = 16_384;

/// The slot of the keys with this hash tag, as Redis Cluster computes it: CRC-16/XMODEM modulo
/// 16384 (its specification, "Key distribution model").
fn slot_of_tag(tag: &str) -> u16 {
    let crc = tag.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            (crc << 1) ^ (if crc & 0x8000 == 0 { 0 } else { 0x1021 })
        })
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use super::*;

    /// The slot of a key, as computed by a node.
    fn slot(key: &str) -> u16 {
        let tag = key
            .split_once('{')
            .and_then(|(_, rest)| rest.split_once('}'))
            .map(|(tag, _)| tag)
            .filter(|tag| !tag.is_empty())
            .unwrap_or(key);
        slot_of_tag(tag)
    }

    fn ids() -> impl Strategy<Value = ShardId> {
        let numbers = (0..12_u32, 0..12_usize, 0..12_u32);
        numbers.prop_map(|(epoch, number, suffix)| ShardId {
            epoch,
            number,
            suffix,
            count: 12,
            packs: false,
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
    fn the_names_are_what_earlier_releases_wrote() {
        let task_type = TaskType::new("order.cancel").unwrap();
        let whole = keyspace("shop").shard(&task_type, ShardId::WHOLE);
        assert_eq!(whole.keys[0], "delayq:{shop/order.cancel}:due");
        assert_eq!(whole.keys[8], "delayq:{shop/order.cancel}:gone_old");
        assert_eq!(whole.figures(), "delayq:{shop/order.cancel}:figures");
        let reply = whole.reply(&TaskId::new("42").unwrap());
        assert_eq!(reply, "delayq:{shop/order.cancel}:reply:42");
        let id = ShardId {
            epoch: 2,
            number: 5,
            suffix: 0,
            count: 6,
            packs: false,
        };
        let shard = keyspace("shop").shard(&task_type, id);
        assert_eq!(shard.tasks(), "delayq:{shop/order.cancel/2.5}:tasks");
        assert_eq!(shard.wake_channel(), "delayq:{shop/order.cancel/2.5}:wake");
        let moved = keyspace("shop").shard(&task_type, ShardId { suffix: 3, ..id });
        assert_eq!(moved.tasks(), "delayq:{shop/order.cancel/2.5.3}:tasks");
        assert_eq!(keyspace("shop").layouts(), "delayq:{shop}:layouts");
        assert_eq!(keyspace("shop").types(), "delayq:{shop}:types");
        assert_eq!(keyspace("shop").actions(), "delayq:{shop}:actions");
        let tokens = "delayq:{shop}:documents:tokens";
        assert_eq!(keyspace("shop").folder("tokens"), tokens);
        let instances = ["delayq:{shop}:instances", "delayq:{shop}:seen"];
        assert_eq!(keyspace("shop").instances(), instances);
        assert_eq!(keyspace("shop").wake_channel(), "delayq:{shop}:wake");
    }

    #[test]
    fn a_name_that_no_shard_has_is_refused() {
        let task_type = TaskType::new("a").unwrap();
        for name in [
            "x", "0.0", "1", "1.2.3.4", "1.2.0", "01.2", "-1.2", "1.-2", " ",
        ] {
            let bucket = Bucket::shard(task_type.clone(), name);
            assert_eq!(keyspace("n").shard_of(&bucket), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_bucket_leads_back_to_its_shard(id in ids()) {
            let task_type = TaskType::new("a").unwrap();
            let keys = keyspace("n").shard(&task_type, id);
            let again = keyspace("n").shard_of(&keys.bucket).unwrap();
            prop_assert_eq!(again.keys, keys.keys);
        }

        #[test]
        fn every_key_of_a_script_call_shares_one_slot(
            namespace in "[A-Za-z0-9._:-]{1,64}", task_type in "[A-Za-z0-9._:-]{1,100}",
            id in ids(),
        ) {
            let task_type = TaskType::new(task_type).unwrap();
            let shard = keyspace(&namespace).shard(&task_type, id);
            let others = [shard.claim("instance"), shard.figures(), shard.reply(&TaskId::generate())];
            let keys = shard.keys.iter().cloned().chain(others);
            let slots: HashSet<u16> = keys.map(|key| slot(&key)).collect();
            prop_assert_eq!(slots, HashSet::from([shard.slot]));
            let keyspace = keyspace(&namespace);
            prop_assert_eq!(keyspace.instances().map(|key| slot(&key)), [keyspace.slot(); 2]);
            prop_assert_eq!(slot(&keyspace.actions()), keyspace.slot());
        }

        #[test]
        fn no_two_namespaces_types_or_shards_share_a_key(
            names in prop::collection::hash_set(("[1b:.]{1,3}", "[1b:.]{1,3}"), 1..20),
            ids in prop::collection::vec(ids(), 1..8),
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
                prop_assert!(seen.insert(keyspace(namespace).probe()));
                prop_assert!(seen.insert(keyspace(namespace).actions()));
                prop_assert!(seen.insert(keyspace(namespace).folder("tokens")));
            }
            let ids: HashMap<String, ShardId> = ids.into_iter().map(|id| (id.name(), id)).collect();
            for (namespace, task_type) in &names {
                let task_type = TaskType::new(task_type).unwrap();
                for id in ids.values() {
                    let shard = keyspace(namespace).shard(&task_type, *id);
                    for key in shard.keys.iter().cloned().chain([shard.figures()]) {
                        prop_assert!(seen.insert(key.clone()), "{key} twice");
                    }
                }
            }
        }
    }
}
