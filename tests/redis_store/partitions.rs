//! Types that are split: how their layout is stored, raised while others use it, and dropped when it has drained.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{
    AttemptEnd, CancelOutcome, ChangeOutcome, ClaimRequest, MAX_BATCH, RedisStore, SettleOutcome,
    Settlement, StoreOptions, SubmitOutcome, TypeSettings,
};
use delayq_core::{Clock, DelayQueueJob, Error, Limits, Lock, Store, SystemClock, TaskState, When};
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::soon;
use redis::aio::MultiplexedConnection;

use super::{
    TYPE, accept, claim, id, job, open, options, raw, request, run, submit, task, task_type,
};

const LATER: Duration = Duration::from_mins(9);

async fn split(store: &RedisStore, partitions: u32) {
    let settings = TypeSettings::default().partitions(partitions);
    store.configure_type(&task_type(), &settings).await.unwrap();
}

async fn layout(redis: &mut MultiplexedConnection) -> String {
    let layout: Option<String> =
        run(redis, &format!("HGET delayq:{{default}}:layouts {TYPE}")).await;
    layout.unwrap_or_default()
}

/// The key of a partition of the usual type that holds `part`.
fn key(place: &str, part: &str) -> String {
    format!("delayq:{{default/{TYPE}/{place}}}:{part}")
}

/// Stores that forget ended tasks at once.
async fn forgetful(server: &RedisServer) -> Arc<RedisStore> {
    let options = StoreOptions {
        retention: Duration::ZERO,
        ..options()
    };
    RedisStore::connect(&server.url(), options).await.unwrap()
}

async fn state(store: &RedisStore, name: &str) -> Option<TaskState> {
    let found = store.find(&task_type(), &id(name)).await.unwrap();
    found.map(|info| info.state)
}

/// Settles everything that is due as done; returns the ids.
async fn work_off(store: &RedisStore) -> BTreeSet<String> {
    let mut done = BTreeSet::new();
    loop {
        let claimed = claim(store).await.unwrap();
        if claimed.tasks.is_empty() {
            return done;
        }
        let ends = claimed.tasks.into_iter().map(|task| {
            assert!(
                done.insert(task.lock.id.to_string()),
                "{} twice",
                task.lock.id
            );
            let (lock, end) = (task.lock, AttemptEnd::Done);
            Settlement { lock, end }
        });
        let outcomes = store.settle(&task_type(), ends.collect()).await.unwrap();
        assert!(
            outcomes
                .iter()
                .all(|outcome| *outcome == SettleOutcome::Settled)
        );
    }
}

#[tokio::test]
async fn a_type_that_is_never_split_has_no_layout() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    split(&store, 1).await;
    accept(&store, job("1")).await;
    claim(&store).await.unwrap();
    let mut redis = raw(&server).await;
    assert_eq!(layout(&mut redis).await, "");
    let split: Option<String> =
        run(&mut redis, &format!("HGET {} split", super::key("meta"))).await;
    assert_eq!(split, None);
    let version: String = run(&mut redis, &format!("HGET {} v", super::key("meta"))).await;
    assert_eq!(version, "1");
}

#[tokio::test]
async fn tasks_are_stored_in_the_partition_of_their_id() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    split(&store, 8).await;
    for (name, number) in [("order-42", 6), ("order-43", 0), ("a", 3)] {
        accept(&store, job(name).after(LATER)).await;
        let tasks = key(&format!("1.{number}"), "tasks");
        let found: bool = run(&mut raw(&server).await, &format!("HEXISTS {tasks} {name}")).await;
        assert!(found, "{name} in {tasks}");
    }
    let meta: Vec<String> = run(
        &mut raw(&server).await,
        &format!("HMGET {} v split", key("1.7", "meta")),
    )
    .await;
    assert_eq!(meta, ["1", "8"]);
    let sealed: Vec<String> = run(
        &mut raw(&server).await,
        &format!("HMGET {} v split", super::key("meta")),
    )
    .await;
    assert_eq!(sealed, ["1", "-"]);
}

