//! Which sentinel is believed, and which replicas have to confirm by what they say.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;

use super::super::fake::{array, bulk, gone, map, serve, setup};
use super::super::panel::DISBELIEF;
use super::*;
use crate::config::RedisConfig;

fn sentinels(addresses: &[Address]) -> Sentinels {
    let config = RedisConfig::parse("redis-sentinel://h/orders").unwrap();
    Sentinels {
        settings: Settings::new(&config, &Handle::current(), &setup()).unwrap(),
        addresses: addresses.to_vec(),
        name: "orders".to_owned(),
        seen: watch::Sender::new(SentinelView::Nothing),
        replicas: Mutex::default(),
        again: Notify::new(),
    }
}

/// One that names the master at `port`, as of an epoch that may change.
fn sentinel(port: u16, epoch: &Arc<AtomicU64>) -> Address {
    let epoch = Arc::clone(epoch);
    serve(move |_, command| match command {
        "SENTINEL GET-MASTER-ADDR-BY-NAME orders" => {
            // The port tells which epoch it is of, too.
            let port = u64::from(port) + epoch.load(Ordering::Relaxed);
            array(&[bulk("10.0.0.1"), bulk(&port.to_string())])
        }
        "SENTINEL MASTER orders" => {
            let epoch = (epoch.load(Ordering::Relaxed) / 10).to_string();
            map(&[("config-epoch", &epoch), ("flags", "master")])
        }
        _ => "-ERR no\r\n".to_owned(),
    })
}

fn number(epoch: u64) -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(epoch))
}

/// One that answers each question with `answer`.
fn refusing(answer: &'static str) -> Address {
    serve(move |_, _| format!("{answer}\r\n"))
}

/// Looks so often; the port of the master that is seen then.
async fn looks(sentinels: &Sentinels, count: u32, panel: &mut Panel) -> Option<u16> {
    for _ in 0..count {
        sentinels.ask_all(panel).await;
    }
    let seen = sentinels.seen.borrow();
    seen.address().map(|master| master.port)
}

#[tokio::test]
async fn the_sentinel_that_knows_of_the_latest_election_is_right() {
    let old = sentinel(1_000, &number(50));
    let new = sentinel(2_000, &number(90));
    for addresses in [[old.clone(), new.clone()], [new, old]] {
        let sentinels = sentinels(&addresses);
        let found = looks(&sentinels, 1, &mut sentinels.panel()).await;
        assert_eq!(found, Some(2_090));
    }
}

#[tokio::test]
async fn an_older_master_is_believed_once_all_have_told_of_it_for_long() {
    let epoch = number(70);
    let there = sentinel(1_000, &epoch);
    let sentinels = sentinels(&[there]);
    let mut panel = sentinels.panel();
    assert_eq!(looks(&sentinels, 1, &mut panel).await, Some(1_070));
    for _ in 0..2 {
        epoch.store(30, Ordering::Relaxed);
        let found = looks(&sentinels, DISBELIEF - 1, &mut panel).await;
        assert_eq!(found, Some(1_070));
        epoch.store(70, Ordering::Relaxed);
        assert_eq!(looks(&sentinels, 1, &mut panel).await, Some(1_070));
    }
    epoch.store(30, Ordering::Relaxed);
    let found = looks(&sentinels, DISBELIEF - 1, &mut panel).await;
    assert_eq!(found, Some(1_070));
    assert_eq!(looks(&sentinels, 1, &mut panel).await, Some(1_030));
    // Of the same election, and of a later one.
    for later in [31, 80] {
        epoch.store(later, Ordering::Relaxed);
        let found = looks(&sentinels, 1, &mut panel).await;
        assert_eq!(found.map(u64::from), Some(1_000 + later));
    }
}

#[tokio::test]
async fn an_older_master_is_not_believed_while_one_sentinel_is_silent() {
    let epoch = number(70);
    let there = sentinel(1_000, &epoch);
    let sentinels = sentinels(&[there, gone()]);
    let mut panel = sentinels.panel();
    assert_eq!(looks(&sentinels, 1, &mut panel).await, Some(1_070));
    epoch.store(30, Ordering::Relaxed);
    let found = looks(&sentinels, 2 * DISBELIEF, &mut panel).await;
    assert_eq!(found, Some(1_070));
}

