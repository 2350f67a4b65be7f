//! What no replica has confirmed: its outcome is not known, however often it is repeated.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::operate::DeadFilter;
use delayq_core::store::{
    AttemptEnd, CancelOutcome, ClaimRequest, Durability, SettleOutcome, Settlement, StoreOptions,
    SubmitOutcome,
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

fn whole() -> Bucket {
    Bucket::whole(task_type())
}

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

fn unconfirmed<T: std::fmt::Debug>(answer: Result<T>) {
    match answer {
        Err(Error::Indeterminate { detail, .. }) => {
            assert!(detail.contains("replicas confirmed it"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_repeated_submit_that_finds_its_task_is_confirmed_like_the_first() {
    let mut set = start().await;
    let store = open(&set).await;
    submit(&store, "early").await.unwrap();
    let other = open(&set).await;
    set.servers[1].stop();
    unconfirmed(submit(&store, "late").await);
    unconfirmed(submit(&store, "late").await);
    unconfirmed(submit(&other, "late").await);
    set.servers[1].resume();
    for store in [store, other] {
        let again = submit(&store, "late").await;
        assert!(
            matches!(again, Ok(SubmitOutcome::AlreadyExists { .. })),
            "{again:?}"
        );
    }
}

#[tokio::test]
async fn a_repeated_settlement_is_confirmed_like_the_first() {
    let mut set = start().await;
    let store = open(&set).await;
    submit(&store, "1").await.unwrap();
    let request = ClaimRequest::new(1, Duration::from_mins(1), SystemClock.now());
    let claimed = store.claim(&whole(), &request).await.unwrap();
    let settlement = || Settlement::new(claimed.tasks[0].lock.clone(), AttemptEnd::Done);
    let other = open(&set).await;
    set.servers[1].stop();
    unconfirmed(store.settle(&whole(), vec![settlement()]).await);
    unconfirmed(other.settle(&whole(), vec![settlement()]).await);
    set.servers[1].resume();
    let settled = other.settle(&whole(), vec![settlement()]).await;
    assert_eq!(settled, Ok(vec![SettleOutcome::Settled]));
}

#[tokio::test]
async fn a_repeated_cancel_is_confirmed_like_the_first() {
    let mut set = start().await;
    let store = open(&set).await;
    submit(&store, "1").await.unwrap();
    let other = open(&set).await;
    set.servers[1].stop();
    unconfirmed(store.cancel(&task_type(), &id("1")).await);
    unconfirmed(other.cancel(&task_type(), &id("1")).await);
    set.servers[1].resume();
    let cancelled = other.cancel(&task_type(), &id("1")).await;
    let finished = CancelOutcome::Finished(delayq_core::TaskState::Cancelled);
    assert_eq!(cancelled, Ok(finished));
}

/// What finds nothing left to do, because the first call did it, has not been confirmed either.
#[tokio::test]
async fn a_repeated_operation_on_a_type_is_confirmed_like_the_first() {
    let mut set = start().await;
    let store = open(&set).await;
    for name in ["1", "2"] {
        submit(&store, name).await.unwrap();
    }
    let cancelled = store.cancel(&task_type(), &id("2")).await;
    assert_eq!(cancelled, Ok(CancelOutcome::Cancelled));
    store.pause(&task_type(), None).await.unwrap();
    let other = open(&set).await;
    set.servers[1].stop();
    let dead = DeadFilter::Ids(vec![id("1")]);
    for store in [&store, &other] {
        unconfirmed(store.purge(&task_type(), TaskState::Scheduled).await);
        unconfirmed(store.purge(&task_type(), TaskState::Cancelled).await);
        unconfirmed(store.resume(&task_type()).await);
        unconfirmed(store.discard_dead(&task_type(), &dead).await);
        let at_once = Duration::ZERO;
        unconfirmed(store.requeue_dead(&task_type(), &dead, at_once).await);
    }
    set.servers[1].resume();
    let purged = other.purge(&task_type(), TaskState::Scheduled).await;
    assert_eq!(purged, Ok(0));
    assert_eq!(other.resume(&task_type()).await, Ok(()));
}

/// Of a type of which nothing is written down any more.
#[tokio::test]
async fn a_repeated_resume_that_finds_nothing_is_confirmed_like_the_first() {
    let mut set = start().await;
    let store = open(&set).await;
    store.pause(&task_type(), None).await.unwrap();
    let other = open(&set).await;
    set.servers[1].stop();
    unconfirmed(store.resume(&task_type()).await);
    unconfirmed(other.resume(&task_type()).await);
    set.servers[1].resume();
    assert_eq!(other.resume(&task_type()).await, Ok(()));
    assert_eq!(other.types().await, store.types().await);
}

/// Its tasks are not handed out, and are as they were for whoever claims next: no attempt was
/// burned.
#[tokio::test]
async fn tasks_of_a_claim_that_was_not_confirmed_are_claimed_again_unharmed() {
    let mut set = start().await;
    let store = open(&set).await;
    submit(&store, "1").await.unwrap();
    let request = ClaimRequest::new(1, Duration::from_mins(1), SystemClock.now());
    set.servers[1].stop();
    unconfirmed(store.claim(&whole(), &request).await);
    unconfirmed(store.claim(&whole(), &request).await);
    set.servers[1].resume();
    let claimed = store.claim(&whole(), &request).await.unwrap();
    assert_eq!(claimed.tasks.len(), 1);
    assert_eq!(claimed.tasks[0].attempt, 1);
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

/// No sentinel may make it the master, so it need not be taken for dead first.
#[tokio::test]
async fn a_replica_of_priority_0_confirms_only_while_it_is_heard_of() {
    let mut set = start_with(2, 60_000).await;
    assert_eq!(set.in_sync().await, 0);
    let store = open(&set).await;
    until_it_waits_for(2, &set, &store).await;
    let never = ["CONFIG", "SET", "replica-priority", "0"];
    set.ask::<()>(1, &never).await.unwrap();
    until("a sentinel that knows it", || async {
        let priority = seen(&set, 1, "slave-priority").await;
        (priority.as_deref() == Some("0")).then_some(())
    })
    .await;
    assert_eq!(waits_for(&set, &store).await, 2);
    set.servers[1].stop();
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

#[tokio::test]
async fn a_number_that_is_given_is_that_number() {
    let mut set = start_with(2, 60_000).await;
    assert_eq!(set.in_sync().await, 0);
    let store = open_at(&format!("{}?replicas=1", set.url())).await;
    assert_eq!(waits_for(&set, &store).await, 1);
    set.servers[1].stop();
    submit(&store, "stopped").await.unwrap();
}
