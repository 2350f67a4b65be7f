//! Who has to confirm, and who may not confirm for another.

use super::*;

fn servers(ports: &[u16]) -> HashSet<Address> {
    ports.iter().map(|port| server(*port)).collect()
}

fn server(port: u16) -> Address {
    Address::new("10.0.0.1", port)
}

fn confirmed(replicas: u32, wanted: u32, followers: &[u16]) -> Confirmed {
    Confirmed {
        replicas,
        shortage: (replicas < wanted).then(|| "too few".to_owned()),
        followers: Some(servers(followers)),
        listed: None,
    }
}

fn replication(url: &str) -> Replication {
    let config = RedisConfig::parse(url).unwrap();
    Replication::new(&config, Duration::from_secs(5))
}

#[test]
fn whoever_may_be_chosen_has_to_confirm_and_nobody_else_may() {
    let replication = replication("redis-sentinel://h/orders");
    let needs = || replication.confirm().replicas;
    assert_eq!(needs(), 1);
    replication.may_choose(&server(1), servers(&[2, 3]), "");
    replication.is_followed(&server(1), servers(&[2, 3]), "");
    assert_eq!(needs(), 2);
    replication.is_followed(&server(1), servers(&[2]), "");
    assert_eq!(needs(), 2, "the other one may be chosen still");
    replication.may_choose(&server(1), servers(&[3]), "");
    assert_eq!(
        needs(),
        2,
        "the one that follows is not the one that may be chosen"
    );
    replication.may_choose(&server(1), servers(&[2]), "");
    assert_eq!(needs(), 1);
    replication.may_choose(&server(1), servers(&[]), "");
    replication.is_followed(&server(1), servers(&[]), "");
    assert_eq!(needs(), 1);
}

#[test]
fn who_follows_one_master_says_nothing_of_the_next() {
    let replication = replication("redis-sentinel://h/orders");
    replication.may_choose(&server(1), servers(&[2, 3]), "");
    replication.is_followed(&server(1), servers(&[2, 3]), "");
    replication.may_choose(&server(2), servers(&[3]), "");
    assert_eq!(replication.confirm().replicas, 1);
    let missing = |(replicas, wanted), port, followers: &[u16]| {
        let confirmed = confirmed(replicas, wanted, followers);
        replication.missing(confirmed, &server(port), "").is_some()
    };
    assert!(missing((2, 2), 1, &[2, 3]) && missing((1, 2), 1, &[3]));
    assert!(!missing((1, 1), 2, &[3]) && !missing((1, 2), 2, &[3]));
    assert!(missing((0, 1), 2, &[3]));
    replication.is_followed(&server(1), servers(&[2, 3, 4]), "");
    assert_eq!(
        replication.confirm().replicas,
        1,
        "the old master answers late"
    );
}

#[test]
fn one_that_has_joined_does_not_confirm_for_one_that_has_left() {
    let replication = replication("redis-sentinel://h/orders");
    replication.may_choose(&server(1), servers(&[2]), "");
    replication.is_followed(&server(1), servers(&[2]), "");
    let missing = |confirmed| replication.missing(confirmed, &server(1), "").is_some();
    assert!(!missing(confirmed(1, 1, &[2])));
    assert!(missing(confirmed(1, 1, &[3])));
    assert!(missing(confirmed(1, 1, &[2, 3])), "it may be the other one");
    assert!(!missing(confirmed(2, 1, &[2, 3])));
    let untold = Confirmed {
        followers: None,
        ..confirmed(1, 1, &[])
    };
    assert!(missing(untold));
}

