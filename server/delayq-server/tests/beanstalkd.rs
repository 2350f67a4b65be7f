//! The program with the command line of beanstalkd.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by a panic, also in its helpers"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

fn program(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delayq-server"));
    command
        .args(["beanstalkd", "--log", "warn"])
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .stdin(Stdio::null());
    command
}

/// What it prints before it ends, and its code.
fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = program(folder, arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

/// A server on the socket `s` of a folder, which keeps its jobs in `jobs`.
struct Running {
    child: Child,
    socket: PathBuf,
    /// What it printed before it listened.
    remarks: String,
}

impl Running {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = program(folder, &["-l", "unix:s", "-b", "jobs"]);
        let mut child = command
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut remarks = String::new();
        loop {
            let line = lines.next().unwrap().unwrap();
            if line == "the protocol of beanstalkd listens on unix:s" {
                break;
            }
            remarks += &line;
        }
        Self {
            child,
            socket: folder.join("s"),
            remarks,
        }
    }

    /// Sends an order, and awaits this answer.
    fn expect(&self, order: &str, answer: &str) {
        let mut client = UnixStream::connect(&self.socket).unwrap();
        client.write_all(order.as_bytes()).unwrap();
        let mut bytes = vec![0; answer.len()];
        client.read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), answer);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn a_killed_server_leaves_its_jobs_and_a_socket_that_the_next_one_replaces() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    drop(UnixListener::bind(folder.join("s")).unwrap());
    let server = Running::start(folder, &["-f0", "-s", "4096", "-cn", "-V"]);
    let said = |remark| server.remarks.matches(remark).count();
    assert_eq!(
        (said("-f"), said("-s:"), said("-c and -n")),
        (0, 1, 1),
        "{}",
        server.remarks
    );
    server.expect("put 5 0 60 1\r\na\r\n", "INSERTED 1\r\n");
    let (code, text) = run(folder, &["-l", "unix:s"]);
    assert!(code == Some(1) && text.contains("another server"), "{text}");
    let (code, text) = run(folder, &["-l", "unix:other", "-b", "jobs"]);
    assert!(code == Some(1) && text.contains("with -b"), "{text}");
    server.signal(Signal::KILL);
    drop(server);
    assert!(folder.join("s").exists());
    let mut server = Running::start(folder, &["-F"]);
    server.expect("peek 1\r\n", "FOUND 1 1\r\na\r\n");
    server.signal(Signal::TERM);
    assert!(server.child.wait().unwrap().success());
    assert!(!folder.join("s").exists());
    std::fs::write(folder.join("s"), "mine").unwrap();
    let (code, text) = run(folder, &["-l", "unix:s"]);
    assert!(code == Some(1) && text.contains("no socket"), "{text}");
    assert_eq!(std::fs::read(folder.join("s")).unwrap(), b"mine");
}

#[test]
fn options_are_read_as_beanstalkd_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let version = concat!("beanstalkd 1.13.0+delayq-", env!("CARGO_PKG_VERSION"), "\n");
    let (code, text) = run(folder.path(), &["-c", "-z5000000000", "-p11300", "-v"]);
    assert_eq!((code, text.as_str()), (Some(0), version));
    let (code, text) = run(folder.path(), &["-u", "www"]);
    assert!(code == Some(2) && text.contains("runuser -u www"), "{text}");
}

#[test]
fn a_server_that_opens_its_store_is_not_ended_by_the_signal_to_drain() {
    let folder = tempfile::tempdir().unwrap();
    // A store that is connected to, and does not answer.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let mut command = program(folder.path(), &["-l", "unix:s", "--store", &url]);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let connection = silent.accept().unwrap();
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::USR1).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let status = child.wait().unwrap();
    drop(connection);
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "{status}");
}
