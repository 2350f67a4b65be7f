//! Calls that find nothing to do: what somebody does a second time, or to what is not there.

use std::time::Duration;

use delayq_core::operate::{DeadFilter, TypeSettings};
use delayq_core::store::{
    AttemptEnd, CancelOutcome, SettleOutcome, Settlement, SubmitOutcome, Wakeup, Wakeups,
};
use delayq_core::{Bucket, Error, Lock, Operate, Store, TaskState, TaskType, When};
use delayq_redis::RedisStore;
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::soon;
use redis::aio::MultiplexedConnection;

use super::{accept, claim, id, job, key, open, raw, run, submit, task_type, whole};

const LATER: Duration = Duration::from_hours(1);

async fn settle(store: &RedisStore, lock: &Lock, end: AttemptEnd) -> SettleOutcome {
    let settlement = Settlement::new(lock.clone(), end);
    let outcomes = store.settle(&whole(), vec![settlement]).await;
    outcomes.unwrap()[0]
}

/// Does to the type what leaves nothing to do for the next one who does it.
async fn clear(store: &RedisStore, step: usize) {
    let (usual, nobody) = (task_type(), DeadFilter::Ids(vec![id("nobody")]));
    let unbounded = TypeSettings::default().max_pending(None);
    match step {
        0 => store.resume(&usual).await.unwrap(),
        1 => store.configure_type(&usual, &unbounded).await.unwrap(),
        2 => drop(store.discard_dead(&usual, &nobody).await.unwrap()),
        3 => drop(
            store
                .requeue_dead(&usual, &nobody, Duration::ZERO)
                .await
                .unwrap(),
        ),
        4 => assert_eq!(store.purge(&usual, TaskState::Dead).await, Ok(0)),
        5 => assert_eq!(store.purge(&usual, TaskState::Done).await, Ok(0)),
        _ => assert_eq!(store.purge(&usual, TaskState::Scheduled).await, Ok(0)),
    }
}

const STEPS: std::ops::RangeInclusive<usize> = 0..=6;

/// How much the server has written so far.
async fn written(redis: &mut MultiplexedConnection) -> u64 {
    let info: String = run(redis, "INFO persistence").await;
    let changes = |line: &str| {
        line.strip_prefix("rdb_changes_since_last_save:")?
            .parse()
            .ok()
    };
    info.lines().find_map(changes).unwrap()
}

/// Since Redis 7.2 a wait for replicas covers what its own connection has written: the answer of a
/// call that rests on an earlier one, which may have gone unconfirmed, has to write, too.
#[tokio::test]
async fn who_finds_the_work_done_writes_all_the_same() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (store, mut redis) = (open(&server).await, raw(&server).await);
    for name in ["done", "dead"] {
        accept(&store, job(name)).await;
    }
    let locks = claim(&store).await.unwrap().tasks.into_iter();
    let locks: Vec<Lock> = locks.map(|task| task.lock).collect();
    let ends = |lock: &Lock| match lock.id.as_str() {
        "done" => AttemptEnd::Done,
        _ => AttemptEnd::Dead {
            error: "no".to_owned(),
            succeeded: Vec::new(),
        },
    };
    accept(&store, job("cancelled").after(LATER)).await;
    let cancelled = store.cancel(&task_type(), &id("cancelled")).await;
    assert_eq!(cancelled, Ok(CancelOutcome::Cancelled));
    for lock in &locks {
        assert_eq!(
            settle(&store, lock, ends(lock)).await,
            SettleOutcome::Settled
        );
    }
    let mut before = written(&mut redis).await;
    let mut writes = async |what: &str| {
        let after = written(&mut redis).await;
        assert!(after > before, "{what}");
        before = after;
    };
    for lock in &locks {
        assert_eq!(
            settle(&store, lock, ends(lock)).await,
            SettleOutcome::Settled
        );
        writes(&format!("a settlement of {}", lock.id)).await;
    }
    for (name, state) in [("done", TaskState::Done), ("dead", TaskState::Dead)] {
        let exists = SubmitOutcome::AlreadyExists { state };
        assert_eq!(submit(&store, job(name)).await, Ok(exists));
        writes(&format!("a submit of {name}")).await;
    }
    for (name, state) in [
        ("cancelled", TaskState::Cancelled),
        ("dead", TaskState::Dead),
    ] {
        let finished = CancelOutcome::Finished(state);
        assert_eq!(store.cancel(&task_type(), &id(name)).await, Ok(finished));
        writes(&format!("a cancel of {name}")).await;
    }
    for state in [TaskState::Dead, TaskState::Done, TaskState::Scheduled] {
        store.purge(&task_type(), state).await.unwrap();
    }
    writes("a purge").await;
    for step in STEPS {
        clear(&store, step).await;
        writes(&format!("step {step}")).await;
    }
}

