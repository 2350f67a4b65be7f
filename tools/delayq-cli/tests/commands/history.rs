//! What became of tasks, with and without their store.

use std::process::Command;

use delayq_plugin::history::{HistoryQuery, HistoryStore, KeptMessage, Life, LifeOutcome};
use delayq_plugin::store::TypeSettings;
use delayq_plugin::{
    Clock, DelayQueueJob, Namespace, SystemClock, TaskId, TaskType, hours, seconds,
};
use tokio::runtime::Runtime;

use crate::server::Server;
use crate::stage::{Stage, json};

#[test]
fn a_search_needs_no_store_and_the_database_stands_on_either_side_of_a_command() {
    let stage = Stage::sqlite();
    let database = format!("sqlite:{}", stage.file("history.sqlite").display());
    stage.plant(async |tasks| {
        let of_type = TaskType::new("mail.send").unwrap();
        let settings = TypeSettings::default().history(Some(KeptMessage::Nothing));
        let configured = tasks.store().configure_type(&of_type, &settings);
        configured.await.unwrap();
        let job = DelayQueueJob::raw("mail.send", "{}");
        tasks.send(job.id("a-1").after(hours(1))).await.unwrap();
        let _ = tasks.cancel("mail.send", "a-1").await.unwrap();
        let ends = tasks.store().ends(10).await.unwrap();
        let lives: Vec<_> = ends.into_iter().map(|end| end.life).collect();
        let history = HistoryStore::at(&database, Namespace::default(), seconds(5)).unwrap();
        assert_eq!(history.record(&lives).await.unwrap(), 1);
        history.close().await;
    });
    let alone = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_delayq"));
        let command = command
            .env_clear()
            .args(["history", "--history", &database]);
        let output = command.args(words).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    for search in [&["--id", "a-1"][..], &["show", "--type", "mail.send"], &[]] {
        let (code, said) = alone(search);
        assert!(code == Some(0) && said.contains("cancelled"), "{said}");
    }
    let (code, said) = alone(&["status"]);
    assert!(code == Some(2) && said.contains("no store"), "{said}");
    let (code, said) = alone(&["--id", "a-1", "status"]);
    assert!(code == Some(2) && said.contains("after the"), "{said}");
    for words in [
        ["history", "--history", &database, "status"],
        ["history", "status", "--history", &database],
    ] {
        assert_eq!(stage.json(0, &words)["waiting"]["waiting"], 1);
    }
    // With its store, one task is looked up there, too.
    let of_one = ["history", "--type", "mail.send", "--id", "a-1"];
    let fate = stage.json(0, &[&of_one[..], &["--history", &database]].concat());
    assert_eq!(fate["now"]["state"], "cancelled");
}

/// A life of mail.send that ended now.
fn life(id: &str) -> Life {
    let (of_type, id) = (
        TaskType::new("mail.send").unwrap(),
        TaskId::new(id).unwrap(),
    );
    let mut life = Life::new(of_type, id, LifeOutcome::Done, SystemClock.now());
    life.group = Some("tenant-7".to_owned());
    life
}

#[test]
fn the_history_of_a_server_is_that_of_the_namespace_in_its_url() {
    let server = Server::start();
    let database = format!("sqlite:{}", server.file("history.sqlite").display());
    let runtime = Runtime::new().unwrap();
    let namespaces = ["default", "shop"].map(|name| Namespace::new(name).unwrap());
    let at = |namespace| HistoryStore::at(&database, namespace, seconds(5)).unwrap();
    for namespace in namespaces.clone() {
        let lives = [life("a-1"), life(&format!("of-{namespace}"))];
        let recorded = runtime.block_on(async { at(namespace).record(&lives).await });
        assert_eq!(recorded, Ok(2));
    }
    let url = server.url("shop");
    let asked = |words: &[&str]| json(&url, 0, &[words, &["--history", &database]].concat());
    let ids = |page: &serde_json::Value| {
        let lives = page["lives"].as_array().unwrap().iter();
        let mut ids: Vec<_> = lives
            .map(|life| life["id"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        ids
    };
    let shop = ["a-1", "of-shop"];
    assert_eq!(ids(&asked(&["history", "--group", "tenant-7"])), shop);
    let of_one = ["history", "--type", "mail.send", "--id"];
    assert_eq!(
        ids(&asked(&[&of_one[..], &["of-shop"]].concat())),
        ["of-shop"]
    );
    // The profile of a server can have a history.
    let file = server.file("cli.toml");
    let profile = format!("[profiles.shop]\nurl = {url:?}\nhistory = {database:?}\n");
    std::fs::write(&file, profile).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_delayq"));
    command.env_clear().arg("--config").arg(&file);
    let command = command.args(["--profile", "shop", "history", "-o", "json"]);
    let output = command.output().unwrap();
    let page = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!(ids(&page), shop, "{output:?}");
    // What is forgotten is gone there, and nowhere else.
    let forgotten = asked(&["history", "forget", "--group", "tenant-7", "--yes"]);
    assert_eq!(forgotten["lives"], 2);
    let left = namespaces.map(|namespace| {
        let found =
            runtime.block_on(async { at(namespace).search(&HistoryQuery::default()).await });
        found.unwrap().lives.len()
    });
    assert_eq!(left, [2, 0]);
}

#[test]
fn a_task_that_the_store_has_forgotten_is_shown_from_the_history() {
    let stage = Stage::sqlite();
    let database = format!("sqlite:{}", stage.file("history.sqlite").display());
    stage.plant(async |tasks| {
        let history = HistoryStore::at(&database, Namespace::default(), seconds(5)).unwrap();
        let lives = [life("a-1"), life("a-2")];
        assert_eq!(history.record(&lives).await.unwrap(), 2);
        history.close().await;
        let again = DelayQueueJob::raw("mail.send", "{}").id("a-2");
        tasks.send(again.after(hours(1))).await.unwrap();
    });
    let file = stage.file("cli.toml");
    let profile = format!(
        "[profiles.shop]\nurl = {:?}\nhistory = {database:?}\n",
        stage.url
    );
    std::fs::write(&file, profile).unwrap();
    let show = |id: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_delayq"));
        command.env_clear().arg("--config").arg(&file);
        let command = command.args(["--profile", "shop", "show", "mail.send", id]);
        let output = command.args(more).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let (code, said) = show("a-1", &[]);
    assert!(code == Some(0) && said.contains("done"), "{said}");
    assert!(said.contains("not in the store any more"), "{said}");
    let (_, said) = show("a-1", &["--json"]);
    let shown: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(shown["task"], serde_json::Value::Null);
    assert_eq!(shown["lives"][0]["outcome"], "done");
    // The live one comes first, and one that is known nowhere is not there.
    let (_, said) = show("a-2", &["--json"]);
    let shown: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(shown["task"]["state"], "scheduled");
    let (code, said) = show("a-3", &[]);
    assert!(code == Some(1) && said.contains("no task a-3"), "{said}");
    // A history that is away is told, and hides no answer of the store.
    std::fs::remove_file(stage.file("history.sqlite")).unwrap();
    std::fs::create_dir(stage.file("history.sqlite")).unwrap();
    let (code, said) = show("a-1", &[]);
    let is_told = said.contains("no task a-1") && said.contains("cannot be asked");
    assert!(code == Some(1) && is_told, "{said}");
    assert_eq!(show("a-2", &[]).0, Some(0));
}
