//! `delayq-server apply`: the real program beside a server that runs, on each store.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, also in its helpers"
)]

use std::process::Command;

use delayq_tests::postgres_server::PostgresServer;
use delayq_tests::redis_server::{Persistence, RedisServer};
use serde_json::{Value, json};

mod half_way;
mod secrets;
#[path = "../server/mod.rs"]
mod server;
mod stage;

use self::stage::{GIVEN, STATE, Stage};

/// The whole way: look, make, repeat, change, prune.
fn the_whole_way(stage: &Stage) {
    let (report, error) = stage.apply(1, &[]);
    assert!(
        error.contains("--tokens-to DIR") && report.is_null(),
        "{error}"
    );
    let (report, _) = stage.apply(0, &["--dry-run"]);
    assert_eq!(Stage::counts(&report), [8, 0, 0, 0], "{report}");
    let (_, error) = stage.apply(1, &["--check"]);
    assert_eq!(error, "");
    assert_eq!(stage.verbs(), [""; 0], "nothing is done");
    assert!(!stage.folder.path().join("tokens").exists());

    let made = ["--tokens-to", "tokens"];
    let (report, _) = stage.apply(0, &made);
    assert_eq!(Stage::counts(&report), [8, 0, 0, 0], "{report}");
    let is_done = |item: &Value| item["is_done"] == true;
    assert!(report["items"].as_array().unwrap().iter().all(is_done));
    let worker = stage.secret("worker.token");
    stage.is(&worker, "types/order.cancel", 200);
    stage.is(GIVEN, "types/order.cancel", 200);
    stage.is(&worker, "types/mail.send", 403);
    assert!(
        stage
            .secret("default.mail.send.whsec")
            .starts_with("whsec_")
    );
    let stats = stage.is(&worker, "types/order.cancel", 200);
    assert_eq!(stats["max_pending"], 1_000, "{stats}");
    assert!(!stats["paused_until"].is_null(), "{stats}");
    let nightly = stage.is(&stage.token, "recurring/nightly", 200);
    assert_eq!(nightly["zone"], "Europe/Berlin", "{nightly}");
    let verbs = stage.verbs();
    let expected = [
        "configure",
        "configure",
        "create-token",
        "create-token",
        "pause",
        "set-policy",
        "set-recurring",
        "set-target",
    ];
    assert_eq!(verbs, expected);

    // A second run does nothing and says so.
    for _ in 0..2 {
        let (report, _) = stage.apply(0, &made);
        assert_eq!(Stage::counts(&report), [0, 0, 0, 8], "{report}");
    }
    stage.apply(0, &["--check"]);
    assert_eq!(stage.verbs(), expected, "nothing more is done");
    assert_eq!(stage.secret("worker.token"), worker);

    changes(stage, &worker);
    prunes(stage, &worker);
}

fn changes(stage: &Stage, worker: &str) {
    let other = STATE
        .replace("max_pending = 1000", "max_pending = 2000")
        .replace("paused = true", "paused = false")
        .replace("\"0 2 * * *\"", "\"0 3 * * *\"")
        .replace("rate = 500", "rate = 600")
        .replace("types = [\"order.*\"]", "types = [\"order.*\", \"mail.*\"]");
    stage.write(&other);
    std::fs::write(stage.folder.path().join("hook.secret"), "Bearer other").unwrap();
    let (report, _) = stage.apply(1, &["--check"]);
    assert_eq!(Stage::counts(&report), [0, 5, 0, 3], "{report}");
    let mut items = report["items"].as_array().unwrap().iter();
    let limit = items.find(|item| item["kind"] == "max_pending").unwrap();
    let (from, to) = (json!(1_000), json!(2_000));
    assert_eq!((&limit["from"], &limit["to"]), (&from, &to));
    stage.apply(0, &[]);
    // The same secret, and other rights.
    stage.is(worker, "types/mail.send", 200);
    let stats = stage.is(worker, "types/order.cancel", 200);
    assert!(
        stats["paused_until"].is_null() && stats["max_pending"] == 2_000,
        "{stats}"
    );
    stage.apply(0, &["--check"]);
}

