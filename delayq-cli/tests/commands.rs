//! The real binary on real stores.

#![allow(
    clippy::indexing_slicing,
    reason = "a key that is not in the answer fails the test, and says where"
)]

use std::process::{Command, Output};

use delayq_tests::redis_server::{Persistence, RedisServer};
use serde_json::Value;

fn delayq(url: &str, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delayq"));
    command
        .env_clear()
        .args(["--url", url, "--json"])
        .args(words);
    command.output().expect("the binary runs")
}

/// The JSON of a command that ends with `code`.
fn json(url: &str, code: i32, words: &[&str]) -> Value {
    let output = delayq(url, words);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

/// Sends, finds, moves, cancels, pauses and purges.
fn life_of_tasks(url: &str) {
    let send = [
        "send",
        "mail.send",
        "{\"to\":1}",
        "--after",
        "1h",
        "--group",
        "t7",
    ];
    for id in ["a-1", "a-2", "b-1"] {
        let receipt = json(url, 0, &[&send[..], &["--id", id]].concat());
        assert_eq!(receipt["receipt"]["outcome"], "accepted");
    }
    let types = json(url, 0, &["types"]);
    assert_eq!(
        (&types[0]["type"], &types[0]["scheduled"]),
        (&"mail.send".into(), &3.into())
    );
    let page = json(url, 0, &["list", "mail.send", "--limit", "2"]);
    let cursor = page["next"].as_str().expect("a further page");
    let rest = json(url, 0, &["list", "mail.send", "--cursor", cursor]);
    assert_eq!(rest["tasks"].as_array().expect("tasks").len(), 1);
    let shown = json(url, 0, &["show", "mail.send", "a-1"]);
    assert_eq!(shown["task"]["waits_for"]["reason"], "delay");
    assert_eq!(shown["task"]["message"], "{\"to\":1}");
    json(url, 1, &["show", "mail.send", "none"]);
    let moved = json(url, 0, &["reschedule", "mail.send", "a-1", "--after", "2h"]);
    assert_eq!(moved["outcome"], "changed");
    assert_eq!(
        json(url, 0, &["run-now", "mail.send", "b-1"])["outcome"],
        "changed"
    );
    assert_eq!(
        json(url, 0, &["cancel", "mail.send", "b-1"])["outcome"],
        "cancelled"
    );
    assert_eq!(
        json(url, 1, &["cancel", "mail.send", "b-1"])["outcome"],
        "finished"
    );

    life_of_types(url);
}

/// Changes of many tasks at once, and what refuses them. Two tasks wait.
fn life_of_types(url: &str) {
    json(url, 2, &["cancel-all", "mail.*"]);
    let all = ["cancel-all", "mail.*", "--prefix", "a-"];
    assert_eq!(
        json(url, 0, &[&all[..], &["--dry-run"]].concat())["changed"],
        2
    );
    json(url, 1, &all);
    assert_eq!(json(url, 0, &["stats", "mail.send"])["scheduled"], 2);
    json(url, 0, &["pause", "mail.send", "--for", "1h"]);
    assert!(json(url, 0, &["stats", "mail.send"])["paused_until"].is_i64());
    let why = json(url, 0, &["explain", "mail.send", "a-2"]);
    let sentence = why["explanation"]["sentence"].as_str().expect("one");
    assert!(sentence.contains("due"), "{sentence}");
    assert_eq!(why["timeline"][0]["what"], "submitted");
    json(url, 1, &["explain", "mail.send", "none"]);
    let findings = json(url, 1, &["doctor"]);
    let symptoms = findings.as_array().expect("a list").iter();
    let unserved = symptoms.filter(|one| one["symptom"] == "unserved");
    assert_eq!(unserved.count(), 1, "{findings}");
    json(url, 0, &["resume", "mail.*"]);
    json(url, 1, &["purge", "mail.send", "--state", "scheduled"]);
    json(
        url,
        1,
        &[
            "purge",
            "mail.send",
            "--state",
            "scheduled",
            "--yes",
            "mail",
        ],
    );
    let purge = [
        "purge",
        "mail.send",
        "--state",
        "scheduled",
        "--yes",
        "mail.send",
    ];
    assert_eq!(json(url, 0, &purge)["removed"], 2);
    assert_eq!(
        json(url, 0, &["audit"])[0]["problems"],
        serde_json::json!([])
    );
    assert_eq!(json(url, 0, &["instances"]), serde_json::json!([]));
}

#[test]
fn the_life_of_tasks_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("a.sqlite").display());
    json(&format!("{url}?create=true"), 3, &["types"]);
    assert_eq!(folder.path().read_dir().expect("it is there").count(), 0);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let store =
            delayq_plugin::open_store(&url, delayq_plugin::store::StoreOptions::default()).await;
        store.expect("a new store").close().await;
    });
    life_of_tasks(&url);
}

#[test]
fn the_life_of_tasks_on_redis() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    life_of_tasks(&server.url());
}

#[test]
fn a_wrong_url_is_wrong_usage_and_a_silent_server_is_no_store() {
    json("nothing:here", 2, &["types"]);
    json("redis://127.0.0.1:1/", 3, &["types", "--timeout", "300ms"]);
}
