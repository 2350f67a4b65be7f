//! Sharded types: their stored layout, its changes under use, and the end of drained epochs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use delayq_core::operate::TypeSettings;
use delayq_core::store::{
    AttemptEnd, CancelOutcome, ChangeOutcome, SettleOutcome, Settlement, StoreOptions,
    SubmitOutcome,
};
use delayq_core::{
    Bucket, Clock, DelayQueueJob, Error, Limits, Lock, Operate, Store, SystemClock, TaskState, When,
};
use delayq_redis::RedisStore;
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::{soon, until};
use redis::aio::MultiplexedConnection;

use super::{
    TYPE, accept, claim_each, id, job, open, options, raw, run, shard, state, submit, take,
    take_all, task_type,
};

const LATER: Duration = Duration::from_mins(9);

async fn layout(redis: &mut MultiplexedConnection) -> String {
    let layout: Option<String> =
        run(redis, &format!("HGET delayq:{{default}}:layouts {TYPE}")).await;
    layout.unwrap_or_default()
}

/// The key of a shard of the usual type that holds `part`.
fn key(shard: &str, part: &str) -> String {
    format!("delayq:{{default/{TYPE}/{shard}}}:{part}")
}

/// The lock of the one task that is due, and where it was claimed.
async fn claim_lock(store: &RedisStore) -> (Bucket, Lock) {
    let mut locks = Vec::new();
    for (bucket, claimed) in claim_each(store).await {
        let tasks = claimed.unwrap().tasks.into_iter();
        locks.extend(tasks.map(|task| (bucket.clone(), task.lock)));
    }
    assert_eq!(locks.len(), 1, "{locks:?}");
    locks.remove(0)
}

/// Stores that forget ended tasks at once.
async fn forgetful(server: &RedisServer) -> Arc<RedisStore> {
    let options = StoreOptions {
        retention: Duration::ZERO,
        ..options()
    };
    RedisStore::connect(&server.url(), options).await.unwrap()
}

#[tokio::test]
async fn a_type_that_is_never_sharded_has_no_layout() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    shard(&store, 1).await;
    accept(&store, job("1")).await;
    take(&store).await;
    let mut redis = raw(&server).await;
    assert_eq!(layout(&mut redis).await, "");
    let split: Option<String> =
        run(&mut redis, &format!("HGET {} split", super::key("meta"))).await;
    assert_eq!(split, None);
    let version: String = run(&mut redis, &format!("HGET {} v", super::key("meta"))).await;
    assert_eq!(version, "1");
}

#[tokio::test]
async fn tasks_are_stored_in_the_shard_of_their_id() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    shard(&store, 8).await;
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

#[tokio::test]
async fn an_epoch_is_dropped_once_nothing_of_it_is_left() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = forgetful(&server).await;
    let mut redis = raw(&server).await;
    accept(&store, job("old")).await;
    shard(&store, 2).await;
    assert_eq!(layout(&mut redis).await, "1 0:1 1:2");
    accept(&store, job("new")).await;
    let expected = ["new", "old"].map(str::to_owned);
    assert_eq!(take_all(&store).await, BTreeSet::from(expected));
    take(&store).await;
    assert_eq!(layout(&mut redis).await, "1 1:2");
    // What stays of it turns away those who have not heard.
    let mut keys: Vec<String> = run(&mut redis, &format!("KEYS delayq:{{default/{TYPE}}}:*")).await;
    // What a claim took is known for as long as its locks would last.
    keys.retain(|key| !key.contains(":claim:"));
    assert_eq!(keys, [super::key("meta")]);
    shard(&store, 3).await;
    assert_eq!(layout(&mut redis).await, "1 1:2 2:3");
    take(&store).await;
    take(&store).await;
    assert_eq!(layout(&mut redis).await, "1 2:3");
}

