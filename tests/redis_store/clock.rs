//! The server's clock: what a store reads off it.

use std::time::Duration;

use delayq_core::store::ChangeOutcome;
use delayq_core::{Operate, Store, When, hours, millis};
use delayq_tests::redis_server::{Persistence, RedisServer};
use redis::aio::MultiplexedConnection;

use super::{accept, claim, id, job, key, open, raw, run, task_type};

/// The time of the server, in microseconds.
async fn time(redis: &mut MultiplexedConnection) -> i64 {
    let (seconds, micros): (i64, i64) = run(redis, "TIME").await;
    seconds * 1_000_000 + micros
}

/// Rounded up, what is due would start early.
#[tokio::test]
async fn a_claim_tells_the_servers_time_rounded_down_and_the_wait_to_the_microsecond() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let mut redis = raw(&server).await;
    accept(&store, job("1").after(hours(2))).await;
    let due_at = store
        .find(&task_type(), &id("1"))
        .await
        .unwrap()
        .unwrap()
        .at;
    for _ in 0..20 {
        let before = time(&mut redis).await;
        let claimed = claim(&store).await.unwrap();
        let after = time(&mut redis).await;
        let wait = i64::try_from(claimed.next_in.unwrap().as_micros()).unwrap();
        let read = due_at.as_millis() * 1_000 - wait;
        assert!((before..=after).contains(&read), "{before} {read} {after}");
        assert_eq!(claimed.store_now.as_millis(), read / 1_000);
    }
}

/// As its record says, it was submitted an hour from now.
#[tokio::test]
async fn a_task_is_moved_to_now_though_the_clock_has_gone_back_since_its_submit() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (store, mut redis) = (open(&server).await, raw(&server).await);
    accept(&store, job("1").after(hours(2))).await;
    let record: String = run(&mut redis, &format!("HGET {} 1", key("tasks"))).await;
    let submitted = record.strip_prefix("1{\"s\":").unwrap();
    let (submitted, rest) = submitted.split_once(',').unwrap();
    let later = submitted.parse::<u64>().unwrap() + 3_600_000;
    let mut edit = redis::cmd("HSET");
    edit.arg(key("tasks")).arg("1");
    edit.arg(format!("1{{\"s\":{later},{rest}"));
    edit.exec_async(&mut redis).await.unwrap();
    let now = When::After(Duration::ZERO);
    let moved = store.reschedule(&task_type(), &id("1"), now).await;
    let Ok(ChangeOutcome::Changed { due_at }) = moved else {
        panic!("{moved:?}");
    };
    let now = store.stats(&task_type()).await.unwrap().now;
    assert!(due_at <= now.plus(millis(1)), "{due_at} at {now}");
}

/// A submit with a delay counts from the next whole millisecond, and the move is made before it.
#[tokio::test]
async fn a_task_that_is_moved_to_now_is_claimed_at_once_though_it_was_just_submitted() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    for number in 0..2_000 {
        let name = number.to_string();
        accept(&store, job(&name).after(hours(2))).await;
        let now = When::After(Duration::ZERO);
        let moved = store.reschedule(&task_type(), &id(&name), now).await;
        assert!(matches!(moved, Ok(ChangeOutcome::Changed { .. })));
        let claimed = claim(&store).await.unwrap();
        let claimed: Vec<_> = claimed.tasks.iter().map(|task| &task.lock.id).collect();
        assert_eq!(claimed, [&id(&name)]);
    }
}