#[test]
fn a_node_of_a_cluster_counts_the_replicas_that_it_knows_and_no_other_nodes() {
    let cluster = replication("redis-cluster://h");
    assert!(cluster.asks_for_name());
    assert_eq!(cluster.confirm().node, None, "it has no name yet");
    cluster.set_name(&[b'a'; 40]);
    cluster.may_choose(&server(1), servers(&[4, 5]), "");
    cluster.is_followed(&server(1), servers(&[4]), "");
    let other = cluster.of_another_node();
    assert_eq!(other.confirm().node, None);
    other.set_name(&[b'b'; 40]);
    assert_eq!(other.confirm().node, Some([b'b'; 40]));
    let needs = || [&cluster, &other].map(|replication| replication.confirm().replicas);
    assert_eq!(needs(), [2, 1]);
    let missing = |(replicas, wanted), listed: &[u16], followers: &[u16]| {
        let confirmed = Confirmed {
            listed: Some(servers(listed)),
            ..confirmed(replicas, wanted, followers)
        };
        cluster.missing(confirmed, &server(1), "").is_some()
    };
    assert!(missing((1, 2), &[4, 5], &[4, 5]));
    let has_failed = "the other one has failed meanwhile";
    assert!(!missing((1, 2), &[4], &[4]), "{has_failed}");
    assert!(missing((1, 1), &[4, 5], &[4]), "and is back");
    let stranger = "it may be one that is not listed yet, or no more";
    assert!(missing((1, 1), &[4], &[4, 6]), "{stranger}");
    assert!(missing((1, 1), &[4], &[6]), "{stranger}");
    assert_eq!(needs(), [2, 1]);
    let untold = confirmed(2, 2, &[4, 5]);
    assert!(cluster.missing(untold, &server(1), "").is_some());
}

#[test]
fn where_a_cluster_has_other_addresses_than_replication_numbers_count() {
    let cluster = replication("redis-cluster://h");
    cluster.may_choose(&server(1), servers(&[4, 5]), "");
    cluster.is_followed(&server(1), servers(&[14, 15]), "");
    assert_eq!(cluster.confirm().replicas, 2);
    cluster.is_followed(&server(1), servers(&[14, 15, 16]), "");
    assert_eq!(cluster.confirm().replicas, 3);
    let other = cluster.of_another_node();
    other.may_choose(&server(2), servers(&[6]), "");
    other.is_followed(&server(2), servers(&[6]), "");
    let shown = "another node shows that they are the same";
    assert_eq!(cluster.confirm().replicas, 5, "{shown}");
}

#[test]
fn a_number_that_is_given_and_one_server_need_nobody_else() {
    for (url, replicas) in [
        ("redis-sentinel://h/orders?replicas=1", 1),
        ("redis-sentinel://h/orders?replicas=3", 3),
        ("redis://h", 1),
        ("redis-cluster://h?replicas=1", 1),
        ("redis-cluster://h?replicas=2", 2),
    ] {
        let replication = replication(url);
        assert!(replication.questions().is_none(), "{url}");
        assert_eq!(replication.confirm().replicas, replicas, "{url}");
        assert!(
            replication
                .missing(confirmed(1, 1, &[]), &server(1), "")
                .is_none(),
            "{url}"
        );
        assert!(
            replication
                .missing(confirmed(1, 9, &[]), &server(1), "")
                .is_some(),
            "{url}"
        );
    }
}

fn bulk(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

/// A line of `CLUSTER REPLICAS`.
fn listed(port: u16, flags: &str) -> Value {
    bulk(&format!(
        "name 10.0.0.1:{port}@1{port},h {flags} master 0 0 1 connected"
    ))
}

/// The others may have put a replica in its place already.
#[test]
fn a_node_that_is_cut_off_from_its_replicas_confirms_nothing() {
    let cluster = replication("redis-cluster://h");
    cluster.set_name(&[b'a'; 40]);
    cluster.may_choose(&server(1), servers(&[2, 3]), "");
    cluster.is_followed(&server(1), servers(&[2, 3]), "");
    let confirm = cluster.confirm();
    assert_eq!(confirm.replicas, 2);
    // It hears neither of them, and nobody tells it that they are dead.
    let lines = vec![listed(2, "slave,fail?"), listed(3, "slave,fail?")];
    let mut answers = vec![
        Ok(Value::Int(0)),
        Ok(bulk("role:master\r\nconnected_slaves:0\r\n")),
        Ok(Value::Array(lines)),
    ];
    let confirmed = confirm.take_from(&mut answers).unwrap();
    assert!(cluster.missing(confirmed, &server(1), "").is_some());
    assert_eq!(cluster.confirm().replicas, 2, "nor does what comes next");
}
