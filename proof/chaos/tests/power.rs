//! A few power losses on each store, judged; and stores that answer before they sync, which must be
//! found.

use std::process::Command;

fn power(store: &str, cycles: &str, more: &[&str]) -> (Option<i32>, String) {
    let mut run = Command::new(env!("CARGO_BIN_EXE_delayq-chaos"));
    run.args(["power", "--cycles", cycles, "--seed", "7", "--store", store]);
    let output = run.args(more).output().expect("it can be started");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    (output.status.code(), said + &errors)
}

fn survives(store: &str) {
    let (code, said) = power(store, "8", &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the power went 8 times"), "{said}");
}

#[test]
fn the_embedded_store_loses_nothing_that_it_acknowledged() {
    survives("sqlite");
}

#[test]
fn a_server_that_syncs_before_each_answer_loses_nothing_that_it_acknowledged() {
    survives("redis");
}

#[test]
fn a_server_that_syncs_every_second_loses_only_what_was_acknowledged_since() {
    survives("redis-everysec");
}

/// Loses more than nothing, and it is found.
fn is_found(store: &str) {
    let (code, said) = power(store, "6", &["--unsynced"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("I2 never lost            BROKEN"), "{said}");
}

#[test]
fn an_embedded_store_that_answers_before_it_syncs_is_found() {
    is_found("sqlite");
}

#[test]
fn a_server_that_answers_before_it_syncs_is_found() {
    is_found("redis");
}

/// A run that undid nothing is no clean run.
#[test]
fn a_run_in_which_nothing_was_undone_proves_nothing() {
    let (code, said) = power("sqlite", "0", &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("not one of which did, never fired"), "{said}");
}
