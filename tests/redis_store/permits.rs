//! Limits of the fleet for a type that is split: they hold for all its partitions together, also while their number is
//! raised, and whatever is lost on the way.

use std::time::{Duration, Instant};

use delayq_core::store::{
    AttemptEnd, ChangeOutcome, ClaimRequest, Claimed, ExtendOutcome, RedisStore, Settlement,
    StoreOptions, TypeSettings, Wakeup,
};
use delayq_core::{
    ClaimedTask, Error, FleetLimits, Lock, Rate, Store, When, hours, millis, seconds,
};
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::{soon, until};
use redis::aio::MultiplexedConnection;

use super::{accept, id, job, open, raw, request, run, task_type};

fn at_most(concurrency: u32) -> ClaimRequest {
    limited(Some(concurrency), None)
}

/// With locks of a second.
fn briefly(concurrency: u32) -> ClaimRequest {
    ClaimRequest {
        lock_for: seconds(1),
        ..at_most(concurrency)
    }
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
    let short = briefly(1);
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
    let short = briefly(2);
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
    let short = briefly(2);
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
    let short = briefly(2);
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

/// Calls a script by hand, as instances of any name might.
struct ByHand {
    _server: RedisServer,
    redis: MultiplexedConnection,
    permit: String,
    unstated: String,
}

const PERMITS: &str = "delayq:{default}:permits:by.hand";
const PLACES: &str = "delayq:{default}:places:by.hand";
/// For how long an instance that holds nothing is known, and for how long anything is kept beyond that, ms.
const KNOWN_MS: i64 = 60_000;
const SPARE_MS: i64 = 60_000;

/// An entry of the log of slow calls: its number, when, how long, the call, and who called.
type Call = (u64, u64, u64, Vec<String>, String, String);

/// What an instance says.
#[derive(Clone, Debug)]
struct Said<'a> {
    instance: &'a str,
    number: u64,
    held: u64,
    want: u64,
    unstated: u64,
    keep_ms: i64,
    most: Option<u64>,
    rate: Option<Rate>,
    back: (u64, i64),
    ahead_us: i64,
    is_in_cluster: bool,
}

/// What it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    granted: u64,
    is_free: bool,
    again_us: i64,
    now_us: i64,
}

impl Told {
    fn now_ms(self) -> i64 {
        self.now_us / 1_000
    }
}

/// Says that it holds so many places and wants so many starts, of at most seven places.
fn says(instance: &str, number: u64, held: u64, want: u64) -> Said<'_> {
    Said {
        instance,
        number,
        held,
        want,
        unstated: 0,
        keep_ms: 5_000,
        most: Some(7),
        rate: None,
        back: (0, 0),
        ahead_us: 0,
        is_in_cluster: false,
    }
}

/// Wants so many starts of a rate.
fn wants(number: u64, want: u64, rate: Rate) -> Said<'static> {
    Said {
        most: None,
        rate: Some(rate),
        ..says("a", number, 0, want)
    }
}

fn rate_words(rate: Option<Rate>) -> [String; 3] {
    rate.map_or_else(Default::default, |rate| {
        let per = rate.per.as_micros();
        [
            rate.starts.to_string(),
            per.to_string(),
            rate.burst.to_string(),
        ]
    })
}

impl ByHand {
    /// The server tells by which names it knows the scripts, once a store has called them.
    async fn open() -> Self {
        let server = RedisServer::start(Persistence::None, &["--slowlog-log-slower-than", "0"]);
        let store = open(&server).await;
        accept_all(&store, "1", 1).await;
        split(&store, 2).await;
        assert_eq!(claim(&store, &at_most(1)).await.tasks.len(), 1);
        drop(store);
        let mut redis = raw(&server).await;
        let calls: Vec<Call> = run(&mut redis, "SLOWLOG GET 100").await;
        let name_of = |keys: &str, words: usize| {
            let mut calls = calls.iter().map(|(_, _, _, call, ..)| call);
            let called = |call: &&Vec<String>| {
                call[0] == "EVALSHA" && call[2] == keys && call.len() == words
            };
            calls.find(called).unwrap()[1].clone()
        };
        Self {
            permit: name_of("2", 21),
            unstated: name_of("9", 16),
            _server: server,
            redis,
        }
    }

