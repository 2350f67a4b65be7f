//! How submits gather, and that nobody who waits is left behind.

use std::time::Duration;

use delayq_core::job::{DelayQueueJob, Limits};
use delayq_core::store::SubmitOutcome;
use delayq_core::{Namespace, TaskType, Timestamp};

use super::*;
use crate::config::RedisConfig;
use crate::connection::Setup;
use crate::connection::fake::{array, bulk, serve, setup};
use crate::scripts::{Keyspace, Script, ShardId};

/// A batcher of a server that takes every task, and tells how many there are in each call.
struct Rig {
    batcher: Arc<Batcher>,
    calls: Mutex<std::sync::mpsc::Receiver<usize>>,
}

impl Rig {
    async fn start(timeout: Duration) -> Self {
        let (call, calls) = std::sync::mpsc::channel();
        let address = serve(move |_, command| {
            if !command.starts_with("EVALSHA") {
                return "+OK\r\n".to_owned();
            }
            let tasks = command.matches("\"a\":").count();
            call.send(tasks).unwrap();
            // So many are taken as are asked for.
            let run = format!(":{MAX_BATCH}\r\n");
            array(&[":0\r\n", ":0\r\n", &bulk("a"), &run, ":5\r\n"].map(str::to_owned))
        });
        let config = RedisConfig::parse(&format!("redis://{address}")).unwrap();
        let setup = Setup {
            timeout,
            scripts: Script::all(),
            ..setup()
        };
        let connections = Connections::open(&config, setup).await.unwrap();
        let hub = Arc::new(WakeupHub::new(false));
        Self {
            batcher: Batcher::new(&connections, hub, 1_000, None),
            calls: Mutex::new(calls),
        }
    }

    /// The only server.
    fn server(&self) -> usize {
        self.batcher.server_of(&waiter(0, soon()).0)
    }

    fn driver(&self) -> Driver {
        Driver {
            batcher: Arc::clone(&self.batcher),
            server: self.server(),
            has_ended: false,
        }
    }

    /// As while so many batches are under way.
    fn occupy(&self, under_way: usize) {
        let mut queues = lock(&self.batcher.queues);
        queues.entry(self.server()).or_default().under_way = under_way;
    }

    fn under_way(&self) -> Option<usize> {
        let queues = lock(&self.batcher.queues);
        queues.get(&self.server()).map(|queue| queue.under_way)
    }

    fn calls(&self) -> Vec<usize> {
        self.calls.lock().unwrap().try_iter().collect()
    }
}

type Landings = oneshot::Receiver<Vec<Result<Landing>>>;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

fn keys() -> Arc<ShardKeys> {
    let keys = Keyspace::new(Namespace::default());
    Arc::new(keys.shard(&TaskType::new("a").unwrap(), ShardId::WHOLE))
}

fn wake() -> Arc<WakeCall> {
    Arc::new(WakeCall {
        channel: String::new(),
        message: String::new(),
    })
}

fn tasks(count: usize) -> Vec<Prepared> {
    let prepared = (0..count).map(|_| {
        let job = DelayQueueJob::raw("a", "m").after(Duration::from_secs(9));
        let task = job.into_task(&Limits::default(), Timestamp::ZERO).unwrap();
        Prepared::new(&task)
    });
    prepared.collect()
}

fn waiter(count: usize, deadline: Instant) -> (Waiter, Landings) {
    let (reply, landings) = oneshot::channel();
    let waiter = Waiter {
        keys: keys(),
        wake: wake(),
        tasks: tasks(count),
        deadline,
        reply: Some(reply),
    };
    (waiter, landings)
}

fn are_here(landings: &[Result<Landing>]) -> bool {
    let is_here = |landing: &Result<Landing>| {
        let accepted = SubmitOutcome::Accepted {
            due_at: Timestamp::from_millis(5),
            replaced: false,
        };
        matches!(landing, Ok(Landing::Here(found)) if *found == accepted)
    };
    landings.iter().all(is_here)
}

#[tokio::test]
async fn a_submit_is_answered_for_each_of_its_tasks_and_leaves_no_queue_behind() {
    let rig = Rig::start(Duration::from_secs(30)).await;
    let many = MAX_TASKS + 3;
    let landings = rig.batcher.submit(keys(), wake(), tasks(many)).await;
    assert_eq!(landings.len(), many);
    assert!(are_here(&landings));
    assert_eq!(rig.calls().iter().sum::<usize>(), many);
    let none = rig.batcher.submit(keys(), wake(), Vec::new()).await;
    assert!(none.is_empty());
}

#[tokio::test]
async fn what_gathers_while_enough_batches_are_under_way_goes_with_the_next_one() {
    let rig = Rig::start(Duration::from_secs(30)).await;
    rig.occupy(MAX_BATCHES);
    let (mut waiters, mut landings) = (Vec::new(), Vec::new());
    for tasks in [1, MAX_TASKS - 2, 1, 2, 3] {
        let (waiter, landing) = waiter(tasks, soon());
        rig.batcher.enqueue(waiter);
        landings.push(landing);
    }
    assert_eq!(
        rig.under_way(),
        Some(MAX_BATCHES),
        "no further one has begun"
    );
    let mut driver = rig.driver();
    while let Some(taken) = driver.take() {
        let sizes: Vec<usize> = taken.iter().map(|waiter| waiter.tasks.len()).collect();
        waiters.push(sizes);
    }
    assert_eq!(waiters, [vec![1, MAX_TASKS - 2, 1], vec![2, 3]]);
    assert_eq!(rig.under_way(), Some(MAX_BATCHES - 1));
    drop(driver);
    let once = "a driver gives its place back once";
    assert_eq!(rig.under_way(), Some(MAX_BATCHES - 1), "{once}");
}

#[tokio::test]
async fn the_last_driver_takes_the_queue_with_it() {
    let rig = Rig::start(Duration::from_secs(30)).await;
    rig.occupy(1);
    assert!(rig.driver().take().is_none());
    assert_eq!(rig.under_way(), None);
}

#[tokio::test]
async fn a_driver_that_panics_gives_its_place_back_and_the_next_submit_takes_all_along() {
    let rig = Rig::start(Duration::from_secs(30)).await;
    rig.occupy(MAX_BATCHES);
    let (left_behind, landings) = waiter(2, soon());
    rig.batcher.enqueue(left_behind);
    // Every one of them.
    for _ in 0..MAX_BATCHES {
        drop(rig.driver());
    }
    assert_eq!(rig.under_way(), Some(0));
    let own = rig.batcher.submit(keys(), wake(), tasks(1)).await;
    assert!(are_here(&own));
    assert!(are_here(&landings.await.unwrap()));
}

#[tokio::test]
async fn a_waiter_whose_time_is_up_is_told_so_and_nothing_of_it_is_sent() {
    let rig = Rig::start(Duration::from_secs(30)).await;
    rig.occupy(1);
    let (late, to_late) = waiter(5, Instant::now());
    let (early, to_early) = waiter(2, soon());
    rig.driver().send(vec![late, early]).await;
    let late = to_late.await.unwrap();
    assert_eq!(late.len(), 5);
    let is_unsent = |landing: &Result<Landing>| matches!(landing, Err(Error::Unavailable { .. }));
    assert!(late.iter().all(is_unsent), "{late:?}");
    assert!(are_here(&to_early.await.unwrap()));
    assert_eq!(rig.calls(), [2]);
}
