//! I3 and I5: bugs of locks, fences and attempts.

use super::planted;
use super::scene::{LOCK, Scene};
use crate::check::{Outcome, Promise};
use crate::event::{Asked, End, Explains, SubmitAnswer, Target, What};

const HOLDER: Promise = Promise::OneHolder;
const REPEATS: Promise = Promise::ExplainedRepeats;

#[test]
fn two_holders_at_a_time() {
    planted(HOLDER, "two locks overlap", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.kill(12, "w1");
        let at = if bug { 10 + LOCK } else { 11 + LOCK };
        scene.works(at, "w2", "a", (3, 2));
        scene.done(at + 5, "w2", "a", 3);
    });
}

/// The holder was told that its lock lasts longer, and the store has not kept it.
#[test]
fn an_extension_that_is_not_kept() {
    planted(HOLDER, "two locks overlap", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.extend(5_000, "w1", "a", 2);
        scene.kill(5_001, "w1");
        let at = if bug { 11 + LOCK } else { 5_000 + LOCK };
        scene.works(at, "w2", "a", (3, 2));
        scene.done(at + 5, "w2", "a", 3);
    });
}

#[test]
fn a_lock_without_renewal() {
    planted(REPEATS, "a repeat without a cause", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        if !bug {
            scene.extend(5_000, "w1", "a", 2);
            scene.done(12_000, "w1", "a", 2);
            return;
        }
        scene.works(11 + LOCK, "w2", "a", (3, 2));
        scene.done(12_000, "w2", "a", 3);
    });
}

/// A kill of another process, or before the lock was taken, explains nothing.
#[test]
fn a_fault_that_did_not_touch_the_holder() {
    planted(REPEATS, "a repeat without a cause", |scene, bug| {
        scene.kill(15, if bug { "w2" } else { "w1" });
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.works(11 + LOCK, "w2", "a", (3, 2));
        scene.done(12_000, "w2", "a", 3);
    });
}

#[test]
fn a_fence_that_decreases() {
    planted(HOLDER, "a later lock has a smaller fence", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (5, 1));
        scene.settle(12, "w1", "a", (5, End::Release { after: 0 }));
        let fence = if bug { 4 } else { 6 };
        scene.works(13, "w2", "a", (fence, 1));
        scene.done(14, "w2", "a", fence);
    });
}

#[test]
fn a_fence_given_twice() {
    planted(HOLDER, "two locks with one fence", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.claim(11, "w1", "a", (5, 1));
        scene.settle(12, "w1", "a", (5, End::Release { after: 0 }));
        let fence = if bug { 5 } else { 6 };
        scene.claim(13, "w2", "a", (fence, 1));
        scene.done(15, "w2", "a", if bug { 7 } else { fence });
    });
}

#[test]
fn a_worker_started_without_a_lock() {
    planted(HOLDER, "started without a lock", |scene, bug| {
        scene.submit(10, "a", 0);
        if !bug {
            scene.claim(11, "w1", "a", (2, 1));
        }
        scene.start(12, "w1", "a", (2, 1));
        scene.done(15, "w1", "a", 2);
    });
}

#[test]
fn a_sink_that_takes_a_smaller_fence() {
    planted(
        HOLDER,
        "the effect log took a smaller fence",
        |scene, bug| {
            scene.submit(10, "a", 0);
            scene.works(11, "w1", "a", (2, 1));
            scene.kill(12, "w1");
            scene.works(11 + LOCK, "w2", "a", (3, 2));
            let task = || "mail/a".to_owned();
            scene.at(
                11_000,
                "effects",
                What::EffectAccepted {
                    task: task(),
                    fence: 3,
                },
            );
            let late = if bug {
                What::EffectAccepted {
                    task: task(),
                    fence: 2,
                }
            } else {
                What::EffectRefused {
                    task: task(),
                    fence: 2,
                }
            };
            scene.at(11_001, "effects", late);
            scene.done(12_000, "w2", "a", 3);
        },
    );
}

#[test]
fn two_workers_that_overlap_although_nothing_happened() {
    planted(HOLDER, "two workers overlap", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.settle(12, "w1", "a", (2, End::Retry { after: 0 }));
        scene.works(13, "w2", "a", (3, 2));
        for (fence, others) in [(2, 0), (3, u32::from(bug))] {
            let task = "mail/a".to_owned();
            scene.at(
                13,
                "effects",
                What::EffectBegun {
                    task,
                    fence,
                    others,
                },
            );
        }
        scene.done(15, "w2", "a", 3);
    });
}