    async fn say(&mut self, said: &Said<'_>) -> Told {
        let text = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.permit).arg(2).arg(PERMITS).arg(PLACES);
        call.arg(said.instance).arg(said.number).arg(said.held);
        call.arg(said.want).arg(said.unstated).arg(said.keep_ms);
        call.arg(text(said.most)).arg(&rate_words(said.rate));
        call.arg(said.back.0).arg(said.back.1).arg(said.ahead_us);
        call.arg(u8::from(said.is_in_cluster)).arg("by.hand.wake");
        call.arg("woken");
        let (granted, is_free, again_us, now_us) = call.query_async(&mut self.redis).await.unwrap();
        Told {
            granted,
            is_free,
            again_us,
            now_us,
        }
    }

    async fn granted(&mut self, said: &Said<'_>) -> u64 {
        self.say(said).await.granted
    }

    async fn run<T: redis::FromRedisValue>(&mut self, line: &str) -> T {
        run(&mut self.redis, line).await
    }

    async fn places_of(&mut self, instance: &str) -> Option<String> {
        self.run(&format!("HGET {PLACES} {instance}")).await
    }

    async fn tat(&mut self) -> i64 {
        self.run(&format!("HGET {PLACES} tat")).await
    }

    async fn somebody_waits(&mut self) -> bool {
        self.run(&format!("HEXISTS {PLACES} waiting")).await
    }

    async fn until(&mut self, instance: &str) -> Option<i64> {
        self.run(&format!("ZSCORE {PERMITS} {instance}")).await
    }

    /// The places of `instance` end now.
    async fn lapse(&mut self, instance: &str) {
        let _: u64 = self.run(&format!("ZADD {PERMITS} 1 {instance}")).await;
    }

    /// How often anything was published since this was asked last: to all, and within a slot.
    async fn published(&mut self) -> (u64, u64) {
        let stats: String = self.run("INFO commandstats").await;
        let _: () = self.run("CONFIG RESETSTAT").await;
        let calls_of = |command: &str| {
            let stat = format!("cmdstat_{command}:calls=");
            let rest = stats.lines().find_map(|line| line.strip_prefix(&stat));
            rest.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
        };
        (calls_of("publish"), calls_of("spublish"))
    }

    /// Both keys last until then, and no longer.
    async fn assert_kept_until(&mut self, expected_ms: i64) {
        for key in [PERMITS, PLACES] {
            let ends: i64 = self.run(&format!("PEXPIRETIME {key}")).await;
            let off = ends - expected_ms;
            assert!((-2..=500).contains(&off), "{key}: {off} ms");
        }
    }

    /// Runs these lines of Lua, with `call` and the time.
    async fn lua<T: redis::FromRedisValue>(&mut self, lines: &str) -> T {
        let head = "local call, now = redis.call, redis.call('TIME')[1] * 1000\n";
        let script = format!("{head}{lines}");
        let mut eval = redis::cmd("EVAL");
        eval.arg(script).arg(0);
        eval.query_async(&mut self.redis).await.unwrap()
    }
}

#[tokio::test]
async fn what_an_instance_holds_counts_for_all_others_and_once() {
    let mut hand = ByHand::open().await;
    assert_eq!(hand.granted(&says("a", 1, 0, 3)).await, 3);
    assert_eq!(hand.places_of("a").await.unwrap(), "1 3");
    // What it holds it says itself.
    assert_eq!(hand.granted(&says("a", 2, 3, 1)).await, 1);
    assert_eq!(hand.places_of("a").await.unwrap(), "2 4");
    assert_eq!(hand.granted(&says("b", 1, 0, 2)).await, 2);
    let unstated = Said {
        unstated: 1,
        ..says("c", 1, 0, 9)
    };
    assert_eq!(hand.granted(&unstated).await, 0);
    assert_eq!(hand.granted(&says("c", 2, 0, 9)).await, 1);
    // Another limit: never less than nothing.
    let fewer = Said {
        most: Some(2),
        ..says("d", 1, 1, 9)
    };
    assert_eq!(hand.granted(&fewer).await, 0);
    assert_eq!(hand.places_of("d").await.unwrap(), "1 1");
}