/// More than one partition may give at once, and no more than is asked for.
#[tokio::test]
async fn a_claim_takes_a_batch_of_each_partition() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    split(&store, 4).await;
    let jobs = (0..900).map(|name| task(job(&name.to_string())));
    let accepted = store.submit(jobs.collect()).await;
    assert!(accepted.into_iter().all(|outcome| outcome.is_ok()));
    let most = |limit| ClaimRequest { limit, ..request() };
    let mut done = BTreeSet::new();
    for (limit, least) in [(100, 100), (1_000, MAX_BATCH + 1), (1_000, 1), (1_000, 0)] {
        let claimed = store.claim(&task_type(), &most(limit)).await.unwrap();
        let count = claimed.tasks.len();
        assert!(
            (least..=limit.min(4 * MAX_BATCH)).contains(&count),
            "{count} of {limit}"
        );
        let ends = claimed.tasks.into_iter().map(|task| {
            assert!(done.insert(task.lock.id.to_string()), "twice");
            let (lock, end) = (task.lock, AttemptEnd::Done);
            Settlement { lock, end }
        });
        let outcomes = store.settle(&task_type(), ends.collect()).await.unwrap();
        assert_eq!(outcomes, vec![SettleOutcome::Settled; count]);
    }
    assert_eq!(done.len(), 900);
}

#[tokio::test]
async fn a_generation_is_dropped_once_nothing_of_it_is_left() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = forgetful(&server).await;
    let mut redis = raw(&server).await;
    accept(&store, job("old")).await;
    split(&store, 2).await;
    assert_eq!(layout(&mut redis).await, "1 0:1 1:2");
    accept(&store, job("new")).await;
    let expected = ["new", "old"].map(str::to_owned);
    assert_eq!(work_off(&store).await, BTreeSet::from(expected));
    claim(&store).await.unwrap();
    assert_eq!(layout(&mut redis).await, "1 1:2");
    // What stays of it turns away those who have not heard.
    let mut keys: Vec<String> = run(&mut redis, &format!("KEYS delayq:{{default/{TYPE}}}:*")).await;
    // What a claim took is known for as long as its locks would last.
    keys.retain(|key| !key.contains(":claim:"));
    assert_eq!(keys, [super::key("meta")]);
    split(&store, 3).await;
    assert_eq!(layout(&mut redis).await, "1 1:2 2:3");
    claim(&store).await.unwrap();
    claim(&store).await.unwrap();
    assert_eq!(layout(&mut redis).await, "1 2:3");
}

#[tokio::test]
async fn a_generation_stays_for_as_long_as_it_holds_a_task_or_remembers_one() {
    for (remembered_in, all_are_done) in [("gone", false), ("gone_old", false), ("gone_old", true)]
    {
        let server = RedisServer::start(Persistence::None, &[]);
        let store = open(&server).await;
        let mut redis = raw(&server).await;
        accept(&store, job("done")).await;
        assert_eq!(work_off(&store).await.len(), 1);
        if remembered_in != "gone" {
            let [young, old] = ["gone", remembered_in].map(super::key);
            run::<String>(&mut redis, &format!("RENAME {young} {old}")).await;
        }
        accept(&store, job("other").after(LATER)).await;
        if all_are_done {
            store.cancel(&task_type(), &id("other")).await.unwrap();
        }
        split(&store, 2).await;
        claim_none(&store).await;
        claim_none(&store).await;
        assert_eq!(layout(&mut redis).await, "1 0:1 1:2", "{remembered_in}");
        assert_eq!(state(&store, "done").await, Some(TaskState::Done));
        assert!(state(&store, "other").await.is_some());
    }
}

