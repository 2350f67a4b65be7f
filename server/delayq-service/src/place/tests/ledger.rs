//! Several servers go on while a namespace is moved by drivers that are killed.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use delayq_plugin::Error;
use delayq_plugin::store::SettleOutcome;
use tokio::task::JoinSet;

use super::{Instance, drive};
use crate::place::record::Phase;

/// Drops a future after so many polls, as a kill in the middle does; its value if it was faster.
async fn killed_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(move |cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

const TASKS: usize = 400;
/// Those that are sent once the new store takes new tasks.
const LATER: usize = 100;

/// Sends every task, each of them also from another server at about the same time, and again until
/// it is accepted.
async fn send_all(instance: Arc<Instance>, is_swapped: bool) {
    let early = TASKS - LATER;
    for nth in 0..TASKS {
        if nth == early {
            while instance.phase() == Phase::Done {
                instance.place.hear().await.unwrap();
                tokio::task::yield_now().await;
            }
        }
        // The halves of the early ones meet in the middle, and swap.
        let swapped = (nth + early / 2) % early;
        let nth = if nth < early && is_swapped {
            swapped
        } else {
            nth
        };
        let name = format!("t{nth}");
        while let Err(error) = instance.send(&name, Duration::ZERO).await {
            let may_come = matches!(error, Error::QueueFull { .. }) || error.is_transient();
            assert!(may_come, "{error}");
            instance.place.hear().await.unwrap();
        }
    }
}

/// Works until told to stop and nothing is left.
async fn work(instance: Arc<Instance>, ledger: Arc<Ledger>) {
    loop {
        let is_over = ledger.is_over.load(Ordering::Acquire);
        let mut found = 0;
        for (bucket, claimed) in instance.claim().await {
            for task in claimed.tasks {
                found += 1;
                let name = task.lock.id.to_string();
                *ledger.runs.lock().unwrap().entry(name).or_default() += 1;
                let done = instance.done((bucket.clone(), task.lock)).await;
                assert_eq!(done, SettleOutcome::Settled);
            }
        }
        if is_over && found == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[derive(Default)]
struct Ledger {
    runs: Mutex<BTreeMap<String, u32>>,
    is_over: AtomicBool,
}

/// The move is driven by servers that are killed at every point, and heard of by each server at
/// another time; all of them send and work meanwhile. The ledger is outside of any store.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_run_twice_while_several_servers_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut instances = Vec::new();
    for _ in 0..3 {
        instances.push(Arc::new(Instance::start(&folder).await));
    }
    let ledger = Arc::new(Ledger::default());
    let (mut senders, mut workers) = (JoinSet::new(), JoinSet::new());
    for (nth, instance) in instances.iter().enumerate() {
        senders.spawn(send_all(Arc::clone(instance), nth % 2 == 1));
        workers.spawn(work(Arc::clone(instance), Arc::clone(&ledger)));
    }
    let first = instances.first().unwrap();
    let begun = first.mover();
    begun.begin(Some("b".to_owned())).await.unwrap();
    let mut polls = 0;
    // Each round another server drives, and is killed a poll later than in the round before.
    while first.mover().status().await.unwrap().place.phase == Phase::Preparing {
        let driver = &instances[polls % instances.len()];
        let mover = driver.mover();
        killed_after(polls, mover.advance()).await;
        polls += 1;
        assert!(polls < 10_000, "the move does not begin");
    }
    senders.join_all().await;
    for instance in &instances {
        instance.place.hear().await.unwrap();
    }
    ledger.is_over.store(true, Ordering::Release);
    workers.join_all().await;
    let runs = ledger.runs.lock().unwrap().clone();
    let wrong: Vec<_> = runs.iter().filter(|(_, count)| **count != 1).collect();
    assert_eq!((runs.len(), wrong), (TASKS, vec![]));
    let last = instances.last().unwrap();
    let view = last.place.view().unwrap();
    for home in view.homes() {
        let stats = home.store.stats(&super::job_type()).await.unwrap();
        assert!(stats.totals.done > 0, "each of the stores had a part");
    }
    drive(&last.mover(), Phase::Done).await;
    // A server that starts afterwards goes to the new store.
    let fresh = Instance::start(&folder).await;
    assert_eq!(fresh.state("t0").await, last.state("t0").await);
    for instance in instances {
        instance.app.close().await;
    }
}
