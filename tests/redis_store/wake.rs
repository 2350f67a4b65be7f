//! Wake-ups from one instance to another, and after a time in which some may have been missed.

use std::time::Duration;

use delayq_core::Store;
use delayq_core::store::Wakeup;
use delayq_tests::redis_server::{Persistence, RedisServer};

use super::{accept, job, open, raw, run, task_type};

const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_submit_wakes_the_other_instance_and_its_own_once() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (here, there) = (open(&server).await, open(&server).await);
    let (mut own, mut other) = (here.wakeups(), there.wakeups());
    accept(&here, job("1").after(Duration::from_mins(9))).await;
    let woken = Some(Wakeup::Type(task_type()));
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
    let woken = Some(Wakeup::Type(by_hand));
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
    assert_eq!(woken, Ok(Some(Wakeup::Type(task_type()))));
}
