//! Instances that wait for the same: what one takes, the others hear of, and who goes first next time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delayq_core::store::{
    AttemptEnd, ClaimRequest, Claimed, RedisStore, Settlement, Taken, TypeSettings, Wakeup, Wakeups,
};
use delayq_core::{FleetLimits, Rate, Store, hours, seconds};
use delayq_tests::redis_server::{Persistence, RedisServer};
use redis::aio::MultiplexedConnection;

use super::{accept, job, open, raw, request, run, task_type};

const PATIENCE: Duration = seconds(10);

/// An instance, and what it hears.
struct Instance {
    store: Arc<RedisStore>,
    wakeups: Wakeups,
    request: ClaimRequest,
}

impl Instance {
    async fn on(server: &RedisServer) -> Self {
        let store = open(server).await;
        Self {
            wakeups: store.wakeups(),
            request: request(),
            store,
        }
    }

    async fn hears<T>(&mut self, what: impl Fn(Wakeup) -> Option<T>) -> T {
        let heard = async {
            loop {
                if let Some(heard) = what(self.wakeups.next().await.unwrap()) {
                    return heard;
                }
            }
        };
        tokio::time::timeout(PATIENCE, heard).await.unwrap()
    }

    async fn is_woken(&mut self) {
        let woken = Wakeup::Type(task_type());
        self.hears(|heard| (heard == woken).then_some(())).await;
    }

    async fn hears_what_was_taken(&mut self) -> Taken {
        self.hears(|heard| match heard {
            Wakeup::Taken(taken) => Some(taken),
            _ => None,
        })
        .await
    }

    async fn claims(&self) -> Claimed {
        self.store.claim(&task_type(), &self.request).await.unwrap()
    }
}

/// Sends a task that all of them wait for afterwards.
async fn all_wait_for(instances: &mut [Instance], id: &str, hours_away: u64) {
    let job = job(id).after(hours(hours_away));
    accept(&instances[0].store, job).await;
    for instance in instances {
        instance.is_woken().await;
        assert!(instance.claims().await.tasks.is_empty());
    }
}

/// Its time has come, which nobody is told.
async fn comes_due(redis: &mut MultiplexedConnection, id: &str) {
    let keys: Vec<String> = run(redis, "KEYS *:due").await;
    for key in keys {
        run::<u64>(redis, &format!("ZADD {key} XX 1 {id}")).await;
    }
}

/// How often anything was published.
async fn published(redis: &mut MultiplexedConnection) -> usize {
    let stats: String = run(redis, "INFO commandstats").await;
    let mut lines = stats.lines();
    let calls = lines.find_map(|line| line.strip_prefix("cmdstat_publish:calls="));
    let calls = calls.and_then(|line| line.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

#[tokio::test]
async fn what_an_instance_takes_that_others_wait_for_they_hear_and_what_is_left() {
    let server = RedisServer::start(Persistence::None, &[]);
    let mut redis = raw(&server).await;
    let mut both = [Instance::on(&server).await, Instance::on(&server).await];
    for taker in [0, 1] {
        let id = format!("waited-for-{taker}");
        all_wait_for(&mut both, &id, 9).await;
        comes_due(&mut redis, &id).await;
        let claimed = both[taker].claims().await;
        let taken = both[1 - taker].hears_what_was_taken().await;
        assert_eq!(taken.task_type, task_type());
        assert_eq!(taken.fence, claimed.tasks[0].lock.fence);
        assert_eq!(taken.next_due, claimed.next_due, "the end of the lock");
    }
}

#[tokio::test]
async fn one_of_several_goes_first_and_not_always_the_same() {
    let server = RedisServer::start(Persistence::None, &[]);
    let mut redis = raw(&server).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(Instance::on(&server).await);
    }
    for nth in 0..3 {
        let id = format!("waited-for-{nth}");
        all_wait_for(&mut all, &id, 9).await;
        comes_due(&mut redis, &id).await;
        let mut claimed = all[nth].claims().await;
        let settled = Settlement {
            lock: claimed.tasks.pop().unwrap().lock,
            end: AttemptEnd::Done,
        };
        let store = &all[nth].store;
        store.settle(&task_type(), vec![settled]).await.unwrap();
        for other in (0..3).filter(|other| *other != nth) {
            all[other].hears_what_was_taken().await;
        }
    }
    let mut firsts = [0; 3];
    for n in 0..60 {
        // Each time another one is the first.
        let later = hours(8).saturating_sub(seconds(n));
        accept(&all[0].store, job(&format!("later-{n}")).after(later)).await;
        for (instance, first) in all.iter().zip(&mut firsts) {
            *first += u32::from(instance.claims().await.turn.is_zero());
        }
    }
    // Had they no turns, each would be the first each time. Two of them know at least who took something last.
    assert!(firsts.iter().all(|count| *count > 0), "{firsts:?}");
    assert!(firsts.iter().sum::<u32>() < 3 * 60 - 30, "{firsts:?}");
}

#[tokio::test]
async fn who_leaves_something_calls_all() {
    let server = RedisServer::start(Persistence::None, &[]);
    let mut redis = raw(&server).await;
    let mut both = [Instance::on(&server).await, Instance::on(&server).await];
    both[0].request.limit = 1;
    all_wait_for(&mut both, "second", 10).await;
    all_wait_for(&mut both, "first", 9).await;
    for id in ["first", "second"] {
        comes_due(&mut redis, id).await;
    }
    assert_eq!(both[0].claims().await.tasks.len(), 1);
    both[1].is_woken().await;
    assert_eq!(both[1].claims().await.tasks.len(), 1);
}

#[tokio::test]
async fn who_is_alone_does_not_talk_to_itself() {
    let server = RedisServer::start(Persistence::None, &[]);
    let mut redis = raw(&server).await;
    let started = Instant::now();
    let mut alone = [Instance::on(&server).await];
    for n in 0..20 {
        let id = format!("waited-for-{n}");
        all_wait_for(&mut alone, &id, 9).await;
        comes_due(&mut redis, &id).await;
        assert_eq!(alone[0].claims().await.tasks.len(), 1);
    }
    let seconds = usize::try_from(started.elapsed().as_secs()).unwrap();
    let wakeups = 20;
    let told = published(&mut redis).await - wakeups;
    assert!(
        (1..=seconds + 1).contains(&told),
        "told {told} times in {seconds} s"
    );
}

#[tokio::test]
async fn types_with_limits_of_the_fleet_or_with_partitions_take_no_turns() {
    let server = RedisServer::start(Persistence::None, &[]);
    let mut redis = raw(&server).await;
    let mut both = [Instance::on(&server).await, Instance::on(&server).await];
    for instance in &mut both {
        instance.request.fleet = FleetLimits {
            concurrency: Some(9),
            rate: Some(Rate::per_second(1_000)),
        };
    }
    all_wait_for(&mut both, "limited", 9).await;
    comes_due(&mut redis, "limited").await;
    let before = published(&mut redis).await;
    assert_eq!(both[0].claims().await.tasks.len(), 1);
    assert_eq!(published(&mut redis).await, before);
    let settings = TypeSettings::default().partitions(3);
    let store = &both[0].store;
    store.configure_type(&task_type(), &settings).await.unwrap();
    for instance in &mut both {
        instance.request.fleet = FleetLimits::NONE;
    }
    all_wait_for(&mut both, "split", 8).await;
    comes_due(&mut redis, "split").await;
    let before = published(&mut redis).await;
    assert_eq!(both[0].claims().await.tasks.len(), 1);
    assert_eq!(published(&mut redis).await, before);
}