#[tokio::test]
async fn a_statement_that_was_overtaken_changes_nothing() {
    let mut hand = ByHand::open().await;
    assert_eq!(hand.granted(&says("a", 10, 2, 0)).await, 0);
    let until = hand.until("a").await;
    for number in [9, 10] {
        let told = hand.say(&says("a", number, 0, 3)).await;
        let nothing = Told {
            granted: 0,
            is_free: false,
            again_us: 0,
            now_us: 0,
        };
        assert_eq!(told, nothing);
        assert_eq!(hand.places_of("a").await.unwrap(), "10 2");
        assert_eq!(hand.until("a").await, until);
    }
    assert_eq!(hand.granted(&says("a", 11, 0, 3)).await, 3);
    // Nobody else's numbers count.
    assert_eq!(hand.granted(&says("b", 1, 0, 3)).await, 3);
}

/// Else a statement that is late would be taken for a new one.
#[tokio::test]
async fn an_instance_is_known_for_a_minute_or_for_as_long_as_it_has_places() {
    let mut hand = ByHand::open().await;
    for (number, held, want, lasts_ms) in [
        (1, 0, 0, KNOWN_MS),
        (2, 1, 0, 5_000),
        (3, 0, 1, 5_000),
        (4, 0, 0, KNOWN_MS),
    ] {
        let told = hand.say(&says("a", number, held, want)).await;
        let until = hand.until("a").await.unwrap();
        assert_eq!(until - told.now_ms(), lasts_ms, "{number}");
    }
}

#[tokio::test]
async fn who_gets_no_place_is_told_when_the_first_one_of_the_others_ends() {
    let mut hand = ByHand::open().await;
    for (instance, held, keep_ms) in [("a", 2, 90_000), ("b", 2, 70_000), ("c", 2, 80_000)] {
        let said = Said {
            keep_ms,
            ..says(instance, 1, held, 0)
        };
        hand.say(&said).await;
    }
    // An instance that holds nothing keeps nobody waiting, nor does one of which nothing is known, nor oneself.
    hand.say(&says("d", 1, 0, 0)).await;
    hand.say(&says("f", 1, 1, 0)).await;
    let _: u64 = hand.run(&format!("HDEL {PLACES} f")).await;
    let own = Said {
        keep_ms: 1_000,
        ..says("e", 1, 1, 0)
    };
    hand.say(&own).await;
    let told = hand.say(&says("e", 2, 1, 2)).await;
    let first = hand.until("b").await.unwrap();
    assert_eq!(told.granted, 0);
    assert_eq!(told.again_us, (first - told.now_ms()) * 1_000);
    // Nobody knows when what was started without a word ends.
    let _: u64 = hand.run(&format!("UNLINK {PERMITS} {PLACES}")).await;
    let unstated = Said {
        unstated: 7,
        ..says("e", 3, 0, 2)
    };
    assert_eq!(hand.say(&unstated).await.again_us, -1);
    // Who got some of what it wants, or wants nothing, is not kept waiting.
    for said in [says("e", 4, 5, 9), says("e", 5, 7, 0), says("e", 6, 3, 4)] {
        assert_eq!(hand.say(&said).await.again_us, 0, "{said:?}");
    }
}