#[test]
fn an_attempt_that_is_skipped() {
    planted(REPEATS, "attempts counted wrong", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.settle(12, "w1", "a", (2, End::Retry { after: 0 }));
        let attempt = if bug { 3 } else { 2 };
        scene.works(13, "w2", "a", (3, attempt));
        scene.done(15, "w2", "a", 3);
    });
}

/// A claim whose answer is lost took a lock that nobody knows of.
#[test]
fn a_first_attempt_that_is_not_the_first() {
    planted(REPEATS, "attempts counted wrong", |scene, bug| {
        scene.submit(10, "a", 0);
        let target = Target::Process("w1".to_owned());
        scene.fault((5, 20), "cut", &target, Explains::LostLock);
        if !bug {
            scene.claim_lost(11, "w1");
        }
        scene.works(11 + LOCK, "w2", "a", (3, 2));
        scene.done(12_000, "w2", "a", 3);
    });
}

#[test]
fn a_release_that_burns_an_attempt() {
    planted(REPEATS, "attempts counted wrong", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.settle(12, "w1", "a", (2, End::Release { after: 0 }));
        scene.works(13, "w2", "a", (3, if bug { 2 } else { 1 }));
        scene.done(15, "w2", "a", 3);
    });
}

#[test]
fn one_lock_that_starts_its_worker_twice() {
    planted(REPEATS, "one lock started twice", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        if bug {
            scene.start(13, "w1", "a", (2, 1));
        }
        scene.done(15, "w1", "a", 2);
    });
}

#[test]
fn a_submit_retry_that_duplicates() {
    planted(
        REPEATS,
        "the same request was accepted twice",
        |scene, bug| {
            scene.submit_answered(10, "a", Asked::After(0), None);
            scene.works(11, "w1", "a", (2, 1));
            scene.done(12, "w1", "a", 2);
            if bug {
                scene.submit(20, "a", 0);
                scene.works(21, "w1", "a", (3, 1));
                scene.done(22, "w1", "a", 3);
            } else {
                let state = delayq_core::TaskState::Done;
                let answer = SubmitAnswer::Exists { state };
                scene.submit_answered(20, "a", Asked::After(0), Some(answer));
            }
        },
    );
}

#[test]
fn a_rollback_explains_a_repeat_and_the_same_attempt_again() {
    let mut scene = Scene::new();
    scene.submit(10, "a", 0);
    scene.works(1_500, "w1", "a", (2, 1));
    scene.done(1_505, "w1", "a", 2);
    scene.roll_back(2_000, 1_000);
    scene.works(2_100, "w2", "a", (3, 1));
    scene.done(2_105, "w2", "a", 3);
    let verdict = scene.verdict();
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
    assert_eq!(verdict.figures.repeats["rollback"], 1);
}

#[test]
fn a_stopped_process_may_overlap_with_whoever_took_over() {
    let mut scene = Scene::new();
    scene.submit(10, "a", 0);
    scene.works(11, "w1", "a", (2, 1));
    let target = Target::Process("w1".to_owned());
    scene.fault((12, 15_000), "stop", &target, Explains::LostLock);
    scene.works(11 + LOCK, "w2", "a", (3, 2));
    let task = || "mail/a".to_owned();
    let enter = |fence, others| What::EffectBegun {
        task: task(),
        fence,
        others,
    };
    scene.at(12, "effects", enter(2, 0));
    scene.at(11 + LOCK, "effects", enter(3, 1));
    scene.done(15_001, "w2", "a", 3);
    let verdict = scene.verdict();
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
    assert_eq!(verdict.figures.repeats["expired lock: stop"], 1);
}

/// What put the task there has been used up by its first run.
#[test]
fn a_lost_answer_does_not_explain_a_repeat() {
    planted(REPEATS, "a repeat without a cause", |scene, bug| {
        scene.submit_answered(10, "a", Asked::After(0), None);
        scene.works(11, "w1", "a", (2, 1));
        if !bug {
            scene.kill(12, "w1");
        }
        scene.works(11 + LOCK, "w2", "a", (3, 2));
        scene.done(12_000, "w2", "a", 3);
    });
}

#[test]
fn a_fault_that_the_lock_has_survived_explains_nothing() {
    planted(REPEATS, "a repeat without a cause", |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.kill(if bug { 12 } else { 5_001 }, "w1");
        scene.extend(5_000, "w1", "a", 2);
        scene.works(5_000 + LOCK, "w2", "a", (3, 2));
        scene.done(16_000, "w2", "a", 3);
    });
}
