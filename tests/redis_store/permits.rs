//! Limits of the fleet for a type that is split: they hold for all its partitions together, also while their number is
//! raised, and whatever is lost on the way.

use std::time::{Duration, Instant};

use delayq_core::store::{
    AttemptEnd, ClaimRequest, Claimed, ExtendOutcome, RedisStore, Settlement, StoreOptions,
    TypeSettings, Wakeup,
};
use delayq_core::{ClaimedTask, Error, FleetLimits, Lock, Rate, Store, hours, millis, seconds};
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::{soon, until};

use super::{accept, id, job, open, raw, request, run, task_type};

fn at_most(concurrency: u32) -> ClaimRequest {
    limited(Some(concurrency), None)
}

fn limited(concurrency: Option<u32>, rate: Option<Rate>) -> ClaimRequest {
    ClaimRequest {
        fleet: FleetLimits { concurrency, rate },
        ..request()
    }
}

async fn split(store: &RedisStore, partitions: u32) {
    let settings = TypeSettings::default().partitions(partitions);
    store.configure_type(&task_type(), &settings).await.unwrap();
}

async fn accept_all(store: &RedisStore, name: &str, tasks: usize) {
    for n in 0..tasks {
        accept(store, job(&format!("{name}-{n}"))).await;
    }
}

async fn claim(store: &RedisStore, request: &ClaimRequest) -> Claimed {
    store.claim(&task_type(), request).await.unwrap()
}

/// Claims until nothing more is to be had at once.
async fn claim_all(store: &RedisStore, request: &ClaimRequest) -> Vec<ClaimedTask> {
    let mut tasks = Vec::new();
    loop {
        let claimed = claim(store, request).await;
        let is_over = claimed.tasks.is_empty() && claimed.next_in() != Some(Duration::ZERO);
        tasks.extend(claimed.tasks);
        if is_over {
            return tasks;
        }
    }
}

async fn end(store: &RedisStore, tasks: Vec<ClaimedTask>) {
    let end = |task: ClaimedTask| Settlement {
        lock: task.lock,
        end: AttemptEnd::Done,
    };
    let ends = tasks.into_iter().map(end).collect();
    store.settle(&task_type(), ends).await.unwrap();
}

/// Locks in all partitions together.
async fn running(store: &RedisStore) -> u64 {
    store.stats(&task_type()).await.unwrap().running
}

/// Runs all that is due with these limits, and looks at every step how many run.
async fn run_all(stores: &[&RedisStore], request: &ClaimRequest, most: u64) -> usize {
    let mut done = 0;
    loop {
        let mut taken = 0;
        for store in stores {
            let tasks = claim(store, request).await.tasks;
            assert!(running(store).await <= most, "the limit is exceeded");
            taken += tasks.len();
            end(store, tasks).await;
        }
        done += taken;
        if store_is_empty(stores[0]).await {
            return done;
        }
    }
}

async fn store_is_empty(store: &RedisStore) -> bool {
    let stats = store.stats(&task_type()).await.unwrap();
    stats.due + stats.running == 0
}

#[tokio::test]
async fn a_limit_may_be_smaller_than_the_number_of_partitions() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (here, there) = (open(&server).await, open(&server).await);
    split(&here, 8).await;
    accept_all(&here, "1", 20).await;
    assert_eq!(run_all(&[&here, &there], &at_most(1), 1).await, 20);
}

/// Of each generation some tasks are left, and the limit is smaller than the number of all partitions.
#[tokio::test]
async fn a_limit_holds_over_old_and_new_partitions_together() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (here, there) = (open(&server).await, open(&server).await);
    for parts in [1, 2, 5] {
        split(&here, parts).await;
        accept_all(&here, &parts.to_string(), 20).await;
    }
    assert_eq!(run_all(&[&here, &there], &at_most(3), 3).await, 60);
}

#[tokio::test]
async fn a_limit_is_used_whole_though_one_partition_has_all_there_is() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    split(&store, 4).await;
    accept_all(&store, "1", 60).await;
    for n in 0..60 {
        let name = format!("1-{n}");
        let tasks = "delayq:{default/order.cancel/1.0}:tasks";
        let is_there: bool = run(&mut raw(&server).await, &format!("HEXISTS {tasks} {name}")).await;
        if !is_there {
            store.cancel(&task_type(), &id(&name)).await.unwrap();
        }
    }
    assert_eq!(claim_all(&store, &at_most(10)).await.len(), 10);
    assert_eq!(running(&store).await, 10);
}

