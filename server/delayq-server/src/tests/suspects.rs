//! Expired locks of clients: what they cost, and how a task is handed out that was lost with its
//! worker.

use std::time::Duration;

use delayq_plugin::store::{AttemptEnd, Bucket, ClaimRequest};
use delayq_plugin::{
    Clock, DelayQueueJob, InstanceId, SystemClock, TaskState, TaskType, hours, seconds,
};
use delayq_service::config::NamespaceLimits;
use delayq_service::pull::{Demand, Pulled};
use delayq_tests::rig::until;

use super::house::House;

const TYPE: &str = "job";
const LOCK: Duration = seconds(1);

/// Claims what is due now, or the first tasks within the wait.
async fn claim(house: &House, wait: Duration) -> Vec<Pulled> {
    let demand = Demand {
        types: vec![TaskType::new(TYPE).unwrap()],
        limit: 10,
        lock_for: LOCK,
        max_lock_expiries: None,
    };
    let pull = &house.space().await.pull;
    pull.claim(demand, wait).await.unwrap().delivered()
}

/// Waits until the locks of claimed tasks have expired.
async fn lost(house: &House) {
    let store = house.space().await.tasks.store().clone();
    let bucket = Bucket::whole(TaskType::new(TYPE).unwrap());
    until("the end of the locks", async || {
        let look = ClaimRequest::new(0, LOCK, SystemClock.now());
        let next = store.claim(&bucket, &look).await.unwrap().next_in;
        (next == Some(Duration::ZERO)).then_some(())
    })
    .await;
}

async fn send(house: &House, ids: &[&str]) {
    for id in ids {
        let job = DelayQueueJob::raw(TYPE, "x").id(*id);
        house.space().await.tasks.send(job).await.unwrap();
    }
}

fn ids(claimed: &[Pulled]) -> Vec<&str> {
    claimed
        .iter()
        .map(|one| one.task.lock.id.as_str())
        .collect()
}

async fn done(house: &House, pulled: Pulled) {
    let pull = &house.space().await.pull;
    let done = pull.end(pulled.bucket, pulled.task.lock, AttemptEnd::Done);
    done.await.unwrap();
}

#[tokio::test]
async fn tasks_that_were_lost_together_twice_are_handed_out_one_at_a_time() {
    let house = House::open("walk-suspects", NamespaceLimits::default()).await;
    send(&house, &["a", "b", "c"]).await;
    for _ in 0..2 {
        let claimed = claim(&house, Duration::ZERO).await;
        assert_eq!(claimed.len(), 3);
        lost(&house).await;
    }
    send(&house, &["d"]).await;
    let first = claim(&house, Duration::ZERO).await;
    assert_eq!(first.len(), 1, "{:?}", ids(&first));
    let fresh = claim(&house, hours(1)).await;
    assert_eq!(ids(&fresh), ["d"], "beside the suspect");
    for pulled in fresh {
        done(&house, pulled).await;
    }
    // It ends its worker again. The others have to wait for it, and no longer.
    lost(&house).await;
    let again = claim(&house, hours(1)).await;
    assert_eq!(again.len(), 1, "{:?}", ids(&again));
    for pulled in again {
        done(&house, pulled).await;
    }
    for _ in 0..2 {
        let mut next = claim(&house, hours(1)).await;
        assert_eq!(next.len(), 1, "{:?}", ids(&next));
        done(&house, next.remove(0)).await;
    }
}

#[tokio::test]
async fn a_task_is_dead_after_the_number_of_lock_expiries_and_not_for_those_of_a_dead_server() {
    let house = House::open("walk-expiries", NamespaceLimits::default()).await;
    let tasks = house.space().await.tasks.clone();
    send(&house, &["a"]).await;
    let bucket = Bucket::whole(TaskType::new(TYPE).unwrap());
    for _ in 0..3 {
        let dead_server = InstanceId::generate();
        let request = ClaimRequest::new(1, LOCK, SystemClock.now()).holder(&dead_server);
        let request = request.counting_own_only();
        let claimed = tasks.store().claim(&bucket, &request).await.unwrap();
        assert_eq!(claimed.tasks[0].history.lock_expiries, 0);
        lost(&house).await;
    }
    for expiries in 0..5 {
        let claimed = claim(&house, hours(1)).await;
        let task = &claimed[0].task;
        assert_eq!(
            (task.attempt, task.history.lock_expiries),
            (expiries + 1, expiries)
        );
        assert_eq!(
            claimed[0].lock().tried,
            1,
            "no failure, so no attempt is used up"
        );
        lost(&house).await;
    }
    assert!(claim(&house, Duration::ZERO).await.is_empty());
    let found = tasks.find(TYPE, "a").await.unwrap().unwrap();
    assert_eq!(found.state, TaskState::Dead, "{found:?}");
}
