//! Claims of a split type of which one node is sick: it hangs, or an answer of it is lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delayq_core::store::{
    AttemptEnd, ChangeOutcome, ClaimRequest, ExtendOutcome, RedisConfig, RedisStore, SettleOutcome,
    Settlement, StoreOptions, SubmitOutcome, TypeSettings, Wakeup,
};
use delayq_core::{Namespace, Store, TaskId, TaskState, When};
use delayq_tests::cluster_set::{ClusterOptions, ClusterSet};
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::{soon, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::{TYPE, id, job, options, raw, request, run, task, task_type};

const LATER: Duration = Duration::from_mins(9);
const TASKS: usize = 30;

/// A cluster that replaces no node, and one node that has some of the tasks, none due, and nothing else that is needed.
struct Ward {
    set: ClusterSet,
    node: usize,
    sick: Vec<String>,
    healthy: Vec<String>,
}

impl Ward {
    async fn new() -> Self {
        let set = ClusterSet::start(ClusterOptions {
            replicas: 0,
            node_timeout_ms: 60_000,
            persistence: Persistence::None,
            ..ClusterOptions::default()
        })
        .await;
        let store = open(&set, options()).await;
        let settings = TypeSettings::default().partitions(6);
        store.configure_type(&task_type(), &settings).await.unwrap();
        let jobs = (0..TASKS).map(|n| task(job(&n.to_string()).after(LATER)));
        for accepted in store.submit(jobs.collect()).await {
            assert!(matches!(accepted, Ok(SubmitOutcome::Accepted { .. })));
        }
        // Not the one that knows how types are split.
        let namespace = set.slot_of("{default}").await;
        let whole = set.slot_of(&format!("{{default/{TYPE}}}")).await;
        let needed = [set.node_of(namespace).await, set.node_of(whole).await];
        let node = (0..3).find(|node| !needed.contains(node)).unwrap();
        let keys: Vec<String> = set.ask(node, &["KEYS", "delayq:*:tasks"]).await.unwrap();
        let mut sick = BTreeSet::new();
        for key in keys {
            let own: Vec<String> = set.ask(node, &["HKEYS", &key]).await.unwrap();
            sick.extend(own);
        }
        let all = (0..TASKS).map(|n| n.to_string());
        let (sick, healthy): (Vec<_>, Vec<_>) = all.partition(|id| sick.contains(id));
        assert!(!sick.is_empty() && !healthy.is_empty());
        Self {
            set,
            node,
            sick,
            healthy,
        }
    }

    fn stop(&mut self) {
        self.set.nodes[self.node].stop();
    }

    fn resume(&mut self) {
        self.set.nodes[self.node].resume();
    }
}

async fn open(set: &ClusterSet, options: StoreOptions) -> Arc<RedisStore> {
    RedisStore::connect(&set.url(), options).await.unwrap()
}

async fn make_due(store: &RedisStore, name: &str, after: Duration) {
    let due = When::After(after);
    let moved = store.reschedule(&task_type(), &id(name), due).await;
    assert!(matches!(moved, Ok(ChangeOutcome::Changed { .. })));
}

/// Claims until it gets the task.
async fn get(store: &RedisStore, name: &str) -> u32 {
    let mut claims = tokio::time::interval(Duration::from_millis(20));
    soon(&format!("the claim of {name}"), async {
        loop {
            claims.tick().await;
            let Ok(claimed) = store.claim(&task_type(), &request()).await else {
                continue;
            };
            let task = claimed.tasks.iter().find(|task| task.lock.id == id(name));
            if let Some(task) = task {
                return task.attempt;
            }
        }
    })
    .await
}

/// Nothing was known to be due in the partition, and no later wake-up names it: the claim with the lost answer had used
/// the only one, and everybody went on with the other partitions for ever.
#[tokio::test]
async fn what_a_lost_claim_took_of_one_partition_comes_back_though_nothing_else_is_due_there() {
    let mut ward = Ward::new().await;
    let short = StoreOptions {
        call_timeout: Duration::from_secs(1),
        ..options()
    };
    let store = open(&ward.set, short).await;
    let other = open(&ward.set, options()).await;
    until("the layout is known and nothing is due", || async {
        let claimed = store.claim(&task_type(), &request()).await.ok()?;
        claimed.tasks.is_empty().then_some(())
    })
    .await;
    let mut wakeups = store.wakeups();
    let sick = ward.sick[0].clone();
    // The channels of a type are listened to soon after it is known.
    let mut after = LATER;
    let heard = async {
        loop {
            after -= Duration::from_secs(1);
            make_due(&other, &sick, after).await;
            let woken = wakeups.next();
            if tokio::time::timeout(Duration::from_millis(200), woken)
                .await
                .is_ok()
            {
                return;
            }
        }
    };
    soon("a wake-up", heard).await;
    make_due(&other, &sick, Duration::ZERO).await;
    soon("a wake-up", wakeups.next()).await;
    ward.stop();
    // It reaches the server, which goes on once nobody waits for the answer.
    let _ = store.claim(&task_type(), &request()).await;
    ward.resume();
    let attempt = get(&store, &sick).await;
    assert_eq!(attempt, 1, "it was given back");
}

/// Shown in one run of three: a machine that stands still holds up any claim.
#[tokio::test]
async fn a_node_that_hangs_holds_up_the_others_once_and_is_asked_until_it_is_back() {
    let mut held_up = Vec::new();
    for _ in 0..3 {
        match hang().await {
            Ok(()) => return,
            Err(how) => held_up.push(how),
        }
    }
    panic!("{held_up:?}");
}

/// Has a node hang while tasks of others become due. Fails with what was held up.
async fn hang() -> Result<(), String> {
    /// More than the answer of a healthy partition and the patience with a sick one take.
    const LONG: Duration = Duration::from_millis(200);
    const TOO_LONG: Duration = Duration::from_millis(900);
    let mut ward = Ward::new().await;
    let store = open(&ward.set, options()).await;
    let other = open(&ward.set, options()).await;
    let sick = ward.sick[0].clone();
    make_due(&other, &sick, Duration::from_secs(1)).await;
    until("the layout is known and nothing is due", || async {
        let claimed = store.claim(&task_type(), &request()).await.ok()?;
        claimed.tasks.is_empty().then_some(())
    })
    .await;
    ward.stop();
    let (start, mut long) = (Instant::now(), Vec::new());
    let mut healthy: BTreeSet<TaskId> = BTreeSet::new();
    let mut claims = tokio::time::interval(Duration::from_millis(20));
    let mut names = ward.healthy.iter();
    while start.elapsed() < Duration::from_secs(9) {
        claims.tick().await;
        if start.elapsed() > Duration::from_millis(500) * u32::try_from(healthy.len()).unwrap()
            && let Some(name) = names.next()
        {
            make_due(&other, name, Duration::ZERO).await;
        }
        let asked = Instant::now();
        let one = ClaimRequest {
            limit: 5,
            ..request()
        };
        let claimed = store.claim(&task_type(), &one).await.unwrap();
        long.extend(Some(asked.elapsed()).filter(|span| *span > LONG));
        healthy.extend(claimed.tasks.into_iter().map(|task| task.lock.id));
    }
    assert!(healthy.len() >= 9, "{} were started", healthy.len());
    ward.resume();
    let back = Instant::now();
    let attempt = get(&store, &sick).await;
    assert_eq!(attempt, 1);
    let back = back.elapsed();
    let is_soon = long.len() <= 3 && long.iter().all(|span| *span < TOO_LONG);
    if is_soon && back < Duration::from_secs(1) {
        return Ok(());
    }
    Err(format!("claims took {long:?}; heard again after {back:?}"))
}

#[tokio::test]
async fn a_claim_waits_for_a_slow_node_as_long_as_it_was_told() {
    let mut ward = Ward::new().await;
    let config = RedisConfig::parse(&format!("{}?patience_ms=20000", ward.set.url())).unwrap();
    let patient = StoreOptions {
        call_timeout: Duration::from_secs(20),
        ..options()
    };
    let store = RedisStore::connect_with(config, patient).await.unwrap();
    let names = [ward.sick[0].clone(), ward.healthy[0].clone()];
    for name in &names {
        make_due(&store, name, Duration::ZERO).await;
    }
    ward.stop();
    let (task_type, request) = (task_type(), request());
    let mut claim = store.claim(&task_type, &request);
    // Three times as long as without the option.
    let early = tokio::time::timeout(Duration::from_millis(750), &mut claim).await;
    assert!(early.is_err(), "{early:?}");
    ward.resume();
    let claimed = soon("the claim", claim).await.unwrap();
    let got: BTreeSet<_> = claimed.tasks.into_iter().map(|task| task.lock.id).collect();
    assert_eq!(got, names.iter().map(|name| id(name)).collect());
    assert_eq!(claimed.unheard, 0);
}

/// Whoever extends has to hear of the locks that hold before they run out.
#[tokio::test]
async fn an_extension_waits_for_a_slow_node_a_third_of_the_lock_at_most() {
    const LOCK: Duration = Duration::from_secs(6);
    let mut ward = Ward::new().await;
    let config = RedisConfig {
        partition_patience: LOCK,
        ..RedisConfig::parse(&ward.set.url()).unwrap()
    };
    let patient = StoreOptions {
        call_timeout: LOCK,
        ..options()
    };
    let store = RedisStore::connect_with(config, patient).await.unwrap();
    for name in [&ward.sick[0], &ward.healthy[0]] {
        make_due(&store, name, Duration::ZERO).await;
    }
    let claimed = store.claim(&task_type(), &request()).await.unwrap();
    let locks: Vec<_> = claimed.tasks.into_iter().map(|task| task.lock).collect();
    assert_eq!(locks.len(), 2);
    let is_sick: Vec<_> = locks
        .iter()
        .map(|lock| ward.sick.contains(&lock.id.to_string()))
        .collect();
    ward.stop();
    let task_type = task_type();
    let extended = store.extend(&task_type, locks, LOCK);
    let extended = tokio::time::timeout(LOCK * 2 / 3, extended).await;
    let extended = extended.expect("the locks still hold").unwrap();
    for (outcome, is_sick) in extended.into_iter().zip(is_sick) {
        let expected = matches!(outcome, ExtendOutcome::Unknown) == is_sick
            && matches!(outcome, ExtendOutcome::Extended(_)) != is_sick;
        assert!(expected, "{outcome:?} {is_sick}");
    }
}

/// Who asks it has its handlers come again after each question, or it would be asked with their polls only.
#[tokio::test]
async fn a_question_to_a_partition_that_refuses_wakes_so_that_another_one_is_asked() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = super::open(&server).await;
    let settings = TypeSettings::default().partitions(2);
    store.configure_type(&task_type(), &settings).await.unwrap();
    let key = format!("delayq:{{default/{TYPE}/1.0}}:due");
    run::<()>(&mut raw(&server).await, &format!("SET {key} strange")).await;
    let mut wakeups = store.wakeups();
    for _ in 0..3 {
        let woken = async {
            loop {
                // As a handler: it comes when it is told to, and at once.
                let claimed = store.claim(&task_type(), &request()).await.unwrap();
                let Some(again_in) = claimed.again_in() else {
                    while wakeups.next().await != Some(Wakeup::Type(task_type())) {}
                    return;
                };
                tokio::time::sleep(again_in).await;
            }
        };
        soon("a wake-up", woken).await;
    }
}