#[tokio::test]
async fn a_place_that_is_free_again_is_told_once_and_only_if_somebody_waited() {
    let mut hand = ByHand::open().await;
    hand.say(&says("a", 1, 7, 0)).await;
    hand.published().await;
    // Nobody waits yet: nobody wanted anything.
    hand.say(&says("b", 1, 0, 0)).await;
    assert!(!hand.say(&says("a", 2, 6, 0)).await.is_free);
    // Nor was this one kept without a place.
    assert_eq!(hand.granted(&says("b", 2, 0, 9)).await, 1);
    assert!(!hand.somebody_waits().await);
    assert_eq!(hand.granted(&says("b", 3, 1, 1)).await, 0);
    assert!(hand.somebody_waits().await);
    // As many as before, in one way or another, or nothing from the first.
    assert!(!hand.say(&says("c", 1, 0, 0)).await.is_free);
    assert!(!hand.say(&says("a", 3, 6, 0)).await.is_free);
    assert!(!hand.say(&says("b", 4, 0, 1)).await.is_free);
    assert!(hand.somebody_waits().await);
    assert_eq!(hand.published().await, (0, 0));
    assert!(hand.say(&says("a", 4, 5, 0)).await.is_free);
    assert!(!hand.somebody_waits().await);
    assert_eq!(hand.published().await, (1, 0));
    assert!(!hand.say(&says("a", 5, 4, 0)).await.is_free);
    assert_eq!(hand.published().await, (0, 0));
}

/// In a cluster, where a message of this channel is heard by nobody that is published to all.
#[tokio::test]
async fn in_a_cluster_a_place_is_told_of_in_the_slot_of_the_channel() {
    let mut hand = ByHand::open().await;
    hand.say(&says("a", 1, 7, 0)).await;
    hand.say(&says("b", 1, 0, 1)).await;
    hand.published().await;
    let freed = Said {
        is_in_cluster: true,
        ..says("a", 2, 0, 0)
    };
    assert!(hand.say(&freed).await.is_free);
    assert_eq!(hand.published().await, (0, 1));
}

#[tokio::test]
async fn places_that_have_ended_are_told_of_by_whoever_comes_next() {
    let mut hand = ByHand::open().await;
    for who_comes in ["a", "c"] {
        let _: u64 = hand.run(&format!("UNLINK {PERMITS} {PLACES}")).await;
        hand.say(&says("a", 1, 7, 0)).await;
        hand.say(&says("b", 1, 0, 1)).await;
        hand.lapse("a").await;
        hand.published().await;
        assert!(hand.say(&says(who_comes, 2, 0, 0)).await.is_free);
        assert_eq!(hand.published().await, (1, 0));
        assert!(!hand.somebody_waits().await);
        let is_known = (who_comes == "a").then(|| "2 0".to_owned());
        assert_eq!(hand.places_of("a").await, is_known);
        assert_eq!(hand.until("a").await.is_some(), is_known.is_some());
        assert_eq!(hand.granted(&says("b", 2, 0, 9)).await, 7);
    }
}

/// There is a place again, and it is not enough for this one.
#[tokio::test]
async fn who_still_waits_when_a_place_is_told_of_is_not_forgotten() {
    let mut hand = ByHand::open().await;
    hand.say(&says("a", 1, 1, 0)).await;
    hand.say(&says("b", 1, 6, 0)).await;
    hand.say(&says("c", 1, 0, 1)).await;
    hand.lapse("a").await;
    let fewer = Said {
        most: Some(6),
        ..says("c", 2, 0, 1)
    };
    let told = hand.say(&fewer).await;
    assert_eq!((told.granted, told.is_free), (0, true));
    assert!(hand.somebody_waits().await);
}

