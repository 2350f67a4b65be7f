//! Wake-ups from one instance to another, and after a time in which some may have been missed.

use std::time::Duration;

use delayq_core::store::{AttemptEnd, ClaimRequest, Settlement, Wakeup, Wakeups};
use delayq_core::{Bucket, FleetLimits, Store, TaskType, hours};
use delayq_redis::RedisStore;
use delayq_tests::redis_server::{Persistence, RedisServer};
use redis::aio::MultiplexedConnection;

use super::{accept, claim, job, open, raw, request, run, task_type, whole};

const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_submit_wakes_the_other_instance_and_its_own_once() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (here, there) = (open(&server).await, open(&server).await);
    let (mut own, mut other) = (here.wakeups(), there.wakeups());
    accept(&here, job("1").after(Duration::from_mins(9))).await;
    let woken = Some(Wakeup::Bucket(whole()));
    assert_eq!(
        tokio::time::timeout(PATIENCE, own.next()).await,
        Ok(woken.clone())
    );
    assert_eq!(
        tokio::time::timeout(PATIENCE, other.next()).await,
        Ok(woken.clone())
    );
    // Later than the first: nobody has to look earlier.
    accept(&here, job("2").after(Duration::from_mins(10))).await;
    // What comes next is the wake-up that the other one sends, so none of its own came twice.
    accept(&there, job("3").after(Duration::from_mins(8))).await;
    assert_eq!(
        tokio::time::timeout(PATIENCE, own.next()).await,
        Ok(woken.clone())
    );
    assert_eq!(
        tokio::time::timeout(PATIENCE, other.next()).await,
        Ok(woken)
    );
    let mut redis = raw(&server).await;
    let channel = "delayq:{default}:wake";
    run::<u64>(&mut redis, &format!("PUBLISH {channel} by.hand")).await;
    let by_hand = delayq_core::TaskType::new("by.hand").unwrap();
    let woken = Some(Wakeup::Bucket(Bucket::whole(by_hand)));
    assert_eq!(
        tokio::time::timeout(PATIENCE, own.next()).await,
        Ok(woken.clone())
    );
    assert_eq!(
        tokio::time::timeout(PATIENCE, other.next()).await,
        Ok(woken)
    );
}

#[tokio::test]
async fn every_type_is_woken_when_the_listening_connection_was_lost() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let mut wakeups = store.wakeups();
    let killed: u64 = run(&mut raw(&server).await, "CLIENT KILL TYPE pubsub").await;
    assert_eq!(killed, 1);
    let woken = tokio::time::timeout(PATIENCE, wakeups.next()).await;
    assert_eq!(woken, Ok(Some(Wakeup::All)));
    let other = open(&server).await;
    accept(&other, job("1")).await;
    let woken = tokio::time::timeout(PATIENCE, wakeups.next()).await;
    assert_eq!(woken, Ok(Some(Wakeup::Bucket(whole()))));
}

async fn hears(wakeups: &mut Wakeups, task_type: TaskType) {
    let heard = tokio::time::timeout(PATIENCE, wakeups.next()).await;
    assert_eq!(heard, Ok(Some(Wakeup::Bucket(Bucket::whole(task_type)))));
}

/// What comes next is sent by hand, so nothing came before it.
async fn heard_nothing(wakeups: &mut Wakeups, redis: &mut MultiplexedConnection) {
    run::<u64>(redis, "PUBLISH delayq:{default}:wake by.hand").await;
    hears(wakeups, TaskType::new("by.hand").unwrap()).await;
}

/// Claims one task and ends its attempt.
async fn work(store: &RedisStore, request: &ClaimRequest, end: AttemptEnd) {
    let claimed = store.claim(&whole(), request).await.unwrap();
    let lock = claimed.tasks.into_iter().next().unwrap().lock;
    let settlement = vec![Settlement::new(lock, end)];
    store.settle(&whole(), settlement).await.unwrap();
}

#[tokio::test]
async fn a_place_that_becomes_free_wakes_an_instance_that_missed_it_and_nobody_else() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (here, there) = (open(&server).await, open(&server).await);
    let (mut redis, mut other) = (raw(&server).await, there.wakeups());
    let mut one_at_a_time = request();
    one_at_a_time.fleet = FleetLimits {
        concurrency: Some(1),
        rate: None,
    };
    accept(&here, job("1")).await;
    hears(&mut other, task_type()).await;
    let claimed = here.claim(&whole(), &one_at_a_time).await.unwrap();
    let lock = claimed.tasks.into_iter().next().unwrap().lock;
    accept(&here, job("2")).await;
    hears(&mut other, task_type()).await;
    let missed = there.claim(&whole(), &one_at_a_time).await.unwrap();
    assert_eq!(missed.tasks, []);
    let end = AttemptEnd::Done;
    let settlement = vec![Settlement::new(lock, end)];
    here.settle(&whole(), settlement).await.unwrap();
    hears(&mut other, task_type()).await;
    // Nobody has missed the second place.
    work(&here, &one_at_a_time, AttemptEnd::Done).await;
    heard_nothing(&mut other, &mut redis).await;
}

#[tokio::test]
async fn a_retry_wakes_the_other_instance_if_nothing_is_due_before_it() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (here, there) = (open(&server).await, open(&server).await);
    let (mut redis, mut other) = (raw(&server).await, there.wakeups());
    let retry = |after| AttemptEnd::Retry {
        after,
        error: "again".to_owned(),
        succeeded: Vec::new(),
    };
    for (after, is_first) in [(hours(2), true), (hours(1), true), (hours(3), false)] {
        let id = format!("{after:?}");
        accept(&here, job(&id)).await;
        hears(&mut other, task_type()).await;
        work(&here, &request(), retry(after)).await;
        if is_first {
            hears(&mut other, task_type()).await;
        } else {
            heard_nothing(&mut other, &mut redis).await;
        }
    }
    assert_eq!(claim(&here).await.unwrap().tasks, []);
}