/// A claim is told that an older generation is empty, and the node that knows how types are split hangs.
#[tokio::test]
async fn tasks_do_not_wait_for_a_layout_that_cannot_be_changed() {
    let mut set = ClusterSet::start(ClusterOptions {
        replicas: 0,
        node_timeout_ms: 60_000,
        persistence: Persistence::None,
        ..ClusterOptions::default()
    })
    .await;
    let mut found = None;
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let namespace = set.slot_of(&format!("{{{name}}}")).await;
        let whole = set.slot_of(&format!("{{{name}/{TYPE}}}")).await;
        let nodes = (set.node_of(namespace).await, set.node_of(whole).await);
        if nodes.0 != nodes.1 {
            found = Some((name, nodes.0));
        }
    }
    let (name, node) = found.unwrap();
    let options = StoreOptions {
        namespace: Namespace::new(name).unwrap(),
        retention: Duration::ZERO,
        ..options()
    };
    let store = open(&set, options).await;
    let claim = async || store.claim(&task_type(), &request()).await.unwrap();
    let accepted = store.submit(vec![task(job("old"))]).await;
    assert!(matches!(accepted[..], [Ok(SubmitOutcome::Accepted { .. })]));
    let settings = TypeSettings::default().partitions(6);
    store.configure_type(&task_type(), &settings).await.unwrap();
    let old = claim().await.tasks.remove(0).lock;
    let mut jobs = (0..TASKS).map(|n| task(job(&n.to_string())));
    store.submit(jobs.by_ref().take(TASKS / 2).collect()).await;
    let all = async {
        let mut taken = 0;
        while taken < TASKS / 2 {
            taken += claim().await.tasks.len();
        }
    };
    soon("the claim of all", all).await;
    let (lock, end) = (old, AttemptEnd::Done);
    let done = vec![Settlement { lock, end }];
    let settled = store.settle(&task_type(), done).await;
    assert_eq!(settled, Ok(vec![SettleOutcome::Settled]));
    store.submit(jobs.collect()).await;
    set.nodes[node].stop();
    let (start, mut count) = (Instant::now(), 0);
    // The partition that is empty says so with the second one at the latest.
    for _ in 0..2 {
        count += claim().await.tasks.len();
    }
    assert!(count > 0);
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    // Nor does every claim try.
    let (start, mut claims) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(1) {
        claim().await;
        claims += 1;
    }
    assert!(claims > 10, "{claims}");
    set.nodes[node].resume();
    until("the older generation is dropped", || async {
        claim().await;
        let layouts = format!("delayq:{{{name}}}:layouts");
        let layout: String = set.ask(node, &["HGET", &layouts, TYPE]).await.ok()?;
        (!layout.contains(" 0:1 ")).then_some(())
    })
    .await;
}

