//! Bugs in what is done with workers and said by answers, and types that stall.

use delayq_core::TaskState;

use super::planted;
use super::scene::{BYTES, LOCK, Scene, real};
use crate::check::{Outcome, Promise};
use crate::event::{Asked, CancelAnswer, End, Explains, SettleAnswer, SubmitAnswer, Target, What};

#[test]
fn a_settlement_before_the_run() {
    let rule = "settled as done, and not done";
    planted(Promise::NeverLost, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        if bug {
            scene.settle_only(12, "w1", "a", (2, End::Done, Some(SettleAnswer::Settled)));
        } else {
            scene.done(12, "w1", "a", 2);
        }
    });
}

/// Where it is asked for, it is right.
#[test]
fn a_settlement_before_the_run_of_an_at_most_once_type() {
    let mut scene = Scene::new();
    let task_type = "mail".to_owned();
    scene.at(0, "w1", What::AtMostOnce { task_type });
    scene.submit(10, "a", 0);
    scene.claim(11, "w1", "a", (2, 1));
    scene.settle_only(12, "w1", "a", (2, End::Done, Some(SettleAnswer::Settled)));
    scene.start(13, "w1", "a", (2, 1));
    let verdict = scene.verdict();
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
}

#[test]
fn a_success_that_is_settled_as_a_failure() {
    let rule = "settled as failed, and done";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.ends(
            12,
            "w1",
            "a",
            (
                2,
                if bug {
                    End::Done
                } else {
                    End::Retry { after: 0 }
                },
            ),
        );
        let end = End::Retry { after: 100 };
        scene.settle_only(13, "w1", "a", (2, end, Some(SettleAnswer::Settled)));
        scene.works(120, "w1", "a", (3, 2));
        scene.done(125, "w1", "a", 3);
    });
}

/// The task runs for ever, as far as the store knows.
#[test]
fn an_end_that_nobody_settles() {
    planted(
        Promise::ComesBack,
        "ended, and never settled",
        |scene, bug| {
            scene.submit(10, "a", 0);
            scene.works(11, "w1", "a", (2, 1));
            scene.ends(12, "w1", "a", (2, End::Retry { after: 0 }));
            if !bug {
                let end = End::Retry { after: 60_000 };
                scene.settle_only(13, "w1", "a", (2, end, Some(SettleAnswer::Settled)));
            }
            let state = if bug {
                TaskState::Running
            } else {
                TaskState::Scheduled
            };
            scene.stored("a", state, (60_013, 1));
        },
    );
}

#[test]
fn a_worker_that_is_started_with_the_lock_of_another_process() {
    let rule = "started with the lock of another";
    planted(Promise::OneHolder, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.claim(11, "w1", "a", (2, 1));
        scene.start(12, if bug { "w2" } else { "w1" }, "a", (2, 1));
        scene.done(15, "w1", "a", 2);
    });
}

#[test]
fn headers_that_are_left_out() {
    planted(Promise::Integrity, "altered headers", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.claim(11, "w1", "a", (2, 1));
        let start = What::WorkerStart {
            task: "mail/a".to_owned(),
            worker: String::new(),
            serves: "mail".to_owned(),
            attempt: 1,
            fence: 2,
            due: real(10),
            digest: BYTES,
            headers: bug.then_some(9 << 32),
        };
        scene.at(12, "w1", start);
        scene.done(13, "w1", "a", 2);
    });
}

#[test]
fn a_valid_lock_that_is_refused() {
    let rule = "a lock refused to its holder";
    planted(Promise::OneEnd, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        let (answer, until) = if bug {
            (SettleAnswer::LockLost, 12 + LOCK)
        } else {
            (SettleAnswer::Settled, 0)
        };
        scene.settle_answered(
            12,
            "w1",
            "a",
            (2, End::Retry { after: 60_000 }, Some(answer)),
        );
        let state = if bug {
            TaskState::Running
        } else {
            TaskState::Scheduled
        };
        scene.stored("a", state, (until.max(60_012), 1));
    });
}

