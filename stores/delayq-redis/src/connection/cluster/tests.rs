//! Which map is believed, and what becomes of the nodes that it names no more.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;

use super::super::fake::{array, bulk, gone, serve, setup, verbatim};
use super::super::panel::DISBELIEF;
use super::*;
use crate::config::RedisConfig;

fn cluster(seeds: &[Address]) -> Cluster {
    let config = RedisConfig::parse("redis-cluster://h").unwrap();
    Cluster {
        settings: Settings::new(&config, &Handle::current(), &setup()).unwrap(),
        seeds: seeds.to_vec(),
        map: watch::Sender::new(Arc::default()),
        failure: Mutex::default(),
        nodes: Mutex::default(),
        again: Notify::new(),
    }
}

/// A node that has every slot, as of an epoch that may change.
fn node(epoch: &Arc<AtomicU64>) -> Address {
    let epoch = Arc::clone(epoch);
    serve(move |port, command| match command {
        "CLUSTER INFO" => {
            let epoch = epoch.load(Ordering::Relaxed);
            verbatim(&format!("cluster_current_epoch:{epoch}\r\n"))
        }
        "CLUSTER SLOTS" => {
            let master = array(&[bulk("127.0.0.1"), format!(":{port}\r\n"), bulk("id")]);
            let (first, last) = (":0\r\n".to_owned(), ":16383\r\n".to_owned());
            array(&[array(&[first, last, master])])
        }
        _ => "-ERR no\r\n".to_owned(),
    })
}

fn node_of(epoch: u64) -> Address {
    node(&Arc::new(AtomicU64::new(epoch)))
}

/// Looks so often; the epoch that is believed then.
async fn looks(cluster: &Cluster, count: usize, panel: &mut Panel) -> u64 {
    for _ in 0..count {
        cluster.ask_some(panel).await;
    }
    cluster.map().epoch
}

#[tokio::test]
async fn an_older_map_is_believed_once_nothing_else_is_told_for_long() {
    let epoch = Arc::new(AtomicU64::new(7));
    let cluster = cluster(&[node(&epoch)]);
    let mut panel = cluster.panel();
    let most = usize::try_from(DISBELIEF).unwrap() - 1;
    assert_eq!(looks(&cluster, 1, &mut panel).await, 7);
    for _ in 0..2 {
        epoch.store(3, Ordering::Relaxed);
        assert_eq!(looks(&cluster, most, &mut panel).await, 7);
        epoch.store(7, Ordering::Relaxed);
        assert_eq!(looks(&cluster, 1, &mut panel).await, 7);
    }
    epoch.store(3, Ordering::Relaxed);
    assert_eq!(looks(&cluster, most, &mut panel).await, 7);
    assert_eq!(looks(&cluster, 1, &mut panel).await, 3);
    epoch.store(8, Ordering::Relaxed);
    assert_eq!(looks(&cluster, 1, &mut panel).await, 8);
}

#[tokio::test]
async fn the_node_that_knows_of_the_latest_election_is_right() {
    let (old, new) = (node_of(5), node_of(9));
    for seeds in [[old.clone(), new.clone()], [new, old]] {
        let cluster = cluster(&seeds);
        assert_eq!(looks(&cluster, 1, &mut cluster.panel()).await, 9);
    }
}

#[tokio::test]
async fn one_node_that_answers_is_enough_and_why_none_does_is_told() {
    let (there, away) = (node_of(5), gone());
    for seeds in [[there.clone(), away.clone()], [away.clone(), there]] {
        let cluster = cluster(&seeds);
        assert_eq!(looks(&cluster, 1, &mut cluster.panel()).await, 5);
    }
    let cluster = cluster(std::slice::from_ref(&away));
    let none = cluster.why_not_sent(0).to_string();
    assert!(none.contains("none of its nodes has answered"), "{none}");
    assert_eq!(looks(&cluster, 1, &mut cluster.panel()).await, 0);
    let refused = cluster.why_not_sent(0).to_string();
    assert!(refused.contains(&away.to_string()), "{refused}");
    let first = cluster.wait_for_first(Instant::now()).await.unwrap_err();
    assert_eq!(first.to_string(), refused);
}

#[tokio::test]
async fn a_node_that_is_no_master_is_given_up_unless_another_one_has_just_named_it() {
    let nodes = [gone(), gone(), gone()];
    let cluster = cluster(&[]);
    let both = SlotMap::default().moved(0, nodes[0].clone());
    cluster.adopt(both.moved(1, nodes[1].clone()));
    let before = [0, 1].map(|slot| cluster.owner(slot).unwrap());
    let guest = cluster.guest(&nodes[2]);
    cluster.adopt(SlotMap::default().moved(0, nodes[0].clone()));
    assert!(cluster.owner(1).is_none());
    let same = |at: usize, node: &Arc<Server>| Arc::ptr_eq(&cluster.node(&nodes[at]), node);
    assert!(same(0, &before[0]), "it has a slot still");
    assert!(!same(1, &before[1]), "it has none any more");
    assert!(same(2, &guest), "it may be about to take one over");
}

#[tokio::test]
async fn a_slot_is_where_a_node_has_told_last_and_that_is_news_once() {
    let there = gone();
    let cluster = cluster(&[]);
    let mut maps = cluster.maps();
    for is_news in [true, false] {
        cluster.learn(5, &there);
        assert_eq!(maps.has_changed().unwrap(), is_news);
        maps.mark_unchanged();
    }
    assert!(Arc::ptr_eq(
        &cluster.owner(5).unwrap(),
        &cluster.node(&there)
    ));
    let nobody = cluster.why_not_sent(6).to_string();
    assert!(nobody.contains("no node has slot 6"), "{nobody}");
}
