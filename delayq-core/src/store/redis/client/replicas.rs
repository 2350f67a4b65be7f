//! Which replicas sentinels may make the next master, as each of them sees it.
//!
//! The rule is theirs (`sentinelSelectSlave`, the same in Redis 7.0 to 8.0 and in Valkey): of those that are up and
//! connected, the one with the smallest priority that is not 0, then with the largest offset that they have heard of,
//! which may be seconds ago. So a write is safe once all of them have it, but for those that another one beats.

use redis::Value;

use super::super::config::Address;
use super::sentinel::text;

/// What one sentinel, or several, see of a master's replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Replicas {
    /// All that it knows, also those that have gone.
    pub(super) known: u32,
    /// Those that may be made the master and lack what they have not confirmed.
    pub(super) eligible: u32,
}

impl Replicas {
    /// Reads the answer to `SENTINEL REPLICAS` of the sentinel that names `master`; nothing in another answer.
    pub(super) fn read(answer: &Value, master: &Address) -> Self {
        let entries = match answer {
            Value::Array(entries) => entries.as_slice(),
            _ => &[],
        };
        let replicas: Vec<Replica> = entries.iter().filter_map(Replica::read).collect();
        // While a fail-over goes on, its leader lists the new master among the replicas of the old one.
        let others = replicas.iter().filter(|replica| !replica.is_at(master));
        let linked: Vec<_> = others.clone().filter(|replica| replica.follows()).collect();
        let is_beaten = |one: &Replica| linked.iter().any(|other| other.beats(one));
        let eligible = others
            .clone()
            .filter(|replica| replica.is_candidate() && (replica.follows() || !is_beaten(replica)));
        Self {
            known: count(others.clone()),
            eligible: count(eligible),
        }
    }

    /// What two sentinels see.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            known: self.known.max(other.known),
            eligible: self.eligible.max(other.eligible),
        }
    }
}

fn count<'a>(replicas: impl Iterator<Item = &'a Replica>) -> u32 {
    u32::try_from(replicas.count()).unwrap_or(u32::MAX)
}

/// One of them.
#[derive(Debug)]
struct Replica {
    host: String,
    port: u16,
    is_up: bool,
    is_linked: bool,
    priority: u64,
    /// How far it was, in bytes, when it was asked last. 0: a master of before that has come back, and was never seen
    /// as a replica of this one.
    offset: u64,
}

impl Replica {
    fn read(entry: &Value) -> Option<Self> {
        let Value::Map(fields) = entry else {
            return None;
        };
        let field = |name: &str| {
            let mut fields = fields.iter();
            let (_, value) = fields.find(|(key, _)| text(key) == Some(name))?;
            text(value)
        };
        let number = |name: &str| field(name)?.parse().ok();
        let flags = field("flags")?;
        let is_flagged = |flag: &str| flags.split(',').any(|found| found == flag);
        let is_gone = ["s_down", "o_down", "disconnected"]
            .into_iter()
            .any(is_flagged);
        let is_replica = field("role-reported") == Some("slave");
        Some(Self {
            host: field("ip")?.to_owned(),
            port: field("port")?.parse().ok()?,
            is_up: !is_gone,
            is_linked: is_replica && field("master-link-status") == Some("ok"),
            priority: number("slave-priority").unwrap_or(1),
            offset: number("slave-repl-offset").unwrap_or(1),
        })
    }

    fn is_at(&self, address: &Address) -> bool {
        self.host == address.host && self.port == address.port
    }

    /// Whether it may be chosen at all.
    fn is_candidate(&self) -> bool {
        self.is_up && self.priority > 0
    }

    /// Whether it gets what is written, and is asked to confirm it.
    fn follows(&self) -> bool {
        self.is_candidate() && self.is_linked
    }

    /// Whether it is chosen before `other`, also when it is heard of again: its own offset only grows.
    fn beats(&self, other: &Self) -> bool {
        self.priority < other.priority
            || self.priority == other.priority && self.offset > other.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(port: u16, changed: &[(&str, &str)]) -> Value {
        let port = port.to_string();
        let usual = [
            ("ip", "10.0.0.1"),
            ("port", port.as_str()),
            ("flags", "slave"),
            ("role-reported", "slave"),
            ("master-link-status", "ok"),
            ("slave-priority", "100"),
            ("slave-repl-offset", "5000"),
        ];
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let fields = usual.map(|(name, value)| {
            let change = changed.iter().find(|(changed, _)| *changed == name);
            (text(name), text(change.map_or(value, |(_, value)| value)))
        });
        Value::Map(fields.into())
    }

    fn eligible(replicas: &[Value]) -> u32 {
        let master = Address::new("10.0.0.1", 1);
        Replicas::read(&Value::Array(replicas.to_vec()), &master).eligible
    }

    #[test]
    fn whoever_is_up_may_become_the_master() {
        let gone = ["slave,s_down", "slave,o_down,s_down", "slave,disconnected"];
        for flags in gone {
            assert_eq!(
                eligible(&[replica(2, &[]), replica(3, &[("flags", flags)])]),
                1
            );
        }
        assert_eq!(eligible(&[replica(2, &[]), replica(3, &[])]), 2);
        let never = [("slave-priority", "0")];
        assert_eq!(eligible(&[replica(2, &[]), replica(3, &never)]), 1);
    }

    #[test]
    fn one_that_is_cut_off_from_the_master_counts_until_another_is_known_to_be_further() {
        let behind = |offset| [("master-link-status", "err"), ("slave-repl-offset", offset)];
        for (offset, expected) in [("4999", 1), ("5000", 2), ("5001", 2)] {
            let found = eligible(&[replica(2, &[]), replica(3, &behind(offset))]);
            assert_eq!(found, expected, "{offset}");
        }
        let preferred = [&behind("1")[..], &[("slave-priority", "10")]].concat();
        assert_eq!(eligible(&[replica(2, &[]), replica(3, &preferred)]), 2);
        // Nobody beats it who does not get what is written.
        assert_eq!(
            eligible(&[replica(2, &behind("9")), replica(3, &behind("8"))]),
            2
        );
    }

    #[test]
    fn one_that_was_made_a_master_counts_and_one_that_was_a_master_before_does_not() {
        let master = |offset| [("role-reported", "master"), ("slave-repl-offset", offset)];
        assert_eq!(eligible(&[replica(2, &[]), replica(3, &master("5000"))]), 2);
        assert_eq!(eligible(&[replica(2, &[]), replica(3, &master("0"))]), 1);
    }

    #[test]
    fn the_new_master_is_none_of_its_own_replicas() {
        let listed = [replica(1, &[("role-reported", "master")]), replica(2, &[])];
        assert_eq!(eligible(&listed), 1);
    }

    #[test]
    fn those_that_have_gone_are_known_still() {
        let listed = vec![replica(2, &[]), replica(3, &[("flags", "slave,s_down")])];
        let found = Replicas::read(&Value::Array(listed), &Address::new("10.0.0.1", 1));
        let expected = Replicas {
            known: 2,
            eligible: 1,
        };
        assert_eq!(found, expected);
        let more = Replicas {
            known: 1,
            eligible: 3,
        };
        assert_eq!(
            found.and(more),
            Replicas {
                known: 2,
                eligible: 3
            }
        );
    }
}
