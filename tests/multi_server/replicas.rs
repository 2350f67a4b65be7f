//! A node of a cluster that has two replicas: either may take its place.

use std::time::Duration;

use delayq_core::store::{Store, SubmitOutcome};
use delayq_core::{Clock, DelayQueueJob, Error, Limits, Result, SystemClock, seconds};
use delayq_tests::cluster_set::{ClusterOptions, ClusterSet};
use delayq_tests::liveness::{replicas_that_hear, until_ok};
use delayq_tests::redis_server::{Persistence, RedisServer};

use super::confirm::{id, open_at, submit, task_type, until_accepted};

/// A cluster of which one node has two replicas.
struct Trio {
    set: ClusterSet,
    /// A slot of the node's, in which the type is.
    slot: u16,
    master: usize,
    replicas: [usize; 2],
}

impl Trio {
    async fn start(node_timeout: Duration) -> Self {
        let mut set = ClusterSet::start(ClusterOptions {
            node_timeout_ms: u64::try_from(node_timeout.as_millis()).unwrap(),
            persistence: Persistence::None,
            extra: vec!["--min-replicas-to-write".to_owned(), "1".to_owned()],
            ..ClusterOptions::default()
        })
        .await;
        let slot = set.slot_of("{default/job}").await;
        let master = set.node_of(slot).await;
        let one = set.replicas_of(master).await[0];
        let other = set.add_node().await;
        set.follow(other, master).await;
        set.whole().await;
        Self {
            set,
            slot,
            master,
            replicas: [one, other],
        }
    }
}

#[track_caller]
fn assert_unconfirmed(answer: Result<SubmitOutcome>) {
    assert_confirmed_by((1, 2), answer);
}

#[track_caller]
fn assert_confirmed_by((some, all): (u32, u32), answer: Result<SubmitOutcome>) {
    match answer {
        Err(Error::Indeterminate { detail, .. }) => {
            let expected = format!("{some} of {all} replicas confirmed it");
            assert!(detail.contains(&expected), "{detail}");
        }
        other => panic!("{other:?}"),
    }
}

/// The others elect the replica on their side, which lacks what was written on the other one.
#[tokio::test]
async fn a_node_that_is_cut_off_with_one_of_its_replicas_acknowledges_nothing() {
    let mut trio = Trio::start(seconds(4)).await;
    let store = open_at(&trio.set.url()).await;
    let by_number = open_at(&format!("{}?replicas=1", trio.set.url())).await;
    submit(&store, "before").await.unwrap();
    submit(&by_number, "before-too").await.unwrap();
    let with = [trio.master, trio.replicas[0]];
    let others = (0..trio.set.nodes.len()).filter(|node| !with.contains(node));
    for node in others.clone() {
        trio.set.nodes[node].stop();
    }
    // Or else what is on its way would still be read.
    trio.set.part_with_replicas(trio.master, 1).await;
    // It takes writes for as long as it does not take the other masters for dead.
    assert_unconfirmed(submit(&store, "meanwhile").await);
    submit(&by_number, "lost").await.unwrap();
    for node in with {
        trio.set.nodes[node].kill();
    }
    for node in others {
        trio.set.nodes[node].resume();
    }
    let next = trio.set.failed_over(trio.master, trio.slot).await;
    assert_eq!(next, trio.replicas[1]);
    let found = || async {
        let mut found = Vec::new();
        for name in ["before", "meanwhile", "lost"] {
            let task = store.find(&task_type(), &id(name)).await;
            found.push(task.map_err(|error| error.to_string())?.is_some());
        }
        Ok(found)
    };
    let found = until_ok("the next master's answer", found).await;
    assert_eq!(found, [true, false, false]);
}

#[tokio::test]
async fn a_replica_that_hangs_is_waited_for_until_the_cluster_takes_it_for_dead() {
    let mut trio = Trio::start(seconds(3)).await;
    let store = open_at(&trio.set.url()).await;
    let by_number = open_at(&format!("{}?replicas=1", trio.set.url())).await;
    submit(&store, "before").await.unwrap();
    trio.set.nodes[trio.replicas[0]].stop();
    assert_unconfirmed(submit(&store, "hangs").await);
    submit(&by_number, "one-is-enough").await.unwrap();
    until_accepted(&store, "dead").await;
    trio.set.nodes[trio.replicas[0]].resume();
    trio.set.whole().await;
    submit(&store, "back").await.unwrap();
    trio.set.nodes[trio.replicas[1]].stop();
    assert_unconfirmed(submit(&store, "the-other-hangs").await);
}

/// Such as one that copies the node for another purpose, or one of which the node has not yet
/// heard.
#[cfg_attr(feature = "soak", tokio::test)]
async fn a_replica_that_the_cluster_does_not_know_confirms_for_no_other() {
    let mut trio = Trio::start(seconds(60)).await;
    let port = trio.set.nodes[trio.master].port().to_string();
    let follow = ["--replicaof", "127.0.0.1", &port];
    let _stranger = RedisServer::start(Persistence::None, &follow);
    let url = trio.set.node_url(trio.master);
    until_ok("three that hear", || async {
        match replicas_that_hear(&url, 3).await {
            Ok(3) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let store = open_at(&trio.set.url()).await;
    // One that has just loaded its copy, or has no processor for a moment, confirms later than a
    // submit waits.
    until_accepted(&store, "by-three").await;
    trio.set.nodes[trio.replicas[1]].stop();
    let by_two = until_ok("two that confirm", || async {
        match submit(&store, "by-two-and-who").await {
            Err(Error::Indeterminate { detail, .. }) if !detail.contains("2 of 3 ") => Err(detail),
            answer => Ok(answer),
        }
    })
    .await;
    assert_confirmed_by((2, 3), by_two);
}

/// Each node has replicas of its own: this one's say nothing of the others.
#[cfg_attr(feature = "soak", tokio::test)]
async fn a_node_with_one_replica_waits_for_one() {
    let trio = Trio::start(seconds(60)).await;
    let store = open_at(&trio.set.url()).await;
    let of = async |name: &str| {
        let slot = trio.set.slot_of(&format!("{{default/{name}}}")).await;
        trio.set.node_of(slot).await
    };
    let mut names = (0..).map(|n| format!("type-{n}"));
    let name = loop {
        let name = names.next().unwrap();
        if of(&name).await != trio.master {
            break name;
        }
    };
    let job = DelayQueueJob::raw(name, "message");
    let task = job
        .into_task(&Limits::default(), SystemClock.now())
        .unwrap();
    store.submit(vec![task]).await.pop().unwrap().unwrap();
}
