//! The example in which chaos is done to workers of one's own, as people run it.

use std::path::Path;
use std::process::Command;

/// Runs the example, which `cargo test` builds beside the tests, and returns its exit code and its
/// words.
fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let programs = Path::new(env!("CARGO_BIN_EXE_delayq-chaos")).parent();
    let example = programs.map(|programs| programs.join("examples/own_workers"));
    // A broken run keeps its folder, which is to go with the test all the same.
    let folder = tempfile::tempdir().expect("a place for the record");
    let mut run = Command::new(example.expect("a program is in a folder"));
    let output = run.args(arguments).env("TMPDIR", folder.path()).output();
    let output = output.expect("built by: cargo build -p delayq-chaos --example own_workers");
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    (output.status.code(), said)
}

#[test]
fn own_workers_survive_their_processes_being_killed_on_sqlite() {
    let (code, said) = run(&["--store", "sqlite", "--seed", "1"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("kill-worker          1 times, evident 1"),
        "{said}"
    );
    assert!(said.contains("I2 never lost            held"), "{said}");
}

#[test]
fn own_workers_survive_their_server_being_killed_on_redis() {
    let (code, said) = run(&["--store", "redis", "--seed", "2"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("kill-redis           1 times, evident 1"),
        "{said}"
    );
}

/// What delayq does not promise, exactly-once effects, the application's own look at its data
/// finds.
#[test]
fn a_worker_that_charges_twice_is_found() {
    let (code, said) = run(&["--careless"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("was charged 2 times"), "{said}");
    assert!(said.contains("HELD: every promise held"), "{said}");
}
