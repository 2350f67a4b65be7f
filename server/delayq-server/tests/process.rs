//! The real program: its first start, its checks, and its end.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, also in its helpers"
)]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use delayq_tests::redis_server::{Persistence, RedisServer, free_port};

/// A server that runs, with what it has printed so far.
struct Running {
    child: Child,
    /// `None` where nobody reads it.
    output: Option<BufReader<ChildStdout>>,
    /// Where it listens, such as `127.0.0.1:40000`.
    address: String,
}

fn program(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delayq-server"));
    command
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("DELAYQ_FIRST_TOKEN_FILE", "-")
        .stdin(Stdio::null());
    command
}

fn run(folder: &Path, arguments: &[&str]) -> (Output, String) {
    let output = program(folder, arguments).output().unwrap();
    let mut text = String::from_utf8(output.stdout.clone()).unwrap();
    text += &String::from_utf8_lossy(&output.stderr);
    (output, text)
}

impl Running {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = program(folder, arguments);
        Self::of(command.args(["--listen", "127.0.0.1:0", "--log", "warn"]))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().map(BufReader::new);
        let mut running = Self {
            child,
            output,
            address: String::new(),
        };
        let line = running.line();
        line.rsplit("//")
            .next()
            .unwrap()
            .trim()
            .clone_into(&mut running.address);
        running
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.as_mut().unwrap().read_line(&mut line).unwrap();
        line
    }

    /// What it prints until its end.
    fn rest(&mut self) -> String {
        let mut text = String::new();
        self.output
            .as_mut()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        text
    }

    fn ask(&self, token: &str, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\
             content-length: 0\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    fn terminate(&mut self) -> ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The token of a first start, and the line with its curl.
fn first_token(server: &mut Running) -> (String, String) {
    let line = server.line();
    assert!(line.contains("shown this once"), "{line}");
    let token = line.rsplit(' ').next().unwrap().trim().to_owned();
    assert_eq!(server.line(), "send a task:\n");
    (token, server.line())
}

#[test]
fn a_first_start_prints_a_token_once_and_a_request_that_works() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Running::start(folder.path(), &[]);
    let (token, curl) = first_token(&mut server);
    let created = if Command::new("curl").arg("--version").output().is_ok() {
        let sent = Command::new("sh")
            .args(["-c", curl.trim()])
            .output()
            .unwrap();
        String::from_utf8(sent.stdout).unwrap()
    } else {
        server.ask(&token, "POST", "/v1/default/types/greet/tasks?delay=10s")
    };
    assert!(created.contains("\"outcome\":\"accepted\""), "{created}");
    assert!(
        server
            .ask("", "GET", "/health/ready")
            .starts_with("HTTP/1.1 200")
    );
    assert!(
        server
            .ask("", "GET", "/docs")
            .contains("/v1/{namespace}/types")
    );
    assert!(
        server
            .ask("", "GET", "/metrics")
            .starts_with("HTTP/1.1 401")
    );
    let metrics = server.ask(&token, "GET", "/metrics");
    for name in [
        "delayq_server_requests_total{",
        "delayq_server_connections{",
        "delayq_server_refused_total{",
    ] {
        assert!(metrics.contains(name), "{name}: {metrics}");
    }
    assert!(server.terminate().success());
    assert_eq!(server.rest(), "");

    let mut again = Running::start(folder.path(), &[]);
    assert!(
        again
            .ask(&token, "GET", "/v1/default/types")
            .contains("greet")
    );
    assert!(again.terminate().success());
    assert_eq!(again.rest(), "", "the token is not printed again");
}

/// A secret that nobody needs to guess.
const GIVEN: &str = "dq_first_0123456789abcdef0123456789abcdef";

#[test]
fn a_first_token_that_is_given_is_taken_once_and_printed_never() {
    let folder = tempfile::tempdir().unwrap();
    let start = |name: &str, value: &str| {
        let mut command = program(folder.path(), &["--listen", "127.0.0.1:0", "--log", "warn"]);
        Running::of(command.env(name, value))
    };
    let mut server = start("DELAYQ_BOOTSTRAP_TOKEN", GIVEN);
    assert!(
        server
            .ask(GIVEN, "GET", "/v1/default/types")
            .contains("200 OK")
    );
    assert!(server.terminate().success());
    assert_eq!(server.rest(), "its first token is the bootstrap token\n");
    // The server has a token, and takes no other one.
    let file = folder.path().join("token");
    let other = GIVEN.replace("first", "second");
    std::fs::write(&file, format!("\u{feff}{other}\n")).unwrap();
    let mut again = start("DELAYQ_BOOTSTRAP_TOKEN_FILE", file.to_str().unwrap());
    assert!(
        again
            .ask(&other, "GET", "/v1/default/types")
            .contains("401")
    );
    assert!(
        again
            .ask(GIVEN, "GET", "/v1/default/types")
            .contains("200 OK")
    );
    assert!(again.terminate().success());
    assert_eq!(again.rest(), "");
    let guessed = program(folder.path(), &["check", "--listen", "127.0.0.1:0"])
        .env("DELAYQ_BOOTSTRAP_TOKEN", "dq_first_guess")
        .output()
        .unwrap();
    let text = String::from_utf8(guessed.stdout).unwrap();
    assert!(
        text.contains("at least 32 characters") && !text.contains("guess"),
        "{text}"
    );
}

