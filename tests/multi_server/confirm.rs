//! What no replica has confirmed: its outcome is not known, however often it is repeated.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::operate::DeadFilter;
use delayq_core::store::{
    AttemptEnd, CancelOutcome, ClaimRequest, Claimed, Durability, SettleOutcome, Settlement,
    StoreOptions, SubmitOutcome,
};
use delayq_core::{
    Bucket, Clock, DelayQueueJob, Error, Limits, NewTask, Operate, Result, Store, SystemClock,
    TaskId, TaskState, TaskType,
};
use delayq_redis::RedisStore;
use delayq_tests::liveness::{ask, until_ok};
use delayq_tests::redis_server::Persistence;
use delayq_tests::rig::until;
use delayq_tests::sentinel_set::{MASTER, SentinelOptions, SentinelSet};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Barrier;

pub(super) fn task_type() -> TaskType {
    TaskType::new("job").unwrap()
}

pub(super) fn id(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

fn task(id: &str) -> NewTask {
    let job = DelayQueueJob::raw("job", "message").id(id);
    job.into_task(&Limits::default(), SystemClock.now())
        .unwrap()
}

pub(super) async fn submit(store: &RedisStore, id: &str) -> Result<SubmitOutcome> {
    store.submit(vec![task(id)]).await.pop().unwrap()
}

/// A master and a replica that no sentinel takes for dead, so that the replica can be stopped.
async fn start() -> SentinelSet {
    start_with(1, 60_000).await
}

async fn start_with(replicas: usize, down_after_ms: u64) -> SentinelSet {
    start_watched(replicas, down_after_ms, 1).await
}

async fn start_watched(replicas: usize, down_after_ms: u64, sentinels: usize) -> SentinelSet {
    SentinelSet::start(SentinelOptions {
        servers: 1 + replicas,
        sentinels,
        down_after_ms,
        persistence: Persistence::None,
        extra: vec!["--min-replicas-to-write".to_owned(), "1".to_owned()],
        ..SentinelOptions::default()
    })
    .await
}

/// A store with connections of its own, which know nothing of what others wrote.
async fn open(set: &SentinelSet) -> Arc<RedisStore> {
    open_at(&set.url()).await
}

pub(super) async fn open_at(url: &str) -> Arc<RedisStore> {
    let options = StoreOptions {
        durability: Durability::Replicated,
        call_timeout: Duration::from_secs(4),
        ..StoreOptions::default()
    };
    RedisStore::connect(url, options).await.unwrap()
}

fn unconfirmed<T: Debug>(answer: Result<T>) {
    match answer {
        Err(Error::Indeterminate { detail, .. }) => {
            assert!(detail.contains("replicas confirmed it"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
}

/// The steps of operations that are tried beside each other on one set of servers.
struct Steps(Barrier);

impl Steps {
    /// Ends a step: once all have, the servers are changed, and the next one begins.
    async fn next(&self) {
        self.0.wait().await;
        self.0.wait().await;
    }
}

/// A type of its own, with two tasks of which one is cancelled, and two stores that know nothing of
/// each other.
struct Pair {
    task_type: TaskType,
    stores: [Arc<RedisStore>; 2],
}

impl Pair {
    async fn open(url: &str, name: &str) -> Self {
        let pair = Self {
            task_type: TaskType::new(name).unwrap(),
            stores: [open_at(url).await, open_at(url).await],
        };
        for name in ["1", "2"] {
            pair.submit(&pair.stores[0], name).await.unwrap();
        }
        let cancelled = pair.stores[0].cancel(&pair.task_type, &id("2")).await;
        assert_eq!(cancelled, Ok(CancelOutcome::Cancelled));
        pair
    }

    async fn submit(&self, store: &RedisStore, name: &str) -> Result<SubmitOutcome> {
        let job = DelayQueueJob::raw(self.task_type.as_str(), "message").id(name);
        let task = job.into_task(&Limits::default(), SystemClock.now());
        store.submit(vec![task.unwrap()]).await.pop().unwrap()
    }

    async fn claim(&self) -> Result<Claimed> {
        let bucket = Bucket::whole(self.task_type.clone());
        let request = ClaimRequest::new(1, Duration::from_mins(1), SystemClock.now());
        self.stores[0].claim(&bucket, &request).await
    }
}

async fn repeated_submit(url: &str, steps: &Steps) {
    let pair = Pair::open(url, "submit").await;
    let [store, other] = &pair.stores;
    steps.next().await;
    unconfirmed(pair.submit(store, "late").await);
    unconfirmed(pair.submit(store, "late").await);
    unconfirmed(pair.submit(other, "late").await);
    steps.next().await;
    for store in [store, other] {
        let again = pair.submit(store, "late").await;
        assert!(
            matches!(again, Ok(SubmitOutcome::AlreadyExists { .. })),
            "{again:?}"
        );
    }
}

async fn repeated_settlement(url: &str, steps: &Steps) {
    let pair = Pair::open(url, "settle").await;
    let bucket = Bucket::whole(pair.task_type.clone());
    let lock = pair.claim().await.unwrap().tasks.remove(0).lock;
    let settlement = || vec![Settlement::new(lock.clone(), AttemptEnd::Done)];
    steps.next().await;
    for store in &pair.stores {
        unconfirmed(store.settle(&bucket, settlement()).await);
    }
    steps.next().await;
    let settled = pair.stores[1].settle(&bucket, settlement()).await;
    assert_eq!(settled, Ok(vec![SettleOutcome::Settled]));
}

/// Its tasks are not handed out, and are as they were for whoever claims next: no attempt was
/// burned.
async fn repeated_claim(url: &str, steps: &Steps) {
    let pair = Pair::open(url, "claim").await;
    steps.next().await;
    unconfirmed(pair.claim().await);
    unconfirmed(pair.claim().await);
    steps.next().await;
    let claimed = pair.claim().await.unwrap();
    assert_eq!(claimed.tasks.len(), 1);
    assert_eq!(claimed.tasks[0].attempt, 1);
}

/// Of a type of which nothing is written down any more.
async fn repeated_resume_of_nothing(url: &str, steps: &Steps) {
    let [store, other] = [open_at(url).await, open_at(url).await];
    let task_type = TaskType::new("nothing").unwrap();
    store.pause(&task_type, None).await.unwrap();
    steps.next().await;
    unconfirmed(store.resume(&task_type).await);
    unconfirmed(other.resume(&task_type).await);
    steps.next().await;
    assert_eq!(other.resume(&task_type).await, Ok(()));
    for store in [store, other] {
        assert!(!store.types().await.unwrap().contains(&task_type));
    }
}

/// What finds nothing left to do, because the first call did it, has not been confirmed either.
async fn repeated<T: Debug>(
    url: &str,
    steps: &Steps,
    name: &str,
    call: impl AsyncFn(&RedisStore, &TaskType) -> Result<T>,
) -> Result<T> {
    let pair = Pair::open(url, name).await;
    pair.stores[0].pause(&pair.task_type, None).await.unwrap();
    steps.next().await;
    for store in &pair.stores {
        unconfirmed(call(store, &pair.task_type).await);
    }
    steps.next().await;
    call(&pair.stores[1], &pair.task_type).await
}

#[tokio::test]
async fn what_is_repeated_is_confirmed_like_the_first() {
    let mut set = start().await;
    let url = &set.url();
    let steps = &Steps(Barrier::new(11));
    let dead = &DeadFilter::Ids(vec![id("1")]);
    let strike = async {
        steps.0.wait().await;
        set.servers[1].stop();
        steps.0.wait().await;
        steps.0.wait().await;
        set.servers[1].resume();
        steps.0.wait().await;
    };
    let ends = tokio::join!(
        repeated(url, steps, "cancel", async |store, of| {
            store.cancel(of, &id("1")).await
        }),
        repeated(url, steps, "purge-scheduled", async |store, of| {
            store.purge(of, TaskState::Scheduled).await
        }),
        repeated(url, steps, "purge-cancelled", async |store, of| {
            store.purge(of, TaskState::Cancelled).await.map(|_| ())
        }),
        repeated(url, steps, "resume", async |store, of| {
            store.resume(of).await
        }),
        repeated(url, steps, "discard-dead", async |store, of| {
            store.discard_dead(of, dead).await.map(|_| ())
        }),
        repeated(url, steps, "requeue-dead", async |store, of| {
            let at_once = Duration::ZERO;
            store.requeue_dead(of, dead, at_once).await.map(|_| ())
        }),
        repeated_submit(url, steps),
        repeated_settlement(url, steps),
        repeated_claim(url, steps),
        repeated_resume_of_nothing(url, steps),
        strike,
    );
    let (cancelled, scheduled, ended, resumed, discarded, requeued, ..) = ends;
    assert_eq!(cancelled, Ok(CancelOutcome::Finished(TaskState::Cancelled)));
    assert_eq!(scheduled, Ok(0));
    for end in [ended, resumed, discarded, requeued] {
        assert_eq!(end, Ok(()));
    }
}

/// How many replicas the next write waits for.
async fn waits_for(set: &SentinelSet, store: &RedisStore) -> u32 {
    let server = TcpStream::connect(("127.0.0.1", set.server_port(0)));
    let mut server = BufReader::new(server.await.unwrap());
    server.write_all(b"MONITOR\r\n").await.unwrap();
    let mut lines = server.lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("+OK"));
    // Whether it is confirmed is not asked here.
    let _ = submit(store, "again").await;
    loop {
        let line = lines.next_line().await.unwrap().unwrap();
        if let Some((_, wait)) = line.split_once("\"WAIT\" \"") {
            return wait.split('"').next().unwrap().parse().unwrap();
        }
    }
}

async fn until_it_waits_for(replicas: u32, set: &SentinelSet, store: &RedisStore) {
    until(&format!("a wait for {replicas} replicas"), || async {
        (waits_for(set, store).await == replicas).then_some(())
    })
    .await;
}

pub(super) async fn until_accepted(store: &RedisStore, id: &str) {
    let submitted = || async { submit(store, id).await.map_err(|error| error.to_string()) };
    until_ok("a task", submitted).await;
}

/// The sentinels may make any of them the master, but for one that is gone, or silent for long,
/// until it is back.
#[tokio::test]
async fn every_replica_that_may_become_the_master_confirms() {
    let mut set = start_with(2, 1_000).await;
    assert_eq!(set.in_sync().await, 0);
    let store = open(&set).await;
    until_it_waits_for(2, &set, &store).await;
    set.servers[1].kill();
    until_accepted(&store, "killed").await;
    until_it_waits_for(1, &set, &store).await;
    set.servers[1].restart();
    until_it_waits_for(2, &set, &store).await;
    set.servers[1].stop();
    until_it_waits_for(1, &set, &store).await;
    until_accepted(&store, "stopped").await;
    set.servers[1].resume();
    until_it_waits_for(2, &set, &store).await;
}

/// What the first sentinel says of a replica.
async fn seen(set: &SentinelSet, replica: usize, field: &str) -> Option<String> {
    let words = ["SENTINEL", "REPLICAS", MASTER];
    let rows: Vec<HashMap<String, String>> = ask(&set.sentinels[0].url(), &words).await.ok()?;
    let port = set.server_port(replica).to_string();
    let mut row = rows.into_iter().find(|row| row["port"] == port)?;
    row.remove(field)
}

/// No sentinel may make it the master, so it need not be taken for dead first. A number of replicas
/// that is given is that number.
#[tokio::test]
async fn a_replica_of_priority_0_confirms_only_while_it_is_heard_of() {
    let mut set = start_with(2, 60_000).await;
    assert_eq!(set.in_sync().await, 0);
    let store = open(&set).await;
    let by_number = open_at(&format!("{}?replicas=1", set.url())).await;
    until_it_waits_for(2, &set, &store).await;
    assert_eq!(waits_for(&set, &by_number).await, 1);
    let never = ["CONFIG", "SET", "replica-priority", "0"];
    set.ask::<()>(1, &never).await.unwrap();
    until("a sentinel that knows it", || async {
        let priority = seen(&set, 1, "slave-priority").await;
        (priority.as_deref() == Some("0")).then_some(())
    })
    .await;
    assert_eq!(waits_for(&set, &store).await, 2);
    set.servers[1].stop();
    submit(&by_number, "stopped").await.unwrap();
    until_it_waits_for(1, &set, &store).await;
    until_accepted(&store, "without-it").await;
    set.servers[2].stop();
    unconfirmed(submit(&store, "without-the-other").await);
}

/// The two others might have chosen the replica that this one takes for dead.
#[tokio::test]
async fn who_is_told_of_one_sentinel_of_three_waits_for_every_replica_that_was_ever_known() {
    let mut set = start_watched(2, 1_000, 3).await;
    assert_eq!(set.in_sync().await, 0);
    let one = format!(
        "redis-sentinel://127.0.0.1:{}/{MASTER}",
        set.sentinel_port(0)
    );
    let (of_one, of_all) = (open_at(&one).await, open(&set).await);
    until_it_waits_for(2, &set, &of_one).await;
    set.servers[1].kill();
    until("a sentinel that takes it for dead", || async {
        let flags = seen(&set, 1, "flags").await?;
        flags.contains("s_down").then_some(())
    })
    .await;
    until_accepted(&of_all, "most-say-so").await;
    unconfirmed(submit(&of_one, "one-says-so").await);
    set.servers[1].restart();
    until_accepted(&of_one, "it-is-back").await;
    set.servers[0].kill();
    set.failed_over(0).await;
    set.servers[0].restart();
    set.in_sync().await;
    until_accepted(&of_one, "the-new-master").await;
}
