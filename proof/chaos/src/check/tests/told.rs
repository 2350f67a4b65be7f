//! Holders that are told that their lock has ended, and whose task nobody else ends while it lasts.

use delayq_core::TaskState;

use super::planted;
use super::scene::{LOCK, Scene};
use crate::check::{Outcome, Promise};
use crate::event::{CancelAnswer, End, Explains, SettleAnswer, Target, What};

/// It was stopped for longer than its lock, and somebody else has the task.
#[test]
fn a_holder_that_is_not_told_that_its_lock_has_ended() {
    let rule = "nobody told the holder of a lock that had ended";
    planted(Promise::OneHolder, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        let paused = Target::Process("w1".to_owned());
        let back = LOCK + 1_000;
        scene.fault((50, back), "pause", &paused, Explains::LostLock);
        scene.works(LOCK + 20, "w2", "a", (3, 2));
        scene.done(LOCK + 30, "w2", "a", 3);
        let at = back + LOCK / 3 + 100;
        scene.ends_told((at, "w1"), "a", (2, End::Done), !bug);
        let refused = Some(SettleAnswer::LockLost);
        scene.settle_only(at, "w1", "a", (2, End::Done, refused));
    });
}

/// It was settled before its start, and has no lock that could end.
#[test]
fn a_worker_of_an_at_most_once_type_has_nothing_to_be_told() {
    let mut scene = Scene::new();
    let task_type = "mail".to_owned();
    scene.at(0, "w1", What::AtMostOnce { task_type });
    scene.submit(10, "a", 0);
    scene.claim(11, "w1", "a", (2, 1));
    let settled = Some(SettleAnswer::Settled);
    scene.settle_only(12, "w1", "a", (2, End::Done, settled));
    scene.start(13, "w1", "a", (2, 1));
    scene.ends(3 * LOCK, "w1", "a", (2, End::Done));
    let verdict = scene.verdict();
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
}

/// A claim ends a task that was cancelled while it ran only once its lock has ended.
#[test]
fn a_claim_that_ends_what_somebody_holds() {
    let rule = "ended by a claim while somebody held it";
    planted(Promise::OneHolder, rule, |scene, bug| {
        scene.submit(10, "a", 0);
        scene.works(11, "w1", "a", (2, 1));
        scene.cancel(20, "a", CancelAnswer::Running);
        scene.kill(25, "w1");
        let at = if bug { LOCK - 500 } else { LOCK + 50 };
        scene.claim_ends(at, "a", TaskState::Cancelled, false);
    });
}