#[test]
fn a_log_in_json_is_an_object_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program(folder.path(), &["--listen", "127.0.0.1:0"]);
    command
        .env("DELAYQ_LOG", "debug")
        .env("DELAYQ_LOG__FORMAT", "json")
        .stderr(Stdio::piped());
    let mut server = Running::of(&mut command);
    let mut log = server.child.stderr.take().unwrap();
    assert!(server.terminate().success());
    let mut text = String::new();
    log.read_to_string(&mut text).unwrap();
    assert!(text.lines().count() > 1, "{text}");
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(
            line["level"].is_string() && line["message"].is_string(),
            "{line}"
        );
    }
}

#[test]
fn a_command_in_another_folder_makes_no_store_and_says_where_it_looked() {
    let folder = tempfile::tempdir().unwrap();
    for command in [&["token", "list"][..], &["move", "default"]] {
        let (output, text) = run(folder.path(), command);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let file = folder.path().canonicalize().unwrap();
        let file = file.join("delayq-server.sqlite");
        assert!(text.contains(file.to_str().unwrap()), "{text}");
        assert!(
            text.contains("--config") && text.contains("--store"),
            "{text}"
        );
        assert!(!file.exists());
    }
    let mut server = Running::start(folder.path(), &[]);
    let (token, _) = first_token(&mut server);
    // Nobody reads what it says.
    let mut unread = program(folder.path(), &["token", "list"]);
    let mut unread = unread.stdout(Stdio::piped()).spawn().unwrap();
    drop(unread.stdout.take());
    assert!(unread.wait().unwrap().success());
    let (output, text) = run(folder.path(), &["move", "default", "--to", "fast"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("there is no pool fast: there are store"),
        "{text}"
    );
    let (_, text) = run(folder.path(), &["token", "list", "--listen", "here"]);
    assert!(text.contains("such as 127.0.0.1:7880"), "{text}");
    assert!(
        server
            .ask(&token, "GET", "/v1/default/types")
            .contains("200 OK")
    );
}

#[test]
fn a_server_whose_output_nobody_reads_serves() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let mut command = program(folder.path(), &["--listen", &address, "--log", "off"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut server = Running {
        output: None,
        child,
        address,
    };
    let end = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(&server.address).is_err() {
        assert!(Instant::now() < end && server.child.try_wait().unwrap().is_none());
        std::thread::park_timeout(Duration::from_millis(10));
    }
    let status = server.terminate();
    assert!(status.success(), "{status}");
}

#[test]
fn a_port_in_use_is_an_error_that_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (output, text) = run(folder.path(), &["--listen", &address, "--log", "off"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains(&address) && text.contains("--listen"),
        "{text}"
    );
    assert!(
        !text.contains("dq_"),
        "no token is made for a server that does not start: {text}"
    );
}

#[test]
fn check_says_each_thing_that_it_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("delayq-server.sqlite");
    let (output, text) = run(folder.path(), &["check", "--listen", "127.0.0.1:0"]);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("is not there yet: a start makes it"),
        "{text}"
    );
    assert!(!file.exists(), "a check makes no store");
    let words = program(folder.path(), &["check", "--listen", "127.0.0.1:0"])
        .env("DELAYQ_LMSTFY__ACCOUNTS__ADMIN", "12345")
        .env("DELAYQ_GRAPE__NAMESPACE", "2024")
        .env("DELAYQ_NAMESPACES__2024__LIMITS__RATE", "5")
        .output();
    let words = words.unwrap();
    assert!(
        words.status.success(),
        "texts that look like numbers: {words:?}"
    );
    assert!(Running::start(folder.path(), &[]).terminate().success());
    let config = "[namespaces.shop]\npool = \"fast\"\n[pools]\nfast = \"memory:\"\n\
                  idle = \"redis://127.0.0.1:1/\"\n[push]\nca_file = \"nothing.pem\"\n";
    std::fs::write(folder.path().join("server.toml"), config).unwrap();
    let check = ["check", "--config", "server.toml", "--log", "off"];
    let (output, text) = run(folder.path(), &check);
    assert_eq!(
        output.status.code(),
        Some(1),
        "a memory store does not survive a process: {text}"
    );
    for part in [
        "configuration: ok",
        "store of the server: ok",
        "namespace default: ok",
        "namespace shop: ",
        "tls: off",
        "listen: ",
        "admin.listen: off",
        "connections.max 20000: ",
        "pool idle: ",
        "push.ca_file \"nothing.pem\": ",
        "not ready: namespace shop, pool idle, push",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    std::fs::write(
        folder.path().join("server.toml"),
        "[tls]\ncertificate = \"a.pem\"\nkey = \"a.key\"\n",
    )
    .unwrap();
    let (output, text) = run(folder.path(), &check);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("tls.certificate \"a.pem\""), "{text}");
    // A start does without its history.
    let away = "history = \"postgres://127.0.0.1:1/history\"";
    std::fs::write(folder.path().join("server.toml"), away).unwrap();
    let (output, text) = run(folder.path(), &check);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("history: not reachable now"), "{text}");
}

