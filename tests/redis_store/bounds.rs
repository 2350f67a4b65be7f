//! Memory and steps stay bounded.

use std::collections::HashSet;
use std::time::Duration;

use delayq_core::operate::Cursor;
use delayq_core::store::{AttemptEnd, DEFAULT_REMEMBERED, Settlement, StoreOptions};
use delayq_core::{DelayQueueJob, Operate, Presence, Store, TaskState};
use delayq_redis::RedisStore;
use delayq_tests::redis_server::{Persistence, RedisServer};
use redis::aio::MultiplexedConnection;

use super::{
    TYPE, accept, claim, id, instance, job, key, open, options, raw, run, task, task_type, whole,
};

/// Submits and ends `count` tasks.
async fn end(store: &RedisStore, prefix: &str, count: usize) {
    let batch: Vec<_> = (0..count)
        .map(|n| task(job(&format!("{prefix}{n}"))))
        .collect();
    // Each call has a deadline.
    for batch in batch.chunks(5_000) {
        for outcome in store.submit(batch.to_vec()).await {
            outcome.unwrap();
        }
    }
    let mut done = 0;
    while done < count {
        let claimed = claim(store).await.unwrap();
        let ends = claimed
            .tasks
            .into_iter()
            .map(|task| Settlement::new(task.lock, AttemptEnd::Done));
        done += store.settle(&whole(), ends.collect()).await.unwrap().len();
    }
}

/// The generations of ended tasks: what the elder one knows of an id counts only if the younger one
/// does not know it.
#[tokio::test]
async fn a_purge_of_ended_tasks_takes_both_generations_and_counts_each_task_once() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let mut redis = raw(&server).await;
    let [young, old] = ["gone", "gone_old"].map(key);
    end(&store, "a", 3).await;
    run::<String>(&mut redis, &format!("RENAME {young} {old}")).await;
    end(&store, "b", 2).await;
    let mut copy = redis::cmd("HGET");
    let a0: String = copy
        .arg(&old)
        .arg("a0")
        .query_async(&mut redis)
        .await
        .unwrap();
    let mut copy = redis::cmd("HSET");
    copy.arg(&young).arg("a0").arg(a0);
    copy.exec_async(&mut redis).await.unwrap();
    let purged = store.purge(&task_type(), TaskState::Done).await;
    assert_eq!(purged, Ok(5));
    let left: Vec<String> = run(&mut redis, &format!("KEYS {young}*")).await;
    assert_eq!(left, Vec::<String>::new());
}

async fn is_known(store: &RedisStore, name: &str) -> bool {
    store.find(&task_type(), &id(name)).await.unwrap().is_some()
}

#[tokio::test]
async fn ended_tasks_are_remembered_up_to_the_cap_and_no_further() {
    // What holds for any number holds for the one that is promised.
    let remembered = if cfg!(feature = "soak") {
        DEFAULT_REMEMBERED
    } else {
        1_000
    };
    let promised = StoreOptions::default().remembered;
    assert_eq!((promised, DEFAULT_REMEMBERED), (50_000, 50_000));
    let server = RedisServer::start(Persistence::None, &[]);
    let few = StoreOptions {
        remembered,
        ..options()
    };
    let store = RedisStore::connect(&server.url(), few).await.unwrap();
    let mut redis = raw(&server).await;
    end(&store, "a", 200).await;
    end(&store, "b", remembered).await;
    assert!(is_known(&store, "b0").await, "as many as promised");
    end(&store, "c", remembered).await;
    assert!(is_known(&store, "c0").await, "as many as promised");
    assert!(!is_known(&store, "a0").await);
    let young: usize = run(&mut redis, &format!("HLEN {}", key("gone"))).await;
    let old: usize = run(&mut redis, &format!("HLEN {}", key("gone_old"))).await;
    assert!(young + old <= 2 * (remembered + 128), "{young} + {old}");
}

#[tokio::test]
async fn memory_of_ended_tasks_is_freed_although_nothing_happens_any_more() {
    let server = RedisServer::start(Persistence::None, &[]);
    let retention = Duration::from_millis(20);
    let short = StoreOptions {
        retention,
        ..options()
    };
    let store = RedisStore::connect(&server.url(), short).await.unwrap();
    end(&store, "a", 5).await;
    let mut redis = raw(&server).await;
    let lives: i64 = run(&mut redis, &format!("PTTL {}", key("gone"))).await;
    assert!((1..=1_040).contains(&lives), "{lives} ms");
}

/// What is remembered in one key lasts until the key goes: for a retention more than the last of
/// it.
#[tokio::test]
async fn ended_tasks_outlast_the_retention() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    end(&store, "a", 5).await;
    let mut redis = raw(&server).await;
    let lives: u64 = run(&mut redis, &format!("PTTL {}", key("gone"))).await;
    let retention = options().retention;
    assert!(Duration::from_millis(lives) > 2 * retention, "{lives} ms");
}

