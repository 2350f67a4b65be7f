//! I2, I7, I8, I9, I10: bugs that lose, strand, damage or misplace tasks.

use delayq_core::TaskState;

use super::planted;
use super::scene::{BYTES, LOCK, Scene, real};
use crate::check::{Outcome, Promise};
use crate::event::{Asked, CancelAnswer, End, Explains, SettleAnswer, SubmitAnswer, Target, What};

/// Claim and remove in one step: whoever dies with the task takes it along.
#[test]
fn an_entry_removed_before_the_run() {
    planted(Promise::NeverLost, "lost after it started", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.kill(12, "w1");
        if !bug {
            scene.works(11 + LOCK, "w2", "a", (3, 2));
            scene.done(20 + LOCK, "w2", "a", 3);
        }
    });
}

/// Sent three times, as two answers were lost: the task had ended before the second arrived, if it
/// did.
#[test]
fn a_repeated_submit_that_finds_its_task_ended_has_lost_nothing() {
    let mut scene = Scene::new();
    let when = Asked::After(5);
    scene.submit_answered(10, "a", when, None);
    scene.works(20, "w1", "a", (2, 1));
    scene.done(25, "w1", "a", 2);
    scene.submit_answered(30, "a", when, None);
    let state = TaskState::Done;
    scene.submit_answered(60, "a", when, Some(SubmitAnswer::Exists { state }));
    let verdict = scene.verdict();
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
}

#[test]
fn an_acknowledged_task_lost_in_a_crash_of_the_store() {
    planted(
        Promise::NeverLost,
        "lost before it started",
        |scene, bug| {
            let target = Target::Store;
            scene.submit(10, "a", 1_000);
            scene.fault((20, 500), "store killed", &target, Explains::LostLock);
            if !bug {
                scene.works(1_010, "w1", "a", (2, 1));
                scene.done(1_020, "w1", "a", 2);
            }
        },
    );
}

#[test]
fn a_dead_task_that_is_not_kept() {
    planted(Promise::NeverLost, "a dead task is gone", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.settle(20, "w1", "a", (2, End::Dead));
        if !bug {
            scene.stored("a", TaskState::Dead, (20, 1));
        }
    });
}

/// It was written, and the answer was lost: that it was claimed shows it.
#[test]
fn a_task_of_a_lost_answer_that_is_lost_itself() {
    planted(Promise::NeverLost, "lost after it started", |scene, bug| {
        scene.submit_answered(10, "a", Asked::After(0), None);
        scene.works(11, "w1", "a", (2, 1));
        if !bug {
            scene.settle_answered(20, "w1", "a", (2, End::Done, None));
        }
    });
}

#[test]
fn a_window_explains_only_what_was_written_within_it() {
    planted(
        Promise::NeverLost,
        "lost before it started",
        |scene, bug| {
            scene.submit(10, "a", 60_000);
            let window_ms = if bug { 1_000 } else { 2_000 };
            scene.roll_back(2_000, window_ms);
        },
    );
}

#[test]
fn a_task_that_nobody_starts() {
    planted(
        Promise::ComesBack,
        "due, and nobody starts it",
        |scene, bug| {
            scene.submit(10, "a", if bug { 0 } else { 60_000 });
            let due = if bug { 10 } else { 60_010 };
            scene.submit(30_000, "b", 0);
            scene.works(30_001, "w1", "b", (9, 1));
            scene.done(30_009, "w1", "b", 9);
            scene.stored("a", TaskState::Scheduled, (due, 0));
        },
    );
}

#[test]
fn an_expired_lock_that_nobody_takes_over() {
    let rule = "its lock has expired, and nobody takes it over";
    planted(Promise::ComesBack, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.submit(30_000, "b", 0);
        scene.works(30_001, "w1", "b", (9, 1));
        scene.done(30_009, "w1", "b", 9);
        let until = if bug { 11 + LOCK } else { 25_000 + LOCK };
        scene.stored("a", TaskState::Running, (until, 1));
    });
}

#[test]
fn a_type_that_stalls_after_an_error() {
    planted(
        Promise::ComesBack,
        "a type stalled after a fault",
        |scene, bug| {
            scene.fault(
                (20, 1_000),
                "store hung",
                &Target::Store,
                Explains::LostLock,
            );
            scene.submit(15, "a", 10);
            let at = if bug { 1_000 + LOCK + 1_100 } else { 1_500 };
            scene.claim_due(at, "w1", "a", (2, 1, 25));
            scene.start(at + 1, "w1", "a", (2, 1));
            scene.done(at + 5, "w1", "a", 2);
        },
    );
}