#[tokio::test]
async fn of_a_type_of_which_nothing_is_known_nothing_is_left() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (store, mut redis) = (open(&server).await, raw(&server).await);
    for step in STEPS {
        clear(&store, step).await;
        let left: Vec<String> = run(&mut redis, &format!("KEYS {}", key("*"))).await;
        assert_eq!(left, Vec::<String>::new(), "step {step}");
    }
}

/// What two instances hear, one of which does everything.
struct Ears {
    all: [Wakeups; 2],
    redis: MultiplexedConnection,
}

impl Ears {
    async fn hear(&mut self, task_type: &TaskType, what: &str) {
        let woken = Some(Wakeup::Bucket(Bucket::whole(task_type.clone())));
        for wakeups in &mut self.all {
            assert_eq!(soon(what, wakeups.next()).await, woken, "{what}");
        }
    }

    /// What comes next is sent by hand, so nothing came before it.
    async fn hear_nothing(&mut self, what: &str) {
        run::<u64>(&mut self.redis, "PUBLISH delayq:{default}:wake by.hand").await;
        let by_hand = TaskType::new("by.hand").unwrap();
        self.hear(&by_hand, what).await;
    }
}

#[tokio::test]
async fn who_changes_nothing_wakes_nobody() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (here, there, mut redis) = (open(&server).await, open(&server).await, raw(&server).await);
    let mut ears = Ears {
        all: [here.wakeups(), there.wakeups()],
        redis: raw(&server).await,
    };
    let usual = task_type();
    accept(&here, job("running")).await;
    ears.hear(&usual, "a first task").await;
    let mut lock = claim(&here).await.unwrap().tasks.remove(0).lock;
    let due_at = here.stats(&usual).await.unwrap().now.plus(LATER);
    accept(&here, job("waits").at(due_at)).await;
    ears.hear(&usual, "a task that is due first").await;
    accept(&here, job("beside").at(due_at)).await;
    ears.hear_nothing("a task that is due no earlier").await;
    submit(&here, job("waits").at(due_at)).await.unwrap();
    ears.hear_nothing("a task that is known").await;
    lock.fence -= 1;
    let lost = settle(&here, &lock, AttemptEnd::Done).await;
    assert_eq!(lost, SettleOutcome::LockLost);
    ears.hear_nothing("a lock that was lost").await;
    run::<u64>(&mut redis, &format!("HSET {} damaged x", key("tasks"))).await;
    for name in ["nobody", "running", "damaged"] {
        let now = When::After(Duration::ZERO);
        let moved = here.reschedule(&usual, &id(name), now).await;
        let refused = matches!(moved, Err(Error::Corrupt { .. }));
        assert_eq!(refused, name == "damaged");
        ears.hear_nothing(name).await;
    }
    let dead = DeadFilter::all();
    let requeued = here.requeue_dead(&usual, &dead, Duration::ZERO).await;
    assert_eq!(requeued, Ok(Vec::new()));
    ears.hear_nothing("no dead task").await;
}

#[tokio::test]
async fn a_pause_wakes_when_it_becomes_shorter_and_only_then() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (here, there, mut redis) = (open(&server).await, open(&server).await, raw(&server).await);
    let mut ears = Ears {
        all: [here.wakeups(), there.wakeups()],
        redis: raw(&server).await,
    };
    let usual = task_type();
    let soon = here.stats(&usual).await.unwrap().now.plus(LATER);
    for (until, is_shorter) in [
        (None, false),
        (Some(soon), true),
        (Some(soon), false),
        (None, false),
    ] {
        here.pause(&usual, until).await.unwrap();
        if is_shorter {
            ears.hear(&usual, "a shorter pause").await;
        } else {
            ears.hear_nothing("a pause").await;
        }
    }
    here.resume(&usual).await.unwrap();
    ears.hear(&usual, "a resume").await;
    here.resume(&usual).await.unwrap();
    ears.hear_nothing("a second resume").await;
    run::<u64>(&mut redis, &format!("HSET {} pause 1", key("meta"))).await;
    here.resume(&usual).await.unwrap();
    ears.hear_nothing("the resume after a pause that has ended")
        .await;
}
