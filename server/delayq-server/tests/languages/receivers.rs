//! The receivers of the guide to push, run as they stand there: they take what the server signed,
//! and refuse what somebody else did.

use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use std::os::unix::process::CommandExt;

use delayq_tests::redis_server::free_port;
use serde_json::json;

use super::programs::go_variables;
use super::server::RunningServer;
use super::{PATIENCE, Worker, is_there, program};

const GUIDE: &str = include_str!("../../../../docs/guide/server-push.md");
/// Of 32 bytes each.
const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const OTHER: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

fn check(interpreter: &[&str], probe: &str, file: &str, fence: &str) {
    let (command, arguments) = interpreter.split_first().unwrap();
    if !is_there(command, &[probe]) {
        eprintln!("LEFT OUT: {command} is not here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file);
    std::fs::write(&path, program(GUIDE, fence, "")).unwrap();
    let port = free_port();
    let child = Command::new(command)
        .args(arguments)
        .arg(&path)
        .current_dir(folder.path())
        .env("WEBHOOK_SECRET", SECRET)
        .env("PORT", port.to_string())
        .env("HOME", folder.path())
        .envs(go_variables())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let _receiver = Worker(child);
    let end = Instant::now() + PATIENCE;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < end, "{command} does not listen");
        std::thread::park_timeout(Duration::from_millis(10));
    }
    let near = [
        ("DELAYQ_PUSH__ALLOW_HTTP", "true"),
        ("DELAYQ_PUSH__ALLOW_NETWORKS", r#"["127.0.0.0/8"]"#),
    ];
    let server = RunningServer::start_with(folder.path(), &near);
    let url = format!("http://127.0.0.1:{port}/");
    let target = |secrets: &[&str]| json!({"http": {"url": url, "secrets": secrets}, "retry": {"attempts": 1}});
    server.set_target(&target(&[OTHER, SECRET]));
    server.put("signed", "{\"order\":42}");
    server.wait_for("signed", "done", end);
    server.set_target(&target(&[OTHER]));
    server.put("forged", "{\"order\":42}");
    server.wait_for("forged", "dead", end);
}

#[test]
fn the_python_receiver_checks_signatures() {
    check(&["python3"], "--version", "receiver.py", "python");
}

#[test]
fn the_node_receiver_checks_signatures() {
    check(&["node"], "--version", "receiver.mjs", "js");
}

#[test]
fn the_go_receiver_checks_signatures() {
    check(&["go", "run"], "version", "receiver.go", "go");
}
