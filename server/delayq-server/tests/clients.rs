//! Clients of others against the real server: those of beanstalkd in Python, Node and Go, and dq of
//! go-queue. `cargo xtask test` fetches them; what it cannot fetch is left out, and said so.

#![cfg(unix)]
#![allow(
    clippy::print_stderr,
    reason = "what is left out is told to whoever runs the tests"
)]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by a panic, also in its helpers"
)]

mod programs;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use delayq_tests::redis_server::RedisServer;
use tempfile::TempDir;

use programs::{installed, succeeds};

/// How long the next line of dq may take.
const PATIENCE: Duration = Duration::from_secs(40);

/// A server of the protocol of beanstalkd, ended by its process id, and its jobs.
struct Beanstalkd {
    child: Child,
    address: String,
    _folder: TempDir,
}

impl Beanstalkd {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_delayq-server"))
            .args(["beanstalkd", "--log", "warn", "-l", "127.0.0.1", "-p", "0"])
            .args(["-b", "jobs"])
            .current_dir(folder.path())
            .env_clear()
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        let address = line.rsplit(' ').next().unwrap().to_owned();
        Self {
            child,
            address,
            _folder: folder,
        }
    }

    fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap()
    }
}

impl Drop for Beanstalkd {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn program(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    folder.join(name)
}

#[test]
fn greenstalk_of_python_is_served() {
    let Some(python) = installed("python/bin/python") else {
        return;
    };
    let server = Beanstalkd::start();
    let program = program("greenstalk_client.py");
    succeeds(Command::new(python).arg(program).arg(server.port()));
}

#[test]
fn jackd_of_node_is_served() {
    let Some(modules) = installed("node/node_modules") else {
        return;
    };
    let server = Beanstalkd::start();
    let mut node = Command::new("node");
    node.arg(program("jackd_client.js")).arg(server.port());
    succeeds(node.env("NODE_PATH", modules));
}

#[test]
fn the_client_of_go_is_served() {
    let Some(program) = installed("go/bin/beanstalk") else {
        return;
    };
    let server = Beanstalkd::start();
    succeeds(Command::new(program).arg(&server.address));
}

/// The program of dq, ended with the test.
struct Dq {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Dq {
    fn start(program: &Path, servers: [&str; 2], redis: &str) -> Self {
        let mut child = Command::new(program)
            .args(servers)
            .arg(redis)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        forward(child.stdout.take().unwrap(), sender.clone());
        forward(child.stderr.take().unwrap(), sender);
        Self {
            child,
            lines,
            said: Vec::new(),
        }
    }

    /// Waits until it has said each of these, in any order.
    fn until(&mut self, expected: &[&str]) {
        let is_said = |said: &[String]| expected.iter().all(|line| said.iter().any(|x| x == line));
        while !is_said(&self.said) {
            let Ok(line) = self.lines.recv_timeout(PATIENCE) else {
                panic!("not all of {expected:?}, but {:#?}", self.said);
            };
            self.said.push(line);
        }
    }

    fn go_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }
}

impl Drop for Dq {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn forward(output: impl Read + Send + 'static, lines: Sender<String>) {
    let mut output = BufReader::new(output).lines().map_while(Result::ok);
    std::thread::spawn(move || output.try_for_each(|line| lines.send(line)));
}

#[test]
fn dq_consumes_each_job_once_though_one_of_its_two_servers_is_lost() {
    let Some(program) = installed("go/bin/dq") else {
        return;
    };
    let (kept, lost) = (Beanstalkd::start(), Beanstalkd::start());
    let redis = format!("127.0.0.1:{}", RedisServer::shared().port());
    let mut dq = Dq::start(&program, [&kept.address, &lost.address], &redis);
    let consumed = |body: &str| format!("consumed {body} true");
    let early = ["at", "early-0", "early-1", "early-2", "early-3", "early-4"].map(consumed);
    let late = ["late-0", "late-1", "late-2", "late-3", "late-4"].map(consumed);
    dq.until(&["sent"]);
    dq.until(&early.each_ref().map(String::as_str));
    // With its disk.
    drop(lost);
    dq.go_on();
    dq.until(&["refused"]);
    dq.until(&late.each_ref().map(String::as_str));
    dq.go_on();
    assert!(dq.child.wait().unwrap().success(), "{:#?}", dq.said);
    dq.said.extend(dq.lines.iter());
    let mut found: Vec<_> = dq
        .said
        .iter()
        .filter(|x| x.starts_with("consumed"))
        .collect();
    found.sort();
    let expected: Vec<_> = early.iter().chain(&late).collect();
    assert_eq!(found, expected, "{:#?}", dq.said);
}