fn prunes(stage: &Stage, worker: &str) {
    // Somebody else changes one thing, and makes another one.
    let policy = r#"{"max_lock_expiries": 9}"#;
    let token = &stage.token;
    let (status, _) = stage.ask(token, "PUT", "types/order.*/policy", policy);
    assert_eq!(status, 200);
    // What is changed is not shown.
    let hook =
        r#"{"http": {"url": "http://127.0.0.1:8089/hook", "headers": {"authorization": "own"}}}"#;
    let (status, body) = stage.ask(token, "PUT", "types/mail.send/target", hook);
    assert_eq!(status, 200, "{body}");
    let own = r#"{"type": "a.b", "every": "1h"}"#;
    assert_eq!(stage.ask(token, "PUT", "recurring/own", own).0, 200);
    stage.write("name = \"shop\"\n[namespaces.default]\n");
    let (report, _) = stage.apply(0, &[]);
    assert_eq!(report["left_over"], 7, "the pause was ended: {report}");
    // The state of others removes nothing of this one.
    stage.write("name = \"other\"\n");
    let (report, _) = stage.apply(0, &["--prune"]);
    assert_eq!(
        (&report["left_over"], &report["removed"]),
        (&json!(0), &json!(0))
    );
    stage.write("name = \"shop\"\n[namespaces.default]\n");
    let (report, _) = stage.apply(1, &["--prune", "--check"]);
    assert_eq!(
        (&report["removed"], &report["kept"]),
        (&json!(5), &json!(2)),
        "{report}"
    );
    stage.is(worker, "types/order.cancel", 200);
    stage.apply(0, &["--prune"]);
    stage.is(worker, "types/order.cancel", 401);
    stage.is(GIVEN, "types/order.cancel", 401);
    stage.is(token, "recurring/nightly", 404);
    stage.is(token, "types/mail.send/target", 200);
    stage.is(token, "recurring/own", 200);
    stage.is(token, "types/order.*/policy", 200);
    let (report, _) = stage.apply(0, &["--prune", "--check"]);
    assert_eq!(
        (&report["removed"], &report["kept"]),
        (&json!(0), &json!(2))
    );
}

#[test]
fn a_state_is_made_kept_changed_and_pruned_on_sqlite() {
    the_whole_way(&Stage::on_sqlite());
}

#[test]
fn a_state_is_made_kept_changed_and_pruned_on_redis() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    let stage = Stage::start(|_| server.url());
    the_whole_way(&stage);
    sharded(&stage);
}

/// Shards and limits of the fleet exclude each other, also where only one of them is new.
fn sharded(stage: &Stage) {
    let types = |of: &str| {
        let other = "[namespaces.default.types.a-first]\nmax_pending = 5\n";
        stage.write(&format!("{other}[namespaces.default.types.{of}"));
    };
    types("wide]\nshards = 4");
    stage.apply(0, &[]);
    types("narrow]\nfleet_concurrency = 2");
    stage.apply(0, &[]);
    for of in ["wide]\nfleet_rate = \"5/s\"", "narrow]\nshards = 4"] {
        types(of);
        let (report, error) = stage.apply(2, &["--check"]);
        let is_refused = error.contains("nothing is changed") && error.contains("4 shards");
        assert!(is_refused && report.is_null(), "{error}");
    }
    types("narrow]\nshards = 4\nfleet_concurrency = \"none\"");
    stage.apply(0, &[]);
}

#[test]
fn a_state_is_made_kept_changed_and_pruned_on_postgres() {
    let server = PostgresServer::start(&[]);
    let stage = Stage::start(|_| server.url());
    the_whole_way(&stage);
    half_way::judge(&stage, &server);
}

