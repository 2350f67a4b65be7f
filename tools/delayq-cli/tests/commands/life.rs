//! Tasks and types from their beginning to their end.

use crate::stage::{Stage, json};

/// Sends, finds, moves, cancels, pauses and purges.
fn life_of_tasks(stage: &Stage) {
    let json = |code, words: &[&str]| stage.json(code, words);
    let send = [
        "send",
        "mail.send",
        "{\"to\":1}",
        "--after",
        "1h",
        "--group",
        "t7",
        "--create",
    ];
    for id in ["a-1", "a-2", "b-1"] {
        let receipt = json(0, &[&send[..], &["--id", id]].concat());
        assert_eq!(receipt["receipt"]["outcome"], "accepted");
    }
    let types = json(0, &["types"]);
    assert_eq!(
        (&types[0]["type"], &types[0]["scheduled"]),
        (&"mail.send".into(), &3.into())
    );
    let page = json(0, &["list", "mail.send", "--limit", "2"]);
    let cursor = page["next"].as_str().expect("a further page");
    let rest = json(0, &["list", "mail.send", "--cursor", cursor]);
    assert_eq!(rest["tasks"].as_array().expect("tasks").len(), 1);
    let shown = json(0, &["show", "mail.send", "a-1"]);
    assert_eq!(shown["task"]["waits_for"]["reason"], "delay");
    assert_eq!(shown["task"]["message"], "{\"to\":1}");
    json(1, &["show", "mail.send", "none"]);
    let moved = json(0, &["reschedule", "mail.send", "a-1", "--after", "2h"]);
    assert_eq!(moved["outcome"], "changed");
    assert_eq!(
        json(0, &["run-now", "mail.send", "b-1"])["outcome"],
        "changed"
    );
    assert_eq!(
        json(0, &["cancel", "mail.send", "b-1"])["outcome"],
        "cancelled"
    );
    assert_eq!(
        json(0, &["cancel", "mail.send", "b-1"])["state"],
        "cancelled"
    );

    life_of_types(stage);
}