/// The one waits, the other is remembered, and no claim has given a fence.
#[tokio::test]
async fn a_generation_that_was_never_claimed_from_stays_for_what_it_holds_and_remembers() {
    for remembered_in in ["gone", "gone_old"] {
        let server = RedisServer::start(Persistence::None, &[]);
        let store = open(&server).await;
        let mut redis = raw(&server).await;
        accept(&store, job("waits").after(LATER)).await;
        accept(&store, job("ended").after(LATER)).await;
        let ended = store.cancel(&task_type(), &id("ended")).await;
        assert_eq!(ended, Ok(CancelOutcome::Cancelled));
        if remembered_in != "gone" {
            let [young, old] = ["gone", remembered_in].map(super::key);
            run::<String>(&mut redis, &format!("RENAME {young} {old}")).await;
        }
        split(&store, 2).await;
        assert_eq!(layout(&mut redis).await, "1 0:1 1:2", "{remembered_in}");
        assert_eq!(state(&store, "waits").await, Some(TaskState::Scheduled));
        assert_eq!(state(&store, "ended").await, Some(TaskState::Cancelled));
    }
}

/// Whatever the clocks of their servers show.
#[tokio::test]
async fn a_task_of_a_new_generation_has_a_larger_fence_than_those_before_it() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let ahead = SystemClock.now().plus(LATER).as_millis();
    let given = u64::try_from(ahead).unwrap() * 1_000;
    accept(&store, job("old").after(LATER)).await;
    let set = format!("HSET {} fence {given}", super::key("meta"));
    run::<u64>(&mut raw(&server).await, &set).await;
    split(&store, 2).await;
    accept(&store, job("new")).await;
    let claimed = claim(&store).await.unwrap();
    assert_eq!(claimed.tasks.len(), 1);
    assert!(claimed.tasks[0].lock.fence > given);
}

/// Also while the type is paused: a claim that is held back sees that nothing is left.
#[tokio::test]
async fn a_drained_generation_is_dropped_in_a_pause() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = forgetful(&server).await;
    accept(&store, job("old")).await;
    work_off(&store).await;
    store.pause(&task_type(), None).await.unwrap();
    split(&store, 2).await;
    claim(&store).await.unwrap();
    assert_eq!(layout(&mut raw(&server).await).await, "1 1:2");
}

#[tokio::test]
async fn the_number_is_never_lowered() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    split(&store, 4).await;
    split(&store, 2).await;
    split(&store, 4).await;
    assert_eq!(layout(&mut raw(&server).await).await, "1 1:4");
    for bad in [0, 257] {
        let settings = TypeSettings::default().partitions(bad);
        let refused = store.configure_type(&task_type(), &settings).await;
        assert!(
            matches!(refused, Err(Error::InvalidInput(_))),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn who_knows_only_the_old_layout_loses_and_doubles_nothing() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (here, sleeper) = (open(&server).await, open(&server).await);
    accept(&sleeper, job("old").after(LATER)).await;
    split(&here, 2).await;
    split(&here, 8).await;
    // It knows the first generation alone, in which the old task is, and which is closed for the new one.
    let again = submit(&sleeper, job("old").after(LATER)).await;
    let state_before = TaskState::Scheduled;
    assert_eq!(
        again,
        Ok(SubmitOutcome::AlreadyExists {
            state: state_before
        })
    );
    accept(&here, job("new").after(LATER)).await;
    assert_eq!(state(&sleeper, "new").await, Some(TaskState::Scheduled));
    let again = submit(&sleeper, job("new").after(LATER)).await;
    assert_eq!(
        again,
        Ok(SubmitOutcome::AlreadyExists {
            state: state_before
        })
    );
    accept(&sleeper, job("newer").after(LATER)).await;
    for name in ["old", "new", "newer"] {
        assert_eq!(
            state(&here, name).await,
            Some(TaskState::Scheduled),
            "{name}"
        );
    }
    let stats = sleeper.stats(&task_type()).await.unwrap();
    assert_eq!(stats.scheduled, 3);
    for name in ["old", "new"] {
        let cancelled = here.cancel(&task_type(), &id(name)).await;
        assert_eq!(cancelled, Ok(CancelOutcome::Cancelled), "{name}");
    }
    let moved = here
        .reschedule(&task_type(), &id("newer"), When::After(Duration::ZERO))
        .await;
    assert!(
        matches!(moved, Ok(ChangeOutcome::Changed { .. })),
        "{moved:?}"
    );
    assert_eq!(
        work_off(&sleeper).await,
        BTreeSet::from(["newer".to_owned()])
    );
}

#[tokio::test]
async fn a_lock_that_is_lost_is_told_so_while_an_older_generation_drains() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    accept(&store, job("old").after(LATER)).await;
    split(&store, 2).await;
    accept(&store, job("new")).await;
    let lock = claim(&store).await.unwrap().tasks.pop().unwrap().lock;
    let lost = Lock {
        fence: lock.fence - 1,
        ..lock.clone()
    };
    for (lock, expected) in [
        (lost, SettleOutcome::LockLost),
        (lock, SettleOutcome::Settled),
    ] {
        let end = AttemptEnd::Done;
        let settled = store
            .settle(&task_type(), vec![Settlement { lock, end }])
            .await;
        assert_eq!(settled, Ok(vec![expected]));
    }
}