#[tokio::test]
async fn an_epoch_stays_for_as_long_as_it_holds_a_task_or_remembers_one() {
    for (remembered_in, all_are_done) in [("gone", false), ("gone_old", false), ("gone_old", true)]
    {
        let server = RedisServer::start(Persistence::None, &[]);
        let store = open(&server).await;
        let mut redis = raw(&server).await;
        accept(&store, job("done")).await;
        assert_eq!(take_all(&store).await.len(), 1);
        if remembered_in != "gone" {
            let [young, old] = ["gone", remembered_in].map(super::key);
            run::<String>(&mut redis, &format!("RENAME {young} {old}")).await;
        }
        accept(&store, job("other").after(LATER)).await;
        if all_are_done {
            let _ = store.cancel(&task_type(), &id("other")).await.unwrap();
        }
        shard(&store, 2).await;
        take(&store).await;
        take(&store).await;
        assert_eq!(layout(&mut redis).await, "1 0:1 1:2", "{remembered_in}");
        assert_eq!(state(&store, "done").await, Some(TaskState::Done));
        assert!(state(&store, "other").await.is_some());
    }
}

/// The one waits, the other is remembered, and no claim has given a fence.
#[tokio::test]
async fn an_epoch_that_was_never_claimed_from_stays_for_what_it_holds_and_remembers() {
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
        shard(&store, 2).await;
        assert_eq!(layout(&mut redis).await, "1 0:1 1:2", "{remembered_in}");
        assert_eq!(state(&store, "waits").await, Some(TaskState::Scheduled));
        assert_eq!(state(&store, "ended").await, Some(TaskState::Cancelled));
    }
}

/// Whatever the clocks of their servers show.
#[tokio::test]
async fn a_task_of_a_new_epoch_has_a_larger_fence_than_those_before_it() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let ahead = SystemClock.now().plus(LATER).as_millis();
    let given = u64::try_from(ahead).unwrap() * 1_000;
    accept(&store, job("old").after(LATER)).await;
    let set = format!("HSET {} fence {given}", super::key("meta"));
    run::<u64>(&mut raw(&server).await, &set).await;
    shard(&store, 2).await;
    accept(&store, job("new")).await;
    let (_, lock) = claim_lock(&store).await;
    assert!(lock.fence > given);
}

/// Also while the type is paused: a claim that is held back sees that nothing is left.
#[tokio::test]
async fn a_drained_epoch_is_dropped_in_a_pause() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = forgetful(&server).await;
    accept(&store, job("old")).await;
    take_all(&store).await;
    store.pause(&task_type(), None).await.unwrap();
    shard(&store, 2).await;
    take(&store).await;
    assert_eq!(layout(&mut raw(&server).await).await, "1 1:2");
}

#[tokio::test]
async fn the_number_is_never_lowered() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    shard(&store, 4).await;
    shard(&store, 2).await;
    shard(&store, 4).await;
    assert_eq!(layout(&mut raw(&server).await).await, "1 1:4");
    for bad in [0, 257] {
        let settings = TypeSettings::default().shards(bad);
        let refused = store.configure_type(&task_type(), &settings).await;
        assert!(
            matches!(refused, Err(Error::InvalidInput { .. })),
            "{refused:?}"
        );
    }
}

/// Whoever declares the number at its start tries again: it is a matter of time.
#[tokio::test]
async fn a_type_is_resized_again_once_its_last_resize_is_over() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = forgetful(&server).await;
    accept(&store, job("old").after(LATER)).await;
    shard(&store, 2).await;
    let settings = TypeSettings::default().shards(4);
    let refused = store.configure_type(&task_type(), &settings).await;
    let refused = refused.unwrap_err();
    assert!(refused.is_transient(), "{refused}");
    assert!(refused.to_string().contains("still drains"), "{refused}");
    let cancelled = store.cancel(&task_type(), &id("old")).await;
    assert_eq!(cancelled, Ok(CancelOutcome::Cancelled));
    until("the second resize", || async {
        take(&store).await;
        store.configure_type(&task_type(), &settings).await.ok()
    })
    .await;
    let layout = layout(&mut raw(&server).await).await;
    assert!(layout.ends_with(" 2:4"), "{layout}");
}

