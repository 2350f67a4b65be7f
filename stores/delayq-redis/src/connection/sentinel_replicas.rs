//! Replicas of a master, as reported by a sentinel.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::confirm::text;
use crate::config::Address;

/// How long a replica still has to confirm after the last sentinel stopped listing it as eligible.
///
/// The sentinel that promotes a replica closes all connections to it. For up to a second, until
/// they have reconnected, the other sentinels call it disconnected and still name the old master.
/// They learn of the new one within 2 s (`SENTINEL_PING_PERIOD` and `SENTINEL_PUBLISH_PERIOD` of
/// Redis).
const DROP_AFTER: Duration = Duration::from_secs(3);

/// The sentinels' reports about the replicas, one look after another.
#[derive(Debug, Default)]
pub(super) struct ReplicaHistory {
    known: HashSet<Address>,
    /// The eligible replicas, each with the time of the last report.
    eligible: HashMap<Address, Instant>,
}

impl ReplicaHistory {
    /// Adds one look: the reports of the sentinels that name `master`, which may be most of all
    /// sentinels. Returns the replicas that have to confirm a write to it.
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

/// The replicas of a master, as reported by sentinels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SentinelReplicas {
    /// All known replicas, including those that have gone.
    pub(super) known: HashSet<Address>,
    /// Replicas that the sentinels may choose in the master's place. The rule is Sentinel's
    /// (`sentinelSelectSlave`, the same in Redis 7.0 to 8.0 and in Valkey): any replica that is up
    /// and connected and whose priority is not 0. Sentinels prefer the smallest priority, then the
    /// largest known offset; but that offset may be seconds old, and the better replica may be cut
    /// off with the master.
    pub(super) eligible: HashSet<Address>,
}

impl SentinelReplicas {
    /// Parses the answer of a sentinel to `SENTINEL REPLICAS`. `master` is the master that it
    /// names, and `is_up` its opinion of it. Empty for any other answer.
    pub(super) fn read(answer: &Value, master: &Address, is_up: bool) -> Self {
        let entries = match answer {
            Value::Array(entries) => entries.as_slice(),
            _ => &[],
        };
        let mut replicas = Self::default();
        let read = |entry| read_one(entry, is_up);
        for (address, is_eligible) in entries.iter().filter_map(read) {
            // During a fail-over, its leader lists the new master among the replicas of the old
            // one.
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

    /// Combines the reports of two sentinels. A replica that either may choose may be chosen.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.known.extend(other.known);
        self.eligible.extend(other.eligible);
        self
    }
}

/// A field of a sentinel's report about a server.
pub(super) fn field<'a>(server: &'a Value, name: &str) -> Option<&'a str> {
    let Value::Map(fields) = server else {
        return None;
    };
    let (_, value) = fields.iter().find(|(key, _)| text(key) == Some(name))?;
    text(value)
}

/// True if the server is gone, by its flags.
pub(super) fn is_gone(server: &Value) -> bool {
    let flags = field(server, "flags").unwrap_or_default();
    let gone = ["s_down", "o_down", "disconnected"];
    flags.split(',').any(|flag| gone.contains(&flag))
}

/// One replica, and true if it may be chosen.
fn read_one(entry: &Value, is_master_up: bool) -> Option<(Address, bool)> {
    let field = |name| field(entry, name);
    let number = |name| field(name).and_then(|value| value.parse::<u64>().ok());
    let address = Address::new(field("ip")?, field("port")?.parse().ok()?);
    let is_replica = field("role-reported") == Some("slave");
    let is_linked = is_replica && field("master-link-status") == Some("ok");
    // It is getting its first copy, or is a former master that has come back: replicas with data
    // are preferred. A replica without a master reports offset 1.
    let has_nothing = !is_linked && number("slave-repl-offset").is_some_and(|offset| offset <= 1);
    // Sentinels do not choose a replica that lost its master longer ago than ten times
    // `down-after-milliseconds` plus the time that the master has been down.
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