/// Claims from before the raise asked for no permit: their tasks count as long as they run.
#[tokio::test]
async fn what_ran_before_a_type_was_split_counts_until_it_ends() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (old, new) = (open(&server).await, open(&server).await);
    accept_all(&old, "old", 8).await;
    let mut before = claim(&old, &at_most(4)).await.tasks;
    assert_eq!(before.len(), 4);
    split(&new, 3).await;
    accept_all(&new, "new", 8).await;
    // Neither who knows of the raise nor who does not.
    for store in [&new, &old] {
        assert_eq!(claim_all(store, &at_most(4)).await, []);
    }
    end(&old, before.split_off(1)).await;
    let next = claim_all(&new, &at_most(4)).await;
    assert_eq!(next.len(), 3);
    assert_eq!(claim_all(&old, &at_most(4)).await, []);
    end(&old, before).await;
    assert_eq!(claim_all(&old, &at_most(4)).await.len(), 1);
    assert_eq!(running(&new).await, 4);
}

/// Found in review: whoever had such a lock has stopped, and only a claim that may take something takes it over.
#[tokio::test]
async fn a_lock_that_expired_before_its_type_was_split_keeps_no_place() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (old, new) = (open(&server).await, open(&server).await);
    accept_all(&old, "old", 1).await;
    let short = ClaimRequest {
        lock_for: seconds(1),
        ..at_most(1)
    };
    assert_eq!(claim(&old, &short).await.tasks.len(), 1);
    split(&new, 3).await;
    assert_eq!(claim_all(&new, &at_most(1)).await, []);
    until("the task again", || async {
        let tasks = claim_all(&new, &at_most(1)).await;
        (!tasks.is_empty()).then(|| assert_eq!(tasks[0].attempt, 2))
    })
    .await;
}

/// Who waits for what ran before is told of its end, like everybody.
#[tokio::test]
async fn the_end_of_what_ran_before_a_type_was_split_wakes_who_waits() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (old, new) = (open(&server).await, open(&server).await);
    accept_all(&old, "old", 2).await;
    let first = claim(&old, &at_most(1)).await.tasks;
    split(&new, 3).await;
    let held_back = claim(&new, &at_most(1)).await;
    assert_eq!((held_back.tasks.len(), held_back.next_due), (0, None));
    let mut wakeups = new.wakeups();
    end(&old, first).await;
    let heard = soon("a wake-up", wakeups.next()).await;
    assert_eq!(heard, Some(Wakeup::Type(task_type())));
    assert_eq!(claim_all(&new, &at_most(1)).await.len(), 1);
}

/// Found in review: the hours of the slow rate were held against the fast one.
#[tokio::test]
async fn a_faster_rate_is_kept_at_once_though_the_type_is_split_with_it() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    accept_all(&store, "1", 9).await;
    let slow = limited(None, Some(Rate::per_hour(1).with_burst(4)));
    assert_eq!(claim_all(&store, &slow).await.len(), 4);
    split(&store, 3).await;
    let fast = limited(None, Some(Rate::per_second(50).with_burst(1)));
    until("a start", || async {
        let tasks = claim_all(&store, &fast).await;
        (!tasks.is_empty()).then_some(())
    })
    .await;
}

/// Found in review: with the usual retention the old partition, and what it knew of the rate, was forgotten.
#[tokio::test]
async fn a_rate_is_remembered_for_as_long_as_it_is_used_up() {
    let server = RedisServer::start(Persistence::None, &[]);
    let options = StoreOptions {
        retention: Duration::ZERO,
        ..super::options()
    };
    let store = RedisStore::connect(&server.url(), options).await.unwrap();
    let paced = limited(None, Some(Rate::per_hour(1)));
    accept_all(&store, "1", 1).await;
    end(&store, claim_all(&store, &paced).await).await;
    split(&store, 3).await;
    // The old partition is empty, and asked.
    assert_eq!(claim_all(&store, &paced).await, []);
    accept_all(&store, "2", 1).await;
    assert_eq!(claim_all(&store, &paced).await, []);
}

#[tokio::test]
async fn a_rate_that_is_used_up_when_a_type_is_split_stays_so() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (old, new) = (open(&server).await, open(&server).await);
    accept_all(&old, "old", 8).await;
    let paced = limited(None, Some(Rate::per_hour(60).with_burst(3)));
    assert_eq!(claim_all(&old, &paced).await.len(), 3);
    split(&new, 3).await;
    accept_all(&new, "new", 8).await;
    for store in [&new, &old] {
        assert_eq!(claim_all(store, &paced).await, []);
        let next_in = claim(store, &paced).await.next_in().unwrap();
        assert!(
            (seconds(30)..=seconds(60)).contains(&next_in),
            "{next_in:?}"
        );
    }
}