#[tokio::test]
async fn of_one_partition_that_fails_the_locks_are_unknown_and_those_of_another_are_settled() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    split(&store, 2).await;
    for name in ["order-42", "a"] {
        accept(&store, job(name)).await;
    }
    let mut locks = Vec::new();
    while locks.len() < 2 {
        let tasks = claim(&store).await.unwrap().tasks;
        locks.extend(tasks.into_iter().map(|task| task.lock));
    }
    locks.sort_by_key(|lock| lock.id.clone());
    let mut redis = raw(&server).await;
    let strange = key("1.1", "locks");
    run::<u64>(&mut redis, &format!("DEL {strange}")).await;
    run::<()>(&mut redis, &format!("SET {strange} x")).await;
    let settle = async |locks: &[Lock]| {
        let ends = locks.iter().map(|lock| Settlement {
            lock: lock.clone(),
            end: AttemptEnd::Done,
        });
        store.settle(&task_type(), ends.collect()).await
    };
    let outcomes = settle(&locks).await;
    let expected = vec![SettleOutcome::Unknown, SettleOutcome::Settled];
    assert_eq!(outcomes, Ok(expected));
    let failed = settle(&locks[..1]).await.unwrap_err();
    assert!(matches!(failed, Error::Corrupt { .. }), "{failed}");
}

#[tokio::test]
async fn each_call_ends_although_a_partition_says_again_and_again_that_there_are_others() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    split(&store, 2).await;
    let mut redis = raw(&server).await;
    for place in ["1.0", "1.1"] {
        let set = format!("HSET {} split 3", key(place, "meta"));
        run::<u64>(&mut redis, &set).await;
    }
    let task_type = task_type();
    let errors = async {
        [
            submit(&store, job("a")).await.unwrap_err(),
            store.find(&task_type, &id("a")).await.unwrap_err(),
            store.stats(&task_type).await.unwrap_err(),
        ]
    };
    for error in soon("the end of each call", errors).await {
        let said = error.to_string();
        assert!(matches!(error, Error::Unavailable { .. }), "{said}");
        assert!(said.contains("again and again"), "{said}");
    }
}

