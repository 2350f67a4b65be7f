//! I4 and I6: bugs of ends and cancels.

use delayq_core::TaskState;

use super::planted;
use super::scene::{LOCK, Scene};
use crate::check::{Outcome, Promise};
use crate::event::{CancelAnswer, End, Explains, SettleAnswer, Target};

const ONE_END: Promise = Promise::OneEnd;

/// A holder that lost its lock settles all the same.
#[test]
fn a_settlement_without_its_fence() {
    planted(ONE_END, "a stale lock settled", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        let target = Target::Process("w1".to_owned());
        scene.fault((12, 10_999), "stop", &target, Explains::LostLock);
        scene.works(11 + LOCK, "w2", "a", (3, 2));
        let end = End::Retry { after: 0 };
        let answer = Some(if bug {
            SettleAnswer::Settled
        } else {
            SettleAnswer::LockLost
        });
        scene.settle_answered(11_000, "w1", "a", (2, end, answer));
        scene.done(12_000, "w2", "a", 3);
    });
}

#[test]
fn an_extension_without_its_fence() {
    planted(ONE_END, "a stale lock was extended", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        if bug {
            scene.settle(11_000, "w1", "a", (2, End::Release { after: 0 }));
            scene.works(11_001, "w2", "a", (3, 1));
            scene.extend(11_002, "w1", "a", 2);
        } else {
            scene.extend(11_002, "w1", "a", 2);
            scene.kill(11_500, "w1");
            scene.works(11_002 + LOCK, "w2", "a", (3, 2));
        }
        scene.done(11_500 + LOCK, "w2", "a", 3);
    });
}

#[test]
fn done_twice() {
    planted(ONE_END, "two ends", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.done(12, "w1", "a", 2);
        let end = if bug { End::Dead } else { End::Done };
        scene.settle(13, "w1", "a", (2, end));
    });
}

#[test]
fn requeued_and_dead_both() {
    planted(ONE_END, "alive after its end", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.settle(12, "w1", "a", (2, End::Dead));
        if !bug {
            scene.requeue(13, "a");
        }
        scene.stored("a", TaskState::Scheduled, (13, 0));
    });
}

#[test]
fn a_done_task_that_runs_again() {
    planted(ONE_END, "handed out after its end", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        let end = if bug {
            End::Done
        } else {
            End::Retry { after: 0 }
        };
        scene.settle(12, "w1", "a", (2, end));
        scene.works(13, "w2", "a", (3, 2));
        scene.settle_answered(14, "w2", "a", (3, End::Done, None));
    });
}

#[test]
fn a_poisoned_task_that_runs() {
    planted(ONE_END, "handed out after its end", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.kill(12, "w1");
        if bug {
            scene.claim_ends(11 + LOCK, "a", TaskState::Dead, false);
        }
        scene.works(13 + LOCK, "w2", "a", (3, 2));
        scene.settle_answered(14 + LOCK, "w2", "a", (3, End::Done, None));
    });
}

/// The cancel removes an entry of the index without looking who has the task.
#[test]
fn a_blind_cancel() {
    planted(ONE_END, "two ends", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.done(13, "w1", "a", 2);
        let answer = if bug {
            CancelAnswer::Cancelled
        } else {
            CancelAnswer::Finished(TaskState::Done)
        };
        scene.cancel(15, "a", answer);
    });
}

#[test]
fn a_start_after_a_cancel() {
    planted(
        Promise::CancelIsFinal,
        "handed out after its cancel",
        |scene, bug| {
            scene.submit(10, "a", 100);
            scene.cancel(20, "a", CancelAnswer::Cancelled);
            if bug {
                scene.works(110, "w1", "a", (2, 1));
            }
        },
    );
}

#[test]
fn a_worker_that_starts_after_the_cancel_of_what_it_gave_back() {
    planted(
        Promise::CancelIsFinal,
        "started after its cancel",
        |scene, bug| {
            scene.submit(10, "a", 0);
            scene.claim(11, "w1", "a", (2, 1));
            scene.settle(12, "w1", "a", (2, End::Release { after: 100 }));
            scene.cancel(20, "a", CancelAnswer::Cancelled);
            if bug {
                scene.start(25, "w1", "a", (2, 1));
            }
        },
    );
}

#[test]
fn another_attempt_after_a_cancel_that_found_it_running() {
    planted(
        Promise::CancelIsFinal,
        "another attempt after its cancel",
        |scene, bug| {
            scene.submit(10, "a", 0);
            scene.works(11, "w1", "a", (2, 1));
            scene.cancel(12, "a", CancelAnswer::Running);
            scene.settle(15, "w1", "a", (2, End::Retry { after: 0 }));
            if bug {
                scene.works(20, "w1", "a", (3, 2));
                scene.done(25, "w1", "a", 3);
            }
        },
    );
}

/// The replica that takes over has not seen the end.
#[test]
fn a_rollback_after_a_failover() {
    planted(ONE_END, "handed out after its end", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(1_900, "w1", "a", (2, 1));
        scene.done(1_905, "w1", "a", 2);
        scene.roll_back(2_000, if bug { 0 } else { 100 });
        scene.works(2_100, "w2", "a", (3, 1));
        scene.settle_answered(2_105, "w2", "a", (3, End::Done, None));
    });
}

#[test]
fn a_requeued_task_may_run_and_end_again() {
    let mut scene = Scene::new();
    scene.submit(10, "a", 0);
    scene.works(11, "w1", "a", (2, 1));
    scene.settle(12, "w1", "a", (2, End::Dead));
    scene.requeue(13, "a");
    scene.works(14, "w1", "a", (3, 1));
    scene.done(15, "w1", "a", 3);
    let verdict = scene.verdict();
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
}