#[test]
fn tasks_of_a_killed_holder_that_are_taken_over_late() {
    planted(
        Promise::ComesBack,
        "tasks are taken over late",
        |scene, bug| {
            scene.submit(10, "a", 0);
            scene.works(11, "w1", "a", (2, 1));
            scene.kill(12, "w1");
            let at = if bug { 13_000 + LOCK } else { 11 + LOCK };
            // So that the type does not stand still.
            scene.submit(12_500, "b", 0);
            scene.works(12_510, "w2", "b", (5, 1));
            scene.done(12_520, "w2", "b", 5);
            scene.claim_due(at, "w2", "a", (6, 2, 10));
            scene.start(at + 1, "w2", "a", (6, 2));
            scene.done(at + 5, "w2", "a", 6);
        },
    );
}

#[test]
fn an_altered_byte() {
    planted(Promise::Integrity, "altered bytes", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.claim(11, "w1", "a", (2, 1));
        let digest = if bug { BYTES ^ 1 } else { BYTES };
        scene.start_with(12, "w1", "a", (2, 1, digest));
        scene.done(13, "w1", "a", 2);
    });
}

#[test]
fn a_sound_record_that_is_thrown_away_as_damaged() {
    planted(Promise::Integrity, "found damaged", |scene, bug| {
        if !bug {
            let target = Target::Task("mail/a".to_owned());
            scene.fault((10, 11), "bit flip", &target, Explains::Damage);
        }
        scene.submit(10, "a", 0);
        scene.claim_ends(12, "a", TaskState::Dead, true);
        scene.stored("a", TaskState::Dead, (12, 0));
    });
}

#[test]
fn a_task_of_another_namespace() {
    planted(
        Promise::Isolation,
        "started in another namespace",
        |scene, bug| {
            scene.up("w3", if bug { "other" } else { "default" });
            scene.submit(10, "a", 0);
            scene.works(11, "w3", "a", (2, 1));
            scene.done(15, "w3", "a", 2);
        },
    );
}

#[test]
fn a_task_given_to_the_worker_of_another_type() {
    planted(
        Promise::Isolation,
        "started by the wrong worker",
        |scene, bug| {
            scene.submit(10, "a", 0);
            scene.claim(11, "w1", "a", (2, 1));
            let start = What::WorkerStart {
                task: "mail/a".to_owned(),
                worker: String::new(),
                serves: if bug { "mai" } else { "ma*" }.to_owned(),
                attempt: 1,
                fence: 2,
                due: real(10),
                digest: BYTES,
                headers: None,
            };
            scene.at(12, "w1", start);
            scene.done(13, "w1", "a", 2);
        },
    );
}

#[test]
fn an_orphan_in_the_index() {
    planted(Promise::Structure, "an audit found damage", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.done(15, "w1", "a", 2);
        if bug {
            scene.audited("a", "is in the index of due times and has no record");
        }
    });
}

#[test]
fn a_settlement_that_the_store_was_too_busy_for() {
    planted(
        Promise::Structure,
        "a state without a cause",
        |scene, bug| {
            scene.submit(10, "a", 0);
            scene.works(11, "w1", "a", (2, 1));
            let busy = Some(SettleAnswer::Busy);
            scene.settle_answered(15, "w1", "a", (2, End::Done, busy));
            if !bug {
                let settled = Some(SettleAnswer::Settled);
                scene.settle_only(16, "w1", "a", (2, End::Done, settled));
            }
            scene.stored("a", TaskState::Done, (16, 1));
        },
    );
}

#[test]
fn a_state_that_nobody_brought_about() {
    planted(
        Promise::Structure,
        "a state without a cause",
        |scene, bug| {
            scene.submit(10, "a", 0);
            scene.works(11, "w1", "a", (2, 1));
            let end = if bug {
                End::Retry { after: 60_000 }
            } else {
                End::Done
            };
            scene.settle(15, "w1", "a", (2, end));
            scene.stored("a", TaskState::Done, (15, 1));
        },
    );
}

#[test]
fn attempts_that_the_store_forgets() {
    planted(
        Promise::Structure,
        "attempts differ at the end",
        |scene, bug| {
            scene.submit(10, "a", 0);
            scene.works(11, "w1", "a", (2, 1));
            scene.settle(15, "w1", "a", (2, End::Retry { after: 0 }));
            scene.works(20, "w1", "a", (3, 2));
            scene.done(25, "w1", "a", 3);
            scene.stored("a", TaskState::Done, (25, if bug { 1 } else { 2 }));
        },
    );
}

/// A failed attempt after a cancel request ends the task without another step.
#[test]
fn a_task_that_fails_after_its_cancel_is_not_lost() {
    let mut scene = Scene::new();
    scene.submit(10, "a", 0);
    scene.works(11, "w1", "a", (2, 1));
    scene.cancel(12, "a", CancelAnswer::Running);
    scene.settle(15, "w1", "a", (2, End::Retry { after: 0 }));
    let verdict = scene.verdict();
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
}
