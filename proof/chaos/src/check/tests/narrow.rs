//! Allowances that are no wider than what they explain.

use delayq_core::TaskState;

use super::planted;
use super::scene::{LOCK, Scene};
use crate::check::Promise;
use crate::event::{End, Explains, Phase, Target, What};

fn w1() -> Target {
    Target::Process("w1".to_owned())
}

/// Handlers try again: a fault at the first extension that is over at once costs no lock.
#[test]
fn a_fault_that_left_time_to_extend_the_lock() {
    let rule = "a repeat without a cause";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        let to = if bug { LOCK / 2 } else { LOCK - 100 };
        scene.fault((LOCK / 3, to), "cut", &w1(), Explains::LostLock);
        scene.works(LOCK + 40, "w2", "a", (3, 2));
        scene.done(LOCK + 50, "w2", "a", 3);
        // It is alive.
        scene.claim_of_nothing(LOCK + 60, "w1");
    });
}

#[test]
fn a_settlement_that_nobody_has_answered_explains_no_repeat() {
    let rule = "a repeat without a cause";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.settle_answered(20, "w1", "a", (2, End::Done, None));
        if !bug {
            scene.kill(21, "w1");
        }
        scene.works(LOCK + 40, "w2", "a", (3, 2));
        scene.done(LOCK + 50, "w2", "a", 3);
    });
}

/// It was handed out after the store had lost its last writes.
#[test]
fn a_window_takes_nothing_that_was_seen_after_it() {
    planted(Promise::NeverLost, "lost after it started", |scene, bug| {
        scene.submit(10, "a", 0);
        let claim = |scene: &mut Scene, at| scene.works(at, "w1", "a", (2, 1));
        if !bug {
            claim(scene, 15);
        }
        scene.roll_back(20, 1_000);
        if bug {
            claim(scene, 30);
        }
        scene.kill(100, "w1");
    });
}

/// The lock was extended after the store had lost its last writes.
#[test]
fn a_window_undoes_no_lock_that_lasted_beyond_it() {
    let rule = "a repeat without a cause";
    planted(Promise::ExplainedRepeats, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.roll_back(20, 1_000);
        let from = if bug { 3_000 } else { 11 };
        if bug {
            scene.extend(from, "w1", "a", 2);
        }
        scene.works(from + LOCK + 40, "w2", "a", (3, 2));
        scene.done(from + LOCK + 50, "w2", "a", 3);
    });
}

/// Poison has had locks that expired.
#[test]
fn a_lost_claim_buries_nothing_whose_locks_never_expired() {
    planted(
        Promise::Structure,
        "a state without a cause",
        |scene, bug| {
            scene.submit(10, "a", 0);
            scene.works(11, "w1", "a", (2, 1));
            if bug {
                scene.settle(20, "w1", "a", (2, End::Retry { after: 0 }));
            }
            scene.fault((25, LOCK + 2_000), "cut", &w1(), Explains::LostLock);
            scene.claim_lost(LOCK + 100, "w1");
            let trail = if bug { (1, 0, 0, 0) } else { (0, 1, 0, 0) };
            scene.stored_with("a", TaskState::Dead, (LOCK + 100, 1), trail);
        },
    );
}

/// The disk was full, and the server went on: it has lost nothing of its memory.
#[test]
fn a_fault_explains_at_its_end_what_came_of_it() {
    planted(
        Promise::NeverLost,
        "lost before it started",
        |scene, bug| {
            scene.submit(10, "a", 0);
            let undone = Explains::Rollback { window_ms: 1_000 };
            for (ms, phase) in [(20, Phase::Begun), (50, Phase::Ended)] {
                let is_spared = bug && phase == Phase::Ended;
                let mut explains = vec![Explains::LostLock, undone];
                explains.truncate(if is_spared { 1 } else { 2 });
                let fault = What::Fault {
                    id: 77,
                    kind: "disk-full".to_owned(),
                    target: Target::Store,
                    phase,
                    explains,
                };
                scene.at(ms, "driver", fault);
            }
        },
    );
}