/// How many instances are written down: what they say, and when they count as gone.
async fn written_down(redis: &mut MultiplexedConnection) -> (usize, usize) {
    (
        run(redis, "HLEN delayq:{default}:instances").await,
        run(redis, "ZCARD delayq:{default}:seen").await,
    )
}

#[tokio::test]
async fn nothing_is_left_of_instances_that_fell_silent_or_ended() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let mut redis = raw(&server).await;
    let there = instance();
    for silent in 0..3 {
        for _ in 0..silent {
            store.announce(&instance(), Duration::ZERO).await.unwrap();
        }
        let hour = Duration::from_hours(1);
        store.announce(&there, hour).await.unwrap();
        assert_eq!(written_down(&mut redis).await, (1, 1), "{silent}");
    }
    store.withdraw(&there.id).await.unwrap();
    assert_eq!(written_down(&mut redis).await, (0, 0));
}

#[tokio::test]
async fn what_a_claim_took_is_written_down_for_as_long_as_its_locks_last() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    accept(&store, job("1")).await;
    let taken = claim(&store).await.unwrap().tasks;
    let mut redis = raw(&server).await;
    let keys: Vec<String> = run(&mut redis, "KEYS delayq:*:claim:*").await;
    assert_eq!((taken.len(), keys.len()), (1, 1));
    let lives: i64 = run(&mut redis, &format!("PTTL {}", keys[0])).await;
    assert!((1..=60_000).contains(&lives), "{lives} ms");
}

#[tokio::test]
async fn large_messages_are_claimed_in_several_steps_and_all_of_them() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let message = vec![7; 200 << 10];
    for n in 0..60 {
        let job = DelayQueueJob::raw(TYPE, message.clone()).id(n.to_string());
        accept(&store, job).await;
    }
    let (mut seen, mut steps) = (0, 0);
    while seen < 60 {
        let claimed = claim(&store).await.unwrap();
        assert!(claimed.tasks.iter().all(|task| task.message == message));
        assert!(!claimed.tasks.is_empty());
        (seen, steps) = (seen + claimed.tasks.len(), steps + 1);
        let is_more_due = claimed.next_in == Some(Duration::ZERO);
        assert_eq!(is_more_due, seen < 60);
    }
    assert!(steps > 1);
}

#[tokio::test]
async fn large_messages_are_listed_in_several_pages() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    for n in 0..30 {
        let job = DelayQueueJob::raw(TYPE, vec![7; 200 << 10]).id(n.to_string());
        accept(&store, job.after(Duration::from_hours(1))).await;
    }
    let state = TaskState::Scheduled;
    let page = store.list(&task_type(), state, None, 30).await.unwrap();
    let bytes = page.tasks.len() * (200 << 10);
    assert!((4 << 20..5 << 20).contains(&bytes), "{bytes}");
    assert_eq!(page.next.unwrap().id, page.tasks.last().unwrap().id);
}

#[tokio::test]
async fn a_herd_of_one_due_time_is_listed_page_by_page() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let due_at = store
        .stats(&task_type())
        .await
        .unwrap()
        .now
        .plus(Duration::from_hours(1));
    let batch = (0..5_000)
        .map(|n| task(job(&n.to_string()).at(due_at)))
        .collect();
    for outcome in store.submit(batch).await {
        outcome.unwrap();
    }
    let mut seen = HashSet::new();
    let mut cursor: Option<Cursor> = None;
    loop {
        let page = store
            .list(
                &task_type(),
                TaskState::Scheduled,
                cursor.as_ref(),
                usize::MAX,
            )
            .await
            .unwrap();
        let ids: Vec<_> = page.tasks.iter().map(|task| task.id.clone()).collect();
        assert!(ids.is_sorted());
        seen.extend(ids);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 5_000);
}

#[tokio::test]
async fn an_idle_claim_is_one_command() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    claim(&store).await.unwrap();
    let mut redis = raw(&server).await;
    run::<()>(&mut redis, "CONFIG RESETSTAT").await;
    for _ in 0..10 {
        claim(&store).await.unwrap();
    }
    let stats: String = run(&mut redis, "INFO commandstats").await;
    let commands: Vec<&str> = stats
        .lines()
        .filter_map(|line| line.strip_prefix("cmdstat_")?.split(',').next())
        // What scripts call is counted as well; what clients send is evalsha.
        .filter(|line| line.starts_with("evalsha:") || line.starts_with("script"))
        .collect();
    assert_eq!(commands, ["evalsha:calls=10"], "{stats}");
}
