//! A Redis server that somebody empties, sets back, fills, reconfigures or writes to.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use delayq_plugin::{Error, TaskSubmitService, hours};
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::until;

use super::{health, is_well, logged, logged_times, loss_is_noticed, send, serve, works};

/// Runs a command written as in `redis-cli`, without quotes.
fn run(server: &RedisServer, line: &str) {
    let client = redis::Client::open(server.url()).unwrap();
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    command.arg(words.collect::<Vec<_>>());
    command.exec(&mut client.get_connection().unwrap()).unwrap();
}

#[tokio::test]
async fn an_emptied_server_is_noticed_named_and_used_again() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    let (plugin, _) = serve(&server.url(), &["empty", "emptied.*"]).await;
    works(&plugin, "empty", "1").await;
    works(&plugin, "emptied.daily", "1").await;
    run(&server, "FLUSHALL");
    loss_is_noticed(&plugin, "empty", "emptied").await;
    loss_is_noticed(&plugin, "emptied.daily", "emptied").await;
    for id in 0..100 {
        send(&plugin, "empty", &format!("after-{id}"), Duration::ZERO).await;
    }
    works(&plugin, "empty", "2").await;
    works(&plugin, "emptied.daily", "2").await;
    nothing_waits(&plugin.submit_service(), "empty").await;
    is_well(&plugin).await;
}

async fn nothing_waits(tasks: &TaskSubmitService, task_type: &str) {
    until("nothing waits", async || {
        let stats = tasks.stats(task_type).await.ok()?;
        (stats.scheduled + stats.running == 0).then_some(())
    })
    .await;
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    let copied = Command::new("cp").arg("-r").args([from, to]).status();
    assert!(copied.unwrap().success());
}

#[tokio::test]
async fn a_server_that_comes_back_with_older_data_is_noticed_and_its_tasks_run() {
    let mut server = RedisServer::start(Persistence::Always, &[]);
    let (plugin, starts) = serve(&server.url(), &["older", "older.*"]).await;
    works(&plugin, "older", "1").await;
    send(&plugin, "older", "later", hours(1)).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let (data, kept) = (
        server.folder().join("appendonlydir"),
        elsewhere.path().join("kept"),
    );
    copy(&data, &kept);
    works(&plugin, "older", "2").await;
    works(&plugin, "older.new", "1").await;
    send(&plugin, "older", "lost", hours(1)).await;
    server.kill();
    copy(&kept, &data);
    server.restart();
    loss_is_noticed(&plugin, "older", "gone back").await;
    loss_is_noticed(&plugin, "older.new", "emptied").await;
    let tasks = plugin.submit_service();
    let is_known = async |id| tasks.find("older", id).await.unwrap().is_some();
    assert!(is_known("later").await && !is_known("lost").await);
    let _ = tasks.run_now("older", "later").await.unwrap();
    works(&plugin, "older", "3").await;
    works(&plugin, "older.new", "2").await;
    nothing_waits(&tasks, "older").await;
    is_well(&plugin).await;
    assert_eq!(starts.lock().unwrap()["older/later"], 1);
}

#[tokio::test]
async fn settings_changed_while_it_runs_are_in_health_and_log_until_they_are_mended() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    let (plugin, _) = serve(&server.url(), &["setting"]).await;
    let mut troubles = 0;
    for (bad, good, word) in [
        (
            "maxmemory-policy allkeys-lru",
            "maxmemory-policy noeviction",
            "noeviction",
        ),
        ("appendonly no", "appendonly yes", "appendonly yes"),
    ] {
        run(&server, &format!("CONFIG SET {bad}"));
        let port = server.port().to_string();
        logged(&["cannot keep what it promises", &port, word]).await;
        let sick = plugin.health().await;
        assert!(!sick.is_ok());
        let error = sick.store_error.unwrap().to_string();
        assert!(error.contains(word), "{error}");
        works(&plugin, "setting", bad.split(' ').next().unwrap()).await;
        run(&server, &format!("CONFIG SET {good}"));
        is_well(&plugin).await;
        works(&plugin, "setting", word.split(' ').next().unwrap()).await;
        troubles += 1;
        logged_times(troubles, &["keep what it promises again", &port]).await;
    }
}

#[tokio::test]
async fn a_full_server_is_in_health_and_log_drains_and_takes_tasks_again() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    let (plugin, starts) = serve(&server.url(), &["full"]).await;
    for id in 0..100 {
        send(&plugin, "full", &id.to_string(), Duration::from_secs(2)).await;
    }
    run(&server, "CONFIG SET maxmemory 1");
    let sick = health(&plugin, "full", |health| !health.is_ok()).await;
    assert!(
        matches!(sick.store_error, Some(Error::Full { .. })),
        "{sick:?}"
    );
    logged(&[
        "cannot keep what it promises",
        &server.port().to_string(),
        "maxmemory",
    ])
    .await;
    nothing_waits(&plugin.submit_service(), "full").await;
    assert_eq!(starts.lock().unwrap().len(), 100, "it drains");
    run(&server, "CONFIG SET maxmemory 0");
    works(&plugin, "full", "after").await;
    is_well(&plugin).await;
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_in_health_and_log_and_loses_nothing() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    let (plugin, _) = serve(&server.url(), &["read-only"]).await;
    send(&plugin, "read-only", "waits", Duration::from_secs(2)).await;
    run(&server, "REPLICAOF 127.0.0.1 1");
    let sick = health(&plugin, "read-only", |health| {
        matches!(health.handlers[0].last_error, Some(Error::ReadOnly { .. }))
    })
    .await;
    assert!(
        matches!(sick.store_error, Some(Error::ReadOnly { .. })),
        "{sick:?}"
    );
    logged(&["read-only", &server.port().to_string(), "is a replica"]).await;
    run(&server, "REPLICAOF NO ONE");
    works(&plugin, "read-only", "after").await;
    nothing_waits(&plugin.submit_service(), "read-only").await;
    is_well(&plugin).await;
}

/// One type, and the list of types, at a time.
#[tokio::test]
async fn a_strangers_key_is_named_stops_no_other_type_and_is_over_when_it_has_gone() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    let (plugin, _) = serve(&server.url(), &["strange", "usual"]).await;
    for part in ["due", "running", "meta"] {
        let key = format!("delayq:{{default/strange}}:{part}");
        run(&server, &format!("DEL {key}"));
        run(&server, &format!("SET {key} theirs"));
        let names =
            |error: &Option<Error>| error.as_ref().is_some_and(|e| e.to_string().contains(&key));
        health(&plugin, &key, |health| {
            !health.is_ok()
                && health
                    .handlers
                    .iter()
                    .any(|handler| names(&handler.last_error))
        })
        .await;
        logged(&["the store refused", "strange", &key]).await;
        works(&plugin, "usual", part).await;
        run(&server, &format!("DEL {key}"));
        works(&plugin, "strange", part).await;
        is_well(&plugin).await;
    }
    let list = "delayq:{default}:types";
    run(&server, &format!("DEL {list}"));
    run(&server, &format!("SET {list} theirs"));
    logged(&["list of types", list]).await;
    let sick = health(&plugin, list, |health| !health.is_ok()).await;
    assert!(sick.store_error.unwrap().to_string().contains(list));
    works(&plugin, "usual", "list").await;
    run(&server, &format!("DEL {list}"));
    let tasks = plugin.submit_service();
    until("the list is back", async || {
        (tasks.types().await.ok()?.len() == 2).then_some(())
    })
    .await;
    is_well(&plugin).await;
}
