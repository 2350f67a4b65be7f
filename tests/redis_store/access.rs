//! Who may connect: users, passwords, rights.

use std::time::Duration;

use delayq_core::store::{AttemptEnd, DeadFilter, RedisStore, Settlement};
use delayq_core::{Error, Store, TaskState, When};
use delayq_tests::redis_server::{Persistence, RedisServer};

use super::{accept, claim, id, job, options, raw, run, task_type};

/// What the refusals tell an operator to grant.
const GRANT: &str = "~delayq:* &delayq:* +@hash +@sortedset +@set +evalsha +script|load +publish \
    +subscribe +info +select +time +type +unlink +rename +pexpire +config|get";

fn url(server: &RedisServer, user: &str) -> String {
    format!("redis://{user}@127.0.0.1:{}", server.port())
}

async fn refusal(url: &str) -> String {
    let error = RedisStore::connect(url, options()).await.unwrap_err();
    assert!(matches!(error, Error::Misconfigured { .. }), "{error}");
    let message = error.to_string();
    assert!(!message.contains("hunter"), "{message}");
    message
}

/// Ends of four attempts.
fn ends(after: Duration) -> [AttemptEnd; 4] {
    let (error, succeeded) = ("no".to_owned(), Vec::new());
    let dead = AttemptEnd::Dead {
        error: error.clone(),
        succeeded: succeeded.clone(),
    };
    let retry = AttemptEnd::Retry {
        after,
        error,
        succeeded,
    };
    [AttemptEnd::Done, dead.clone(), retry, dead]
}

/// Takes every edge once.
pub(super) async fn use_every_edge(store: &RedisStore) {
    let (task_type, hour) = (task_type(), Duration::from_hours(1));
    store.register_type(&task_type).await.unwrap();
    for name in ["1", "2", "3", "4"] {
        accept(store, job(name)).await;
    }
    for name in ["5", "6"] {
        accept(store, job(name).after(hour)).await;
    }
    let locks: Vec<_> = claim(store)
        .await
        .unwrap()
        .tasks
        .into_iter()
        .map(|t| t.lock)
        .collect();
    store.extend(&task_type, locks.clone(), hour).await.unwrap();
    let settlements = locks
        .into_iter()
        .zip(ends(hour))
        .map(|(lock, end)| Settlement { lock, end });
    store
        .settle(&task_type, settlements.collect())
        .await
        .unwrap();
    store.cancel(&task_type, &id("5")).await.unwrap();
    store
        .reschedule(&task_type, &id("6"), When::After(hour))
        .await
        .unwrap();
    store.update(&task_type, &id("6"), vec![1]).await.unwrap();
    store.find(&task_type, &id("6")).await.unwrap();
    store.types().await.unwrap();
    store
        .list(&task_type, TaskState::Dead, None, 9)
        .await
        .unwrap();
    let stats = store.stats(&task_type).await.unwrap();
    store
        .due_histogram(&task_type, stats.now, stats.now.plus(hour), 9)
        .await
        .unwrap();
    let one = DeadFilter::Ids(vec![id("2")]);
    store.requeue_dead(&task_type, &one, hour).await.unwrap();
    store
        .discard_dead(&task_type, &DeadFilter::all())
        .await
        .unwrap();
    store.pause(&task_type, None).await.unwrap();
    store.resume(&task_type).await.unwrap();
    for state in [TaskState::Scheduled, TaskState::Dead, TaskState::Done] {
        store.purge(&task_type, state).await.unwrap();
    }
    store.audit(&task_type, true).await.unwrap();
    store.check().await.unwrap();
}

#[tokio::test]
async fn the_least_rights_that_are_documented_are_enough() {
    let server = RedisServer::start(Persistence::None, &[]);
    let mut redis = raw(&server).await;
    let user = format!("ACL SETUSER app on >hunter2 {GRANT}");
    run::<()>(&mut redis, &user).await;
    let store = RedisStore::connect(&url(&server, "app:hunter2"), options())
        .await
        .unwrap();
    use_every_edge(&store).await;
    assert!(!store.name().contains("hunter2"), "{}", store.name());
    let log: Vec<redis::Value> = run(&mut redis, "ACL LOG").await;
    assert!(log.is_empty(), "something was refused: {log:?}");
}

#[tokio::test]
async fn a_user_without_config_can_connect() {
    let server = RedisServer::start(Persistence::Always, &[]);
    let mut redis = raw(&server).await;
    let rights = GRANT.replace("+config|get", "");
    run::<()>(
        &mut redis,
        format!("ACL SETUSER app on >hunter2 {rights}").trim(),
    )
    .await;
    let store = RedisStore::connect(&url(&server, "app:hunter2"), options())
        .await
        .unwrap();
    // It cannot see that the file is synced before each answer.
    assert_eq!(store.durability(), delayq_core::store::Durability::Process);
}

#[tokio::test]
async fn a_user_who_may_not_do_what_an_edge_does_is_refused_before_anything_is_half_done() {
    let server = RedisServer::start(Persistence::None, &[]);
    let mut redis = raw(&server).await;
    for (missing, named) in [
        ("+@sortedset", "zadd"),
        ("+@hash", "hset"),
        ("+pexpire", "pexpire"),
        ("+rename", "rename"),
        ("+unlink", "unlink"),
        ("&delayq:*", "channels"),
        ("+@set", "sadd"),
        ("+type", "type"),
        ("+publish", "publish"),
        ("+subscribe", "subscribe"),
        ("+script|load", "script|load"),
        ("+evalsha", "evalsha"),
        ("+info", "info"),
        ("~delayq:*", ""),
    ] {
        let rights = GRANT.replace(missing, "");
        run::<()>(
            &mut redis,
            &format!(
                "ACL SETUSER app reset on >hunter2 {}",
                rights.trim().replace("  ", " ")
            ),
        )
        .await;
        let message = refusal(&url(&server, "app:hunter2")).await;
        assert!(message.contains(GRANT), "{missing}: {message}");
        assert!(message.contains(named), "{missing}: {message}");
    }
}

#[tokio::test]
async fn a_wrong_or_missing_password_is_refused_with_what_to_write() {
    let server = RedisServer::start(Persistence::None, &["--requirepass", "hunter2"]);
    for user in ["app:hunter3", ":hunter3"] {
        let message = refusal(&url(&server, user)).await;
        assert!(message.contains("redis://USER:PASSWORD@HOST"), "{message}");
    }
    let message = refusal(&server.url()).await;
    assert!(message.contains("redis://USER:PASSWORD@HOST"), "{message}");
    let store = RedisStore::connect(&url(&server, ":hunter2"), options())
        .await
        .unwrap();
    accept(&store, job("1")).await;
}

/// A claim has written by the time that it takes what it locked from the due ones.
#[tokio::test]
async fn a_user_who_may_not_remove_a_range_is_refused_at_the_start() {
    let server = RedisServer::start(Persistence::None, &[]);
    let mut redis = raw(&server).await;
    let rights = format!("ACL SETUSER app reset on >hunter2 {GRANT} -zremrangebyrank");
    run::<()>(&mut redis, &rights).await;
    let message = refusal(&url(&server, "app:hunter2")).await;
    assert!(message.contains("zremrangebyrank"), "{message}");
}
