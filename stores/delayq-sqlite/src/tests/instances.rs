//! Several stores on one file.

use std::collections::BTreeSet;

use delayq_core::store::Wakeup;
use delayq_core::time::seconds;
use tokio::task::JoinSet;

use super::*;

#[tokio::test]
async fn two_stores_that_compete_start_every_task_once() {
    const TASKS: usize = 2_000;
    let place = Place::new();
    let first = place.open().await;
    let tasks = (0..TASKS).map(|n| task(&n.to_string())).collect();
    assert!(first.submit(tasks).await.iter().all(Result::is_ok));
    let mut workers = JoinSet::new();
    for store in [first, place.open().await] {
        workers.spawn(async move {
            let mut started = Vec::new();
            loop {
                let claimed = claim(&store).await.unwrap();
                if claimed.tasks.is_empty() {
                    return started;
                }
                started.extend(ids(&claimed).into_iter().map(ToOwned::to_owned));
                store.settle(&bucket(), done(&claimed)).await.unwrap();
            }
        });
    }
    let started: Vec<String> = workers.join_all().await.concat();
    assert_eq!(started.len(), TASKS);
    assert_eq!(started.iter().collect::<BTreeSet<_>>().len(), TASKS);
    is_sound(&place.open().await).await;
}

#[tokio::test]
async fn two_stores_opened_at_the_same_time_make_one_file() {
    let place = Arc::new(Place::new());
    let mut opening = JoinSet::new();
    for n in 0..8 {
        let place = Arc::clone(&place);
        opening.spawn(async move {
            let store = place.open().await;
            accept(&store, &n.to_string()).await;
            store
        });
    }
    let stores = opening.join_all().await;
    assert_eq!(stores[0].stats(&usual_type()).await.unwrap().scheduled, 8);
    is_sound(&stores[0]).await;
}

#[tokio::test]
async fn a_commit_of_another_store_wakes() {
    let place = Place::new();
    let (here, there) = (place.open().await, place.open().await);
    // Both have made their rounds since the file was made.
    here.check().await.unwrap();
    let mut wakeups = here.wakeups();
    accept(&there, "1").await;
    let wakes_all = async {
        // A signal comes before it, where the system has them.
        while wakeups.next().await.unwrap() != Wakeup::All {}
    };
    tokio::time::timeout(seconds(30), wakes_all).await.unwrap();
}

/// Else every handler would look every 100 ms, though nobody else uses the file.
#[tokio::test]
async fn a_store_alone_wakes_nobody() {
    let place = Place::new();
    let store = place.open().await;
    accept(&store, "1").await;
    store.check().await.unwrap();
    let mut wakeups = store.wakeups();
    let rounds = Duration::from_millis(500);
    let woken = tokio::time::timeout(rounds, wakeups.next()).await;
    assert!(woken.is_err(), "{woken:?}");
}

#[tokio::test]
async fn fences_grow_across_stores_though_the_clock_is_set_back() {
    let place = Place::new();
    let clock = delayq_core::time::VirtualClock::default();
    let open = || {
        SqliteStore::open(
            place.path(),
            Arc::new(clock.clone()),
            StoreOptions::default(),
        )
    };
    let first = open().await.unwrap();
    accept(&first, "1").await;
    let before = claim(&first).await.unwrap();
    first.settle(&bucket(), done(&before)).await.unwrap();
    first.close().await;
    clock.set(Timestamp::from_millis(1_000));
    let second = open().await.unwrap();
    accept(&second, "2").await;
    let after = claim(&second).await.unwrap();
    assert!(after.tasks[0].lock.fence > before.tasks[0].lock.fence);
}