#[tokio::test]
async fn who_knows_only_the_old_layout_loses_and_doubles_nothing() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (here, sleeper) = (open(&server).await, open(&server).await);
    accept(&sleeper, job("old").after(LATER)).await;
    shard(&here, 8).await;
    // It knows the first epoch alone, in which the old task is, and which is closed for the
    // new one.
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
        take_all(&sleeper).await,
        BTreeSet::from(["newer".to_owned()])
    );
}

#[tokio::test]
async fn a_shard_that_fails_leaves_the_others_alone() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    shard(&store, 2).await;
    for name in ["order-42", "a"] {
        accept(&store, job(name)).await;
    }
    let mut redis = raw(&server).await;
    run::<()>(&mut redis, &format!("SET {} x", key("1.1", "locks"))).await;
    let mut claims = BTreeMap::new();
    for (bucket, claimed) in claim_each(&store).await {
        claims.insert(bucket.shard_name().to_owned(), claimed);
    }
    let failed = claims.remove("1.1").unwrap().unwrap_err();
    assert!(matches!(failed, Error::Corrupt { .. }), "{failed}");
    assert_eq!(claims.remove("1.0").unwrap().unwrap().tasks.len(), 1);
}

#[tokio::test]
async fn each_call_ends_although_a_shard_says_again_and_again_that_there_are_others() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    shard(&store, 2).await;
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
    // Ids of each of two shards.
    let mut ids = [
        ["4", "5", "6", "7", "14", "15"],
        ["0", "1", "2", "3", "8", "9"],
    ];
    for _ in 0..2 {
        let server = RedisServer::start(Persistence::None, &[]);
        let store = open(&server).await;
        shard(&store, 2).await;
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

/// One sleeper for each operation, which is its first one after the resize.
#[tokio::test]
async fn every_operation_of_a_sleeper_finds_the_new_shards() {
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
    shard(&here, 3).await;
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
    let (bucket, lock) = claim_lock(&next()).await;
    let extended = next()
        .extend(&bucket, vec![lock.clone()], LATER)
        .await
        .unwrap();
    assert!(matches!(
        extended[0],
        delayq_core::store::ExtendOutcome::Extended(_)
    ));
    let end = AttemptEnd::Done;
    let settled = next()
        .settle(&bucket, vec![Settlement::new(lock, end)])
        .await;
    assert_eq!(settled, Ok(vec![SettleOutcome::Settled]));
    let cancelled = next().cancel(&task_type, &id("1")).await;
    assert_eq!(cancelled, Ok(CancelOutcome::Cancelled));
    next().pause(&task_type, None).await.unwrap();
    accept(&here, job("paused")).await;
    assert!(take(&here).await.is_empty());
    next().resume(&task_type).await.unwrap();
    assert_eq!(take(&here).await.len(), 1);
}

#[tokio::test]
async fn new_shards_take_over_the_pause_and_the_bound() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    store.pause(&task_type(), None).await.unwrap();
    let bound = TypeSettings::default().max_pending(Some(10)).shards(2);
    store.configure_type(&task_type(), &bound).await.unwrap();
    shard(&store, 4).await;
    let stats = store.stats(&task_type()).await.unwrap();
    assert!(stats.paused_until.is_some());
    assert_eq!(stats.max_pending, Some(10));
    for n in 0..40 {
        let _ = submit(&store, job(&n.to_string())).await;
    }
    let stats = store.stats(&task_type()).await.unwrap();
    assert_eq!((stats.scheduled, stats.refused), (10, 30));
    assert!(take(&store).await.is_empty());
    store.resume(&task_type()).await.unwrap();
    assert_eq!(take_all(&store).await.len(), 10);
}

/// Each shard keeps a part of the bound, which must not be zero.
#[tokio::test]
async fn a_bound_below_the_number_of_shards_is_refused_before_anything_is_changed() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let configure =
        async |settings: TypeSettings| store.configure_type(&task_type(), &settings).await;
    let bound = |most| TypeSettings::default().max_pending(Some(most));
    configure(bound(3)).await.unwrap();
    for (refused, names) in [
        (TypeSettings::default().shards(4), "max_pending 3"),
        (bound(5).shards(6), "max_pending 5"),
    ] {
        let text = configure(refused).await.unwrap_err().to_string();
        assert!(
            text.contains(names) && text.contains("shards of order.cancel"),
            "{text}"
        );
        assert_eq!(layout(&mut raw(&server).await).await, "");
    }
    configure(bound(4).shards(4)).await.unwrap();
    assert!(configure(bound(3)).await.is_err());
    configure(bound(0)).await.unwrap();
    let stats = store.stats(&task_type()).await.unwrap();
    assert_eq!(stats.max_pending, Some(0));
}

