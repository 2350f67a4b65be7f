//! A server that runs, and the program beside it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::server::Server;

pub(crate) const STATE: &str = r#"
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

pub(crate) const GIVEN: &str = "dq_given_0123456789abcdef0123456789abcdef";

/// A server that runs, and the folder of the files.
pub(crate) struct Stage {
    pub(crate) folder: TempDir,
    pub(crate) store: String,
    pub(crate) server: Server,
    pub(crate) token: String,
}

impl Stage {
    /// A server on a file.
    pub(crate) fn on_sqlite() -> Self {
        Self::start(|folder| format!("sqlite:{}", folder.join("a.sqlite").display()))
    }

    pub(crate) fn start(store: impl FnOnce(&Path) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let config = folder.path().join("server.toml");
        let push = "[push]\nallow_http = true\nallow_networks = [\"127.0.0.0/8\"]\n";
        std::fs::write(&config, push).unwrap();
        let config = config.display().to_string();
        let options = ["--store", &store, "--config", &config];
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

    pub(crate) fn write(&self, state: &str) {
        std::fs::write(self.folder.path().join("state.toml"), state).unwrap();
    }

    /// Runs `apply state.toml`; returns the report and what it says otherwise.
    pub(crate) fn apply(&self, code: i32, options: &[&str]) -> (Value, String) {
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

    pub(crate) fn counts(report: &Value) -> [u64; 4] {
        ["created", "changed", "removed", "unchanged"].map(|name| report[name].as_u64().unwrap())
    }

    pub(crate) fn ask(&self, token: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
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
    pub(crate) fn is(&self, token: &str, path: &str, status: u16) -> Value {
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

    pub(crate) fn secret(&self, file: &str) -> String {
        let file = self.folder.path().join("tokens").join(file);
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        std::fs::read_to_string(file).unwrap().trim().to_owned()
    }

    /// Creates a token of this name by hand.
    pub(crate) fn token_of(&self, name: &str) {
        self.token(&["create", "--scope", "read", "--name", name]);
    }

    /// Runs a command for tokens.
    pub(crate) fn token(&self, words: &[&str]) {
        let done = Command::new(env!("CARGO_BIN_EXE_delayq-server"))
            .arg("token")
            .args(words)
            .args(["--store", &self.store, "--log", "warn"])
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }

    pub(crate) fn verbs(&self) -> Vec<String> {
        let (_, log) = self.ask(&self.token, "GET", "log?limit=100", "");
        let of = |action: &Value| action["verb"].as_str().unwrap().to_owned();
        let mut verbs: Vec<_> = log.as_array().unwrap().iter().map(of).collect();
        verbs.sort();
        verbs
    }
}
