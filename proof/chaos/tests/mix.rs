//! A short mix of faults on each store, judged: what `cargo xtask chaos` does for as long as one
//! likes.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Two mixes run at a time: a handler that has to wait for a processor looks like one that nobody
/// has woken.
static LANES: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];

/// Runs the faults, each at least once, and expects every promise to be held.
fn survives(store: &str, faults: &[&str]) {
    let [one, other] = &LANES;
    let lane = if matches!(store, "sqlite" | "tiered") {
        one
    } else {
        other
    };
    let _alone = lane.lock().unwrap_or_else(PoisonError::into_inner);
    let mut run = Command::new(env!("CARGO_BIN_EXE_delayq-chaos"));
    run.args(["run", "--seconds", "1", "--seed", "7", "--lock-ms", "1500"]);
    run.args(["--store", store]);
    for fault in faults {
        run.args(["--fault", fault]);
    }
    let output = run.output().expect("it can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}{errors}");
    for fault in faults {
        let shown = format!("{fault:<20} 1 times, evident 1");
        assert!(said.contains(&shown), "no {shown:?} in {said}");
    }
}

#[test]
fn faults_of_processes_and_of_code_break_no_promise_on_sqlite() {
    survives(
        "sqlite",
        &[
            "kill-worker",
            "kill-submitter",
            "pause-long",
            "worker-panics",
            "worker-aborts",
            "bit-flip",
        ],
    );
}

#[test]
fn faults_of_the_server_and_of_connections_break_no_promise_on_redis() {
    survives(
        "redis",
        &[
            "kill-worker",
            "kill-redis",
            "cut-before",
            "cut-after",
            "delay-replies",
            "client-kill",
            "script-flush",
            "memory-full",
            "eviction-policy",
        ],
    );
}

#[test]
fn faults_of_the_server_and_of_sessions_break_no_promise_on_postgres() {
    survives(
        "postgres",
        &[
            "kill-worker",
            "kill-postgres",
            "pause-postgres",
            "end-sessions",
            "hold-snapshot",
        ],
    );
}

#[test]
fn faults_of_either_store_of_a_tier_break_no_promise() {
    survives(
        "tiered",
        &[
            "kill-worker",
            "kill-redis",
            "kill-postgres",
            "pause-postgres",
            "end-sessions",
            "cut-after",
        ],
    );
}

#[test]
fn a_master_that_is_replaced_breaks_no_promise_behind_sentinels() {
    survives(
        "redis-sentinel",
        &["stop-master", "cut-master", "kill-replica", "kill-worker"],
    );
}

#[test]
fn a_cluster_that_changes_breaks_no_promise() {
    survives(
        "redis-cluster",
        &[
            "kill-node",
            "cut-node",
            "move-slot",
            "add-shards",
            "kill-worker",
        ],
    );
}

/// A run whose faults cannot be done is no clean run.
#[test]
fn a_fault_that_does_not_fit_the_store_is_refused() {
    let mut run = Command::new(env!("CARGO_BIN_EXE_delayq-chaos"));
    run.args(["run", "--store", "sqlite", "--fault", "kill-redis"]);
    let output = run.output().expect("it can be started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("kill-redis cannot be done"), "{errors}");
}