/// Changes of many tasks at once, and what refuses them. Two tasks wait.
fn life_of_types(stage: &Stage) {
    let json = |code, words: &[&str]| stage.json(code, words);
    json(2, &["cancel-all", "mail.*"]);
    let all = ["cancel-all", "mail.*", "--prefix", "a-"];
    assert_eq!(json(0, &[&all[..], &["--dry-run"]].concat())["changed"], 2);
    json(1, &all);
    assert_eq!(json(0, &["stats", "mail.send"])["scheduled"], 2);
    json(2, &["pause", "mail.send", "--until", "2020-01-01T00:00Z"]);
    assert!(json(0, &["stats", "mail.send"])["paused_until"].is_null());
    json(0, &["pause", "mail.send", "--for", "1h"]);
    assert!(json(0, &["stats", "mail.send"])["paused_until"].is_i64());
    let why = json(0, &["explain", "mail.send", "a-2"]);
    let sentence = why["explanation"]["sentence"].as_str().expect("one");
    assert!(sentence.contains("due"), "{sentence}");
    assert_eq!(why["timeline"][0]["what"], "submitted");
    json(1, &["explain", "mail.send", "none"]);
    let findings = json(1, &["doctor"]);
    let symptoms = findings.as_array().expect("a list").iter();
    let unserved = symptoms.filter(|one| one["symptom"] == "unserved");
    assert_eq!(unserved.count(), 1, "{findings}");
    for finding in findings.as_array().expect("a list") {
        // What it tells to run can be run, and acts on this store.
        if let Some(command) = finding["command"].as_str() {
            let mut run = std::process::Command::new(env!("CARGO_BIN_EXE_delayq"));
            let run = run.env_clear().args(command.split(' ').skip(1));
            assert!(run.output().unwrap().status.success(), "{command}");
        }
    }
    json(0, &["resume", "mail.*"]);
    json(1, &["purge", "mail.send", "--state", "scheduled"]);
    json(
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
    assert_eq!(json(0, &purge)["removed"], 2);
    assert_eq!(json(0, &["audit"])[0]["problems"], serde_json::json!([]));
    assert_eq!(json(0, &["instances"]), serde_json::json!([]));
}

/// Settings, and what the log has of everything.
fn life_of_settings(stage: &Stage) {
    let json = |code, words: &[&str]| stage.json(code, words);
    json(
        0,
        &["send", "mail.send", "{}", "--id", "u-1", "--after", "1h"],
    );
    let update = ["update", "mail.send", "u-1", "--message", "{\"to\":2}"];
    assert_eq!(json(0, &update)["outcome"], "changed");
    let shown = json(0, &["show", "mail.send", "u-1"]);
    assert_eq!(shown["task"]["message"], "{\"to\":2}");
    json(2, &["update", "mail.send", "u-1"]);
    json(2, &["configure", "mail.send"]);
    json(2, &["configure", "mail.send", "--fleet-rate", "fast"]);
    let limits = ["--max-pending", "5", "--fleet-rate", "10/s"];
    json(0, &[&["configure", "mail.send"], &limits[..]].concat());
    let lifted = json(0, &["configure", "mail.send", "--fleet-rate", "none"]);
    assert_eq!(
        (&lifted["max_pending"], &lifted["fleet_rate"]),
        (&5.into(), &().into())
    );
    json(1, &["drop-type", "mail.send", "--yes"]);
    json(0, &["cancel", "mail.send", "u-1", "--as", "ann"]);
    json(1, &["drop-type", "mail.send"]);
    json(0, &["drop-type", "mail.send", "--yes"]);
    json(1, &["drop-type", "mail.send", "--yes"]);

    let ann = json(0, &["log", "--actor", "ann"]);
    let actions = ann["actions"].as_array().unwrap();
    assert_eq!((actions.len(), &actions[0]["verb"]), (1, &"cancel".into()));
    let origin = actions[0]["origin"].as_str().unwrap();
    assert!(origin.ends_with(" delayq-cli"), "{origin}");
    let page = json(0, &["log", "--limit", "2"]);
    let next = page["next"].as_u64().unwrap().to_string();
    let rest = json(0, &["log", "--cursor", &next, "--limit", "1"]);
    let number = |page: &serde_json::Value, nth: usize| page["actions"][nth]["number"].as_u64();
    assert_eq!(number(&rest, 0), number(&page, 1).map(|number| number - 1));
    let pauses = json(0, &["log", "--type", "mail.send", "--verb", "resume"]);
    assert_eq!(
        pauses["actions"][0]["task_type"], "mail.*",
        "the pattern means it, too"
    );
    let all = stage.text(&["log", "--all", "--json"]);
    let lines = all.lines().map(serde_json::from_str::<serde_json::Value>);
    assert_eq!(lines.flatten().count(), stage.log().len());
    assert!(
        stage
            .log()
            .contains(&"purge all scheduled tasks done".to_owned())
    );
}

/// What is ahead, what was, and who did it.
fn sight(stage: &Stage) {
    stage.serve();
    let json = |code, words: &[&str]| stage.json(code, words);
    json(
        0,
        &[
            "send",
            "mail.send",
            "{}",
            "--id",
            "f-1",
            "--after",
            "90min",
            "--create",
        ],
    );
    json(0, &["send", "mail.send", "{}", "--id", "f-2"]);
    let ahead = json(0, &["forecast", "mail.*", "--in", "3h", "--steps", "3"]);
    let due: Vec<_> = ahead["buckets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["due"])
        .collect();
    assert_eq!(due, [0, 1, 0]);
    assert_eq!((&ahead["overdue"], &ahead["later"]), (&1.into(), &0.into()));
    let drawn = stage.text(&["forecast", "--in", "3h", "--steps", "3"]);
    assert!(
        drawn.contains('█') && drawn.contains("1 due already"),
        "{drawn}"
    );
    let figures = json(0, &["figures", "mail.send"]);
    assert_eq!(
        (
            &figures["spells"][0]["done"],
            &figures["spells"][0]["late_p50_ms"]
        ),
        (&7.into(), &8.into())
    );
    let drawn = stage.text(&["figures", "mail.send", "--days", "1"]);
    assert!(drawn.contains('█') && drawn.contains("<8ms"), "{drawn}");
    let types = json(0, &["types"]);
    assert_eq!(
        (&types[0]["late_p99_ms"], &types[0]["served_by"]),
        (&8.into(), &1.into())
    );
    assert!(types[0]["done_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!(json(0, &["stats", "mail.send"])["recent"]["done"], 7);
    assert_eq!(json(0, &["instances"])[0]["host"], "shop-3");
}

#[test]
fn the_life_of_tasks_on_sqlite() {
    let stage = Stage::sqlite();
    let other = format!("sqlite:{}?create=true", stage.file("none.sqlite").display());
    json(&other, 3, &["types"]);
    assert!(!stage.file("none.sqlite").exists());
    life_of_tasks(&stage);
    life_of_settings(&stage);
    sight(&stage);
}

#[test]
fn the_life_of_tasks_on_redis() {
    let stage = Stage::redis();
    life_of_tasks(&stage);
    life_of_settings(&stage);
    sight(&stage);
}

/// An error that holds foreign text, such as the name of a file, reached the terminal as it was; so
/// did control characters that JSON lets stand.
#[test]
fn nothing_foreign_steers_the_terminal() {
    let stage = Stage::sqlite();
    let hostile = "{\"a\":\"\u{9b}2J\"}";
    stage.json(
        0,
        &["send", "mail.send", hostile, "--id", "h-1", "--create"],
    );
    let file = stage.file("\x1b[31m\u{9b}2J.toml");
    let file = file.to_str().unwrap();
    let looks: [&[&str]; 4] = [
        &["show", "mail.send", "h-1"],
        &["show", "mail.send", "h-1", "--json"],
        &["list", "mail.send", "-o", "yaml"],
        &["types", "--config", file],
    ];
    for words in looks {
        let output = stage.command(words).output().expect("the binary runs");
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text += &String::from_utf8_lossy(&output.stderr);
        let steers = |letter: char| letter.is_control() && letter != '\n';
        assert!(!text.is_empty() && !text.contains(steers), "{text:?}");
    }
}

#[test]
fn a_wrong_url_is_wrong_usage_and_a_silent_server_is_no_store() {
    json("nothing:here", 2, &["types"]);
    json("redis://127.0.0.1:1/", 3, &["types", "--timeout", "300ms"]);
}
