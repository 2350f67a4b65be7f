//! The replicas of a master: which of them sentinels, or the cluster, may make the next one, and which follow it.

use std::collections::HashSet;

use redis::Value;

use super::super::config::Address;
use super::sentinel::text;

/// Since how many seconds a replica that follows was heard of, at most. It says how far it is each second, and the
/// server counts whole seconds.
const MAX_LAG: u64 = 2;

/// The replicas of a master, as sentinels see them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Replicas {
    /// All that they know, also those that have gone.
    pub(super) known: HashSet<Address>,
    /// Those that they may choose in the master's place. The rule is theirs (`sentinelSelectSlave`, the same in Redis
    /// 7.0 to 8.0 and in Valkey): any that is up and connected and whose priority is not 0. They prefer the smallest
    /// priority, then the largest offset that they have heard of; but that may be seconds old, and the better one
    /// may be cut off with the master.
    pub(super) eligible: HashSet<Address>,
}

impl Replicas {
    /// Reads the answer to `SENTINEL REPLICAS` of a sentinel that names `master`, which is up as far as it knows; nothing
    /// in another answer.
    pub(super) fn read(answer: &Value, master: &Address, is_up: bool) -> Self {
        let entries = match answer {
            Value::Array(entries) => entries.as_slice(),
            _ => &[],
        };
        let mut replicas = Self::default();
        let read = |entry| read_one(entry, is_up);
        for (address, is_eligible) in entries.iter().filter_map(read) {
            // While a fail-over goes on, its leader lists the new master among the replicas of the old one.
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

    /// What was known before is known still, but for the master itself.
    pub(super) fn and_known(mut self, before: &Self, master: &Address) -> Self {
        let others = before.known.iter().filter(|replica| *replica != master);
        self.known.extend(others.cloned());
        self
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
    // It gets its first copy, or is a master of before that has come back: those that have something are preferred. A
    // replica without a master says 1.
    let has_nothing = !is_linked && number("slave-repl-offset").is_some_and(|offset| offset <= 1);
    // They do not choose one that has lost its master for ten times the time after which they take a server for dead,
    // and for as long again as the master is dead.
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

/// The replicas that follow a master, as its answer to `ROLE` has them, also those that are silent.
pub(super) fn connected(role: &Value) -> HashSet<Address> {
    let listed = match role {
        Value::Array(fields) => fields.get(2),
        _ => None,
    };
    let Some(Value::Array(replicas)) = listed else {
        return HashSet::new();
    };
    let replica = |replica: &Value| match replica {
        Value::Array(fields) => {
            let port = fields.get(1).and_then(text)?.parse().ok()?;
            Some(Address::new(fields.first().and_then(text)?, port))
        }
        _ => None,
    };
    replicas.iter().filter_map(replica).collect()
}

/// The replicas that follow a master, as its `INFO replication` has them: they have all of it but for what is on its
/// way, and confirm it.
pub(super) fn followers(info: &str) -> HashSet<Address> {
    let fields = info.lines().filter_map(|line| line.split_once(':'));
    fields
        .filter_map(|(name, value)| follower(name, value))
        .collect()
}

/// The replicas that its cluster may put in place of a node, as its answer to `CLUSTER REPLICAS` has them: all but
/// those that most masters take for dead (`fail`; one that this node alone does not hear is `fail?`). `None` when a
/// line is of another form.
pub(super) fn of_node(lines: &[Value]) -> Option<HashSet<Address>> {
    let mut replicas = HashSet::new();
    for line in lines {
        let (address, has_failed) = replica_of_node(text(line)?)?;
        if !has_failed {
            replicas.insert(address);
        }
    }
    Some(replicas)
}

/// The fields of a line are as in `CLUSTER NODES`: name, `host:port@bus` and perhaps more behind commas, flags. One
/// whose address is not known goes by its name.
fn replica_of_node(line: &str) -> Option<(Address, bool)> {
    let mut fields = line.split(' ');
    let (name, address, flags) = (fields.next()?, fields.next()?, fields.next()?);
    let (host, port) = address.split('@').next()?.rsplit_once(':')?;
    let (host, port) = match port.parse().ok()? {
        0 => (name, 0),
        port if host.is_empty() => (name, port),
        port => (host, port),
    };
    let has_failed = flags.split(',').any(|flag| flag == "fail");
    Some((Address::new(host, port), has_failed))
}

fn follower(name: &str, value: &str) -> Option<Address> {
    name.strip_prefix("slave")?.parse::<u32>().ok()?;
    let part = |wanted: &str| {
        let mut parts = value
            .trim()
            .split(',')
            .filter_map(|part| part.split_once('='));
        parts.find_map(|(name, value)| (name == wanted).then_some(value))
    };
    let lag: u64 = part("lag")?.parse().ok()?;
    let address = Address::new(part("ip")?, part("port")?.parse().ok()?);
    (part("state") == Some("online") && lag <= MAX_LAG).then_some(address)
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
            ("master-link-down-time", "0"),
            ("down-after-milliseconds", "1000"),
        ];
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let fields = usual.map(|(name, value)| {
            let change = changed.iter().find(|(changed, _)| *changed == name);
            (text(name), text(change.map_or(value, |(_, value)| value)))
        });
        Value::Map(fields.into())
    }

    fn servers(ports: &[u16]) -> HashSet<Address> {
        let server = |port: &u16| Address::new("10.0.0.1", *port);
        ports.iter().map(server).collect()
    }

    fn read(replicas: &[Value]) -> Replicas {
        let master = Address::new("10.0.0.1", 1);
        Replicas::read(&Value::Array(replicas.to_vec()), &master, true)
    }

    #[test]
    fn whoever_is_up_may_be_chosen_whether_it_follows_or_not() {
        let gone = ["slave,s_down", "slave,o_down,s_down", "slave,disconnected"];
        for flags in gone {
            let found = read(&[replica(2, &[]), replica(3, &[("flags", flags)])]);
            assert_eq!(found.eligible, servers(&[2]), "{flags}");
            assert_eq!(found.known, servers(&[2, 3]), "{flags}");
        }
        let never = replica(3, &[("slave-priority", "0")]);
        assert_eq!(read(&[replica(2, &[]), never]).eligible, servers(&[2]));
        for change in [("master-link-status", "err"), ("role-reported", "master")] {
            let found = read(&[replica(2, &[]), replica(3, &[change])]);
            assert_eq!(found.eligible, servers(&[2, 3]), "{change:?}");
            for offset in ["0", "1"] {
                let nothing = replica(3, &[change, ("slave-repl-offset", offset)]);
                let found = read(&[replica(2, &[]), nothing]);
                assert_eq!(found.eligible, servers(&[2]), "{change:?}");
            }
        }
    }

    #[test]
    fn one_that_has_lost_its_master_for_long_is_not_chosen_unless_the_master_is_dead() {
        let lost = |time| {
            let lost = [
                ("master-link-status", "err"),
                ("master-link-down-time", time),
            ];
            replica(3, &lost)
        };
        assert_eq!(read(&[lost("10000")]).eligible, servers(&[3]));
        assert_eq!(read(&[lost("10001")]).eligible, servers(&[]));
        let listed = Value::Array(vec![lost("10001")]);
        let found = Replicas::read(&listed, &Address::new("10.0.0.1", 1), false);
        assert_eq!(found.eligible, servers(&[3]));
    }

    #[test]
    fn what_was_known_is_known_still() {
        let before = read(&[replica(2, &[]), replica(3, &[])]);
        let now = Replicas::default().and_known(&before, &Address::new("10.0.0.1", 2));
        assert_eq!(now.known, servers(&[3]));
        assert_eq!(now.eligible, servers(&[]));
    }

    #[test]
    fn those_that_are_connected_are_listed_by_role() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let one = |port| Value::Array(vec![text("10.0.0.1"), text(port), text("5000")]);
        let replicas = Value::Array(vec![one("2"), one("3")]);
        let master = Value::Array(vec![text("master"), Value::Int(5000), replicas]);
        assert_eq!(connected(&master), servers(&[2, 3]));
        assert_eq!(connected(&Value::Array(vec![text("slave")])), servers(&[]));
    }

    #[test]
    fn the_new_master_is_none_of_its_own_replicas() {
        let listed = [replica(1, &[("role-reported", "master")]), replica(2, &[])];
        let expected = Replicas {
            known: servers(&[2]),
            eligible: servers(&[2]),
        };
        assert_eq!(read(&listed), expected);
    }

    #[test]
    fn one_that_either_of_two_sentinels_may_choose_may_be_chosen() {
        let down = [("flags", "slave,s_down")];
        let one = read(&[replica(2, &[]), replica(3, &down)]);
        let other = read(&[replica(2, &down), replica(3, &[])]);
        assert_eq!(one.and(other).eligible, servers(&[2, 3]));
    }

    #[test]
    fn a_node_is_replaced_by_any_replica_that_most_masters_do_not_take_for_dead() {
        let line = |port: u16, flags: &str| {
            let line = format!("name 10.0.0.1:{port}@1{port},h {flags} master 0 0 1 connected");
            Value::BulkString(line.into_bytes())
        };
        let lines = [
            line(2, "slave"),
            line(3, "slave,fail?"),
            line(4, "slave,fail"),
            line(5, "slave,nofailover"),
            Value::BulkString(b"name ::1:6@16 myself,slave master".to_vec()),
            Value::BulkString(b"lost :0@0 slave,noaddr master".to_vec()),
            Value::BulkString(b"hidden 10.0.0.1:0@17 slave master".to_vec()),
        ];
        let mut expected = servers(&[2, 3, 5]);
        expected.insert(Address::new("::1", 6));
        expected.insert(Address::new("lost", 0));
        expected.insert(Address::new("hidden", 0));
        assert_eq!(of_node(&lines), Some(expected));
        for other in ["?", "name 10.0.0.1 slave", "name 10.0.0.1:x@1 slave"] {
            let other = Value::BulkString(other.as_bytes().to_vec());
            assert_eq!(of_node(&[line(2, "slave"), other]), None);
        }
    }

    #[test]
    fn replicas_that_are_online_and_heard_of_follow() {
        let info = "# Replication\r\nrole:master\r\nconnected_slaves:5\r\nmin_slaves_good_slaves:3\r\n\
            slave0:ip=10.0.0.1,port=2,state=online,offset=1,lag=0\r\n\
            slave1:ip=10.0.0.1,port=3,state=online,offset=1,lag=2,type=replica\r\n\
            slave2:ip=10.0.0.1,port=4,state=online,offset=1,lag=3\r\n\
            slave3:ip=10.0.0.1,port=5,state=wait_bgsave,offset=0,lag=0\r\n\
            slave4:ip=10.0.0.1,port=6,state=send_bulk,offset=0,lag=0\r\n\
            slave_repl_offset:1\r\n";
        assert_eq!(followers(info), servers(&[2, 3]));
        assert_eq!(
            followers("role:master\r\nconnected_slaves:0\r\n"),
            servers(&[])
        );
        assert_eq!(followers(""), servers(&[]));
    }
}
