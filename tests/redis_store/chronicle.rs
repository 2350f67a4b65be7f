//! Figures and the log of actions, as a server holds them.

use std::time::Duration;

use delayq_core::chronicle::{Action, Figures, MAX_ACTIONS, Spell, Step};
use delayq_core::{Chronicle, Clock, Error, Operate, SystemClock};
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::redis_user;
use redis::AsyncCommands;
use tokio::task::JoinSet;

use super::{accept, job, open, options, raw, run, task_type};

const ACTIONS: &str = "delayq:{default}:actions";
const FIGURES: &str = "delayq:{default/order.cancel}:figures";

fn action(verb: &str) -> Action {
    Action::new("ann", "cli", verb, "mail.send")
}

fn minute(started: u64) -> Spell {
    let mut figures = Figures::default();
    figures.started = started;
    let at = Step::Minute.begin(SystemClock.now());
    Spell { at, figures }
}

#[tokio::test]
async fn the_oldest_action_beyond_the_bound_is_forgotten() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (store, mut redis) = (open(&server).await, raw(&server).await);
    let all: Vec<_> = (1..=MAX_ACTIONS).map(|n| format!("{n} 1 {{}}")).collect();
    let _: usize = redis.lpush(ACTIONS, all).await.unwrap();
    store.log_action(&action("pause")).await.unwrap();
    let length: usize = redis.llen(ACTIONS).await.unwrap();
    let last: String = redis.lindex(ACTIONS, -1).await.unwrap();
    assert_eq!((length, &*last), (MAX_ACTIONS, "2 1 {}"));
    let oldest = store.actions(Some(4), 9).await.unwrap();
    let numbers: Vec<_> = oldest.iter().map(|one| one.number).collect();
    assert_eq!(numbers, [3, 2]);
}

#[tokio::test]
async fn damaged_actions_are_shown_and_numbers_go_on_behind_them() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (store, mut redis) = (open(&server).await, raw(&server).await);
    for verb in ["pause", "resume"] {
        store.log_action(&action(verb)).await.unwrap();
    }
    let _: usize = redis.lpush(ACTIONS, &[b"\xff x"]).await.unwrap();
    store.log_action(&action("drop")).await.unwrap();
    let found = store.actions(None, 9).await.unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|one| (one.number, &*one.action.verb))
        .collect();
    let expected = [(4, "drop"), (3, "unreadable"), (2, "resume"), (1, "pause")];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_key_of_somebody_else_is_named_and_left() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (store, mut redis) = (open(&server).await, raw(&server).await);
    run::<()>(&mut redis, &format!("SET {FIGURES} x")).await;
    run::<()>(&mut redis, &format!("SET {ACTIONS} x")).await;
    let type_ = task_type();
    let refusals = [
        (FIGURES, store.add_figures(&type_, &[minute(1)]).await.err()),
        (
            FIGURES,
            store
                .figures(&type_, Step::Hour, SystemClock.now())
                .await
                .err(),
        ),
        (ACTIONS, store.log_action(&action("pause")).await.err()),
        (ACTIONS, store.actions(None, 9).await.err()),
    ];
    for (wanted, error) in refusals {
        let Some(Error::Corrupt { key, .. }) = error else {
            panic!("{error:?}");
        };
        assert_eq!(key, wanted);
    }
    for key in [FIGURES, ACTIONS] {
        assert_eq!(run::<String>(&mut redis, &format!("GET {key}")).await, "x");
    }
}

#[tokio::test]
async fn instances_that_add_at_the_same_time_lose_nothing() {
    const ROUNDS: u64 = 50;
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let mut instances = JoinSet::new();
    for _ in 0..3 {
        let store = open(&server).await;
        instances.spawn(async move {
            for _ in 0..ROUNDS {
                store.add_figures(&task_type(), &[minute(1)]).await.unwrap();
            }
        });
    }
    instances.join_all().await;
    let since = SystemClock.now().minus(Duration::from_hours(1));
    let spells = store.figures(&task_type(), Step::Minute, since).await;
    let spells = spells.unwrap().into_iter();
    let started: u64 = spells.map(|spell| spell.figures.started).sum();
    assert_eq!(started, 3 * ROUNDS);
}

#[tokio::test]
async fn figures_go_when_they_are_older_than_they_are_shown() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (store, mut redis) = (open(&server).await, raw(&server).await);
    store.add_figures(&task_type(), &[minute(1)]).await.unwrap();
    let lives: i64 = redis.pttl(FIGURES).await.unwrap();
    let month = 30 * 24 * 3_600_000;
    assert!((month - 60_000..=month).contains(&lives), "{lives} ms");
    store.drop_type(&task_type()).await.unwrap();
    assert!(!redis.exists::<_, bool>(FIGURES).await.unwrap());
}

/// The line of an earlier release had nothing about lists.
#[tokio::test]
async fn a_user_who_may_not_log_can_do_everything_else() {
    let server = RedisServer::start(Persistence::None, &[]);
    let mut rights = redis_user::rights().to_owned();
    for right in ["+lindex ", "+llen ", "+lpush ", "+lrange ", "+ltrim "] {
        rights = rights.replace(right, "");
    }
    let url = redis_user::add(&server, "app", &rights);
    let store = delayq_redis::RedisStore::connect(&url, options())
        .await
        .unwrap();
    accept(&store, job("1")).await;
    store.add_figures(&task_type(), &[minute(1)]).await.unwrap();
    let refused = store.log_action(&action("pause")).await.unwrap_err();
    assert!(matches!(refused, Error::Misconfigured { .. }), "{refused}");
    assert!(refused.to_string().contains("+lpush"), "{refused}");
    let mut redis = raw(&server).await;
    assert!(!redis.exists::<_, bool>(ACTIONS).await.unwrap());
}
