//! The program of the guide to gRPC: made, as the page says, from the files of the interface, and
//! run against the real server.

use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::programs::{installed, succeeds};
use super::server::RunningServer;
use super::{PATIENCE, Worker, program};

const GUIDE: &str = include_str!("../../../../docs/guide/server-grpc.md");

/// The command of the page that makes the files.
fn generate() -> &'static str {
    let start = GUIDE
        .find("python3 -m grpc_tools.protoc")
        .expect("it is on the page");
    GUIDE[start..].split('`').next().unwrap()
}

#[test]
fn the_python_worker_of_the_stream_works() {
    let Some(programs) = installed("python/bin") else {
        return;
    };
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", programs.display());
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    symlink(server, folder.join("server")).unwrap();
    let mut bash = Command::new("bash");
    succeeds(
        bash.args(["-c", generate()])
            .current_dir(folder)
            .env("PATH", &path),
    );
    std::fs::write(
        folder.join("worker.py"),
        program(GUIDE, "python", "client.Work"),
    )
    .unwrap();

    let server = RunningServer::start(folder);
    let put = |n: u32| {
        server.put(
            &format!("order-{n}?delay=100"),
            &format!("{{\"order\":{n}}}"),
        );
    };
    (0..5).for_each(put);
    let worker = Command::new("python3")
        .arg("worker.py")
        .current_dir(folder)
        .env("PATH", &path)
        .env("DELAYQ_GRPC", server.url.trim_start_matches("http://"))
        .env("DELAYQ_TOKEN", &server.token)
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let _worker = Worker(worker);
    let end = Instant::now() + PATIENCE;
    (0..5).for_each(|n| server.wait_for(&format!("order-{n}"), "done", end));
    // More than the credit that it starts with, and one that comes while it waits.
    (5..20).for_each(put);
    (5..20).for_each(|n| server.wait_for(&format!("order-{n}"), "done", end));
}