#[tokio::test]
async fn pages_that_large_messages_cut_short_leave_out_nothing() {
    let limits = Limits {
        max_message_bytes: 1 << 20,
        ..Limits::default()
    };
    // Ids of each of two partitions.
    let mut ids = [
        ["4", "5", "6", "7", "14", "15"],
        ["0", "1", "2", "3", "8", "9"],
    ];
    for _ in 0..2 {
        let server = RedisServer::start(Persistence::None, &[]);
        let store = open(&server).await;
        split(&store, 2).await;
        let due_at = SystemClock.now().plus(LATER);
        let expected: Vec<String> = ids.concat().into_iter().map(str::to_owned).collect();
        for (n, name) in (0..).zip(&expected) {
            let job = DelayQueueJob::raw(TYPE, vec![7; 1 << 20]).id(name);
            let job = job.at(due_at.plus(Duration::from_secs(n)));
            let task = job.into_task(&limits, SystemClock.now()).unwrap();
            let outcome = store.submit(vec![task]).await.pop().unwrap();
            assert!(outcome.is_ok(), "{outcome:?}");
        }
        let (mut listed, mut cursor) = (Vec::new(), None);
        loop {
            let state = TaskState::Scheduled;
            let page = store
                .list(&task_type(), state, cursor.as_ref(), 12)
                .await
                .unwrap();
            listed.extend(page.tasks.into_iter().map(|task| task.id.to_string()));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(listed, expected);
        ids.reverse();
    }
}

/// One sleeper for each edge: the first thing it does after the raise is that edge.
#[tokio::test]
async fn every_edge_of_a_sleeper_finds_the_new_partitions() {
    let server = RedisServer::start(Persistence::None, &[]);
    let here = open(&server).await;
    let sleeper = async || {
        let sleeper = open(&server).await;
        assert_eq!(state(&sleeper, "unknown").await, None);
        sleeper
    };
    let mut sleepers = Vec::new();
    for _ in 0..9 {
        sleepers.push(sleeper().await);
    }
    let mut next = || sleepers.pop().unwrap();
    split(&here, 3).await;
    accept(&here, job("1").after(LATER)).await;
    accept(&here, job("due")).await;
    let task_type = task_type();
    assert_eq!(next().stats(&task_type).await.unwrap().scheduled, 2);
    let listed = next()
        .list(&task_type, TaskState::Scheduled, None, 9)
        .await
        .unwrap();
    assert_eq!(listed.tasks.len(), 2);
    let updated = next().update(&task_type, &id("1"), b"new".to_vec()).await;
    assert!(
        matches!(updated, Ok(ChangeOutcome::Changed { .. })),
        "{updated:?}"
    );
    let lock = claim(&next()).await.unwrap().tasks.pop().unwrap().lock;
    let extended = next()
        .extend(&task_type, vec![lock.clone()], LATER)
        .await
        .unwrap();
    assert!(matches!(
        extended[0],
        delayq_core::store::ExtendOutcome::Extended(_)
    ));
    let end = AttemptEnd::Done;
    let settled = next()
        .settle(&task_type, vec![Settlement { lock, end }])
        .await;
    assert_eq!(settled, Ok(vec![SettleOutcome::Settled]));
    let cancelled = next().cancel(&task_type, &id("1")).await;
    assert_eq!(cancelled, Ok(CancelOutcome::Cancelled));
    next().pause(&task_type, None).await.unwrap();
    accept(&here, job("paused")).await;
    assert_eq!(claim(&here).await.unwrap().tasks, []);
    next().resume(&task_type).await.unwrap();
    assert_eq!(claim(&here).await.unwrap().tasks.len(), 1);
}

#[tokio::test]
async fn new_partitions_take_over_the_pause_and_the_bound() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    store.pause(&task_type(), None).await.unwrap();
    let bound = TypeSettings::default().max_pending(Some(10)).partitions(2);
    store.configure_type(&task_type(), &bound).await.unwrap();
    split(&store, 4).await;
    let stats = store.stats(&task_type()).await.unwrap();
    assert!(stats.paused_until.is_some());
    assert_eq!(stats.max_pending, Some(10));
    for n in 0..40 {
        let _ = submit(&store, job(&n.to_string())).await;
    }
    let stats = store.stats(&task_type()).await.unwrap();
    assert_eq!((stats.scheduled, stats.refused), (10, 30));
    assert_eq!(claim(&store).await.unwrap().tasks, []);
    store.resume(&task_type()).await.unwrap();
    assert_eq!(work_off(&store).await.len(), 10);
}

