//! `delayq-server apply`: the real program beside a server that runs, on each store.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, also in its helpers"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use delayq_tests::postgres_server::PostgresServer;
use delayq_tests::redis_server::{Persistence, RedisServer};
use serde_json::{Value, json};
use tempfile::TempDir;

mod server;

use server::Server;

const STATE: &str = r#"
name = "shop"

[namespaces.default.types."order.cancel"]
max_pending = 1000
fleet_rate = "100/s"
paused = true

[namespaces.default.types."order.*"]
policy = { retry = { attempts = 7, wait = "20s" }, max_lock_expiries = 3 }

[namespaces.default.types."mail.send".target.http]
url = "http://127.0.0.1:8089/hook"
headers = { authorization = { file = "hook.secret" } }

[namespaces.default.recurring.nightly]
type = "report.daily"
every = "0 2 * * *"
zone = "Europe/Berlin"
json = { kind = "sales" }

[tokens.worker]
scopes = ["submit", "work", "read"]
types = ["order.*"]
rate = 500
expires_at = 2100-01-01T00:00:00Z

[tokens.given]
scopes = ["read"]
secret = { env = "GIVEN" }
"#;

const GIVEN: &str = "dq_given_0123456789abcdef0123456789abcdef";

/// A server that runs, and the folder of the files.
struct Stage {
    folder: TempDir,
    store: String,
    server: Server,
    token: String,
}

impl Stage {
    fn start(store: impl FnOnce(&Path) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let options = ["--store", &store];
        let mut server = Server::start(&options, "127.0.0.1:0", true);
        let token = server.token.take().unwrap();
        std::fs::write(folder.path().join("hook.secret"), "Bearer hook\n").unwrap();
        let stage = Self {
            folder,
            store,
            server,
            token,
        };
        stage.write(STATE);
        stage
    }

    fn write(&self, state: &str) {
        std::fs::write(self.folder.path().join("state.toml"), state).unwrap();
    }

    /// Runs `apply state.toml`; returns the report and what it says otherwise.
    fn apply(&self, code: i32, options: &[&str]) -> (Value, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_delayq-server"))
            .args(["apply", "state.toml", "-o", "json", "--log", "warn"])
            .args(["--store", &self.store])
            .args(options)
            .current_dir(self.folder.path())
            .envs([
                ("GIVEN", GIVEN),
                ("DELAYQ_PUSH__ALLOW_HTTP", "true"),
                ("DELAYQ_PUSH__ALLOW_NETWORKS", "[\"127.0.0.0/8\"]"),
            ])
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{options:?}: {error}");
        let text = String::from_utf8(output.stdout).unwrap();
        for secret in [GIVEN, "Bearer hook", "whsec_"] {
            assert!(
                !text.contains(secret) && !error.contains(secret),
                "{text}{error}"
            );
        }
        (serde_json::from_str(&text).unwrap_or_default(), error)
    }

    fn counts(report: &Value) -> [u64; 4] {
        ["created", "changed", "removed", "unchanged"].map(|name| report[name].as_u64().unwrap())
    }

    fn ask(&self, token: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.server.address).unwrap();
        let (address, length) = (&self.server.address, body.len());
        write!(
            stream,
            "{method} /v1/default/{path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}\r\n\
             content-type: application/json\r\nauthorization: Bearer {token}\r\n\
             connection: close\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    /// Asks with the first token until the answer has this status: servers follow.
    fn is(&self, token: &str, path: &str, status: u16) -> Value {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let (found, body) = self.ask(token, "GET", path, "");
            if found == status {
                return body;
            }
            assert!(Instant::now() < end, "{path}: {found} {body}");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    fn secret(&self, file: &str) -> String {
        let file = self.folder.path().join("tokens").join(file);
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        std::fs::read_to_string(file).unwrap().trim().to_owned()
    }

    /// Creates a token of this name by hand.
    fn token_of(&self, name: &str) {
        let created = Command::new(env!("CARGO_BIN_EXE_delayq-server"))
            .args(["token", "create", "--scope", "read", "--name", name])
            .args(["--store", &self.store, "--log", "warn"])
            .output()
            .unwrap();
        assert!(created.status.success());
    }

    fn verbs(&self) -> Vec<String> {
        let (_, log) = self.ask(&self.token, "GET", "log?limit=100", "");
        let of = |action: &Value| action["verb"].as_str().unwrap().to_owned();
        let mut verbs: Vec<_> = log.as_array().unwrap().iter().map(of).collect();
        verbs.sort();
        verbs
    }
}

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
        (&json!(6), &json!(1)),
        "{report}"
    );
    stage.is(worker, "types/order.cancel", 200);
    stage.apply(0, &["--prune"]);
    stage.is(worker, "types/order.cancel", 401);
    stage.is(GIVEN, "types/order.cancel", 401);
    stage.is(token, "recurring/nightly", 404);
    stage.is(token, "types/mail.send/target", 404);
    stage.is(token, "recurring/own", 200);
    stage.is(token, "types/order.*/policy", 200);
    let (report, _) = stage.apply(0, &["--prune", "--check"]);
    assert_eq!(
        (&report["removed"], &report["kept"]),
        (&json!(0), &json!(1))
    );
}

#[test]
fn a_state_is_made_kept_changed_and_pruned_on_sqlite() {
    let stage = Stage::start(|folder| format!("sqlite:{}", folder.join("a.sqlite").display()));
    the_whole_way(&stage);
    half_way(&stage);
}

#[test]
fn a_state_is_made_kept_changed_and_pruned_on_redis() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    the_whole_way(&Stage::start(|_| server.url()));
}

#[test]
fn a_state_is_made_kept_changed_and_pruned_on_postgres() {
    let server = PostgresServer::start(&[]);
    the_whole_way(&Stage::start(|_| server.url()));
}

/// What fails half-way says what is done, and is completed by a repeat.
fn half_way(stage: &Stage) {
    let with = |setting: &str| {
        format!(
            "[namespaces.default.types.a-first]\nmax_pending = 5\n\
             [namespaces.default.types.b-second]\n{setting}\n[tokens.late]\nscopes = [\"read\"]\n"
        )
    };
    stage.write(&with("shards = 4"));
    let made = ["--tokens-to", "tokens"];
    let (report, error) = stage.apply(1, &made);
    assert!(error.contains("has no shards"), "{error}");
    let done = |report: &Value| {
        let items = report["items"].as_array().unwrap();
        let done = items.iter().map(|item| item["is_done"].as_bool().unwrap());
        done.collect::<Vec<_>>()
    };
    assert_eq!(done(&report), [true, false, false], "{report}");
    stage.write(&with("max_pending = 6"));
    let (report, _) = stage.apply(0, &made);
    assert_eq!(Stage::counts(&report), [2, 0, 0, 1], "{report}");
    stage.is(&stage.secret("late.token"), "types/a-first", 200);
}

/// Everything is checked before anything is changed.
#[test]
fn a_mistake_changes_nothing_and_says_where_it_is() {
    let stage = Stage::start(|folder| format!("sqlite:{}", folder.join("a.sqlite").display()));
    let type_of = |text: &str| format!("[namespaces.default.types.mail]\nmax_pending = 1\n{text}");
    for (state, said) in [
        ("nam = \"a\"".to_owned(), "nam"),
        (
            "[namespaces.nowhere.types.mail]\npaused = true".to_owned(),
            "nowhere",
        ),
        (type_of("max_pendin = 5"), "namespaces.default.types.mail"),
        (type_of("shards = 1000"), "1 to 256"),
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
    let mut stage = Stage::start(|folder| format!("sqlite:{}", folder.join("a.sqlite").display()));
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
