//! What applications do with one task, each with its workers and with what must come of it.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delayq_core::operate::DeadFilter;
use delayq_core::store::{CancelOutcome, ChangeOutcome};
use delayq_plugin::{
    DelayQueueJob, Delivery, RetryPolicy, TaskError, TaskId, TaskResult, TaskState, When,
    WorkerOptions, minutes, seconds,
};

use crate::world::{Behaviour, ID, TYPE, World};

type Play<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) options: WorkerOptions,
    pub(crate) workers: &'static [(&'static str, Behaviour)],
    pub(crate) play: fn(&mut World) -> Play<'_>,
}

/// Short, so that a crash costs little virtual time.
pub(crate) const LOCK: Duration = seconds(2);
const OPTIONS: WorkerOptions = WorkerOptions {
    lock: LOCK,
    retry: RetryPolicy {
        max_attempts: 10,
        base: seconds(1),
        cap: seconds(1),
        jitter_percent: 0,
        ..RetryPolicy::DEFAULT
    },
    ..WorkerOptions::DEFAULT
};

const SUCCEED: Behaviour = |_| Box::pin(async { Ok(()) });
const FAIL_ONCE: Behaviour = |turn| {
    Box::pin(async move {
        if turn.nth > 0 {
            Ok(())
        } else {
            Err(TaskError::retry("not yet"))
        }
    })
};

macro_rules! scenario {
    ($name:literal, $options:expr, [$($worker:literal: $behaviour:expr),+], $play:ident) => {
        Scenario {
            name: $name,
            options: $options,
            workers: &[$(($worker, $behaviour)),+],
            play: |world| Box::pin($play(world)),
        }
    };
}

pub(crate) const DONE: Scenario = scenario!("done", OPTIONS, ["w": SUCCEED], plain);
pub(crate) const RETRY: Scenario = scenario!("retry", OPTIONS, ["w": FAIL_ONCE], plain);
pub(crate) const LONG: Scenario = scenario!("long", OPTIONS, ["w": |turn| Box::pin(async move {
    turn.sleep(seconds(3)).await;
    Ok(())
})], plain);
pub(crate) const RELEASE: Scenario = scenario!("release", OPTIONS, ["w": |turn| Box::pin(async move {
    if turn.nth > 0 {
        return Ok(());
    }
    Err(TaskError::release(seconds(3)))
})], plain);
pub(crate) const FAN_OUT: Scenario =
    scenario!("fan-out", OPTIONS, ["mail": SUCCEED, "ship": FAIL_ONCE], plain);
pub(crate) const TIME_LIMIT: Scenario = scenario!(
    "time limit",
    WorkerOptions { timeout: seconds(3), ..OPTIONS },
    ["w": |turn| Box::pin(async move {
        if turn.nth == 0 {
            std::future::pending::<()>().await;
        }
        Ok(())
    })],
    plain
);
pub(crate) const AT_MOST_ONCE: Scenario = scenario!(
    "at most once",
    WorkerOptions { delivery: Delivery::AtMostOnce, ..OPTIONS },
    ["w": FAIL_ONCE],
    plain
);
pub(crate) const DEAD: Scenario = scenario!(
    "dead and requeued",
    WorkerOptions { retry: RetryPolicy { max_attempts: 3, ..OPTIONS.retry }, ..OPTIONS },
    ["w": |turn| Box::pin(async move {
        if turn.mended.load(Ordering::SeqCst) { Ok(()) } else { Err(TaskError::retry("no luck")) }
    })],
    dead
);
pub(crate) const CANCEL_WAITING: Scenario =
    scenario!("cancelled while it waits", OPTIONS, ["w": SUCCEED], cancel_waiting);
pub(crate) const CANCEL_RUNNING: Scenario = scenario!("cancelled while it runs", OPTIONS, ["w": |turn| Box::pin(async move {
        turn.cx.cancelled().await;
        Err(TaskError::retry("stopped"))
    })], cancel_running);
pub(crate) const RESCHEDULE: Scenario =
    scenario!("rescheduled", OPTIONS, ["w": SUCCEED], reschedule);
pub(crate) const PAUSE: Scenario = scenario!("paused", OPTIONS, ["w": SUCCEED], pause);
pub(crate) const SHUTDOWN: Scenario = scenario!("shut down", OPTIONS, ["w": |turn| Box::pin(async move {
        if turn.nth == 0 {
            turn.sleep(minutes(1)).await;
        }
        Ok(())
    })], shut_down);