#[tokio::test]
async fn all_of_thousands_of_instances_count_and_are_forgotten_when_they_have_ended() {
    let mut hand = ByHand::open().await;
    let many = format!(
        "for n = 1, 9000 do
           call('ZADD', '{PERMITS}', now + 100000 + n * 10, 'p' .. n)
           call('HSET', '{PLACES}', 'p' .. n, '1 2')
           call('ZADD', '{PERMITS}', now - n, 'g' .. n)
           call('HSET', '{PLACES}', 'g' .. n, '1 5')
         end
         return now"
    );
    let began: i64 = hand.lua(&many).await;
    let of_many = |number, want| Said {
        most: Some(18_003),
        ..says("me", number, 0, want)
    };
    let told = hand.say(&of_many(1, 9)).await;
    assert_eq!(told.granted, 3);
    hand.assert_kept_until(began + 100_000 + 90_000 + SPARE_MS)
        .await;
    let full = Said {
        most: Some(18_000),
        ..of_many(2, 9)
    };
    let told = hand.say(&full).await;
    let first = began + 100_010;
    assert_eq!(told.again_us, (first - told.now_ms()) * 1_000);
    // So many at a time that no call is slow.
    let left: u64 = hand.run(&format!("ZCARD {PERMITS}")).await;
    assert_eq!(left, 1 + 9_000 + 7_000);
    for number in 3..10 {
        hand.say(&of_many(number, 0)).await;
    }
    for count in [format!("ZCARD {PERMITS}"), format!("HLEN {PLACES}")] {
        let left: u64 = hand.run(&count).await;
        assert_eq!(left, 1 + 9_000, "{count}");
    }
}

#[tokio::test]
async fn what_limits_are_kept_in_lasts_as_long_as_it_says_anything() {
    let mut hand = ByHand::open().await;
    let told = hand.say(&says("a", 1, 0, 0)).await;
    hand.assert_kept_until(told.now_ms() + KNOWN_MS + SPARE_MS)
        .await;
    let long = Said {
        keep_ms: 300_000,
        ..says("a", 2, 1, 0)
    };
    let told = hand.say(&long).await;
    let until = told.now_ms() + 300_000;
    hand.assert_kept_until(until + SPARE_MS).await;
    // For others, too.
    hand.say(&says("b", 1, 1, 0)).await;
    hand.assert_kept_until(until + SPARE_MS).await;
    // And for as long as a rate is used up, also by a statement that is not about it.
    let paced = Said {
        rate: Some(Rate::per_hour(1)),
        ..says("b", 2, 1, 1)
    };
    let told = hand.say(&paced).await;
    let until = told.now_ms() + 3_600_000;
    hand.assert_kept_until(until + SPARE_MS).await;
    hand.say(&says("b", 3, 1, 1)).await;
    hand.assert_kept_until(until + SPARE_MS).await;
}

/// Starts, at most five at once and one an hour.
const HOURLY: Rate = Rate::per_hour(1).with_burst(5);
const HOUR_US: i64 = 3_600_000_000;

#[tokio::test]
async fn starts_are_counted_to_the_microsecond() {
    let mut hand = ByHand::open().await;
    let first = hand.say(&wants(1, 3, HOURLY)).await;
    assert_eq!((first.granted, first.again_us), (3, 0));
    assert_eq!(hand.tat().await, first.now_us + 3 * HOUR_US);
    let second = hand.say(&wants(2, 9, HOURLY)).await;
    assert_eq!(second.granted, 2);
    assert_eq!(hand.tat().await, first.now_us + 5 * HOUR_US);
    // In whole milliseconds, rounded up.
    let again = (first.now_us + HOUR_US + 999) / 1_000 * 1_000;
    assert_eq!(second.again_us, again - second.now_us);
    let third = hand.say(&wants(3, 9, HOURLY)).await;
    assert_eq!((third.granted, third.again_us), (0, again - third.now_us));
    // Where nothing is said of places, nothing is written down of them, and nobody waits for one.
    assert_eq!(hand.places_of("a").await, None);
    assert_eq!(hand.until("a").await, None);
    assert!(!hand.somebody_waits().await);
}

#[tokio::test]
async fn who_waits_for_a_start_is_not_told_to_wait_for_a_place() {
    let mut hand = ByHand::open().await;
    hand.say(&says("b", 1, 2, 0)).await;
    let both = |number, held, want| Said {
        most: Some(7),
        held,
        ..wants(number, want, HOURLY)
    };
    let told = hand.say(&both(1, 1, 9)).await;
    // Four of five starts: as many as there are places.
    assert_eq!((told.granted, told.again_us), (4, 0));
    assert_eq!(hand.tat().await, told.now_us + 4 * HOUR_US);
    let told = hand.say(&both(2, 2, 9)).await;
    assert_eq!(told.granted, 1);
    assert!(told.again_us > HOUR_US / 2, "{told:?}");
    let told = hand.say(&both(3, 2, 9)).await;
    assert_eq!(told.granted, 0);
    assert!(told.again_us > HOUR_US / 2, "{told:?}");
    assert!(!hand.somebody_waits().await);
    // No place either: that is what it waits for.
    let told = hand.say(&both(4, 5, 9)).await;
    let end = hand.until("b").await.unwrap();
    assert_eq!(told.granted, 0);
    assert_eq!(told.again_us, (end - told.now_ms()) * 1_000);
    assert!(hand.somebody_waits().await);
}

