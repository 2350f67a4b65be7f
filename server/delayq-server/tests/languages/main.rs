//! The workers of the guide, run as they stand there against the real server. A language whose
//! interpreter is not on this machine is left out, and said so.

#![allow(
    clippy::print_stderr,
    reason = "what is left out is told to whoever runs the tests"
)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, also in its helpers"
)]

#[path = "../programs/mod.rs"]
mod programs;
mod receivers;
mod server;
mod snippets;
mod stop;
mod stream;

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use server::RunningServer;

const GUIDE: &str = include_str!("../../../../docs/guide/server-workers.md");

/// How long a worker may take to start, compile and do its tasks, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// The blocks of a page, each with its language.
fn blocks(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let blocks = page.split("```").skip(1).step_by(2);
    blocks.filter_map(|block| block.split_once('\n'))
}

/// The only block of a page in a language that is a whole program.
fn program<'a>(page: &'a str, fence: &str, part: &str) -> &'a str {
    let mut blocks =
        blocks(page).filter(|(language, text)| *language == fence && text.contains(part));
    blocks.next().expect("the guide has the program").1
}

fn is_there(program: &str, arguments: &[&str]) -> bool {
    let run = Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    run.is_ok_and(|status| status.success())
}

/// A worker, ended with the test.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        // The whole group: `go run` starts the program as a process of its own.
        kill_process_group(Pid::from_child(&self.0), Signal::KILL).ok();
        self.0.wait().ok();
    }
}

/// Runs the program, and checks that it does what is due and reports what fails.
fn check(interpreter: &[&str], probe: &str, file: &str, text: &str) {
    let (command, arguments) = interpreter.split_first().unwrap();
    if !is_there(command, &[probe]) {
        eprintln!("LEFT OUT: {command} is not here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = RunningServer::start(folder.path());
    let path = folder.path().join(file);
    std::fs::write(&path, text).unwrap();
    for n in 0..5 {
        server.put(
            &format!("order-{n}?delay=100"),
            &format!("{{\"order\":{n}}}"),
        );
    }
    let worker = Command::new(command)
        .args(arguments)
        .arg(&path)
        .current_dir(folder.path())
        .env("DELAYQ_HTTP", format!("{}/v1/default", server.url))
        .env("DELAYQ_TOKEN", &server.token)
        .env("HOME", folder.path())
        .envs(programs::go_variables())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let _worker = Worker(worker);
    let end = Instant::now() + PATIENCE;
    for n in 0..5 {
        server.wait_for(&format!("order-{n}"), "done", end);
    }
    server.put("order-6?delay=1500", "{\"order\":6}");
    server.wait_for("order-6", "done", end);
}

#[test]
fn the_python_worker_works() {
    let text = program(GUIDE, "python", "def work");
    check(&["python3"], "--version", "worker.py", text);
}

#[test]
fn the_node_worker_works() {
    let text = program(GUIDE, "js", "async function work");
    check(&["node"], "--version", "worker.mjs", text);
}

#[test]
fn the_go_worker_works() {
    let text = program(GUIDE, "go", "func work");
    check(&["go", "run"], "version", "worker.go", text);
}

#[test]
fn the_java_worker_works() {
    let text = program(GUIDE, "java", "static void work");
    check(&["java"], "-version", "Worker.java", text);
}

#[test]
fn the_shell_worker_works() {
    let text = program(GUIDE, "bash", "work()");
    check(&["bash"], "--version", "worker.sh", text);
}