pub(crate) const POISON: Scenario = scenario!("poison", OPTIONS, ["w": |turn| Box::pin(async move {
    turn.process.happen();
    std::future::pending::<TaskResult>().await
})], poison);

/// Sends the task, due after `delay`; nothing starts before that.
async fn submit(world: &mut World, delay: Duration) {
    world.live().await;
    world
        .ledger
        .allow_from(world.ground.clock.now().plus(delay));
    let job = DelayQueueJob::raw(TYPE, "message").id(ID).after(delay);
    world
        .call(|service| {
            let job = job.clone();
            async move { service.send(job).await }
        })
        .await;
}

async fn comes_to(world: &mut World, state: TaskState) {
    let what = format!("the state {state}");
    world
        .until(&what, async |world| world.state().await == Some(state))
        .await;
    world.ledger.forbid();
}

async fn plain(world: &mut World) {
    submit(world, seconds(1)).await;
    comes_to(world, TaskState::Done).await;
}

async fn dead(world: &mut World) {
    submit(world, Duration::ZERO).await;
    world
        .until("its death", async |world| {
            world.state().await == Some(TaskState::Dead)
        })
        .await;
    let starts = world.ledger.starts();
    world.sleep(seconds(2)).await;
    assert_eq!(world.ledger.starts(), starts, "a dead task does not start");
    world.mended.store(true, Ordering::SeqCst);
    let ids = DeadFilter::Ids(vec![TaskId::new(ID).expect("a valid id")]);
    world
        .call(|service| {
            let ids = ids.clone();
            async move { service.requeue_dead(TYPE, &ids, Duration::ZERO).await }
        })
        .await;
    comes_to(world, TaskState::Done).await;
}

async fn cancel_waiting(world: &mut World) {
    submit(world, seconds(3)).await;
    let outcome = world
        .call(|service| async move { service.cancel(TYPE, ID).await })
        .await;
    let cancelled = [
        CancelOutcome::Cancelled,
        CancelOutcome::Finished(TaskState::Cancelled),
    ];
    if !cancelled.contains(&outcome) {
        // A crash took the time until it was due.
        assert!(
            world.crashes > 0 || world.ledger.starts() > 0,
            "{outcome:?}"
        );
        return comes_to(world, TaskState::Done).await;
    }
    world.ledger.forbid();
    world.sleep(seconds(4)).await;
    comes_to(world, TaskState::Cancelled).await;
}

async fn cancel_running(world: &mut World) {
    submit(world, Duration::ZERO).await;
    world
        .until("its start", async |world| world.ledger.starts() > 0)
        .await;
    let outcome = world
        .call(|service| async move { service.cancel(TYPE, ID).await })
        .await;
    let possible = [
        CancelOutcome::Running,
        CancelOutcome::Cancelled,
        CancelOutcome::Finished(TaskState::Cancelled),
    ];
    assert!(possible.contains(&outcome), "{outcome:?}");
    world.ledger.forbid();
    comes_to(world, TaskState::Cancelled).await;
}

async fn reschedule(world: &mut World) {
    submit(world, minutes(1)).await;
    world.live().await;
    world
        .ledger
        .allow_from(world.ground.clock.now().plus(seconds(2)));
    let when = When::After(seconds(2));
    let outcome = world
        .call(|service| async move { service.reschedule(TYPE, ID, when).await })
        .await;
    let possible = matches!(outcome, ChangeOutcome::Changed { .. });
    assert!(possible || world.ledger.starts() > 0, "{outcome:?}");
    comes_to(world, TaskState::Done).await;
}

async fn pause(world: &mut World) {
    world
        .call(|service| async move { service.pause(TYPE, None).await })
        .await;
    submit(world, Duration::ZERO).await;
    world.sleep(seconds(2)).await;
    assert_eq!(world.ledger.starts(), 0, "started in a pause");
    world.live().await;
    world.ledger.allow_from(world.ground.clock.now());
    world
        .call(|service| async move { service.resume(TYPE).await })
        .await;
    comes_to(world, TaskState::Done).await;
}

async fn shut_down(world: &mut World) {
    submit(world, Duration::ZERO).await;
    world
        .until("its start", async |world| world.ledger.starts() > 0)
        .await;
    world.shut_down(seconds(1)).await;
    comes_to(world, TaskState::Done).await;
}

async fn poison(world: &mut World) {
    submit(world, Duration::ZERO).await;
    comes_to(world, TaskState::Dead).await;
    assert!(
        world.ledger.starts() <= 3,
        "poison after three expired locks"
    );
}