/// Each partition keeps a part of it, which must not be nothing.
#[tokio::test]
async fn a_bound_below_the_number_of_partitions_is_refused_before_anything_is_changed() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let configure =
        async |settings: TypeSettings| store.configure_type(&task_type(), &settings).await;
    let bound = |most| TypeSettings::default().max_pending(Some(most));
    configure(bound(3)).await.unwrap();
    for (refused, names) in [
        (TypeSettings::default().partitions(4), "max_pending 3"),
        (bound(5).partitions(6), "max_pending 5"),
    ] {
        let text = configure(refused).await.unwrap_err().to_string();
        assert!(
            text.contains(names) && text.contains("partitions of order.cancel"),
            "{text}"
        );
        assert_eq!(layout(&mut raw(&server).await).await, "");
    }
    configure(bound(4).partitions(4)).await.unwrap();
    assert!(configure(bound(3)).await.is_err());
    configure(bound(0)).await.unwrap();
    let stats = store.stats(&task_type()).await.unwrap();
    assert_eq!(stats.max_pending, Some(0));
}

async fn claim_none(store: &RedisStore) {
    let mut none = request();
    none.limit = 0;
    store.claim(&task_type(), &none).await.unwrap();
}

/// What a process that crashed while it raised the number has left behind: after each step, before the next.
#[tokio::test]
async fn a_raise_that_a_crash_has_cut_short_is_finished_by_whoever_comes() {
    let steps: [&[&str]; 4] = [
        &[],
        &["HSET delayq:{default/order.cancel/1.0}:meta v 1 split -"],
        &[
            "HSET delayq:{default/order.cancel/1.0}:meta v 1 split -",
            "HSET delayq:{default/order.cancel/1.1}:meta v 1 split -",
        ],
        &[
            "HSET delayq:{default/order.cancel/1.0}:meta v 1 split -",
            "HSET delayq:{default/order.cancel/1.1}:meta v 1 split -",
            "HSET delayq:{default/order.cancel/2.2}:meta v 1 split 4",
        ],
    ];
    for (at, done) in steps.into_iter().enumerate() {
        let server = RedisServer::start(Persistence::None, &[]);
        let (here, sleeper) = (forgetful(&server).await, forgetful(&server).await);
        split(&here, 2).await;
        claim_none(&here).await;
        for n in 0..20 {
            accept(&sleeper, job(&n.to_string())).await;
        }
        let mut redis = raw(&server).await;
        let begun = "1 1:2 2:4 +";
        let mut write = redis::cmd("HSET");
        write.arg("delayq:{default}:layouts").arg(TYPE).arg(begun);
        write.exec_async(&mut redis).await.unwrap();
        for step in done {
            run::<i64>(&mut redis, step).await;
        }
        // The sleeper finds closed partitions, or goes on for as long as none is.
        for n in 20..40 {
            accept(&sleeper, job(&n.to_string())).await;
        }
        let fresh = forgetful(&server).await;
        for n in 40..60 {
            accept(&fresh, job(&n.to_string())).await;
        }
        for store in [&here, &sleeper, &fresh] {
            for n in 0..60 {
                assert_eq!(
                    state(store, &n.to_string()).await,
                    Some(TaskState::Scheduled),
                    "{at}: {n}"
                );
            }
        }
        split(&fresh, 4).await;
        assert_eq!(layout(&mut redis).await, "1 1:2 2:4", "step {at}");
        let mut done = work_off(&fresh).await;
        done.extend(work_off(&here).await);
        assert_eq!(done.len(), 60, "step {at}");
        assert_eq!(fresh.audit(&task_type(), false).await.unwrap().problems, []);
        claim_none(&fresh).await;
        claim_none(&fresh).await;
        assert_eq!(layout(&mut redis).await, "1 2:4", "step {at}");
    }
}

