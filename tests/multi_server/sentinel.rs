//! A master with replicas behind sentinels, each of whose writes a replica confirms.

use std::time::Duration;

use delayq_core::Operate;
use delayq_core::store::{Durability, StoreOptions};
use delayq_plugin::{Clock, SystemClock, Timestamp, seconds};
use delayq_redis::RedisStore;
use delayq_tests::liveness::{ask, until_ok};
use delayq_tests::network::Clients;
use delayq_tests::redis_server::Persistence;
use delayq_tests::rig::until;
use delayq_tests::sentinel_set::{MASTER, SentinelOptions, SentinelSet};

use super::application::Application;

const DOWN_AFTER: Duration = seconds(1);

/// Three servers and three sentinels. What is acknowledged survives without a disk.
async fn start(doors: bool) -> SentinelSet {
    SentinelSet::start(SentinelOptions {
        persistence: Persistence::None,
        doors,
        extra: vec!["--min-replicas-to-write".to_owned(), "1".to_owned()],
        ..SentinelOptions::default()
    })
    .await
}

/// Ends the application, for which nothing was away for long from `from` on.
async fn end(application: Application, set: &SentinelSet, from: Timestamp) {
    application.end(from, DOWN_AFTER, || set.switches()).await;
}

/// Both replicas confirm each write while both are there: the sentinels may make either of them the
/// master.
#[cfg_attr(feature = "soak", tokio::test)]
async fn a_master_killed_again_and_again_loses_nothing_that_was_acknowledged() {
    let mut set = start(false).await;
    let mut application = Application::start(&set.url()).await;
    let began = SystemClock.now();
    for _ in 0..3 {
        let old = set.in_sync().await;
        let from = SystemClock.now();
        set.servers[old].kill();
        set.failed_over(old).await;
        set.servers[old].restart();
        // One that joins confirms nothing for up to a second, and is waited for.
        set.in_sync().await;
        application.survives(from).await;
    }
    end(application, &set, began).await;
}

/// It goes on as a master when it is resumed, until a sentinel tells it otherwise.
#[tokio::test]
async fn a_master_that_hangs_is_replaced_and_nothing_is_written_to_it_when_it_goes_on() {
    let mut set = start(false).await;
    let mut application = Application::start(&set.url()).await;
    let began = SystemClock.now();
    let rounds = if cfg!(feature = "soak") { 2 } else { 1 };
    for _ in 0..rounds {
        let old = set.in_sync().await;
        let from = SystemClock.now();
        set.servers[old].stop();
        set.failed_over(old).await;
        application.works_after(SystemClock.now()).await;
        set.servers[old].resume();
        set.in_sync().await;
        application.survives(from).await;
    }
    end(application, &set, began).await;
}

/// The clients are on its side, with one sentinel. It takes writes for 10 s more, until it counts
/// its replicas as lost.
#[tokio::test]
async fn a_master_cut_off_with_its_clients_acknowledges_nothing_that_is_lost_when_the_network_heals()
 {
    let set = start(true).await;
    let mut application = Application::start(&set.url()).await;
    let from = SystemClock.now();
    set.cut_off(&[0], &[0], Clients::Far);
    set.failed_over(0).await;
    fails(&mut application, 10).await;
    let accepted = application.accepted();
    fails(&mut application, 10).await;
    assert_eq!(application.accepted(), accepted);
    set.heal();
    let healed = SystemClock.now();
    assert_ne!(set.in_sync().await, 0);
    application.survives(from).await;
    end(application, &set, healed).await;
}

/// The same with a replica on its side, which goes on confirming. The one that becomes the master
/// has to confirm, too.
#[cfg_attr(feature = "soak", tokio::test)]
async fn a_master_cut_off_with_a_replica_and_its_clients_acknowledges_nothing_that_is_lost() {
    cut_off_with_a_replica(Clients::Far).await;
}

/// The sentinels of the two sides see different replicas.
#[cfg_attr(feature = "soak", tokio::test)]
async fn a_master_cut_off_with_a_replica_from_the_other_servers_acknowledges_nothing_that_is_lost()
{
    cut_off_with_a_replica(Clients::Everywhere).await;
}