/// What would have come back by itself since does not come back twice: or others would start too many.
#[tokio::test]
async fn a_start_that_is_given_back_is_worth_less_the_longer_it_was_held() {
    let mut hand = ByHand::open().await;
    let back = |number, back| Said {
        back,
        ..wants(number, 0, HOURLY)
    };
    let told = hand.say(&wants(1, 5, HOURLY)).await;
    let (granted_at, mut tat) = (told.now_us, told.now_us + 5 * HOUR_US);
    let told = hand.say(&back(2, (2, granted_at))).await;
    tat -= 2 * HOUR_US - (told.now_us - granted_at);
    assert_eq!(hand.tat().await, tat);
    // Half of it is gone.
    let told = hand.say(&back(3, (1, granted_at - HOUR_US / 2))).await;
    tat -= HOUR_US / 2 - (told.now_us - granted_at);
    assert_eq!(hand.tat().await, tat);
    // All of it is, and more.
    hand.say(&back(4, (1, granted_at - 2 * HOUR_US))).await;
    assert_eq!(hand.tat().await, tat);
    // The clock was set back: worth a whole one, and no more.
    hand.say(&back(5, (1, granted_at + HOUR_US))).await;
    tat -= HOUR_US;
    assert_eq!(hand.tat().await, tat);
    // Rounded down: it has taken no more.
    let seventh = Said {
        rate: Some(Rate::per_hour(7).with_burst(35)),
        ..back(6, (1, granted_at + HOUR_US))
    };
    hand.say(&seventh).await;
    tat -= 514_285_714;
    assert_eq!(hand.tat().await, tat);
    // No burst comes of it that is larger than usual, and it is counted before anything is granted.
    let told = hand
        .say(&Said {
            want: 9,
            ..back(7, (9, granted_at))
        })
        .await;
    assert_eq!(told.granted, 5);
    assert_eq!(hand.tat().await, told.now_us + 5 * HOUR_US);
}

#[tokio::test]
async fn what_is_used_up_of_a_rate_elsewhere_counts_and_no_more_than_a_burst_of_it() {
    let mut hand = ByHand::open().await;
    let ahead = |number, ahead_us| Said {
        ahead_us,
        ..wants(number, 0, HOURLY)
    };
    let told = hand.say(&ahead(1, HOUR_US)).await;
    let tat = told.now_us + HOUR_US;
    assert_eq!(hand.tat().await, tat);
    // It is the same that was used up, not more.
    hand.say(&ahead(2, HOUR_US / 2)).await;
    assert_eq!(hand.tat().await, tat);
    let told = hand.say(&ahead(3, 9 * HOUR_US)).await;
    assert_eq!(hand.tat().await, told.now_us + 5 * HOUR_US);
    let faster = Rate::per_second(7).with_burst(3);
    for number in [4, 5] {
        let far = Said {
            ahead_us: 9 * HOUR_US,
            ..wants(number, 1, faster)
        };
        let told = hand.say(&far).await;
        assert_eq!(told.granted, 0);
        assert_eq!(hand.tat().await, told.now_us + 428_572);
        let _: u64 = hand.run(&format!("UNLINK {PLACES}")).await;
    }
}

const PART: &str = "delayq:{by.hand}";

