//! A plugin on a split type: how many tasks go back to the store at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delayq_core::store::{MAX_BATCH, TypeSettings};
use delayq_core::{Store, SystemClock};
use delayq_plugin::{DelayQueuePlugin, TaskContext, TaskResult, TaskWorker, WorkerOptions};
use delayq_tests::faulty::{Fault, FaultyStore, Seen};
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::until;
use tokio::sync::watch;

use super::{TYPE, job, open, task, task_type};

const TASKS: usize = 8 * MAX_BATCH;
const DELAY: Duration = Duration::from_millis(500);

/// A worker that ends once the gate is open.
struct Waits {
    started: Arc<AtomicUsize>,
    gate: watch::Receiver<bool>,
}

#[async_trait::async_trait]
impl TaskWorker for Waits {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        self.started.fetch_add(1, Ordering::Relaxed);
        let mut gate = self.gate.clone();
        gate.wait_for(|is_open| *is_open).await.unwrap();
        Ok(())
    }
}

/// In batches of one partition they would need more calls, each of which has something of all of them.
#[tokio::test]
async fn what_a_claim_took_of_several_partitions_is_settled_together() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let settings = TypeSettings::default().partitions(8);
    store.configure_type(&task_type(), &settings).await.unwrap();
    let tasks = (0..TASKS).map(|n| task(job(&n.to_string()))).collect();
    assert!(store.submit(tasks).await.iter().all(Result::is_ok));

    let batches = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&batches);
    // All workers end while the first is under way.
    let is_first = AtomicBool::new(true);
    let plan = move |edge| match edge {
        "settle" if is_first.swap(false, Ordering::Relaxed) => Fault::Late,
        _ => Fault::None,
    };
    let seen = FaultyStore::new(store, plan).with_delay(Arc::new(SystemClock), DELAY);
    let seen = seen.with_witness(move |seen| {
        if let Seen::Settled(settlements, _) = seen {
            noted.lock().unwrap().push(settlements.len());
        }
    });
    let started = Arc::new(AtomicUsize::new(0));
    let (gate, is_open) = watch::channel(false);
    let worker = Waits {
        started: Arc::clone(&started),
        gate: is_open,
    };
    let options = WorkerOptions {
        concurrency: TASKS,
        ..WorkerOptions::DEFAULT
    };
    let plugin = DelayQueuePlugin::builder().without_registered_workers();
    let plugin = plugin.store(Arc::new(seen)).worker(TYPE, options, worker);
    let plugin = plugin.start().await.unwrap();
    until("the start of all", || async {
        (started.load(Ordering::Relaxed) == TASKS).then_some(())
    })
    .await;
    gate.send_replace(true);
    until("the end of all", || async {
        (batches.lock().unwrap().iter().sum::<usize>() >= TASKS).then_some(())
    })
    .await;
    let batches = batches.lock().unwrap().clone();
    assert!(
        batches.iter().any(|batch| *batch > 2 * MAX_BATCH),
        "{batches:?}"
    );
    plugin.shutdown(Duration::ZERO).await;
}
