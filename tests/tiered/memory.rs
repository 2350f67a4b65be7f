//! Far tasks take no memory of Redis. With the feature `soak` it prints how fast they are moved.

use std::sync::Arc;

use delayq_core::operate::Operate;
use delayq_core::store::StoreOptions;
use delayq_core::{
    Clock, NewTask, Store, SystemClock, TaskId, TaskType, When, hours, millis, minutes, seconds,
};
use delayq_postgres::PostgresStore;
use delayq_redis::RedisStore;
use delayq_tests::postgres_server::PostgresServer;
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tiered::{TierOptions, TieredStore};

const TASKS: u32 = if cfg!(feature = "soak") {
    100_000
} else {
    10_000
};

fn task_type() -> TaskType {
    TaskType::new("job").unwrap()
}

async fn used(url: &str) -> u64 {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let info: String = redis::cmd("INFO")
        .arg("memory")
        .query_async(&mut connection)
        .await
        .unwrap();
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    line.unwrap().trim().parse().unwrap()
}

/// Submits tasks in batches, several at a time. Answers the seconds that it took.
async fn fill(store: &Arc<TieredStore>, name: &'static str, when: When) -> f64 {
    let began = SystemClock.elapsed();
    let mut lanes = Vec::new();
    for lane in 0..8 {
        let store = Arc::clone(store);
        lanes.push(tokio::spawn(async move {
            for batch in 0..TASKS / 8 / 125 {
                let task = |n: usize| {
                    let id = TaskId::new(format!("{name}-{lane:02}-{batch:05}-{n:03}")).unwrap();
                    let mut task = NewTask::new(task_type(), id, vec![b'x'; 100]);
                    task.when = when;
                    task
                };
                for outcome in store.submit((0..125).map(task).collect()).await {
                    outcome.unwrap();
                }
            }
        }));
    }
    for lane in lanes {
        lane.await.unwrap();
    }
    SystemClock.elapsed().saturating_sub(began).as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn far_tasks_take_no_memory_of_redis_and_are_moved_in_time() {
    let redis = RedisServer::start(Persistence::EverySecond, &[]);
    let postgres = PostgresServer::start(&[]);
    let options = StoreOptions::default();
    let hot = RedisStore::connect(&redis.url(), options.clone())
        .await
        .unwrap();
    let cold = PostgresStore::connect(&postgres.url(), options.clone())
        .await
        .unwrap();
    let tier = TierOptions::new(seconds(5), &options);
    let tier = tier.for_tests(seconds(2), seconds(10), Arc::new(SystemClock));
    let store = TieredStore::open(hot.clone(), cold, tier).unwrap();
    let before = used(&redis.url()).await;
    let took = fill(&store, "far", When::After(hours(24 * 30))).await;
    let after = used(&redis.url()).await;
    println!(
        "{TASKS} far tasks: {:.0}/s, {} bytes of Redis",
        f64::from(TASKS) / took,
        after.saturating_sub(before)
    );
    // Buffers of connections, and nothing that grows with the tasks.
    assert!(after < before + 2_000_000, "{before} before, {after} after");
    let stats = store.stats(&task_type()).await.unwrap();
    assert_eq!(stats.scheduled, u64::from(TASKS));
    // All of them become due at the same moment.
    let due = SystemClock
        .now()
        .plus(seconds(if cfg!(feature = "soak") { 40 } else { 12 }));
    fill(&store, "soon", When::At(due)).await;
    let in_hot = async || hot.stats(&task_type()).await.unwrap().scheduled;
    let end = SystemClock.elapsed() + minutes(3);
    let until = async |count: u64| {
        while in_hot().await < count {
            assert!(SystemClock.elapsed() < end, "{} of {count}", in_hot().await);
            SystemClock
                .sleep_until(SystemClock.elapsed() + millis(1))
                .await;
        }
    };
    until(1).await;
    let began = SystemClock.elapsed();
    until(u64::from(TASKS)).await;
    let took = SystemClock.elapsed().saturating_sub(began).as_secs_f64();
    println!("moved {:.0} tasks/s", f64::from(TASKS) / took);
    store.close().await;
}
