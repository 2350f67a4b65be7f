//! The suite finds what is broken: drivers with a fault each.

use std::os::unix::fs::PermissionsExt;

use crate::RUST;
use crate::language::Language;
use crate::scenario::Scenario;

/// Runs one sentence with a shell script as the driver, and returns why it does not hold.
fn why(script: &str, sentence: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("run");
    std::fs::write(&program, format!("#!/bin/bash\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let mut all = Scenario::all();
    all.retain(|scenario| scenario.name == sentence);
    assert_eq!(all.len(), 1, "{sentence}");
    let failures = Language::new("broken", &program).impatient().failures(all);
    let why = failures.into_iter().map(|(_, why)| why);
    why.collect()
}

/// The driver of Rust, with what it says passed through a program of sed.
fn edited(program: &str) -> String {
    format!("{RUST} | sed -u '{program}'")
}

const SIMPLE: &str = "A task runs once, with the message that was sent";

#[test]
fn a_driver_that_does_all_as_it_should_is_no_failure() {
    assert_eq!(why(&format!("exec {RUST}"), SIMPLE), "");
    assert_eq!(why(&edited(""), SIMPLE), "");
}

#[test]
fn a_task_that_runs_twice_is_found() {
    let why = why(&edited("/\"event\":\"start\"/p"), SIMPLE);
    assert!(
        why.contains("is not 1") || why.contains("ran twice"),
        "{why}"
    );
}

#[test]
fn an_answer_that_does_not_come_or_is_another_is_found() {
    let mute = why("exec cat > /dev/null", SIMPLE);
    assert!(mute.contains("app has not answered in 8s"), "{mute}");
    let liar = why(&edited("s/accepted/already_exists/"), SIMPLE);
    assert!(
        liar.contains(".outcome: \"already_exists\" is not \"accepted\""),
        "{liar}"
    );
    assert!(liar.contains("the answer: {"), "{liar}");
}

#[test]
fn a_driver_that_dies_or_talks_nonsense_is_found() {
    let dead = why("read -r line; exit 3", SIMPLE);
    assert!(dead.contains("app has ended by itself (Some(3))"), "{dead}");
    let noisy = why(&format!("echo started; exec {RUST}"), SIMPLE);
    assert!(
        noisy.contains("no line of the protocol: started"),
        "{noisy}"
    );
}

#[test]
fn a_task_that_starts_early_or_never_ends_is_found() {
    let early = edited("s/\"at\":17/\"at\":16/;s/\"at\":18/\"at\":16/");
    let early = why(&early, "A task does not run before its time");
    assert!(early.contains("no such event"), "{early}");
    let endless = why(&edited("/\"event\":\"end\"/d"), SIMPLE);
    assert!(endless.contains("no such event of app"), "{endless}");
}