/// What a process that crashed during a resize left behind: after each step, before the next.
#[tokio::test]
async fn a_resize_that_a_crash_has_cut_short_is_finished_by_whoever_comes() {
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
        shard(&here, 2).await;
        take(&here).await;
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
        // The sleeper finds sealed shards, or goes on for as long as none is.
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
        shard(&fresh, 4).await;
        assert_eq!(layout(&mut redis).await, "1 1:2 2:4", "step {at}");
        let mut done = take_all(&fresh).await;
        done.extend(take_all(&here).await);
        assert_eq!(done.len(), 60, "step {at}");
        assert_eq!(fresh.audit(&task_type(), false).await.unwrap().problems, []);
        take(&fresh).await;
        take(&fresh).await;
        assert_eq!(layout(&mut redis).await, "1 2:4", "step {at}");
    }
}

/// A node of a cluster that has lost its data takes nothing with it but what it held.
#[tokio::test]
async fn a_shard_that_has_lost_its_data_is_made_again() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    shard(&store, 2).await;
    accept(&store, job("a")).await;
    let mut redis = raw(&server).await;
    for number in 0..2 {
        let part = key(&format!("1.{number}"), "meta");
        run::<i64>(&mut redis, &format!("DEL {part}")).await;
    }
    for name in ["b", "c", "d"] {
        accept(&store, job(name)).await;
    }
    assert_eq!(take_all(&store).await.len(), 4);
    run::<String>(&mut redis, "FLUSHALL").await;
    for name in ["e", "f", "g"] {
        accept(&store, job(name)).await;
    }
    let other = open(&server).await;
    assert_eq!(take_all(&other).await.len(), 3);
    assert_eq!(layout(&mut redis).await, "");
}

/// The registry and the shards can lie on different nodes: one that fails over may lose its last
/// writes.
#[tokio::test]
async fn a_registry_that_has_lost_a_resize_is_restored_from_the_shards() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    accept(&store, job("old").after(LATER)).await;
    shard(&store, 2).await;
    accept(&store, job("new").after(LATER)).await;
    let mut redis = raw(&server).await;
    run::<u64>(
        &mut redis,
        &format!("HDEL delayq:{{default}}:layouts {TYPE}"),
    )
    .await;
    let fresh = open(&server).await;
    for name in ["old", "new"] {
        let exists = SubmitOutcome::AlreadyExists {
            state: TaskState::Scheduled,
        };
        let again = submit(&fresh, job(name).after(LATER)).await;
        assert_eq!(again, Ok(exists), "{name}");
    }
    assert_eq!(layout(&mut redis).await, "1 0:1 1:2");
}

#[tokio::test]
async fn an_audit_finds_a_task_in_the_wrong_shard() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    shard(&store, 8).await;
    accept(&store, job("a").after(LATER)).await;
    let mut redis = raw(&server).await;
    for part in ["tasks", "due"] {
        let (from, to) = (key("1.3", part), key("1.4", part));
        run::<String>(&mut redis, &format!("RENAME {from} {to}")).await;
    }
    let report = store.audit(&task_type(), true).await.unwrap();
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert_eq!(report.problems[0].id, "a");
    assert!(report.problems[0].what.contains("another shard"));
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
    let settings = TypeSettings::default().shards(2);
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
        .arg("3 of another release");
    write.exec_async(&mut redis).await.unwrap();
    let refused = store
        .configure_type(&task_type(), &settings)
        .await
        .unwrap_err();
    assert!(
        matches!(refused, Error::Incompatible { found: 3, .. }),
        "{refused}"
    );
}