/// A node of a cluster that has lost its data takes nothing with it but what it held.
#[tokio::test]
async fn a_partition_that_has_lost_its_data_is_made_again() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    split(&store, 2).await;
    accept(&store, job("a")).await;
    let mut redis = raw(&server).await;
    for number in 0..2 {
        let part = key(&format!("1.{number}"), "meta");
        run::<i64>(&mut redis, &format!("DEL {part}")).await;
    }
    for name in ["b", "c", "d"] {
        accept(&store, job(name)).await;
    }
    assert_eq!(work_off(&store).await.len(), 4);
    run::<String>(&mut redis, "FLUSHALL").await;
    for name in ["e", "f", "g"] {
        accept(&store, job(name)).await;
    }
    let other = open(&server).await;
    assert_eq!(work_off(&other).await.len(), 3);
    assert_eq!(layout(&mut redis).await, "");
}

/// The registry and the partitions can lie on different nodes: one that fails over may lose its last writes.
#[tokio::test]
async fn a_registry_that_has_lost_a_raise_is_restored_from_the_partitions() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    accept(&store, job("old").after(LATER)).await;
    split(&store, 2).await;
    accept(&store, job("new").after(LATER)).await;
    split(&store, 4).await;
    accept(&store, job("newer").after(LATER)).await;
    let mut redis = raw(&server).await;
    let lost: [&[&str]; 2] = [
        &["HDEL", "delayq:{default}:layouts", TYPE],
        &["HSET", "delayq:{default}:layouts", TYPE, "1 0:1 1:2"],
    ];
    for lost in lost {
        let mut write = redis::cmd(lost[0]);
        write.arg(&lost[1..]).exec_async(&mut redis).await.unwrap();
        let fresh = open(&server).await;
        for name in ["old", "new", "newer"] {
            let exists = SubmitOutcome::AlreadyExists {
                state: TaskState::Scheduled,
            };
            let again = submit(&fresh, job(name).after(LATER)).await;
            assert_eq!(again, Ok(exists), "{name}");
        }
        assert_eq!(layout(&mut redis).await, "1 0:1 1:2 2:4");
    }
}

#[tokio::test]
async fn an_audit_finds_a_task_in_the_wrong_partition() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    split(&store, 8).await;
    accept(&store, job("a").after(LATER)).await;
    let mut redis = raw(&server).await;
    for part in ["tasks", "due"] {
        let (from, to) = (key("1.3", part), key("1.4", part));
        run::<String>(&mut redis, &format!("RENAME {from} {to}")).await;
    }
    let report = store.audit(&task_type(), true).await.unwrap();
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert_eq!(report.problems[0].id, "a");
    assert!(report.problems[0].what.contains("another partition"));
    assert_eq!(state(&store, "a").await, None);
}

#[tokio::test]
async fn a_layout_that_cannot_be_read_is_named() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let mut redis = raw(&server).await;
    run::<i64>(
        &mut redis,
        &format!("HSET delayq:{{default}}:layouts {TYPE} nonsense"),
    )
    .await;
    let settings = TypeSettings::default().partitions(2);
    let refused = store
        .configure_type(&task_type(), &settings)
        .await
        .unwrap_err();
    assert!(
        matches!(&refused, Error::Corrupt { key, .. } if key.ends_with("layouts, field order.cancel")),
        "{refused}"
    );
    run::<i64>(
        &mut redis,
        &format!("HSET delayq:{{default}}:layouts {TYPE} 2:x"),
    )
    .await;
    let mut write = redis::cmd("HSET");
    write
        .arg("delayq:{default}:layouts")
        .arg(TYPE)
        .arg("2 of another release");
    write.exec_async(&mut redis).await.unwrap();
    let refused = store
        .configure_type(&task_type(), &settings)
        .await
        .unwrap_err();
    assert!(
        matches!(refused, Error::Incompatible { found: 2, .. }),
        "{refused}"
    );
}