impl ByHand {
    /// Asks a partition, whose keys are not those of any type, what runs of it, and how far ahead its rate is.
    async fn unstated(&mut self, most: u64, rate: Option<Rate>) -> (u64, i64) {
        let parts = [
            "due", "running", "locks", "dead", "tasks", "trail", "meta", "gone", "gone_old",
        ];
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.unstated).arg(parts.len());
        call.arg(&parts.map(|part| format!("{PART}:{part}")));
        call.arg(most).arg(&rate_words(rate));
        call.query_async(&mut self.redis).await.unwrap()
    }

    /// Locks with these fences, which last so many milliseconds.
    async fn lock(&mut self, fences: std::ops::RangeInclusive<u64>, lasts_ms: i64) {
        let fill = format!(
            "for fence = {}, {} do
               call('ZADD', '{PART}:running', now + {lasts_ms}, 't' .. fence)
               call('HSET', '{PART}:locks', 't' .. fence, fence .. ' 1 0')
             end
             return 0",
            fences.start(),
            fences.end()
        );
        self.lua::<u64>(&fill).await;
    }

    async fn holds_back(&mut self) -> bool {
        self.run(&format!("HEXISTS {PART}:meta held_back")).await
    }

    async fn time_us(&mut self) -> i64 {
        let (seconds, micros): (i64, i64) = self.run("TIME").await;
        seconds * 1_000_000 + micros
    }
}

#[tokio::test]
async fn of_a_sealed_partition_the_locks_count_that_are_older_than_its_seal_and_last() {
    let mut hand = ByHand::open().await;
    let _: u64 = hand.run(&format!("HSET {PART}:meta sealed_at 10")).await;
    hand.lock(3..=5, -1_000).await;
    hand.lock(11..=14, 100_000).await;
    // An entry without a lock is damage, and is no lock.
    hand.lua::<u64>(&format!(
        "return call('ZADD', '{PART}:running', now + 9000, 'stray')"
    ))
    .await;
    assert_eq!(hand.unstated(9, None).await, (0, 0));
    assert!(!hand.holds_back().await);
    hand.lock(10..=10, 100_000).await;
    assert_eq!(hand.unstated(9, None).await, (1, 0));
    assert!(hand.holds_back().await);
    hand.lock(9..=9, 100_000).await;
    assert_eq!(hand.unstated(9, None).await, (2, 0));
    assert_eq!(hand.unstated(2, None).await, (2, 0));
    assert_eq!(hand.unstated(1, None).await, (1, 0));
    // One that does not know of its seal may give such locks still.
    let _: u64 = hand.run(&format!("HDEL {PART}:meta sealed_at")).await;
    assert_eq!(hand.unstated(9, None).await, (6, 0));
}

#[tokio::test]
async fn thousands_of_locks_that_are_older_than_a_seal_count() {
    let mut hand = ByHand::open().await;
    let _: u64 = hand.run(&format!("HSET {PART}:meta sealed_at 9100")).await;
    hand.lock(1..=9_200, 100_000).await;
    for (most, expected) in [(9_050, 9_050), (50_000, 9_100)] {
        assert_eq!(hand.unstated(most, None).await, (expected, 0));
    }
}

#[tokio::test]
async fn a_partition_tells_for_how_long_its_rate_is_used_up() {
    let mut hand = ByHand::open().await;
    assert_eq!(hand.unstated(9, Some(HOURLY)).await, (0, 0));
    let tat = hand.time_us().await + 2 * HOUR_US;
    let _: u64 = hand.run(&format!("HSET {PART}:meta tat {tat}")).await;
    // To the microsecond, whichever it is of its millisecond.
    for _ in 0..50 {
        let before = hand.time_us().await;
        let (_, ahead) = hand.unstated(9, Some(HOURLY)).await;
        let after = hand.time_us().await;
        assert!((tat - after..=tat - before).contains(&ahead), "{ahead}");
    }
    // Also to who asks without a rate, and may have one the next time.
    assert!(hand.unstated(9, None).await.1 > HOUR_US);
    let faster = Rate::per_second(10).with_burst(3);
    assert_eq!(hand.unstated(9, Some(faster)).await, (0, 300_000));
}