/// The next partitions go by the same count.
#[tokio::test]
async fn a_rate_is_one_for_all_partitions_and_what_was_not_used_comes_back() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (here, there) = (open(&server).await, open(&server).await);
    split(&here, 3).await;
    let paced = limited(None, Some(Rate::per_hour(1).with_burst(5)));
    accept_all(&here, "1", 2).await;
    assert_eq!(claim_all(&here, &paced).await.len(), 2);
    split(&here, 4).await;
    accept_all(&here, "2", 8).await;
    assert_eq!(claim_all(&there, &paced).await.len(), 3);
    assert_eq!(claim_all(&here, &paced).await, []);
}

#[tokio::test]
async fn places_of_an_instance_that_is_gone_are_free_when_its_locks_have_ended() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (dead, alive) = (open(&server).await, open(&server).await);
    split(&alive, 3).await;
    accept_all(&alive, "1", 6).await;
    let short = ClaimRequest {
        lock_for: seconds(1),
        ..at_most(2)
    };
    let begun = Instant::now();
    assert_eq!(claim(&dead, &short).await.tasks.len(), 2);
    let held_back = claim(&alive, &short).await;
    assert_eq!(held_back.tasks, []);
    let next_in = held_back.next_in().unwrap();
    assert!(
        (millis(500)..=millis(1_600)).contains(&next_in),
        "{next_in:?}"
    );
    until("a place", || async {
        let is_taken = !claim(&alive, &short).await.tasks.is_empty();
        is_taken.then_some(())
    })
    .await;
    assert!(begun.elapsed() >= seconds(1));
}

#[tokio::test]
async fn a_place_lasts_as_long_as_its_lock_is_extended() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (here, there) = (open(&server).await, open(&server).await);
    split(&here, 3).await;
    accept_all(&here, "1", 6).await;
    let short = ClaimRequest {
        lock_for: seconds(1),
        ..at_most(2)
    };
    let tasks = claim(&here, &short).await.tasks;
    let locks: Vec<Lock> = tasks.iter().map(|task| task.lock.clone()).collect();
    let begun = Instant::now();
    while begun.elapsed() < seconds(3) {
        let extended = here.extend(&task_type(), locks.clone(), seconds(1)).await;
        let is_extended = |outcome: &ExtendOutcome| matches!(outcome, ExtendOutcome::Extended(_));
        assert!(extended.unwrap().iter().all(is_extended));
        assert_eq!(claim(&there, &short).await.tasks, []);
    }
    end(&here, tasks).await;
    assert_eq!(claim_all(&there, &short).await.len(), 2);
}

/// Else the task would run on while others take its place.
#[tokio::test]
async fn no_lock_lasts_longer_where_its_place_does_not() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    split(&store, 3).await;
    accept_all(&store, "1", 4).await;
    let tasks = claim_all(&store, &at_most(2)).await;
    let places = "delayq:{default}:places:order.cancel";
    let mut redis = raw(&server).await;
    let _: u64 = run(&mut redis, &format!("UNLINK {places}")).await;
    let _: String = run(&mut redis, &format!("SET {places} strange")).await;
    let locks: Vec<Lock> = tasks.iter().map(|task| task.lock.clone()).collect();
    let refused = [
        store.extend(&task_type(), locks, seconds(9)).await.err(),
        store.claim(&task_type(), &at_most(9)).await.err(),
    ];
    for error in refused {
        let text = error.as_ref().unwrap().to_string();
        assert!(matches!(error, Some(Error::Corrupt { .. })), "{text}");
        assert!(text.contains(places), "{text}");
    }
    let _: u64 = run(&mut redis, &format!("UNLINK {places}")).await;
    // What it holds it says with its next statement.
    let other = open(&server).await;
    assert_eq!(claim_all(&store, &at_most(2)).await, []);
    assert_eq!(claim_all(&other, &at_most(2)).await, []);
    end(&store, tasks).await;
    assert_eq!(claim_all(&other, &at_most(2)).await.len(), 2);
}

#[tokio::test]
async fn who_waits_for_a_place_is_woken_when_one_is_free() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (here, there) = (open(&server).await, open(&server).await);
    split(&here, 3).await;
    accept_all(&here, "1", 6).await;
    let tasks = claim_all(&here, &at_most(2)).await;
    assert_eq!(claim_all(&there, &at_most(2)).await, []);
    let mut wakeups = there.wakeups();
    end(&here, tasks).await;
    let heard = soon("a wake-up", wakeups.next()).await;
    assert_eq!(heard, Some(Wakeup::Type(task_type())));
    assert_eq!(claim_all(&there, &at_most(2)).await.len(), 2);
}