/// Passes connections on to a server, but for what has `word` in it, and all behind that, while it is closed.
async fn gate(server: &RedisServer, word: &'static [u8]) -> (String, watch::Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let (open, port) = (watch::Sender::new(false), server.port());
    let opens = open.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let (mut requests, mut client) = client.into_split();
            let (mut answers, mut server) = server.into_split();
            let mut is_open = opens.subscribe();
            tokio::spawn(async move {
                let mut bytes = vec![0; 1 << 16];
                while let Ok(count @ 1..) = requests.read(&mut bytes).await {
                    if bytes[..count]
                        .windows(word.len())
                        .any(|found| found == word)
                    {
                        is_open.wait_for(|is_open| *is_open).await.unwrap();
                    }
                    server.write_all(&bytes[..count]).await.unwrap();
                }
            });
            tokio::spawn(async move { copy(&mut answers, &mut client).await });
        }
    });
    (url, open)
}

/// The claim was answered, and given up while the damaged one was put aside: the good ones waited for the end of their
/// locks, and had lost an attempt.
#[tokio::test]
async fn good_tasks_beside_a_damaged_one_come_back_if_the_claim_is_given_up() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (url, open) = gate(&server, b"corrupt: ").await;
    let store = RedisStore::connect(&url, options()).await.unwrap();
    let settings = TypeSettings::default().partitions(2);
    store.configure_type(&task_type(), &settings).await.unwrap();
    let jobs = (0..TASKS).map(|n| task(job(&n.to_string()).after(LATER)));
    store.submit(jobs.collect()).await;
    let mut redis = raw(&server).await;
    let tasks = format!("delayq:{{default/{TYPE}/1.0}}:tasks");
    let ids: Vec<String> = run(&mut redis, &format!("HKEYS {tasks}")).await;
    let mut all = (0..TASKS).map(|n| n.to_string());
    let other = all.find(|id| !ids.contains(id)).unwrap();
    run::<u64>(&mut redis, &format!("HSET {tasks} {} nonsense", ids[0])).await;
    for id in &ids[..2] {
        let due = tasks.replace(":tasks", ":due");
        run::<u64>(&mut redis, &format!("ZADD {due} 1 {id}")).await;
    }
    make_due(&store, &other, Duration::ZERO).await;
    let claimed = store.claim(&task_type(), &request()).await.unwrap();
    assert_eq!((claimed.tasks.len(), claimed.unheard), (1, 1));
    open.send_replace(true);
    assert_eq!(get(&store, &ids[1]).await, 1);
    until("the damaged one is dead", || async {
        let found = store.find(&task_type(), &id(&ids[0])).await.ok()??;
        (found.state == TaskState::Dead).then_some(())
    })
    .await;
}
