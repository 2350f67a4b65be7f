//! Claim stagger: instances that wait for the same task come one after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delayq_core::store::{AttemptEnd, ClaimRequest, Claimed, Settlement, Wakeup, Wakeups};
use delayq_core::{FleetLimits, Rate, Store, hours, millis, seconds};
use delayq_redis::RedisStore;
use delayq_tests::redis_server::{Persistence, RedisServer};
use redis::aio::MultiplexedConnection;

use super::{accept, id, job, open, raw, request, run, task_type, whole};

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
        let of_type = |wakeup: Wakeup| wakeup.task_type() == Some(&task_type());
        self.hears(|wakeup| of_type(wakeup).then_some(())).await;
    }

    async fn claims(&self) -> Claimed {
        self.store.claim(&whole(), &self.request).await.unwrap()
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

/// How often a command was called.
async fn calls(redis: &mut MultiplexedConnection, command: &str) -> usize {
    let stats: String = run(redis, "INFO commandstats").await;
    let prefix = format!("cmdstat_{command}:calls=");
    let mut lines = stats.lines();
    let calls = lines.find_map(|line| line.strip_prefix(&prefix));
    let calls = calls.and_then(|line| line.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// How often anything was published.
async fn published(redis: &mut MultiplexedConnection) -> usize {
    calls(redis, "publish").await
}

/// How many scripts ran.
async fn scripts(redis: &mut MultiplexedConnection) -> usize {
    calls(redis, "evalsha").await
}

/// Otherwise every instance would ask for what one has taken.
#[tokio::test]
async fn an_instance_that_heard_what_another_took_does_not_ask_for_it() {
    let server = RedisServer::start(Persistence::None, &[]);
    let mut redis = raw(&server).await;
    let mut both = [Instance::on(&server).await, Instance::on(&server).await];
    let asks_nothing = async {
        for nth in 0.. {
            let id = format!("waited-for-{nth}");
            all_wait_for(&mut both, &id, 9).await;
            comes_due(&mut redis, &id).await;
            let claimed = both[0].claims().await;
            settle(&both[0], claimed).await;
            // What was published arrives a moment later.
            tokio::time::sleep(millis(20)).await;
            let before = scripts(&mut redis).await;
            let known = both[1].claims().await;
            assert!(known.tasks.is_empty());
            if scripts(&mut redis).await == before {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, asks_nothing).await.unwrap();
}

async fn settle(instance: &Instance, claimed: Claimed) {
    let ends = claimed.tasks.into_iter().map(|task| task.lock);
    let ends = ends.map(|lock| Settlement::new(lock, AttemptEnd::Done));
    instance
        .store
        .settle(&whole(), ends.collect())
        .await
        .unwrap();
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
        let claimed = all[nth].claims().await;
        assert_eq!(claimed.tasks.len(), 1);
        settle(&all[nth], claimed).await;
        // What was published arrives a moment later.
        tokio::time::sleep(millis(100)).await;
    }
    let mut firsts = [0; 3];
    for n in 0..60 {
        // Each time another one is the first.
        let later = hours(8).saturating_sub(seconds(n));
        let name = format!("later-{n}");
        accept(&all[0].store, job(&name).after(later)).await;
        let found = all[0].store.find(&task_type(), &id(&name)).await;
        let due_at = found.unwrap().unwrap().at;
        for instance in &mut all {
            instance.is_woken().await;
        }
        for (instance, first) in all.iter().zip(&mut firsts) {
            let claimed = instance.claims().await;
            let next_at = claimed.now.plus(claimed.next_in.unwrap());
            assert!(next_at >= due_at);
            *first += u32::from(next_at == due_at);
        }
    }
    // Without a stagger each would be the first each time.
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
async fn a_type_with_fleet_limits_publishes_nothing() {
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
}