/// Nor does one that had its answers, so that its locks have to end by themselves.
#[tokio::test]
async fn a_claim_that_is_given_up_keeps_no_place_for_longer_than_its_locks() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    split(&store, 3).await;
    accept_all(&store, "1", 6).await;
    let short = ClaimRequest {
        lock_for: seconds(1),
        ..at_most(2)
    };
    for n in 0..50 {
        let patience = Duration::from_micros(100 * n);
        let given_up = claim(&store, &short);
        if let Ok(claimed) = tokio::time::timeout(patience, given_up).await {
            end(&store, claimed.tasks).await;
            accept_all(&store, &format!("again-{n}"), 2).await;
        }
    }
    until("both places", || async {
        let tasks = claim_all(&store, &at_most(2)).await;
        let is_whole = tasks.len() == 2;
        end(&store, tasks).await;
        is_whole.then_some(())
    })
    .await;
}

/// Nothing is left of a type that has come to rest, but for a minute.
#[tokio::test]
async fn what_limits_are_kept_in_expires() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    split(&store, 2).await;
    accept_all(&store, "1", 3).await;
    let both = limited(Some(2), Some(Rate::per_second(1_000)));
    let tasks = claim_all(&store, &both).await;
    let mut redis = raw(&server).await;
    for name in ["permits", "places"] {
        let ask = format!("PTTL delayq:{{default}}:{name}:order.cancel");
        let ttl: i64 = run(&mut redis, &ask).await;
        let most = request().lock_for + seconds(61);
        assert!(
            (1..=i64::try_from(most.as_millis()).unwrap()).contains(&ttl),
            "{ttl}"
        );
    }
    end(&store, tasks).await;
    let places = "HVALS delayq:{default}:places:order.cancel";
    let places: Vec<String> = run(&mut redis, places).await;
    assert!(places.iter().any(|held| held.ends_with(" 0")), "{places:?}");
}

/// Locks in all partitions that three raises make, at one moment.
async fn running_now(server: &RedisServer, counts: &[u32]) -> u64 {
    let script =
        "local n = 0 for _, key in ipairs(KEYS) do n = n + redis.call('ZCARD', key) end return n";
    let split = counts.iter().zip(1..).flat_map(|(count, generation)| {
        (0..*count).map(move |number| {
            format!("delayq:{{default/order.cancel/{generation}.{number}}}:running")
        })
    });
    let keys: Vec<String> = split.chain([super::key("running")]).collect();
    let mut sum = redis::cmd("EVAL");
    sum.arg(script).arg(keys.len()).arg(&keys);
    sum.query_async(&mut raw(server).await).await.unwrap()
}

/// Four claim and settle at the same time while the number of partitions is raised again and again; the sum of all
/// locks is asked for all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_is_never_exceeded_while_partitions_are_added_under_load() {
    const TASKS: usize = 600;
    const LIMIT: u32 = 7;
    let server = RedisServer::start(Persistence::None, &[]);
    let here = open(&server).await;
    accept_all(&here, "0", TASKS / 4).await;
    let mut claimers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let store = open(&server).await;
        claimers.spawn(async move {
            let mut done = 0;
            loop {
                let tasks = claim(&store, &at_most(LIMIT)).await.tasks;
                done += tasks.len();
                for task in tasks {
                    end(&store, vec![task]).await;
                }
                let is_last = store
                    .find(&task_type(), &id("end"))
                    .await
                    .unwrap()
                    .is_some();
                if is_last && store_is_empty(&store).await {
                    return done;
                }
            }
        });
    }
    let raise = async {
        for (parts, name) in [(2, "1"), (5, "2"), (9, "3")] {
            split(&here, parts).await;
            accept_all(&here, name, TASKS / 4).await;
        }
        accept(&here, job("end").after(hours(1))).await;
        claimers.join_all().await.into_iter().sum()
    };
    let mut raise = std::pin::pin!(raise);
    let mut most = 0;
    let done: usize = loop {
        tokio::select! {
            biased;
            done = &mut raise => break done,
            running = running_now(&server, &[2, 5, 9]) => most = running.max(most),
        }
        assert!(most <= u64::from(LIMIT), "{most}");
    };
    assert_eq!(done, TASKS);
    // It is looked at now and then only.
    assert!(most > u64::from(LIMIT) / 2, "{most}");
}