/// The new master has no replica left until the network heals, so that neither of the two
/// acknowledges anything.
async fn cut_off_with_a_replica(clients: Clients) {
    let set = start(true).await;
    assert_eq!(set.in_sync().await, 0);
    let mut application = Application::start(&set.url()).await;
    let from = SystemClock.now();
    set.cut_off(&[0, 1], &[0], clients);
    set.failed_over(0).await;
    fails(&mut application, 5).await;
    let accepted = application.accepted();
    fails(&mut application, 5).await;
    assert_eq!(application.accepted(), accepted);
    set.heal();
    let healed = SystemClock.now();
    assert_eq!(set.in_sync().await, 2);
    application.survives(from).await;
    end(application, &set, healed).await;
}

/// Awaits that so many more submits fail.
async fn fails(application: &mut Application, more: usize) {
    let before = application.refused();
    until("failed submits", || {
        std::future::ready((application.refused() >= before + more).then_some(()))
    })
    .await;
}

/// The old master and its sentinel still answer whoever asks them.
#[tokio::test]
async fn clients_of_a_master_that_only_the_servers_do_not_reach_follow_the_new_one() {
    let set = start(true).await;
    let mut application = Application::start(&set.url()).await;
    let from = SystemClock.now();
    set.cut_off(&[0], &[0], Clients::Everywhere);
    set.failed_over(0).await;
    application.works_after(SystemClock.now()).await;
    set.heal();
    application.survives(from).await;
    assert_ne!(set.in_sync().await, 0);
    end(application, &set, from).await;
}

#[tokio::test]
async fn without_sentinels_the_master_goes_on_and_one_that_comes_back_is_enough_to_be_told() {
    let mut set = start(false).await;
    let mut application = Application::start(&set.url()).await;
    let began = SystemClock.now();
    for sentinel in 0..3 {
        set.sentinels[sentinel].kill();
        application.works_after(SystemClock.now()).await;
    }
    for sentinel in 0..3 {
        set.restart_sentinel(sentinel).await;
    }
    let old = set.in_sync().await;
    set.sentinels[0].kill();
    let from = SystemClock.now();
    set.servers[old].kill();
    set.failed_over(old).await;
    set.servers[old].restart();
    application.survives(from).await;
    end(application, &set, began).await;
}

/// A server that hangs takes connections and answers nothing.
#[tokio::test]
async fn who_connects_while_the_master_hangs_follows_to_the_new_one() {
    let mut set = start(false).await;
    set.servers[0].stop();
    let url = set.url();
    let options = StoreOptions {
        durability: Durability::Replicated,
        ..StoreOptions::default()
    };
    let connecting = RedisStore::connect(&url, options);
    let connected = tokio::time::timeout(DOWN_AFTER + seconds(3), connecting);
    connected.await.expect("it is in time").unwrap();
}

/// Somebody has set the sentinels up anew, and with another master: they count from 0 again.
#[tokio::test]
async fn sentinels_that_were_made_anew_are_believed_in_the_end() {
    let mut set = SentinelSet::start(SentinelOptions {
        servers: 2,
        sentinels: 1,
        ..SentinelOptions::default()
    })
    .await;
    let url = set.url();
    let store = RedisStore::connect(&url, StoreOptions::default());
    let store = store.await.unwrap();
    set.servers[0].kill();
    set.failed_over(0).await;
    set.servers[0].restart();
    set.in_sync().await;
    let asks = || async { store.types().await.map_err(|error| error.to_string()) };
    until_ok("the new master", asks).await;
    let (sentinel, port) = (set.sentinels[0].url(), set.server_port(0).to_string());
    let tell = async |words: &[&str]| ask::<()>(&sentinel, words).await.unwrap();
    tell(&["SENTINEL", "REMOVE", MASTER]).await;
    set.ask::<()>(0, &["REPLICAOF", "NO", "ONE"]).await.unwrap();
    tell(&["SENTINEL", "MONITOR", MASTER, "127.0.0.1", &port, "1"]).await;
    set.servers[1].kill();
    until_ok("the master of the new sentinels", asks).await;
}