#[test]
fn a_cancel_that_is_answered_wrong() {
    let rule = "an answer that cannot be true";
    let wrong = [
        CancelAnswer::NotFound,
        CancelAnswer::Finished(TaskState::Done),
        CancelAnswer::Running,
    ];
    for answer in wrong {
        planted(Promise::CancelIsFinal, rule, |scene, bug| {
            scene.submit(10, "a", 100);
            scene.cancel(20, "a", if bug { answer } else { CancelAnswer::Cancelled });
            if bug {
                scene.stored("a", TaskState::Scheduled, (60_000, 0));
            }
        });
    }
}

/// The task is said to be there already: whoever sends it goes on, and nobody has it.
#[test]
fn a_submit_that_is_answered_without_being_done() {
    let rule = "said to exist, and never sent";
    planted(Promise::NeverLost, rule, |scene, bug| {
        let exists = SubmitAnswer::Exists {
            state: TaskState::Scheduled,
        };
        if bug {
            scene.submit_answered(10, "a", Asked::After(0), Some(exists));
        } else {
            scene.submit(10, "a", 0);
            scene.submit_answered(11, "a", Asked::After(0), Some(exists));
            scene.works(12, "w1", "a", (2, 1));
            scene.done(13, "w1", "a", 2);
        }
    });
}

/// The first answer was lost, the second says that it exists, and it is gone before anybody claims
/// it.
#[test]
fn a_task_that_only_a_repeated_request_shows_to_be_accepted() {
    let rule = "lost before it started";
    planted(Promise::NeverLost, rule, |scene, bug| {
        scene.submit_answered(10, "a", Asked::After(100), None);
        if bug {
            let state = TaskState::Scheduled;
            let exists = SubmitAnswer::Exists { state };
            scene.submit_answered(11, "a", Asked::After(100), Some(exists));
        }
    });
}

/// Whether it ended or was lost nobody can tell any more.
#[test]
fn an_end_that_the_store_forgets_too_early() {
    let rule = "an ended task is forgotten";
    planted(Promise::NeverLost, rule, |scene, bug| {
        scene.plan.dumps_ended = true;
        scene.stored("bystander", TaskState::Done, (8, 1));
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.done(12, "w1", "a", 2);
        if !bug {
            scene.stored("a", TaskState::Done, (12, 1));
        }
    });
}

#[test]
fn tasks_that_are_left() {
    planted(Promise::ComesBack, "tasks are left", |scene, bug| {
        scene.at(
            100,
            "driver",
            What::Drained {
                left: u64::from(bug),
            },
        );
    });
}

#[test]
fn a_type_that_stalls_although_nothing_happened() {
    let rule = "a type stalled while nothing was wrong";
    planted(Promise::ComesBack, rule, |scene, bug| {
        scene.submit(10, "a", 20);
        let at = if bug { 1_100 + LOCK } else { 40 };
        scene.works(at, "w1", "a", (2, 1));
        scene.done(at + 10, "w1", "a", 2);
    });
}

/// A backlog is no stall: of what waits, others start meanwhile.
#[test]
fn a_backlog_that_is_worked_off() {
    let mut scene = Scene::new();
    for (n, id) in (0_i64..).zip(["a", "b", "c", "d", "e"]) {
        scene.submit(10, id, 0);
        let fence = 2 + n.unsigned_abs();
        scene.works(20 + n * 4_000, "w1", id, (fence, 1));
        scene.done(30 + n * 4_000, "w1", id, fence);
    }
    let verdict = scene.verdict();
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
}

/// A fault of another kind, or of somebody else, is no reason for an end that nobody settles.
#[test]
fn a_fault_explains_an_unsettled_end_only_of_its_own_process() {
    planted(
        Promise::ComesBack,
        "ended, and never settled",
        |scene, bug| {
            scene.submit(10, "a", 0);
            scene.works(11, "w1", "a", (2, 1));
            scene.ends(12, "w1", "a", (2, End::Done));
            let target = Target::Process(if bug { "w2" } else { "w1" }.to_owned());
            scene.fault((13, 20), "kill", &target, Explains::LostLock);
            scene.stored("a", TaskState::Running, (11 + LOCK, 1));
        },
    );
}
