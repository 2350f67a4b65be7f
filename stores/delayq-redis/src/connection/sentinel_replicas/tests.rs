//! Which replicas a sentinel may put in the place of the master.

use super::*;

const MASTER: u16 = 1;

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

fn server(port: u16) -> Address {
    Address::new("10.0.0.1", port)
}

fn servers(ports: &[u16]) -> HashSet<Address> {
    ports.iter().copied().map(server).collect()
}

fn read(replicas: &[Value]) -> SentinelReplicas {
    SentinelReplicas::read(&Value::Array(replicas.to_vec()), &server(MASTER), true)
}

#[test]
fn whoever_is_up_may_be_chosen_whether_it_follows_or_not() {
    for flags in ["slave,s_down", "slave,o_down,s_down", "slave,disconnected"] {
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
    let found = SentinelReplicas::read(&listed, &server(MASTER), false);
    assert_eq!(found.eligible, servers(&[3]));
}

#[test]
fn one_that_was_eligible_a_moment_ago_or_is_known_to_a_few_has_to_confirm() {
    let start = Instant::now();
    let mut history = ReplicaHistory::default();
    let mut look = |replicas: &[Value], master: u16, is_most, milliseconds| {
        let now = start + Duration::from_millis(milliseconds);
        history.look(read(replicas), &server(master), is_most, now)
    };
    let down = replica(3, &[("flags", "slave,disconnected")]);
    let both = [replica(2, &[]), replica(3, &[])];
    assert_eq!(look(&both, MASTER, true, 0), servers(&[2, 3]));
    let one_gone = [replica(2, &[]), down];
    assert_eq!(look(&one_gone, MASTER, true, 2_999), servers(&[2, 3]));
    assert_eq!(look(&one_gone, MASTER, true, 3_000), servers(&[2]));
    assert_eq!(look(&one_gone, MASTER, false, 3_000), servers(&[2, 3]));
    assert_eq!(look(&[], MASTER, false, 9_000), servers(&[2, 3]));
    assert_eq!(look(&[], 2, false, 9_000), servers(&[3]));
    assert_eq!(look(&[], 2, true, 9_000), servers(&[]));
}

#[test]
fn the_new_master_is_none_of_its_own_replicas() {
    let own = replica(MASTER, &[("role-reported", "master")]);
    let expected = SentinelReplicas {
        known: servers(&[2]),
        eligible: servers(&[2]),
    };
    assert_eq!(read(&[own, replica(2, &[])]), expected);
}

#[test]
fn one_that_either_of_two_sentinels_may_choose_may_be_chosen() {
    let down = [("flags", "slave,s_down")];
    let one = read(&[replica(2, &[]), replica(3, &down)]);
    let other = read(&[replica(2, &down), replica(3, &[])]);
    assert_eq!(one.and(other).eligible, servers(&[2, 3]));
}
