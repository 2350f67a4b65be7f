//! The hot and the cold server are killed while tasks are moved, and come back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delayq_core::operate::Operate;
use delayq_core::store::{AttemptEnd, Bucket, ClaimRequest, MAX_BATCH, Settlement, StoreOptions};
use delayq_core::{
    Clock, NewTask, Store, SystemClock, TaskId, TaskType, Timestamp, When, millis, seconds,
};
use delayq_postgres::PostgresStore;
use delayq_redis::RedisStore;
use delayq_tests::postgres_server::PostgresServer;
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tiered::{TierOptions, TieredStore};

const TASKS: usize = 3_000;

fn task_type() -> TaskType {
    TaskType::new("job").unwrap()
}

async fn open(hot: &str, cold: &str) -> Arc<TieredStore> {
    let options = StoreOptions {
        call_timeout: seconds(1),
        ..StoreOptions::default()
    };
    let hot = RedisStore::connect(hot, options.clone()).await.unwrap();
    let cold = PostgresStore::connect(cold, options.clone()).await.unwrap();
    let tier = TierOptions::new(seconds(2), &options);
    let tier = tier.for_tests(millis(500), seconds(2), Arc::new(SystemClock));
    TieredStore::open(hot, cold, tier).unwrap()
}

/// The starts of a task, and whether it is done.
#[derive(Debug, Default)]
struct Life {
    /// Starts without an earlier attempt.
    first: Vec<Timestamp>,
    done: u32,
}

/// Runs tasks until all are done. A repeat has a reason in the history of its task.
async fn work(store: Arc<TieredStore>) -> BTreeMap<TaskId, Life> {
    let mut lives: BTreeMap<TaskId, Life> = BTreeMap::new();
    let bucket = Bucket::whole(task_type());
    let end = SystemClock.elapsed() + seconds(90);
    let mut done = 0;
    while done < TASKS {
        assert!(SystemClock.elapsed() < end, "{done} are done");
        let request = ClaimRequest::new(MAX_BATCH, seconds(2), SystemClock.now());
        let Ok(claimed) = store.claim(&bucket, &request.max_lock_expiries(100)).await else {
            SystemClock
                .sleep_until(SystemClock.elapsed() + millis(20))
                .await;
            continue;
        };
        let now = SystemClock.now();
        let mut ends = Vec::new();
        for task in claimed.tasks {
            let life = lives.entry(task.lock.id.clone()).or_default();
            let history = &task.history;
            if history.failures + history.lock_expiries + history.releases == 0 {
                life.first.push(now);
            }
            ends.push(Settlement::new(task.lock, AttemptEnd::Done));
        }
        if ends.is_empty() {
            SystemClock
                .sleep_until(SystemClock.elapsed() + millis(2))
                .await;
            continue;
        }
        // A settlement whose answer is lost is repeated, as a handler does.
        while SystemClock.elapsed() < end {
            if store.settle(&bucket, ends.clone()).await.is_ok() {
                break;
            }
        }
        for one in ends {
            let life = lives.entry(one.lock.id).or_default();
            life.done += 1;
            done += usize::from(life.done == 1);
        }
    }
    lives
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_killed_lose_nothing_and_no_task_runs_early_or_twice() {
    let mut redis = RedisServer::start(Persistence::Always, &[]);
    let mut postgres = PostgresServer::start(&[]);
    let (hot, cold) = (redis.url(), format!("{}?connections=4", postgres.url()));
    let instances = [open(&hot, &cold).await, open(&hot, &cold).await];
    let first = SystemClock.now().plus(millis(3_000));
    let (mut due, mut batch) = (BTreeMap::new(), Vec::new());
    for n in 0..TASKS {
        let id = TaskId::new(format!("t{n}")).unwrap();
        let mut task = NewTask::new(task_type(), id.clone(), b"message".to_vec());
        let at = first.plus(millis(3 * n as u64));
        task.when = When::At(at);
        due.insert(id, at);
        batch.push(task);
    }
    for outcome in instances[0].submit(batch).await {
        outcome.unwrap();
    }
    let worker = tokio::spawn(work(instances[1].clone()));
    let is_over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&is_over);
    let killer = tokio::task::spawn_blocking(move || {
        let mut kills = 0;
        let wait = |ms: u64| {
            let (_keep, never) = std::sync::mpsc::channel::<()>();
            never.recv_timeout(millis(ms)).unwrap_err();
        };
        wait(2_700);
        while !ended.load(Ordering::Relaxed) && kills < 8 {
            redis.kill();
            wait(200);
            redis.restart();
            wait(400);
            postgres.kill();
            wait(200);
            postgres.restart();
            wait(400);
            kills += 2;
        }
        (redis, postgres, kills)
    });
    let lives = worker.await.unwrap();
    is_over.store(true, Ordering::Relaxed);
    let (_redis, _postgres, kills) = killer.await.unwrap();
    println!("{kills} kills");
    assert!(
        kills >= 4,
        "the moves were over before the servers were killed"
    );
    for (id, due) in &due {
        let life = &lives[id];
        assert!(life.first.len() <= 1, "{id} was born twice: {life:?}");
        assert!(
            life.first.iter().all(|at| at >= due),
            "{id} is due {due}: {life:?}"
        );
    }
    let end = SystemClock.elapsed() + seconds(30);
    loop {
        let stats = instances[0].stats(&task_type()).await.unwrap();
        if stats.scheduled + stats.running == 0 {
            assert_eq!(stats.dead, 0);
            break;
        }
        assert!(SystemClock.elapsed() < end, "{stats:?}");
        SystemClock
            .sleep_until(SystemClock.elapsed() + millis(20))
            .await;
    }
    let report = instances[0].audit(&task_type(), false).await.unwrap();
    assert_eq!(report.problems, []);
}