/// Everything is checked before anything is changed.
#[test]
fn a_mistake_changes_nothing_and_says_where_it_is() {
    let stage = Stage::on_sqlite();
    let type_of = |text: &str| format!("[namespaces.default.types.mail]\nmax_pending = 1\n{text}");
    for (state, said) in [
        ("nam = \"a\"".to_owned(), "nam"),
        (
            "[namespaces.nowhere.types.mail]\npaused = true".to_owned(),
            "nowhere",
        ),
        (type_of("max_pendin = 5"), "namespaces.default.types.mail"),
        (type_of("shards = 1000"), "1 to 256"),
        (type_of("shards = 4"), "has no shards"),
        (type_of("fleet_rate = \"fast\""), "fleet_rate"),
        (type_of("shards = 4\nfleet_concurrency = 2"), "mail"),
        (type_of("policy = {}"), "sets retry"),
        (type_of("target = { http = { url = \"ftp://a\" } }"), "url"),
        (
            "[namespaces.default.types.\"mail.*\"]\npaused = true".to_owned(),
            "a pattern has a policy",
        ),
        (
            type_of("[namespaces.default.recurring.a]\ntype = \"b\"\nevery = \"often\""),
            "recurring task a",
        ),
        (type_of("[tokens.a]\nscopes = [\"all\"]"), "tokens.a"),
        (type_of("[tokens.a]\nscopes = []"), "at least one"),
        // Neither a broken line nor a wrong place shows the secret.
        (
            format!("[tokens.a]\nscopes = [\"read\"]\nsecret = \"{GIVEN}\n"),
            "line 3, column",
        ),
        (format!("[tokens]\na = \"{GIVEN}\""), "a token is a table"),
        (
            type_of("[tokens.a]\nscopes = [\"read\"]\nsecret = \"dq_a_b\""),
            "at least 32 characters",
        ),
        (
            type_of("[tokens.a]\nscopes = [\"read\"]\nid = \"a\"\nhash = \"b\""),
            "SHA-256",
        ),
        (
            type_of("[tokens.a]\nscopes = [\"read\"]\nnamespace = \"delayq-server\""),
            "keeps its tokens",
        ),
        (
            type_of("[tokens.a]\nscopes = [\"read\"]\nsecret = { env = \"NOT_THERE\" }"),
            "NOT_THERE",
        ),
        (
            type_of("[tokens.a]\nscopes = [\"read\"]"),
            "--tokens-to DIR",
        ),
    ] {
        stage.write(&state);
        let (report, error) = stage.apply(1, &[]);
        assert!(error.contains(said) && report.is_null(), "{state}: {error}");
    }
    // Two of a name, and a secret of another id.
    for _ in 0..2 {
        stage.token_of("twice");
    }
    stage.write("[tokens.twice]\nscopes = [\"read\"]");
    let (_, error) = stage.apply(1, &[]);
    assert!(error.contains("several tokens"), "{error}");
    let first =
        "[tokens.first]\nscopes = [\"admin\"]\nnamespace = \"*\"\nsecret = { env = \"GIVEN\" }";
    stage.write(first);
    let (_, error) = stage.apply(2, &["--check"]);
    assert!(error.contains("it has the id"), "{error}");
    assert_eq!(stage.verbs(), [""; 0]);
    let (_, types) = stage.ask(&stage.token, "GET", "types", "");
    assert!(!types.to_string().contains("mail"), "{types}");
}

#[test]
fn several_files_are_one_state_and_json_is_the_same() {
    let mut stage = Stage::on_sqlite();
    // It needs no server that runs.
    stage.server.kill();
    let folder = stage.folder.path().join("state.d");
    std::fs::create_dir(&folder).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write(
        "1.toml",
        "name = \"a\"\n[namespaces.default.types.mail]\nmax_pending = 5",
    );
    let json = r#"{"name": "a", "namespaces": {"default": {"types": {"mail": {"paused": true}}}}}"#;
    write("2.json", json);
    write("README.md", "no state");
    let apply = |code: i32| {
        let output = Command::new(env!("CARGO_BIN_EXE_delayq-server"))
            .args(["apply", "state.d", "--store", &stage.store, "--log", "warn"])
            .current_dir(stage.folder.path())
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}");
        text
    };
    let text = apply(0);
    assert!(text.contains("+ default: mail max_pending: 5\n"), "{text}");
    assert!(text.ends_with("done: 2 created\n"), "{text}");
    assert_eq!(apply(0), "nothing to change: 2 unchanged\n");
    write("3.toml", "[namespaces.default.types.mail]\nmax_pending = 5");
    let text = apply(1);
    assert!(
        text.contains("types.mail.max_pending is there twice"),
        "{text}"
    );
    write("3.toml", "");
    write("2.json", r#"{"name": "a", "name": "a"}"#);
    assert!(apply(1).contains("is there twice"));
}
