//! Who may connect: users, passwords, rights.

use std::time::Duration;

use delayq_core::chronicle::{Action, Figures, Spell, Step};
use delayq_core::operate::{DeadFilter, TypeSettings};
use delayq_core::store::{AttemptEnd, Durability, Settlement, StoreOptions};
use delayq_core::{Chronicle, Error, Operate, Store, TaskState, When};
use delayq_redis::RedisStore;
use delayq_tests::cluster_set::{ClusterOptions, ClusterSet};
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::redis_user;
use delayq_tests::rig::until;
use delayq_tests::sentinel_set::{SentinelOptions, SentinelSet};

use super::{TYPE, accept, claim, id, job, options, raw, run, submit, task_type, whole};

fn url(server: &RedisServer, user: &str) -> String {
    format!("redis://{user}@127.0.0.1:{}", server.port())
}

/// What the guide grants a user of sentinels.
const OF_SENTINELS: &str = "+sentinel|master +sentinel|get-master-addr-by-name +sentinel|replicas";

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

/// Calls every operation once.
pub(super) async fn use_every_operation(store: &RedisStore) {
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
    store.extend(&whole(), locks.clone(), hour).await.unwrap();
    let settlements = locks
        .into_iter()
        .zip(ends(hour))
        .map(|(lock, end)| Settlement::new(lock, end));
    store.settle(&whole(), settlements.collect()).await.unwrap();
    let _ = store.cancel(&task_type, &id("5")).await.unwrap();
    let _ = store
        .reschedule(&task_type, &id("6"), When::After(hour))
        .await
        .unwrap();
    let _ = store.update(&task_type, &id("6"), vec![1]).await.unwrap();
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
    let mut figures = Figures::default();
    figures.started = 1;
    let at = stats.now;
    let spell = Spell { at, figures };
    store.add_figures(&task_type, &[spell]).await.unwrap();
    let figures = store.figures(&task_type, Step::Hour, at).await.unwrap();
    assert_eq!(figures.len(), 1);
    let action = Action::new("ann", "cli", "purge", TYPE);
    store.log_action(&action).await.unwrap();
    assert_eq!(store.actions(None, 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_rights_of_the_guide_are_enough_and_nothing_else_is_tried() {
    let server = RedisServer::start(Persistence::None, &[]);
    let url = redis_user::add(&server, "app", redis_user::rights());
    let store = RedisStore::connect(&url, options()).await.unwrap();
    use_every_operation(&store).await;
    assert!(!store.name().contains("hunter2"), "{}", store.name());
    let mut redis = raw(&server).await;
    let log: Vec<redis::Value> = run(&mut redis, "ACL LOG").await;
    assert!(log.is_empty(), "something was refused: {log:?}");
}

/// Rights that a store on one server, in its first database, can do without: the first ones to
/// start.
const NOT_FOR_ONE: [&str; 22] = [
    "+srem",
    "+lindex",
    "+llen",
    "+lpos",
    "+lpush",
    "+lrange",
    "+lrem",
    "+lset",
    "+rpush",
    "+ltrim",
    "+info",
    "+config|get",
    "+select",
    "+role",
    "+wait",
    "+spublish",
    "+ssubscribe",
    "+asking",
    "+cluster|info",
    "+cluster|myid",
    "+cluster|replicas",
    "+cluster|slots",
];

/// A claim, for one, has written by the time that it takes what it locked from the due ones.
#[tokio::test]
async fn a_user_who_may_not_do_what_an_edge_does_is_refused_before_anything_is_half_done() {
    let server = RedisServer::start(Persistence::None, &[]);
    let needed = redis_user::rights().split(' ');
    for missing in needed.filter(|right| !NOT_FOR_ONE.contains(right)) {
        let rights = redis_user::rights().replacen(missing, "", 1);
        let url = redis_user::add(&server, "app", &rights);
        let message = refusal(&url).await;
        let line = redis_user::rights();
        assert!(message.contains(line), "{missing}: {message}");
        let named = match missing {
            "~delayq:*" => "hset",
            "&delayq:*" => "channel",
            command => command.trim_start_matches('+'),
        };
        assert!(message.contains(named), "{missing}: {message}");
    }
}

/// The line of an earlier release had no `srem`.
#[tokio::test]
async fn a_user_who_may_not_shorten_the_list_of_types_can_do_everything_but_drop_one() {
    let server = RedisServer::start(Persistence::None, &[]);
    let rights = redis_user::rights().replace("+srem ", "");
    let url = redis_user::add(&server, "app", &rights);
    let store = RedisStore::connect(&url, options()).await.unwrap();
    let bound = TypeSettings::default().max_pending(Some(7));
    store.configure_type(&task_type(), &bound).await.unwrap();
    store.register_type(&task_type()).await.unwrap();
    let refused = store.drop_type(&task_type()).await.unwrap_err().to_string();
    assert!(refused.contains("+srem"), "{refused}");
    let stats = store.stats(&task_type()).await.unwrap();
    assert_eq!(stats.max_pending, Some(7), "nothing is half done");
    assert_eq!(store.types().await.unwrap(), [task_type()]);
}

/// Redis 7.0 has other words for it than the releases after it, and was said to hold something
/// corrupt.
#[tokio::test]
async fn a_right_that_is_taken_away_while_a_store_is_used_is_asked_back() {
    let server = RedisServer::start(Persistence::None, &[]);
    let url = redis_user::add(&server, "app", redis_user::rights());
    let store = RedisStore::connect(&url, options()).await.unwrap();
    let mut redis = raw(&server).await;
    for right in ["hset", "zadd", "evalsha"] {
        run::<()>(&mut redis, &format!("ACL SETUSER app -{right}")).await;
        let refused = submit(&store, job(right)).await.unwrap_err();
        assert!(matches!(refused, Error::Misconfigured { .. }), "{refused}");
        assert!(
            refused.to_string().contains(redis_user::rights()),
            "{refused}"
        );
        run::<()>(&mut redis, &format!("ACL SETUSER app +{right}")).await;
        accept(&store, job(&format!("{right}-again"))).await;
    }
}

#[tokio::test]
async fn a_user_who_may_not_choose_a_database_is_told_what_to_grant() {
    let server = RedisServer::start(Persistence::None, &[]);
    let rights = redis_user::rights().replace("+select", "");
    let url = redis_user::add(&server, "app", &rights);
    let message = refusal(&format!("{url}/2")).await;
    assert!(
        message.contains("select") && message.contains("ACL SETUSER "),
        "{message}"
    );
}

#[tokio::test]
async fn a_sentinel_is_no_server_and_a_server_no_sentinel() {
    let layout = SentinelOptions {
        servers: 1,
        sentinels: 1,
        persistence: Persistence::None,
        ..SentinelOptions::default()
    };
    let set = SentinelSet::start(layout).await;
    let message = refusal(&set.sentinels[0].url()).await;
    assert!(message.contains("write redis-sentinel://"), "{message}");
    let server = set.servers[0].port();
    let message = refusal(&format!("redis-sentinel://127.0.0.1:{server}/orders")).await;
    assert!(message.contains("it is no sentinel"), "{message}");
}

#[tokio::test]
async fn a_command_with_another_name_is_named() {
    let server = RedisServer::start(Persistence::None, &["--rename-command", "UNLINK", "hidden"]);
    let message = refusal(&server.url()).await;
    assert!(message.contains("unlink"), "{message}");
    assert!(message.contains("renamed"), "{message}");
}

#[tokio::test]
async fn a_wrong_or_missing_password_is_refused_with_what_to_write() {
    let server = RedisServer::start(Persistence::None, &["--requirepass", "hunter2"]);
    for user in ["app:hunter3", ":hunter3"] {
        let message = refusal(&url(&server, user)).await;
        assert!(message.contains("redis://USER:PASSWORD@HOST"), "{message}");
    }
    let word = RedisStore::connect(&url(&server, ":password"), options()).await;
    let message = word.unwrap_err().to_string();
    assert!(message.contains("redis://USER:PASSWORD@HOST"), "{message}");
    let message = refusal(&server.url()).await;
    assert!(message.contains("redis://USER:PASSWORD@HOST"), "{message}");
    let store = RedisStore::connect(&url(&server, ":hunter2"), options())
        .await
        .unwrap();
    accept(&store, job("1")).await;
}

/// What the servers have refused to anybody.
async fn refused(servers: &[RedisServer]) -> Vec<redis::Value> {
    let mut refused = Vec::new();
    for server in servers {
        let log: Vec<redis::Value> = run(&mut raw(server).await, "ACL LOG").await;
        refused.extend(log);
    }
    refused
}

#[tokio::test]
async fn the_rights_of_the_guide_are_enough_on_a_cluster() {
    let layout = ClusterOptions {
        replicas: 0,
        ..ClusterOptions::default()
    };
    let cluster = ClusterSet::start(layout).await;
    for node in &cluster.nodes {
        let _ = redis_user::add(node, "app", redis_user::rights());
    }
    let url = cluster.url().replace("://", "://app:hunter2@");
    let store = RedisStore::connect(&url, options()).await.unwrap();
    use_every_operation(&store).await;
    assert_eq!(refused(&cluster.nodes).await, []);
    for (missing, named) in [
        ("+spublish", "spublish"),
        ("+ssubscribe", "ssubscribe"),
        ("+asking", "asking"),
        ("+cluster|slots", "cluster|slots"),
        ("+cluster|info", "cluster|info"),
    ] {
        let rights = redis_user::rights().replace(missing, "");
        for node in &cluster.nodes {
            let _ = redis_user::add(node, "app", &rights);
        }
        let message = refusal(&url).await;
        assert!(message.contains("ACL SETUSER "), "{message}");
        assert!(message.contains(named), "{missing}: {message}");
    }
}

#[tokio::test]
async fn the_rights_of_the_guide_are_enough_behind_sentinels() {
    let layout = SentinelOptions {
        servers: 2,
        sentinels: 1,
        persistence: Persistence::None,
        extra: vec!["--min-replicas-to-write".to_owned(), "1".to_owned()],
        ..SentinelOptions::default()
    };
    let set = SentinelSet::start(layout).await;
    for server in &set.servers {
        let _ = redis_user::add(server, "app", redis_user::rights());
    }
    let sentinel = &set.sentinels[0];
    let guide = include_str!("../../docs/guide/redis.md");
    let line = format!("ACL SETUSER delayq on >PASSWORD {OF_SENTINELS}");
    assert!(guide.lines().any(|found| found == line), "{line}");
    let _ = redis_user::add(sentinel, "watcher", OF_SENTINELS);
    let _ = redis_user::add(sentinel, "default", "resetpass off");
    let url = set.url().replace("://", "://app:hunter2@");
    let replicated = || StoreOptions {
        durability: Durability::Replicated,
        ..options()
    };
    let login = format!("{url}?sentinel_user=watcher&sentinel_password=hunter2");
    let store = RedisStore::connect(&login, replicated()).await.unwrap();
    use_every_operation(&store).await;
    assert_eq!(refused(&set.servers).await, []);
    let refused = RedisStore::connect(&url, options()).await;
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("sentinel_password="), "{message}");
    for (missing, named) in [("+wait", "wait"), ("+role", "role")] {
        let rights = redis_user::rights().replace(missing, "");
        let _ = redis_user::add(&set.servers[0], "app", &rights);
        let refused = RedisStore::connect(&login, replicated()).await;
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("ACL SETUSER "), "{message}");
        assert!(message.contains(named), "{missing}: {message}");
    }
}

#[tokio::test]
async fn a_user_of_sentinels_who_may_not_ask_for_the_master_is_told_what_to_grant() {
    let layout = SentinelOptions {
        servers: 1,
        sentinels: 1,
        persistence: Persistence::None,
        ..SentinelOptions::default()
    };
    let set = SentinelSet::start(layout).await;
    let _ = redis_user::add(&set.sentinels[0], "watcher", "+ping");
    let url = set.url() + "?sentinel_user=watcher&sentinel_password=hunter2";
    let replicated = || StoreOptions {
        durability: Durability::Replicated,
        ..options()
    };
    let refused = RedisStore::connect(&url, replicated()).await;
    let message = refused.unwrap_err().to_string();
    let line = format!("ACL SETUSER delayq on >PASSWORD {OF_SENTINELS} on each sentinel");
    assert!(message.contains(&line), "{message}");
    assert!(!message.contains("hunter2"), "{message}");
    for missing in OF_SENTINELS.split(' ') {
        let rest = OF_SENTINELS.replace(missing, "");
        let _ = redis_user::add(&set.sentinels[0], "watcher", &rest);
        let refused = RedisStore::connect(&url, replicated()).await;
        let message = refused.unwrap_err().to_string();
        assert!(message.contains(&line), "{missing}: {message}");
    }
}

/// A sentinel has half a second to answer, which is too short on a busy machine: the store is
/// unavailable then, and is tried again.
async fn assert_wrong_password(url: &str) {
    let message = until("a refusal by the sentinels", || async {
        match RedisStore::connect(url, options()).await {
            Err(Error::Unavailable { .. }) => None,
            result => Some(result.unwrap_err().to_string()),
        }
    })
    .await;
    assert!(message.contains("sentinel_password="), "{message}");
    assert!(!message.contains("hunter"), "{message}");
}

/// As [`assert_wrong_password`], of the right one.
async fn assert_connects(url: &str) {
    let connected = until("a connection", || async {
        match RedisStore::connect(url, options()).await {
            Err(Error::Unavailable { .. }) => None,
            result => Some(result),
        }
    })
    .await;
    connected.unwrap();
}

#[tokio::test]
async fn sentinels_that_refuse_the_password_are_no_lack_of_sentinels() {
    let layout = SentinelOptions {
        servers: 1,
        sentinels: 2,
        persistence: Persistence::None,
        ..SentinelOptions::default()
    };
    let mut set = SentinelSet::start(layout).await;
    for sentinel in &set.sentinels {
        let _ = redis_user::add(sentinel, "watcher", OF_SENTINELS);
    }
    let url = set.url() + "?sentinel_user=watcher&sentinel_password=hunter";
    let right = url.clone() + "2";
    assert_connects(&right).await;
    assert_wrong_password(&(url.clone() + "3")).await;
    set.sentinels[1].kill();
    assert_wrong_password(&(url + "3")).await;
    assert_connects(&right).await;
}

#[tokio::test]
async fn a_server_is_used_through_its_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redis.sock");
    let path = path.to_str().unwrap();
    let server = RedisServer::start(Persistence::None, &["--unixsocket", path]);
    let url = format!("redis+unix://{path}?db=3");
    let store = RedisStore::connect(&url, options()).await.unwrap();
    accept(&store, job("1")).await;
    let same = RedisStore::connect(&format!("{}/3", server.url()), options()).await;
    let found = same.unwrap().find(&task_type(), &id("1")).await.unwrap();
    assert!(found.is_some(), "it is in database 3 of the same server");
    for wrong in [
        "redis+unix://host/run/redis.sock",
        "redis+unix://",
        "rediss+unix:///run/redis.sock",
        "redis://h?db=3",
    ] {
        let refused = RedisStore::connect(wrong, options()).await.unwrap_err();
        let told = refused.to_string();
        assert!(matches!(refused, Error::InvalidInput { .. }), "{told}");
        assert!(told.contains("redis+unix://"), "{told}");
    }
}
