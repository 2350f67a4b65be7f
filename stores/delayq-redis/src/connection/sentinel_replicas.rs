//! Replicas of a master, by the word of a sentinel.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::confirm::text;
use crate::config::Address;

/// How long a replica that might be chosen has to confirm after no sentinel lists it so any more.
///
/// The sentinel that promotes a replica closes all connections to it. For up to a second, until
/// they have connected again, the others call it disconnected and still name the old master. They
/// learn of the new one within 2 s (`SENTINEL_PING_PERIOD` and `SENTINEL_PUBLISH_PERIOD` of Redis).
const DROP_AFTER: Duration = Duration::from_secs(3);

/// What the sentinels told of the replicas, one look after another.
#[derive(Debug, Default)]
pub(super) struct ReplicaHistory {
    known: HashSet<Address>,
    /// Those that might be chosen, and when a sentinel said so last.
    eligible: HashMap<Address, Instant>,
}

impl ReplicaHistory {
    /// Takes in what those sentinels see that name `master`, which may be most of all sentinels.
    /// The replicas that have to confirm a write to it.
    pub(super) fn look(
        &mut self,
        seen: SentinelReplicas,
        master: &Address,
        is_most: bool,
        now: Instant,
    ) -> HashSet<Address> {
        let told = seen.eligible.into_iter().map(|replica| (replica, now));
        self.eligible.extend(told);
        self.eligible
            .retain(|replica, told| replica != master && now.duration_since(*told) < DROP_AFTER);
        if is_most {
            self.known = seen.known;
            return self.eligible.keys().cloned().collect();
        }
        self.known.extend(seen.known);
        self.known.remove(master);
        let eligible = self.eligible.keys();
        self.known.iter().chain(eligible).cloned().collect()
    }
}

/// The replicas of a master, by the word of sentinels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SentinelReplicas {
    /// All that they know, also those that have gone.
    pub(super) known: HashSet<Address>,
    /// Those that they may choose in the master's place. The rule is theirs (`sentinelSelectSlave`,
    /// the same in Redis 7.0 to 8.0 and in Valkey): any that is up and connected and whose priority
    /// is not 0. They prefer the smallest priority, then the largest offset that they have heard
    /// of; but that may be seconds old, and the better one may be cut off with the master.
    pub(super) eligible: HashSet<Address>,
}

impl SentinelReplicas {
    /// Reads the answer to `SENTINEL REPLICAS` of a sentinel that names `master`, which is up as
    /// far as it knows; nothing in another answer.
    pub(super) fn read(answer: &Value, master: &Address, is_up: bool) -> Self {
        let entries = match answer {
            Value::Array(entries) => entries.as_slice(),
            _ => &[],
        };
        let mut replicas = Self::default();
        let read = |entry| read_one(entry, is_up);
        for (address, is_eligible) in entries.iter().filter_map(read) {
            // While a fail-over goes on, its leader lists the new master among the replicas of the
            // old one.
            if address == *master {
                continue;
            }
            if is_eligible {
                replicas.eligible.insert(address.clone());
            }
            replicas.known.insert(address);
        }
        replicas
    }

    /// What two sentinels see. One that either may choose may be chosen.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.known.extend(other.known);
        self.eligible.extend(other.eligible);
        self
    }
}

/// A field of what a sentinel tells of a server.
pub(super) fn field<'a>(server: &'a Value, name: &str) -> Option<&'a str> {
    let Value::Map(fields) = server else {
        return None;
    };
    let (_, value) = fields.iter().find(|(key, _)| text(key) == Some(name))?;
    text(value)
}

/// Whether it is gone, by its flags.
pub(super) fn is_gone(server: &Value) -> bool {
    let flags = field(server, "flags").unwrap_or_default();
    let gone = ["s_down", "o_down", "disconnected"];
    flags.split(',').any(|flag| gone.contains(&flag))
}

/// One replica, and whether it may be chosen.
fn read_one(entry: &Value, is_master_up: bool) -> Option<(Address, bool)> {
    let field = |name| field(entry, name);
    let number = |name| field(name).and_then(|value| value.parse::<u64>().ok());
    let address = Address::new(field("ip")?, field("port")?.parse().ok()?);
    let is_replica = field("role-reported") == Some("slave");
    let is_linked = is_replica && field("master-link-status") == Some("ok");
    // It gets its first copy, or is a master of before that has come back: those that have
    // something are preferred. A replica without a master says 1.
    let has_nothing = !is_linked && number("slave-repl-offset").is_some_and(|offset| offset <= 1);
    // They do not choose one that has lost its master for ten times the time after which they take
    // a server for dead, and for as long again as the master is dead.
    let is_stale = || {
        let lost = number("master-link-down-time")?;
        let patience = number("down-after-milliseconds")?.saturating_mul(10);
        Some(is_master_up && is_replica && !is_linked && lost > patience)
    };
    let may_be_chosen = !is_gone(entry)
        && number("slave-priority") != Some(0)
        && !has_nothing
        && !is_stale().unwrap_or(false);
    Some((address, may_be_chosen))
}

#[cfg(test)]
mod tests;
