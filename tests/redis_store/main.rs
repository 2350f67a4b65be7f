//! What only a Redis store has to get right: connections, server settings, access, its stored
//! forms.

#![cfg_attr(
    not(feature = "soak"),
    allow(dead_code, reason = "long tests run with the feature soak")
)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests: a panic is a failure"
)]

mod access;
mod again;
mod bounds;
mod cancels;
mod certificates;
mod chronicle;
mod clock;
mod damage;
mod ends;
mod failing_shard;
mod far;
mod faults;
mod fences;
mod loading;
mod memory_limit;
mod notes;
mod preflight;
mod refusals;
mod repeats;
mod resize;
mod secrets;
mod shards;
mod silent_server;
mod stagger;
mod synced;
mod tls;
mod wake;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::operate::TypeSettings;
use delayq_core::presence::{InstanceId, InstanceInfo};
use delayq_core::store::{
    AttemptEnd, ClaimRequest, Claimed, Durability, SettleOutcome, Settlement, StoreOptions,
    SubmitOutcome,
};
use delayq_core::{
    Bucket, Clock, DelayQueueJob, Limits, NewTask, Operate, Result, Store, SystemClock, TaskId,
    TaskState, TaskType,
};
use delayq_redis::RedisStore;
use delayq_tests::redis_server::RedisServer;
use redis::aio::MultiplexedConnection;

const TYPE: &str = "order.cancel";

fn task_type() -> TaskType {
    TaskType::new(TYPE).unwrap()
}

/// The bucket of the usual type while it is not sharded.
fn whole() -> Bucket {
    Bucket::whole(task_type())
}

fn id(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

fn job(id: &str) -> DelayQueueJob {
    DelayQueueJob::raw(TYPE, "message").id(id)
}

fn task(job: DelayQueueJob) -> NewTask {
    job.into_task(&Limits::default(), SystemClock.now())
        .unwrap()
}

/// Options that no server's settings can refuse.
fn options() -> StoreOptions {
    StoreOptions {
        durability: Durability::Memory,
        ..StoreOptions::default()
    }
}

/// Options of calls that are given up soon.
fn impatient() -> StoreOptions {
    StoreOptions {
        call_timeout: Duration::from_millis(1_500),
        ..options()
    }
}

async fn open(server: &RedisServer) -> Arc<RedisStore> {
    RedisStore::connect(&server.url(), options()).await.unwrap()
}

/// A connection to do things behind the store's back.
async fn raw(server: &RedisServer) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    connection.await.unwrap()
}

/// Runs a command written as in `redis-cli`, without quotes.
async fn run<T: redis::FromRedisValue>(connection: &mut MultiplexedConnection, line: &str) -> T {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    command.arg(words.collect::<Vec<_>>());
    command.query_async(connection).await.unwrap()
}

async fn submit(store: &RedisStore, job: DelayQueueJob) -> Result<SubmitOutcome> {
    store.submit(vec![task(job)]).await.pop().unwrap()
}

async fn accept(store: &RedisStore, job: DelayQueueJob) {
    let outcome = submit(store, job).await;
    assert!(
        matches!(outcome, Ok(SubmitOutcome::Accepted { .. })),
        "{outcome:?}"
    );
}

fn request() -> ClaimRequest {
    ClaimRequest::new(usize::MAX, Duration::from_mins(1), SystemClock.now())
}

async fn claim(store: &RedisStore) -> Result<Claimed> {
    store.claim(&whole(), &request()).await
}

/// One claim from each bucket of the usual type.
async fn claim_each(store: &RedisStore) -> Vec<(Bucket, Result<Claimed>)> {
    let mut claims = Vec::new();
    for bucket in store.buckets(&task_type()).await.unwrap() {
        let claimed = store.claim(&bucket, &request()).await;
        claims.push((bucket, claimed));
    }
    claims
}

/// Claims from each bucket once and settles what comes as done; returns the ids.
async fn take(store: &RedisStore) -> BTreeSet<String> {
    let mut taken = BTreeSet::new();
    for (bucket, claimed) in claim_each(store).await {
        let mut ends = Vec::new();
        for task in claimed.unwrap().tasks {
            let name = task.lock.id.to_string();
            assert!(!taken.contains(&name), "{name} twice");
            taken.insert(name);
            ends.push(Settlement::new(task.lock, AttemptEnd::Done));
        }
        for outcome in store.settle(&bucket, ends).await.unwrap() {
            assert_eq!(outcome, SettleOutcome::Settled);
        }
    }
    taken
}

/// The same, until nothing is due.
async fn take_all(store: &RedisStore) -> BTreeSet<String> {
    let mut taken = BTreeSet::new();
    loop {
        let more = take(store).await;
        if more.is_empty() {
            return taken;
        }
        for name in more {
            assert!(taken.insert(name.clone()), "{name} twice");
        }
    }
}

async fn shard(store: &RedisStore, shards: u32) {
    let settings = TypeSettings::default().shards(shards);
    store.configure_type(&task_type(), &settings).await.unwrap();
}

async fn state(store: &RedisStore, name: &str) -> Option<TaskState> {
    let found = store.find(&task_type(), &id(name)).await.unwrap();
    found.map(|info| info.state)
}

fn instance() -> InstanceInfo {
    InstanceInfo::new(InstanceId::generate(), "shop-3", 17, SystemClock.now())
}

/// The key of the usual type that holds `part`, in the default namespace.
fn key(part: &str) -> String {
    format!("delayq:{{default/{TYPE}}}:{part}")
}
