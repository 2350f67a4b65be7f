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

fn quorum(url: &str) -> Quorum {
    let config = RedisConfig::parse(url).unwrap();
    Quorum::new(&config, Duration::from_secs(5))
}

#[test]
fn whoever_may_be_chosen_has_to_confirm_and_nobody_else_may() {
    let quorum = quorum("redis-sentinel://h/orders");
    let needs = || quorum.confirm().replicas;
    assert_eq!(needs(), 1);
    quorum.may_choose(&server(1), servers(&[2, 3]), "");
    quorum.is_followed(&server(1), servers(&[2, 3]), "");
    assert_eq!(needs(), 2);
    quorum.is_followed(&server(1), servers(&[2]), "");
    assert_eq!(needs(), 2, "the other one may be chosen still");
    quorum.may_choose(&server(1), servers(&[3]), "");
    assert_eq!(
        needs(),
        2,
        "the one that follows is not the one that may be chosen"
    );
    quorum.may_choose(&server(1), servers(&[2]), "");
    assert_eq!(needs(), 1);
    quorum.may_choose(&server(1), servers(&[]), "");
    quorum.is_followed(&server(1), servers(&[]), "");
    assert_eq!(needs(), 1);
}

#[test]
fn who_follows_one_master_says_nothing_of_the_next() {
    let quorum = quorum("redis-sentinel://h/orders");
    quorum.may_choose(&server(1), servers(&[2, 3]), "");
    quorum.is_followed(&server(1), servers(&[2, 3]), "");
    quorum.may_choose(&server(2), servers(&[3]), "");
    assert_eq!(quorum.confirm().replicas, 1);
    let missing = |(replicas, wanted), port, followers: &[u16]| {
        let confirmed = confirmed(replicas, wanted, followers);
        quorum.missing(confirmed, (&server(port), "")).is_some()
    };
    assert!(missing((2, 2), 1, &[2, 3]) && missing((1, 2), 1, &[3]));
    assert!(!missing((1, 1), 2, &[3]) && !missing((1, 2), 2, &[3]));
    assert!(missing((0, 1), 2, &[3]));
    quorum.is_followed(&server(1), servers(&[2, 3, 4]), "");
    assert_eq!(quorum.confirm().replicas, 1, "the old master answers late");
}

#[test]
fn one_that_has_joined_does_not_confirm_for_one_that_has_left() {
    let quorum = quorum("redis-sentinel://h/orders");
    quorum.may_choose(&server(1), servers(&[2]), "");
    quorum.is_followed(&server(1), servers(&[2]), "");
    let missing = |confirmed| quorum.missing(confirmed, (&server(1), "")).is_some();
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
    let cluster = quorum("redis-cluster://h");
    assert!(cluster.wants_name());
    assert_eq!(cluster.confirm().node, None, "it has no name yet");
    cluster.is_named([b'a'; 40]);
    cluster.may_choose(&server(1), servers(&[4, 5]), "");
    cluster.is_followed(&server(1), servers(&[4]), "");
    let other = cluster.of_another();
    assert_eq!(other.confirm().node, None);
    other.is_named([b'b'; 40]);
    assert_eq!(other.confirm().node, Some([b'b'; 40]));
    let needs = || [&cluster, &other].map(|quorum| quorum.confirm().replicas);
    assert_eq!(needs(), [2, 1]);
    let missing = |(replicas, wanted), listed: &[u16], followers: &[u16]| {
        let confirmed = Confirmed {
            listed: Some(servers(listed)),
            ..confirmed(replicas, wanted, followers)
        };
        cluster.missing(confirmed, (&server(1), "")).is_some()
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
    assert!(cluster.missing(untold, (&server(1), "")).is_some());
}

#[test]
fn where_a_cluster_has_other_addresses_than_replication_numbers_count() {
    let cluster = quorum("redis-cluster://h");
    cluster.may_choose(&server(1), servers(&[4, 5]), "");
    cluster.is_followed(&server(1), servers(&[14, 15]), "");
    assert_eq!(cluster.confirm().replicas, 2);
    cluster.is_followed(&server(1), servers(&[14, 15, 16]), "");
    assert_eq!(cluster.confirm().replicas, 3);
    let other = cluster.of_another();
    other.may_choose(&server(2), servers(&[6]), "");
    other.is_followed(&server(2), servers(&[6]), "");
    let shown = "another node shows that they are the same";
    assert_eq!(cluster.confirm().replicas, 5, "{shown}");
}

#[test]
fn a_master_that_may_not_be_asked_for_its_state_is_asked_for_its_role() {
    let quorum = quorum("redis-sentinel://h/orders");
    assert_eq!(quorum.asks(), Some(AskFollowers::Info));
    quorum.hide();
    assert_eq!(quorum.asks(), Some(AskFollowers::Role));
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
        let quorum = quorum(url);
        assert!(!quorum.follows(), "{url}");
        assert_eq!(quorum.confirm().replicas, replicas, "{url}");
        assert!(
            quorum
                .missing(confirmed(1, 1, &[]), (&server(1), ""))
                .is_none(),
            "{url}"
        );
        assert!(
            quorum
                .missing(confirmed(1, 9, &[]), (&server(1), ""))
                .is_some(),
            "{url}"
        );
    }
}
