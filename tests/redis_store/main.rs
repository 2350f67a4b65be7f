//! What only a Redis store has to get right: connections, server settings, access, its stored forms.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests: a panic is a failure"
)]

mod access;
mod batches;
mod bounds;
mod clock;
mod damage;
mod faults;
mod fences;
mod papers;
mod partitions;
mod permits;
mod preflight;
mod raise;
mod refusals;
mod repeats;
mod room;
mod secrets;
mod sick;
mod silence;
mod synced;
mod tls;
mod turns;
mod wake;

use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{
    ClaimRequest, Claimed, Durability, InstanceId, InstanceInfo, RedisStore, StoreOptions,
    SubmitOutcome,
};
use delayq_core::{
    Clock, DelayQueueJob, FleetLimits, Limits, NewTask, Result, Store, SystemClock, TaskId,
    TaskType,
};
use delayq_tests::redis_server::RedisServer;
use redis::aio::MultiplexedConnection;

const TYPE: &str = "order.cancel";

fn task_type() -> TaskType {
    TaskType::new(TYPE).unwrap()
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
    ClaimRequest {
        limit: usize::MAX,
        lock_for: Duration::from_mins(1),
        caller_now: SystemClock.now(),
        max_lock_expiries: 3,
        fleet: FleetLimits::NONE,
    }
}

async fn claim(store: &RedisStore) -> Result<Claimed> {
    store.claim(&task_type(), &request()).await
}

fn instance() -> InstanceInfo {
    InstanceInfo {
        id: InstanceId::generate(),
        host: "shop-3".to_owned(),
        pid: 17,
        version: "0.1.0".to_owned(),
        types: Vec::new(),
        type_count: 0,
        started_at: SystemClock.now(),
        seen_at: SystemClock.now(),
    }
}

/// The key of the usual type that holds `part`, in the default namespace.
fn key(part: &str) -> String {
    format!("delayq:{{default/{TYPE}}}:{part}")
}