#[tokio::test]
async fn why_none_of_them_names_a_master_is_told() {
    for (answer, what, is_misconfigured) in [
        ("_", "watch no master of the name \"orders\"", true),
        ("-NOAUTH no", "sentinel_password=", true),
        ("-ERR no", "none of its sentinels answers", false),
    ] {
        let addresses = [refusing(answer), gone()];
        let sentinels = sentinels(&addresses);
        assert_eq!(looks(&sentinels, 1, &mut sentinels.panel()).await, None);
        let refusal = sentinels.master().await.unwrap_err();
        let said = refusal.error.to_string();
        assert!(said.contains(what), "{said}");
        assert_eq!(is_refusal(&refusal.error), is_misconfigured, "{said}");
    }
}

#[tokio::test]
async fn who_uses_a_master_is_told_when_another_one_is_named() {
    let epoch = number(10);
    let sentinels = sentinels(&[sentinel(1_000, &epoch)]);
    looks(&sentinels, 1, &mut sentinels.panel()).await;
    let master = sentinels.master().await.ok().unwrap();
    assert_eq!(master, Address::new("10.0.0.1", 1_010));
    let mut left = std::pin::pin!(sentinels.left(&master));
    for is_other in [false, true] {
        if is_other {
            epoch.store(20, Ordering::Relaxed);
        }
        looks(&sentinels, 1, &mut sentinels.panel()).await;
        let has_left = tokio::select! {
            biased;
            () = &mut left => true,
            () = std::future::ready(()) => false,
        };
        assert_eq!(has_left, is_other);
    }
}

#[tokio::test]
async fn a_replica_need_not_confirm_once_most_sentinels_have_taken_it_for_gone_for_a_while() {
    let server = |port| Address::new("10.0.0.1", port);
    let servers =
        |ports: &[u16]| -> HashSet<Address> { ports.iter().copied().map(server).collect() };
    let view = |master, eligible: &[u16], sentinels| {
        let replicas = SentinelReplicas {
            known: servers(&[2, 3]),
            eligible: servers(eligible),
        };
        NamedMaster {
            address: server(master),
            epoch: 0,
            replicas,
            sentinels,
        }
    };
    let url = "redis-sentinel://h/orders";
    let start = Instant::now();
    for (views, needed) in [
        (vec![view(1, &[2], 3), view(1, &[2], 3)], 1),
        (vec![view(1, &[2], 3), view(1, &[3], 3)], 2),
        (vec![view(1, &[2], 3)], 2),
        (vec![], 2),
        (vec![view(1, &[2], 3), view(9, &[2], 3)], 2),
        (vec![view(1, &[2], 5), view(1, &[2], 5)], 2),
    ] {
        let config = RedisConfig::parse(url).unwrap();
        let replication = Replication::new(&config, Duration::from_secs(5));
        let all = [gone(), gone(), gone()];
        let sentinels = sentinels(&all);
        let needs_after = |views: &[NamedMaster], seconds| {
            let now = start + Duration::from_secs(seconds);
            sentinels.count(&replication, &server(1), views, now);
            replication.confirm().replicas
        };
        assert_eq!(
            needs_after(&[view(1, &[2, 3], 3), view(1, &[2, 3], 3)], 0),
            2
        );
        // The one that is promoted is disconnected, and nobody names it yet.
        assert_eq!(needs_after(&views, 2), 2);
        assert_eq!(needs_after(&views, 3), needed);
        let given = RedisConfig::parse("redis-sentinel://h/orders?replicas=1").unwrap();
        let given = Replication::new(&given, Duration::from_secs(5));
        sentinels.count(&given, &server(1), &views, start);
        assert_eq!(given.confirm().replicas, 1);
    }
}

#[test]
fn a_replica_that_has_lost_a_master_for_long_is_chosen_only_where_the_master_is_dead() {
    let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
    let map = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(name, value)| (text(name), text(value)));
        Value::Map(pairs.collect())
    };
    let replica = map(&[
        ("ip", "10.0.0.1"),
        ("port", "2"),
        ("flags", "slave"),
        ("role-reported", "slave"),
        ("master-link-status", "err"),
        ("slave-priority", "100"),
        ("slave-repl-offset", "5000"),
        ("master-link-down-time", "10001"),
        ("down-after-milliseconds", "1000"),
    ]);
    for (flags, is_dead) in [("master", false), ("master,s_down,o_down", true)] {
        let master = map(&[("flags", flags), ("num-other-sentinels", "2")]);
        let address = Value::Array(vec![text("10.0.0.1"), text("1")]);
        let replicas = Value::Array(vec![replica.clone()]);
        let Ok(Some(view)) = read(vec![Ok(address), Ok(master), Ok(replicas)]) else {
            panic!("{flags}: no master is named");
        };
        assert_eq!(view.sentinels, 3);
        assert_eq!(view.replicas.known.len(), 1, "{flags}");
        assert_eq!(!view.replicas.eligible.is_empty(), is_dead, "{flags}");
    }
}