/// A partition is sealed anew with each raise; what ran by then under permits is not counted twice.
#[tokio::test]
async fn another_raise_leaves_it_at_what_ran_before_the_first_one() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    accept_all(&store, "old", 6).await;
    let some = |limit| ClaimRequest {
        limit,
        ..at_most(4)
    };
    assert_eq!(claim(&store, &some(1)).await.tasks.len(), 1);
    split(&store, 2).await;
    assert_eq!(claim(&store, &some(2)).await.tasks.len(), 2);
    split(&store, 4).await;
    assert_eq!(claim_all(&store, &at_most(4)).await.len(), 1);
    assert_eq!(running(&store).await, 4);
}

/// Who does not know of the raise would count its locks alone, and its own starts.
#[tokio::test]
async fn who_does_not_know_that_a_type_is_split_takes_nothing_beyond_its_limits() {
    let hourly = Rate::per_hour(1).with_burst(2);
    for (concurrency, rate) in [(Some(2), None), (None, Some(hourly))] {
        let server = RedisServer::start(Persistence::None, &[]);
        let (old, new) = (open(&server).await, open(&server).await);
        for name in ["old-1", "old-2"] {
            accept(&old, job(name).after(hours(1))).await;
        }
        split(&new, 3).await;
        accept_all(&new, "new", 2).await;
        assert_eq!(claim_all(&new, &limited(concurrency, rate)).await.len(), 2);
        for name in ["old-1", "old-2"] {
            let now = When::After(Duration::ZERO);
            let moved = new.reschedule(&task_type(), &id(name), now).await.unwrap();
            assert!(matches!(moved, ChangeOutcome::Changed { .. }), "{moved:?}");
        }
        assert_eq!(claim(&old, &limited(concurrency, rate)).await.tasks, []);
        assert_eq!(running(&new).await, 2);
    }
}

/// What is known of its rate says nothing any more.
#[tokio::test]
async fn an_old_partition_is_given_up_though_it_had_a_rate_once() {
    let server = RedisServer::start(Persistence::None, &[]);
    let options = StoreOptions {
        retention: Duration::ZERO,
        ..super::options()
    };
    let store = RedisStore::connect(&server.url(), options).await.unwrap();
    let paced = || limited(None, Some(Rate::per_second(1_000)));
    accept_all(&store, "1", 1).await;
    end(&store, claim_all(&store, &paced()).await).await;
    split(&store, 3).await;
    let mut redis = raw(&server).await;
    let layout = "HGET delayq:{default}:layouts order.cancel";
    let both: String = run(&mut redis, layout).await;
    assert_eq!(both, "1 0:1 1:3");
    let redis = tokio::sync::Mutex::new(redis);
    until("a layout without the old partition", || async {
        claim_all(&store, &paced()).await;
        let rest: String = run(&mut *redis.lock().await, layout).await;
        (rest == "1 1:3").then_some(())
    })
    .await;
}

/// Found by reading: no places at all, which is read as one, were counted as none that run.
#[tokio::test]
async fn a_limit_of_nothing_is_one_also_while_a_type_is_being_split() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    accept_all(&store, "old", 6).await;
    let before = ClaimRequest {
        limit: 2,
        ..at_most(2)
    };
    assert_eq!(claim(&store, &before).await.tasks.len(), 2);
    split(&store, 3).await;
    for most in [0, 2] {
        assert_eq!(claim_all(&store, &at_most(most)).await, [], "{most}");
    }
}

/// A claim without a rate says nothing of the rate that is used up.
#[tokio::test]
async fn a_rate_that_is_used_up_is_known_though_a_claim_without_one_came_first() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    accept_all(&store, "old", 2).await;
    let paced = || limited(None, Some(Rate::per_hour(1).with_burst(2)));
    end(&store, claim_all(&store, &paced()).await).await;
    split(&store, 3).await;
    accept_all(&store, "new", 3).await;
    assert_eq!(claim_all(&store, &at_most(1)).await.len(), 1);
    assert_eq!(claim_all(&store, &paced()).await, []);
}
