//! Every store operation of a scenario meets every fault, and each time the promises hold.
//!
//! The plugin, its handlers and the memory store run in simulated time: one thread, tokio's paused
//! clock. So the cases are enumerated, not sampled, and each is over in a millisecond.

#![cfg_attr(
    not(feature = "soak"),
    allow(dead_code, reason = "long tests run with the feature soak")
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "what a test must not do in silence, it does by panicking; it prints what it enumerated"
)]

mod case;
mod ledger;
mod real;
mod scenarios;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use delayq_testing::Fault;

use case::{Report, bound, simulate};
use scenarios::Scenario;
use world::Planned;

const FAULTS: [Fault; 6] = [
    Fault::NotApplied,
    Fault::AnswerLost,
    Fault::Late,
    Fault::AnswerLate,
    Fault::CrashBefore,
    Fault::CrashAfter,
];

/// Every which call of a recovery meets a second fault.
const SECOND_FAULTS: usize = if cfg!(feature = "soak") { 1 } else { 10 };

/// Plays a case and compares it with the one without a fault; says which one it was should it fail.
fn run(scenario: &Scenario, planned: &[Planned], faultless: Option<&Report>) -> Report {
    let played = catch_unwind(AssertUnwindSafe(|| {
        let report = simulate(scenario, planned);
        if let Some(faultless) = faultless {
            compare(scenario, planned, &report, faultless);
        }
        report
    }));
    played.unwrap_or_else(|_| panic!("in the scenario {:?} with {planned:?}", scenario.name))
}

/// A fault costs what it has to, and no more.
fn compare(scenario: &Scenario, planned: &[Planned], report: &Report, faultless: &Report) {
    assert!(report.all_fired, "every planned fault happens: {report:?}");
    let limit = bound(faultless, planned.len());
    assert!(
        report.took <= limit,
        "{:?} is longer than {limit:?}",
        report.took
    );
    let count = |is: fn(Fault) -> bool| planned.iter().filter(|(_, fault)| is(*fault)).count();
    let costly = u32::try_from(count(|fault| fault != Fault::NotApplied)).unwrap();
    let limit = faultless.lock_expiries + costly;
    assert!(
        report.lock_expiries <= limit,
        "no more locks expire than {limit}: {report:?}"
    );
    let repeats = count(may_repeat) * scenario.workers.len();
    let limit = faultless.starts + repeats;
    assert!(
        report.starts <= limit,
        "no more starts than {limit}: {report:?}"
    );
    if costly == 0 {
        assert_eq!(
            report.starts, faultless.starts,
            "no start is lost, none is repeated"
        );
    }
}

fn is_crash(fault: Fault) -> bool {
    matches!(fault, Fault::CrashBefore | Fault::CrashAfter)
}

/// A worker may have to start once more: its lock expired while nobody heard of its process.
fn may_repeat(fault: Fault) -> bool {
    !matches!(fault, Fault::NotApplied | Fault::AnswerLost)
}

/// Each operation with each outcome, then each crash with each crash of the process that recovers.
fn enumerate(scenario: &Scenario) {
    let faultless = run(scenario, &[], None);
    let operations = faultless.calls[0];
    let (mut single, mut double) = (0, 0);
    for call in 1..=operations {
        for fault in FAULTS {
            let report = run(scenario, &[(call, fault)], Some(&faultless));
            single += 1;
            let recovery = report.calls.get(1).copied().unwrap_or(0);
            for again in (1..=recovery).step_by(SECOND_FAULTS) {
                for second in FAULTS.into_iter().filter(|_| is_crash(fault)) {
                    run(
                        scenario,
                        &[(call, fault), (again, second)],
                        Some(&faultless),
                    );
                    double += 1;
                }
            }
        }
    }
    println!(
        "{}: {operations} operations, {single} cases of one fault, {double} of a second one in the recovery",
        scenario.name
    );
}

macro_rules! scenarios {
    ($($test:ident: $scenario:ident,)+) => {$(
        #[test]
        fn $test() {
            enumerate(&scenarios::$scenario);
        }
    )+};
}

scenarios! {
    a_task_that_is_done: DONE,
    a_task_that_fails_once_and_is_done: RETRY,
    a_task_that_runs_longer_than_its_lock: LONG,
    a_task_that_is_given_back: RELEASE,
    a_task_with_two_workers_of_which_one_fails: FAN_OUT,
    a_task_over_its_time_limit: TIME_LIMIT,
    an_at_most_once_task: AT_MOST_ONCE,
    a_task_that_dies_and_is_requeued: DEAD,
    a_task_that_is_cancelled_while_it_waits: CANCEL_WAITING,
    a_task_that_is_cancelled_while_it_runs: CANCEL_RUNNING,
    a_task_that_is_moved: RESCHEDULE,
    a_task_in_a_pause: PAUSE,
    a_task_that_runs_at_a_shutdown: SHUTDOWN,
    a_task_that_kills_its_process: POISON,
}