#[test]
fn a_server_whose_store_was_emptied_says_so_and_is_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let redis = RedisServer::start(Persistence::EverySecond, &[]);
    let (store, log) = (redis.url(), folder.path().join("log"));
    let mut command = program(
        folder.path(),
        &["--store", &store, "--listen", "127.0.0.1:0"],
    );
    let command = command.stderr(File::create(&log).unwrap());
    let mut server = Running::of(command);
    let (token, _) = first_token(&mut server);
    let create = "/v1/default/types/job/tasks?delay=60000";
    let answer = server.ask(&token, "POST", create);
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    let mut to_redis = TcpStream::connect(("127.0.0.1", redis.port())).unwrap();
    to_redis.write_all(b"FLUSHALL\r\n").unwrap();
    let asked = Instant::now();
    let ready = loop {
        let ready = server.ask(&token, "GET", "/health/ready");
        if !ready.starts_with("HTTP/1.1 200 ") || asked.elapsed() > Duration::from_secs(20) {
            break ready;
        }
    };
    let answer = server.ask(&token, "POST", create);
    for answer in [ready, answer] {
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("has lost its data"), "{answer}");
    }
    let said = std::fs::read_to_string(&log).unwrap();
    assert_eq!(said.matches("the store has lost data").count(), 1, "{said}");
    let store = [
        "token", "create", "--name", "a", "--scope", "submit", "--store", &store,
    ];
    let (_, text) = run(folder.path(), &store);
    let words = text.split_whitespace();
    let token = words.into_iter().find(|word| word.starts_with("dq_"));
    assert!(token.is_some(), "{text}");
    let asked = Instant::now();
    let answer = loop {
        let answer = server.ask(token.unwrap(), "POST", create);
        if answer.starts_with("HTTP/1.1 201 ") || asked.elapsed() > Duration::from_secs(20) {
            break answer;
        }
    };
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
}

/// Asks as a supervisor does; the exit code, and what it says.
fn health(folder: &Path, server: &Running, more: &[&str]) -> (Option<i32>, String) {
    let arguments = ["health", "--timeout", "5", "--listen", &server.address];
    let (output, said) = run(folder, &[&arguments[..], more].concat());
    (output.status.code(), said)
}

#[test]
fn the_health_of_a_running_server_is_asked_with_and_without_tls() {
    let folder = tempfile::tempdir().unwrap();
    let mut plain = Running::start(folder.path(), &[]);
    let ready = (Some(0), "ready\n".to_owned());
    assert_eq!(health(folder.path(), &plain, &[]), ready);
    let live = (Some(0), "live\n".to_owned());
    assert_eq!(health(folder.path(), &plain, &["--live"]), live);
    let made = rcgen::generate_simple_self_signed(["shop.example".to_owned()]).unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("c.pem"), made.cert.pem()).unwrap();
    std::fs::write(file("k.pem"), made.signing_key.serialize_pem()).unwrap();
    let text = "[tls]\ncertificate = \"c.pem\"\nkey = \"k.pem\"\nclient_ca = \"c.pem\"\n";
    std::fs::write(file("tls.toml"), text).unwrap();
    let mut secret = Running::start(folder.path(), &["--config", "tls.toml"]);
    assert_eq!(
        health(folder.path(), &secret, &["--config", "tls.toml"]),
        ready
    );
    let (code, said) = health(folder.path(), &secret, &[]);
    assert!(code == Some(1) && said.contains("not ready at"), "{said}");
    for server in [&mut plain, &mut secret] {
        server.child.kill().unwrap();
        server.child.wait().unwrap();
    }
    let (code, said) = health(folder.path(), &plain, &[]);
    assert!(code == Some(1) && said.contains("refused"), "{said}");
}

/// What restarts an unhealthy server does not restart one whose store is away.
#[test]
fn a_server_whose_store_is_away_is_alive_and_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let mut redis = RedisServer::start(Persistence::EverySecond, &[]);
    let mut server = Running::start(folder.path(), &["--store", &redis.url()]);
    first_token(&mut server);
    redis.kill();
    let asked = Instant::now();
    let (code, said) = loop {
        let (code, said) = health(folder.path(), &server, &[]);
        if code == Some(1) || asked.elapsed() > Duration::from_secs(20) {
            break (code, said);
        }
    };
    assert!(code == Some(1) && said.contains("503"), "{said}");
    let live = (Some(0), "live\n".to_owned());
    assert_eq!(health(folder.path(), &server, &["--live"]), live);
}
