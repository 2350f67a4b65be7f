//! A short run, unoptimised.

use std::process::Command;

#[test]
fn every_order_is_paid_once_by_an_order_service_that_is_killed() {
    let mut run = Command::new(env!("CARGO_BIN_EXE_delayq-orders"));
    let run = run.args(["run", "--kills", "25"]).output();
    let run = run.expect("it can be started");
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{said}");
    assert!(said.contains("every order was paid exactly once"), "{said}");
}
