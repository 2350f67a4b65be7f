//! Fences when the server's clock stands behind those that were given: it was set back, or an older
//! copy of the data came back after a while.

use std::time::Duration;

use delayq_core::store::{AttemptEnd, SettleOutcome, Settlement};
use delayq_core::{Clock, Lock, Store, SystemClock};
use delayq_tests::redis_server::{Persistence, RedisServer};

use super::{claim, job, key, open, raw, run, task, whole};

/// They are put together from text, three digits apart from the others.
#[tokio::test]
async fn fences_go_on_one_by_one_above_the_largest_that_was_given() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let ahead = SystemClock.now().plus(Duration::from_hours(1)).as_millis();
    let given = u64::try_from(ahead).unwrap() * 1_000 + 850;
    let set = format!("HSET {} fence {given}", key("meta"));
    run::<u64>(&mut raw(&server).await, &set).await;
    let batch = (0..300).map(|n| task(job(&n.to_string()))).collect();
    for outcome in store.submit(batch).await {
        outcome.unwrap();
    }
    let (mut last, mut locks) = (given, Vec::<Lock>::new());
    while locks.len() < 300 {
        let claimed = claim(&store).await.unwrap();
        assert_eq!(claimed.high_water, last);
        for task in claimed.tasks {
            last += 1;
            assert_eq!(task.lock.fence, last);
            locks.push(task.lock);
        }
    }
    // The store knows them by the same fences.
    let ends = locks.into_iter();
    let ends = ends.map(|lock| Settlement::new(lock, AttemptEnd::Done));
    let settled = store.settle(&whole(), ends.collect()).await.unwrap();
    assert_eq!(settled, [SettleOutcome::Settled; 300]);
}
